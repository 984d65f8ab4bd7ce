"""The report in a real browser, Debian's Chromium: at a desktop's and a phone's width, light and
dark, nothing sticks out, nothing is fetched, nothing complains, and every picture has a name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import MEASURE, UNNAMED, Browser, chromium
from report_data import save
from test_report_predictions import predicting

from strata.report import build, model

OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"
VISIBLE = """[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect())
  .filter(box => box.width > 40 && box.height > 10).length"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    if shutil.which("chromium") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    with chromium() as browser:
        yield browser


def draw(folder: Path) -> Path:
    recording = model.load(folder)
    page = folder / "index.html"
    page.write_text(build.page(recording, build.sections(recording)))
    return page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(save(tmp_path_factory.mktemp("report")))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_page(tab: Browser, page: Path, tmp_path: Path, width: int, dark: bool) -> None:
    tab.requests.clear()
    tab.complaints.clear()
    tab.open(page, width, dark)
    tab.evaluate(OPEN_ALL)
    layout = tab.evaluate(MEASURE)
    assert layout["out"] == []
    assert layout["scroll"] <= layout["wide"]
    assert tab.evaluate(UNNAMED) == 0
    assert tab.evaluate(VISIBLE) == 10  # of each chart the one for this width
    assert tab.evaluate("document.title").startswith("Memory of </svg>")  # not "owned"
    shot = tmp_path / "shot.png"
    tab.screenshot(shot)
    assert shot.stat().st_size > 50_000
    back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(15, 22, 29)" if dark else "rgb(246, 248, 250)")
    assert tab.requests == [page.resolve().as_uri()]
    assert tab.complaints == []


def test_browser_sees_what_is_wrong(tab: Browser, tmp_path: Path) -> None:
    """The checks above can fail: a page that does all that is forbidden."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<div style="width:3000px">wide</div><svg width="50" height="50"></svg>'
        '<img src="elsewhere.png"><script>console.error("no"); undefinedFunction()</script>'
    )
    tab.requests.clear()
    tab.complaints.clear()
    tab.open(bad, 390)
    assert tab.evaluate(MEASURE)["out"]
    assert tab.evaluate(UNNAMED) == 2
    assert len(tab.requests) == 2
    assert len(tab.complaints) >= 2


def test_report_without_data_fits_a_phone(tab: Browser, tmp_path: Path) -> None:
    tab.complaints.clear()
    tab.open(draw(save(tmp_path, samples=1, old=True, with_profiles=False)), 390)
    assert tab.evaluate(MEASURE)["out"] == []
    assert tab.complaints == []


@pytest.mark.parametrize("width", [1280, 390])
def test_report_of_predictions_fits(tab: Browser, tmp_path: Path, width: int) -> None:
    tab.complaints.clear()
    tab.open(draw(predicting(tmp_path / "report")), width)
    tab.evaluate(OPEN_ALL)
    tab.screenshot(tmp_path / "shot.png")
    layout = tab.evaluate(MEASURE)
    assert layout["out"] == []
    assert layout["scroll"] <= layout["wide"]
    assert tab.evaluate(UNNAMED) == 0
    assert tab.complaints == []
