"""How a demo begins and ends: a failure becomes one line, and no server stays behind."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import typer

from strata.cli import Mistake
from strata.errors import NOT_DONE, StrataError
from strata.terminal import say

INTERRUPTED = 128 + signal.SIGINT  # typer's status for Ctrl-C


def run(command: Callable[..., None], name: str) -> None:
    """Runs `command` with the words of the command line, and exits."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    try:
        status = typer.main.get_command(app).main(prog_name=name, standalone_mode=False)
    except StrataError as error:
        say(str(error))
        sys.exit(error.status)
    except Mistake as error:
        say(error.format_message())
        sys.exit(NOT_DONE)
    except OSError as error:
        say(f"{name} failed: {error}")
        sys.exit(NOT_DONE)
    if status == INTERRUPTED:
        say("interrupted; the server was stopped")
    sys.exit(status if isinstance(status, int) else 0)
