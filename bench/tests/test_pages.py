"""docs/benchmarks.md and the README, which are kept by hand, against the pages that `make bench`
writes: each figure they quote stands on the page they name. On every page each link leads
somewhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import run as runner

DOCS = runner.ROOT / "docs"
TOP = DOCS / "benchmarks.md"
README = runner.ROOT / "README.md"
PAGES = sorted(runner.PAGES.glob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
# a number as the pages write it, with its range or interval if it has one
FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?: \([\d.]+ to [\d.]+\)| of \d+)?")


def rows() -> Iterator[tuple[str, Path]]:
    """What each row of the top page's first table measured, and the page it comes from."""
    table = TOP.read_text().split("| question |")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        _, measured, source = line.strip("| ").split(" | ")
        (link,) = LINK.findall(source)
        yield measured, DOCS / link.partition("#")[0]


def readme_rows() -> Iterator[tuple[str, Path]]:
    """The same of the README's five figures."""
    table = README.read_text().split("| | measured | how |")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        about, measured, how = line.strip("| ").split(" | ")
        (link,) = LINK.findall(how)
        assert "`make bench" in how, about
        yield measured, runner.ROOT / link.partition("#")[0]


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_the_top_pages_quote_what_their_pages_say() -> None:
    found = [*rows(), *readme_rows()]
    assert len(found) == 10 + 5
    for measured, page in found:
        plain = re.sub(r"[a-z]+alloc2", "", measured)  # a name that ends in a digit
        figures = FIGURE.findall(plain)
        assert figures, measured
        lacking = [figure for figure in figures if figure not in page.read_text()]
        assert not lacking, (measured, page.name)


def test_a_figure_that_the_page_lacks_would_be_noticed() -> None:
    assert FIGURE.findall("RSS 1,034 MiB, 1.15 (0.92 to 1.32) times, 20 of 20") == [
        "1,034",
        "1.15 (0.92 to 1.32)",
        "20 of 20",
    ]


@pytest.mark.parametrize("page", [README, *DOCS.rglob("*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if link.startswith("https:"):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def git(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(runner.ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


TREE = re.compile(r"\b(?:tree|commit)(?: \|)? ([0-9a-f]{7,40})\b")
# a bare name of a commit, too: a word of digits and of a to f, with some of each
BARE = re.compile(r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,40}\b")


def test_pages_name_trees_of_this_history() -> None:
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no history here")
    named = {
        (page.name, tree)
        for page in PAGES
        for kind in (TREE, BARE)
        for tree in kind.findall(page.read_text())
    }
    assert len(named) > 10
    strange = {
        at for at in named if git("merge-base", "--is-ancestor", at[1], "HEAD").returncode != 0
    }
    assert not strange


def test_the_manual_has_every_page() -> None:
    linked = {link.partition("#")[0] for link in LINK.findall((DOCS / "README.md").read_text())}
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} <= linked


def test_every_page_is_listed_and_names_its_command() -> None:
    top = TOP.read_text()
    for page in PAGES:
        command = f"make bench GROUP={page.stem}" if page.stem != "works" else "make bench"
        assert f"`{command}`" in page.read_text(), page.name
        assert f"| [{page.stem}](benchmarks/{page.name}) |" in top
        assert page.stem == "works" or page.stem in runner.GROUPS
    unlisted = set(runner.GROUPS) - {page.stem for page in PAGES}
    assert all(f"| [{name}]" in top for name in unlisted)
