"""Findings as text, SARIF 2.1.0 and one HTML page."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from strata import __version__
from strata.lint.finding import Finding, Step, shown, source_line
from strata.web import document

STYLE = """
.finding { border-left: 4px solid #c0392b; }
.finding h2 { font-size: 1rem; }
.kind { color: #c0392b; font-weight: 600; }
ol { padding-left: 1.4rem; margin: .4rem 0 0; }
li { margin: .35rem 0; }
.place { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .82rem; }
pre { margin: .15rem 0 0; padding: .25rem .5rem; background: var(--back); overflow-x: auto;
  font-size: .8rem; border-radius: 4px; }
"""


def said(finding: Finding) -> str:
    return f"possibly {finding.message}" if finding.possible else finding.message


def text(findings: Sequence[Finding]) -> str:
    """One paragraph each: where and what, then the path that leads there."""
    out = []
    for f in findings:
        out.append(f"{f.sink.place}: {f.property}: {said(f)}")
        for step in f.steps[:-1]:
            out.append(f"    {step.place}: in {step.function}: {step.note}")
        out.append(f"    {f.sink.place}: in {f.sink.function}: here")
        if line := source_line(f.sink.file, f.sink.line).strip():
            out.append(f"        {line}")
    return "\n".join(out)


def _uri(file: str) -> str:
    name = shown(file)
    path = quote(os.fsencode(name))  # the bytes of a name, whatever they are
    return f"file://{path}" if name.startswith("/") else path


def _location(step: Step, message: str) -> dict[str, object]:
    out: dict[str, object] = {
        "logicalLocations": [{"name": step.function, "kind": "function"}],
        "message": {"text": message},
    }
    if step.file:
        physical: dict[str, object] = {"artifactLocation": {"uri": _uri(step.file)}}
        if step.line:
            region: dict[str, int] = {"startLine": step.line}
            if step.column:
                region["startColumn"] = step.column
            physical["region"] = region
        out["physicalLocation"] = physical
    return out


def sarif(findings: Sequence[Finding]) -> str:
    rules: dict[str, dict[str, object]] = {}
    results = []
    for f in findings:
        rules.setdefault(
            f.property,
            {"id": f.property, "shortDescription": {"text": f.title or f.property}},
        )
        flow = [{"location": _location(s, s.note)} for s in f.steps]
        results.append(
            {
                "ruleId": f.property,
                "ruleIndex": list(rules).index(f.property),
                "level": "note" if f.possible else "error",
                "message": {"text": f"{said(f)} (from {f.origin.place})"},
                "locations": [_location(f.sink, f.message)],
                "partialFingerprints": {"strataLint/v1": f.key()},
                "codeFlows": [{"threadFlows": [{"locations": flow}]}],
            }
        )
    driver = {
        "name": "strata lint",
        "version": __version__,
        "rules": list(rules.values()),
    }
    return json.dumps(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "results": results}],
        },
        indent=1,
    )


def _steps(finding: Finding) -> str:
    items = []
    for step in finding.steps:
        line = source_line(step.file, step.line).strip()
        code = f"<pre>{escape(line)}</pre>" if line else ""
        items.append(
            f'<li>{escape(step.note)} <span class="place">{escape(step.place)},'
            f" {escape(step.function)}</span>{code}</li>"
        )
    return "".join(items)


def html(findings: Sequence[Finding], lines: int, programs: Sequence[str]) -> str:
    counts = Counter(f.property for f in findings)
    rows = "".join(f"<tr><th>{escape(p)}</th><td>{n}</td></tr>" for p, n in sorted(counts.items()))
    table = f"<section><table><tbody>{rows}</tbody></table></section>" if rows else ""
    body = [
        "<h1>strata lint</h1>",
        f'<p class="lead">{len(findings)} findings in {lines:,} lines of'
        f" {escape(', '.join(programs))}</p>",
        table,
    ]
    for f in findings:
        body.append(
            f'<section class="finding"><h2><span class="kind">{escape(f.property)}</span>'
            f" {escape(said(f))}</h2>"
            f'<p class="place">{escape(f.sink.place)} · {escape(f.program)}</p>'
            f"<ol>{_steps(f)}</ol></section>"
        )
    return document("strata lint", STYLE, "", "\n".join(body))
