"""`strata doctor` on the command line: runs the rules and prints what hurts, worst first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from strata.doctor import kernel, process, system
from strata.doctor.view import CannotTellError, Finding, State, View, Weight, tell
from strata.terminal import console, echo, printable

HELP = """Say what on this machine, or in process PID, holds Strata back, and how to mend it.

Exit status 0: nothing to mend; 1: something; 2: nothing found, but not all could be checked."""
ORDER = {State.MEND: 0, State.UNKNOWN: 1, State.OK: 2}
WEIGHTS = list(Weight)
WORTH_A_LINE = ("library",)  # whether a process runs on Strata at all


def examine(view: View) -> list[Finding]:
    """What all rules say, the worst first."""
    rules = [*kernel.RULES, *system.RULES]
    if view.pid is not None:
        rules += process.RULES
        if view.runs_strata():
            rules += process.STRATA_RULES
    findings = [tell(view, rule) for rule in rules]
    return sorted(findings, key=lambda f: (ORDER[f.state], WEIGHTS.index(f.weight)))


def status_of(findings: list[Finding]) -> int:
    """What matters little is shown, and fails nobody's deployment."""
    if any(f.state is State.MEND and not is_note(f) for f in findings):
        return 1
    return 2 if any(f.state is State.UNKNOWN for f in findings) else 0


def is_note(finding: Finding) -> bool:
    return finding.state is State.MEND and finding.weight is Weight.LITTLE


def live_view(target: str) -> View:
    """This machine and a process of it, which may be named."""
    from strata import control
    from strata.elf import why_not_preloadable
    from strata.errors import StrataError
    from strata.library import find_library
    from strata.processes import find_process

    found = find_process(target)

    def ask(request: str) -> bytes:
        try:
            return control.ask(found, request)
        except StrataError as error:
            raise CannotTellError(str(error)) from error

    def obstacle(program: Path) -> str | None:
        try:
            facts = find_library(None)[1]
        except StrataError:
            return None
        try:
            return why_not_preloadable(program.resolve(strict=True), facts)
        except OSError:
            return None

    return View(pid=found.pid, ask=ask, obstacle=obstacle)


def as_json(findings: list[Finding]) -> str:
    rows = [
        {
            "rule": finding.rule,
            "state": finding.state.value,
            "weight": finding.weight.value if finding.state is State.MEND else None,
            "says": finding.says,
            "fixes": list(finding.fixes),
        }
        for finding in findings
    ]
    return json.dumps({"status": status_of(findings), "findings": rows}, indent=1)


def show(findings: list[Finding], *, each: bool = False) -> None:
    """What hurts, a line each; what is in order in one, or by lines as well."""
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    marks = {
        State.OK: ("ok", "green"),
        State.MEND: ("MEND", "bold red"),
        State.UNKNOWN: ("?", "yellow"),
    }
    fine = [f for f in findings if f.state is State.OK and f.rule not in WORTH_A_LINE and not each]
    for finding in findings:
        if finding in fine:
            continue
        mark, style = ("note", "cyan") if is_note(finding) else marks[finding.state]
        says = printable(finding.says)
        text = Text.assemble((f"{mark:5}", style), (f"{finding.rule}: ", "bold"), says)
        if finding.state is State.MEND:
            text.append(f" ({finding.weight.value})", "dim")
        out.print(text)
        for fix in finding.fixes:
            out.print(Padding(Text(printable(fix), "cyan"), (0, 0, 0, 9)), soft_wrap=True)
    if fine:
        out.print(Text.assemble(("ok   ", "green"), ", ".join(f.rule for f in fine)))
    counts = {state: sum(f.state is state for f in findings) for state in State}
    notes = sum(map(is_note, findings))
    out.print(
        f"{counts[State.MEND] - notes} to mend, {notes} of little weight,"
        f" {counts[State.UNKNOWN]} could not be checked, {counts[State.OK]} in order"
    )


def doctor_command(
    target: Annotated[str | None, typer.Argument(metavar="[PID|NAME]")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Explain what is in order, too, a line each.")
    ] = False,
) -> None:
    findings = examine(View() if target is None else live_view(target))
    if json_:
        echo(as_json(findings))
    else:
        show(findings, each=all_)
    raise typer.Exit(status_of(findings))


def add_to(app: typer.Typer) -> None:
    app.command("doctor", help=HELP)(doctor_command)
