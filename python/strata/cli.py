"""The `strata` command: which module has which commands, and how a mistake ends."""

from __future__ import annotations

import inspect
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import typer
from typer.models import CommandInfo, TyperInfo

from strata import __version__
from strata.errors import NOT_DONE, STATUSES, StrataError, of_system, remedy
from strata.terminal import Unpadded, lose_output, say, set_up

if TYPE_CHECKING:
    import click

    Mistake = click.ClickException
else:  # click's own, or that of the copy which typer carries from 0.26 on
    Mistake = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")

# The commands of each module. Only the module of the one typed is loaded: all take half a second.
MODULES = {
    "run_command": "run",
    "compare.command": "compare compare-worker",
    "doctor.command": "doctor",
    "explain": "explain",
    "flame.command": "flame diff top",
    "learn.command": "lifetimes",
    "learn.train_command": "train model",
    "lint.command": "lint",
    "pageutil.command": "pageutil",
    "price": "price",
    "reach": "ps stats profile release set get",
    "report.command": "report",
    "simulate.command": "simulate",
    "symbolize": "symbolize",
    "trace.command": "trace",
    "trace.replay": "replay",
}

# What more than a base install has some commands need: an extra of pyproject.toml.
EXTRAS = {
    "compare": "compare",
    "learn": "lifetimes",
    "report": "report",
    "trace": "trace replay simulate pageutil",
    "train": "train model",
}
# Modules whose package has another name.
DISTRIBUTIONS = {"google": "protobuf"}

# What `strata --help` lists, by what you want to do.
PANELS = {
    "Run a command": "run compare trace pageutil",
    "Ask a running process": "ps stats top flame report doctor profile release get set price",
    "Read profiles": "diff symbolize",
    "Learn lifetimes": "lifetimes train model",
    "Replay": "replay simulate",
    "Find mistakes in a program": "lint explain",
}


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"strata {__version__}")
        raise typer.Exit


def main_options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def app_for(arguments: list[str]) -> typer.Typer:
    """With the command that these name; with all if they name none, as where a shell completes."""
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Tools of the Strata memory allocator.",
        epilog=STATUSES,
    )
    app.callback()(main_options)
    owners = {name: module for module, names in MODULES.items() for name in names.split()}
    typed = None if "_STRATA_COMPLETE" in os.environ else owners.get("".join(arguments[:1]))
    for module in [typed] if typed else MODULES:
        import_module(f"strata.{module}").add_to(app)
    unwrap_help(app)
    if not typed:
        sort_into_panels(app)
    return app


def unwrap_help(app: typer.Typer) -> None:
    """Typer keeps the line ends of a docstring's later paragraphs, and wraps them once more."""
    for command in app.registered_commands:
        text = command.help or inspect.getdoc(command.callback) or ""
        command.help = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            unwrap_help(group.typer_instance)


def sort_into_panels(app: typer.Typer) -> None:
    """Every command that is shown has a panel; their order is the table's."""
    panels = {name: panel for panel, names in PANELS.items() for name in names.split()}
    order = list(panels)
    all_of_them: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    for command in all_of_them:
        if not command.hidden:
            command.rich_help_panel = panels[str(command.name)]
    app.registered_commands.sort(
        key=lambda one: len(order) if one.hidden else order.index(str(one.name))
    )


def why_not_imported(error: ImportError, command: str) -> str:
    """Told for all commands here: which package is needed when is known best by what imports it."""
    module = (error.name or "a package").partition(".")[0]
    package = DISTRIBUTIONS.get(module, module)
    extra = next((extra for extra, names in EXTRAS.items() if command in names.split()), None)
    return f"{command} needs {package} ({error}): {remedy(extra, package)}"


def main() -> None:
    """Entry point: every mistake becomes one line and an exit status."""
    set_up()
    if not sys.stdout.isatty():  # the help, too, which typer prints by itself
        sys.stdout = cast("TextIO", Unpadded(sys.stdout))
    try:
        command = typer.main.get_command(app_for(sys.argv[1:]))
        status = command.main(prog_name="strata", standalone_mode=False)
        sys.stdout.flush()  # here, where it can still be told
    except StrataError as error:
        say(str(error))
        sys.exit(error.status)
    except typer.Abort:
        sys.exit(130)  # Ctrl-C
    except MemoryError:
        say("out of memory")
        sys.exit(NOT_DONE)
    except OSError as error:
        lose_output()
        say(of_system(error))
        sys.exit(NOT_DONE)
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "strata":
            raise  # a mistake of our own
        say(why_not_imported(error, "".join(sys.argv[1:2])))
        sys.exit(NOT_DONE)
    except Mistake as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # then the help was printed
            say(error.format_message())
        sys.exit(NOT_DONE)
    sys.exit(status if isinstance(status, int) else 0)
