"""The manual page and the shell completions of `strata`, from the command line itself."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, cast

import typer.main
from strata import cli
from typer._completion_shared import get_completion_script

if TYPE_CHECKING:
    import click

COMPLETIONS = {
    "usr/share/bash-completion/completions/strata": "bash",
    "usr/share/zsh/vendor-completions/_strata": "zsh",
    "usr/share/fish/vendor_completions.d/strata.fish": "fish",
}


def escape(text: str) -> str:
    """Text as roff takes it: no escapes, no requests, ASCII's hyphens as such."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def paragraphs(text: str | None) -> str:
    """A docstring, its paragraphs apart, without click's marks."""
    found = re.split(r"\n\s*\n", (text or "").replace("\b", "").replace("\f", "").strip())
    return "\n.PP\n".join(escape(" ".join(one.split())) for one in found)


def options(command: click.Command, context: click.Context) -> str:
    lines = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in record[0]:
            lines.append(f".TP\n.B {escape(record[0])}\n{escape(' '.join(record[1].split()))}")
    return "\n".join(lines)


def page(version: str) -> str:
    """strata(1)."""
    # Not asked for its class: typer carries its own click from 0.26 on.
    group = cast("click.Group", typer.main.get_command(cli.app_for([])))
    assert hasattr(group, "commands")
    top = group.context_class(group, info_name="strata")
    parts = [
        f'.TH STRATA 1 "{date.today():%B %Y}" "Strata {version}" "User Commands"',
        ".SH NAME\nstrata \\- run programs on the Strata malloc, and explain their memory",
        ".SH SYNOPSIS\n.B strata\nCOMMAND [OPTIONS] [ARGUMENTS]",
        f".SH DESCRIPTION\n{paragraphs(group.help)}",
        ".SH COMMANDS",
    ]
    for name in group.list_commands(top):
        command = group.get_command(top, name)
        if command is None or command.hidden:
            continue
        context = command.context_class(command, info_name=name, parent=top)
        usage = escape(" ".join(command.collect_usage_pieces(context)))
        parts.append(f".SS strata {escape(name)} {usage}\n{paragraphs(command.help)}")
        parts.append(options(command, context))
    parts.append(f".SH EXIT STATUS\n{paragraphs(group.epilog)}")
    parts.append(
        ".SH ENVIRONMENT\nThe library takes its options from variables that begin with STRATA_; "
        "the manual\nlists them in docs/options.md."
    )
    return "\n".join(part for part in parts if part) + "\n"


def compiler_page(name: str, language: str, version: str) -> str:
    """strata-cc(1) or strata-c++(1)."""
    parts = (
        f'.TH {name.upper()} 1 "{date.today():%B %Y}" "Strata {version}" "User Commands"',
        f".SH NAME\n{name} - {language} compiler that keeps bitcode for strata lint",
        f".SH SYNOPSIS\n.B {name}\n[OPTIONS OF CLANG] FILE...",
        f".SH DESCRIPTION\n{name} is clang 19, and takes its options. Beside each object NAME.o it"
        " leaves .NAME.o.bc, which strata lint reads.",
        ".SH ENVIRONMENT\n.TP\n.B STRATA_LINT_CC, STRATA_LINT_CXX\nOther compilers, of C and C++,"
        " for the objects.",
        ".SH SEE ALSO\n.BR strata (1),\nstrata lint --help",
    )
    return "\n".join(part.replace("-", "\\-") for part in parts) + "\n"


def completion(shell: str) -> str:
    script = get_completion_script(prog_name="strata", complete_var="_STRATA_COMPLETE", shell=shell)
    return f"{script}\n"
