"""The Prometheus text: what a real parser reads, the file mode, and what is built on the names."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from blackbox import ROOT, Lab, wait_until
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from reaching import ask_raw, body_of, started

SCRIPTS = ROOT / "scripts"
WITHOUT_TOTAL = re.compile(r"_total$")


def checker() -> Any:
    sys.path.insert(0, str(SCRIPTS))
    spec = importlib.util.spec_from_file_location("metrics_doc", SCRIPTS / "check_metrics_doc.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def table() -> list[tuple[str, str, str, str, str]]:
    """Name, type, unit, label and meaning of every metric; a compiler reads them."""
    rows: list[tuple[str, str, str, str, str]] = checker().read_table()
    return rows


def parse(text: str) -> dict[str, Metric]:
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families
    return families


def samples(text: str) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in parse(text).values()
        for sample in family.samples
        if not sample.labels.keys() & {"size", "domain"}
    }


def scrape(pid: int) -> str:
    return body_of(ask_raw(pid, b"stats prometheus")).decode()


def test_parser_reads_every_metric_of_the_table(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _):
        text = scrape(process.pid)
    families = parse(text)
    for name, kind, unit, label, what in table():
        family = families[WITHOUT_TOTAL.sub("", name) if kind == "counter" else name]
        assert family.type == kind and family.documentation == what
        assert unit in name
        for sample in family.samples:
            assert sample.name == name
            assert sample.labels["pid"] == str(process.pid)
            assert sample.labels["command"].startswith("control_cases")
            assert set(sample.labels) - {"pid", "command"} == ({label} if label else set())
    assert len(families) == len(table()) + 1
    assert families["strata_info"].samples[0].labels["cache_mode"] != ""


def at_rest(pid: int) -> tuple[dict[str, int], dict[str, float]]:
    """The bytes of the JSON, and the text of a moment at which they were the same."""
    for _ in range(20):
        before, values, after = bytes_of_json(pid), samples(scrape(pid)), bytes_of_json(pid)
        if before == after:
            return before, values
    raise AssertionError(f"the figures never rest: {before} {after}")


def bytes_of_json(pid: int) -> dict[str, int]:
    figures: dict[str, int] = json.loads(body_of(ask_raw(pid, b"stats json")))["bytes"]
    return figures


def test_figures_are_those_of_the_json(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _):
        report, values = at_rest(process.pid)
    for name in ("live", "internal_slack", "mapped", "metadata", "cpu_cache", "page_heap_free"):
        assert values[f"strata_{name}_bytes"] == pytest.approx(report[name], rel=0.02), name
    names = ("live", "internal_slack", "cpu_cache", "transfer_cache", "central_free")
    parts = sum(values[f"strata_{n}_bytes"] for n in (*names, "page_heap_free", "metadata"))
    resident = values["strata_resident_bytes"]
    assert parts - values["strata_untouched_bytes"] == pytest.approx(resident, rel=0.02)


def test_name_of_the_program_cannot_break_the_text(lab: Lab, tmp_path: Path) -> None:
    odd = tmp_path / 'a"b\\c\nd'
    from reaching import CASES

    odd.symlink_to(lab.build(CASES))
    lab.require_strata()
    with lab.start(odd, "grow_and_sleep") as process:
        families = parse(scrape(process.pid))
    assert families["strata_info"].samples[0].labels["command"] == 'a"b\\c?d'


def test_textfile_is_replaced_whole_and_left_at_exit(lab: Lab, tmp_path: Path) -> None:
    env = {"STRATA_PROMETHEUS": str(tmp_path / "s-%p.prom"), "STRATA_STATS_INTERVAL": "1"}
    with started(lab, "grow_and_sleep", env=env) as (process, _):
        path = tmp_path / f"s-{process.pid}.prom"
        assert wait_until(path.exists), list(tmp_path.iterdir())
        first = samples(path.read_text())
        before = path.stat().st_ino
        assert wait_until(lambda: path.stat().st_ino != before)
        again = samples(path.read_text())
    ticks = "strata_background_ticks_total"
    assert again[ticks] > first[ticks]
    result = lab.run("true", env={"STRATA_PROMETHEUS": str(tmp_path / "x.prom")})
    result.silent()
    assert samples((tmp_path / "x.prom").read_text())["strata_metadata_bytes"] > 0
    assert not list(tmp_path.glob("*.tmp"))


def test_the_page_names_every_metric() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "check_metrics_doc.py")],
        check=False,
        text=True,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr


def test_a_page_that_differs_is_found() -> None:
    row = ("strata_x_bytes", "gauge", "bytes", "", "What x is.")
    differences = checker().differences
    assert list(differences("`strata_x_bytes`, `strata_info`", [row])) == []
    assert "lacks strata_x_bytes" in next(differences("`strata_info`", [row]))
    assert "strata_y" in next(differences("`strata_x_bytes`, `strata_y`", [row]))


def queried(path: Path) -> set[str]:
    """The metrics that a dashboard or a rule file names."""
    return set(re.findall(r"\bstrata_[a-z_]+\b", path.read_text()))


@pytest.mark.parametrize("name", ["strata.json", "alerts.yml"])
def test_every_metric_that_is_queried_exists(name: str) -> None:
    known = {row[0] for row in table()} | {"strata_info"}
    found = queried(ROOT / "docs" / "grafana" / name)
    assert len(found) >= 6
    assert found <= known, found - known


def test_dashboard_is_whole() -> None:
    board = json.loads((ROOT / "docs" / "grafana" / "strata.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) >= 6
    assert all(target["expr"] for panel in board["panels"] for target in panel["targets"])
