"""The commands: flame, diff, top."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from strata.errors import StrataError
from strata.files import write_file
from strata.flame.graph import FunctionRow, Owners, additive, by_function
from strata.flame.page import Picture, page
from strata.flame.svg import folded, quantity, svg
from strata.pprof import (
    Profile,
    alike,
    filter_profile,
    load,
    merge,
    parse,
    process_of,
    with_sample_counts,
)
from strata.pprof.sites import owners
from strata.processes import NoSuchProcessError, find_process
from strata.reach import Kind, take_profile
from strata.symbolize import symbolize
from strata.terminal import console, echo, printable, say

UNEVEN = 3  # a profile that covers so many times what another does is no match for it
FORMS = (".html", ".svg", ".folded")
LEAST_NAME = 24  # columns for the name of a function, whatever the terminal has
Focus = Annotated[str | None, typer.Option(help="Only stacks with a function that matches.")]
Ignore = Annotated[str | None, typer.Option(help="No stacks with a function that matches.")]
Hide = Annotated[
    str | None,
    typer.Option(help="Leave out functions that match, such as 'malloc|calloc|realloc'."),
]
Root = Annotated[
    Path, typer.Option(help="Where to find the program's files, such as /proc/PID/root.")
]
TypeName = Annotated[
    str | None,
    typer.Option("--type", help="Which values to show, such as inuse_space or alloc_objects."),
]
Wrappers = Annotated[
    bool,
    typer.Option("--wrappers", help="Show malloc and its wrappers, too, not only who calls them."),
]
Rows = Annotated[int, typer.Option("-n", "--rows", min=1, help="How many rows to print.")]
Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="PROFILE|DIR|PID|NAME...",
        help="Files, folders of reports, or processes to ask now; several are added up.",
        show_default=False,
    ),
]
AskedKind = Annotated[
    Kind | None,
    typer.Option(
        "--kind",
        help="Which profile to take of a process or a report.",
        show_default=Kind.HEAP.value,
    ),
]


def is_file(source: Path) -> bool:
    return source.exists() or source.name != str(source)


def profile_from(source: Path, kind: Kind | None) -> Profile:
    """The profile in a file or a report's folder, or of a running process where no such file is."""
    if source.is_dir():
        return load(source / f"{(kind or Kind.HEAP).value}.pb.gz")
    if is_file(source):
        return load(source)
    try:
        return parse(take_profile(find_process(str(source)), kind or Kind.HEAP))
    except NoSuchProcessError as error:
        raise StrataError(f"{source}: No such file, and {error}") from error


def expect_asked(kind: Kind | None, paths: list[Path]) -> None:
    """Refuses a kind where it would choose nothing: a file is the profile that it is."""
    if kind is not None and all(is_file(path) and not path.is_dir() for path in paths):
        raise StrataError("--kind is for a process or a report's folder, and you named neither")


def read(
    paths: list[Path],
    root: Path,
    say: Callable[[str], None],
    kind: Kind | None = None,
    *,
    focus: str | None = None,
    ignore: str | None = None,
    hide: str | None = None,
    note_empty: bool = True,
) -> Profile:
    profiles = [profile_from(path, kind) for path in paths]
    whole = profiles[0] if len(profiles) == 1 else merge(profiles)
    named = symbolize(whole, root, warn=say)
    found = filter_profile(named, focus=focus, ignore=ignore, hide=hide)
    files = ", ".join(map(str, paths))
    if not note_empty:
        return found
    if not named.samples:
        say(f"{files}: {no_samples(named)}")
    elif not found.samples:
        options = (("--focus", focus), ("--ignore", ignore))
        given = " ".join(f"{name} {text!r}" for name, text in options if text)
        say(f"{files}: nothing matches {given} in {len(named.samples)} samples")
    return found


def no_samples(profile: Profile) -> str:
    """Why a profile is empty that may well be in order."""
    why = "nothing was sampled"
    if profile.period > 0 and profile.period_type is not None:
        each = quantity(profile.period, profile.period_type.unit)
        why = f"one is taken for about each {each} allocated"
    if profile.types and profile.types[0].type == "wasted_space":
        return f"no sample shows wasted memory: {why}"
    if profile.duration_ns > 0:
        return f"no samples yet: {why}, and this is of {profile.duration_ns / 1e9:.1f} s only"
    return f"no samples yet: {why}; let it run longer, or sample finer by STRATA_SAMPLE"


def describe(profile: Profile) -> str:
    """When, how long, how finely: one line."""
    parts = []
    if profile.time_ns > 0:
        try:
            taken = datetime.fromtimestamp(profile.time_ns / 1e9, UTC)
            parts.append(taken.strftime("%Y-%m-%d %H:%M:%S UTC"))
        except (ValueError, OverflowError, OSError):
            parts.append("at an unknown time")
    if profile.duration_ns > 0:
        parts.append(f"over {profile.duration_ns / 1e9:.1f} s")
    if profile.period > 0 and profile.period_type is not None:
        parts.append(f"one sample each {quantity(profile.period, profile.period_type.unit)}")
    return ", ".join(parts)


def check_type(profile: Profile, name: str | None) -> int:
    index = profile.index_of(name)
    if not additive(profile.types[index]):
        raise StrataError(f"values '{profile.types[index].type}' do not add up; take another type")
    return index


def draw(form: str, picture: Picture, new: Profile, old: Profile | None, name: str | None) -> str:
    index = check_type(new, name) if name is not None else -1
    if form == ".html":
        return page(picture, replace(new, default_type=name or new.default_type), old)
    if form == ".svg":
        return svg(picture, new, old, index)
    return folded(new, index)


def form_of(path: Path, forms: tuple[str, ...] = FORMS) -> str:
    if path.suffix not in forms:
        raise StrataError(f"{path}: the name has to end in {', '.join(forms)}")
    return path.suffix


def program_of(profile: Profile) -> str:
    """The process's name where the profile has it; else the program's file, which may be what a
    link by another name points to."""
    file = Path(profile.mappings[0].file).name if profile.mappings else "profile"
    return process_of(profile) or file


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not rows:
        echo(title)
        return
    out = console()
    out.print(Text(printable(title), "table.title"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in columns[:-1]:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(columns[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    # In a narrow terminal lines wrap: better than figures cut short.
    figures = (max(map(len, cells)) + 1 for cells in list(zip(columns, *rows, strict=True))[:-1])
    console(width=max(out.width, sum(figures) + LEAST_NAME)).print(table)


def owner_of(profile: Profile, index: int, *, wrappers: bool) -> Owners | None:
    """Of memory, what a wrapper of malloc asked for is its caller's."""
    is_memory = re.search("object|space", profile.types[index].type) is not None
    return owners if is_memory and not wrappers else None


def functions(profile: Profile, index: int, *, wrappers: bool) -> list[FunctionRow]:
    """Each function's row."""
    return by_function(profile, index, owner_of(profile, index, wrappers=wrappers))


def top_rows(profile: Profile, index: int, rows: int, *, wrappers: bool) -> list[list[str]]:
    """The largest functions' rows; where the profile tells, with how far their own can be off."""
    unit = profile.types[index].unit
    total = sum(sample.values[index] for sample in profile.samples)
    counted = with_sample_counts(profile, index)
    # By the same rule as the values, or an owner's samples would stand at malloc.
    owns = owner_of(profile, index, wrappers=wrappers)
    behind = {row.name: row.flat for row in by_function(counted, 0, owns)} if counted else {}

    shown = [row for row in by_function(profile, index, owns) if row.flat]

    def share(value: int) -> str:
        return f"{100 * value / total:.1f} %" if total else "n/a"

    return [
        [
            quantity(row.flat, unit),
            share(row.flat),
            *([error_of(behind.get(row.name, 0))] if counted else []),
            quantity(row.total, unit),
            share(row.total),
            row.title,
        ]
        for row in shown[:rows]
    ]


def error_of(thousandths: int) -> str:
    """How far a sum of so many samples can be off: its standard error."""
    count = thousandths / 1000
    if count < 1.5:
        return "one sample" if count > 0 else ""
    return f"± {100 / count**0.5:.0f} %"


def changes(
    new: Profile, old: Profile, index: int, *, wrappers: bool = False
) -> list[tuple[FunctionRow, FunctionRow]]:
    """Each function's row in old and new, the largest change first."""
    before = {row.name: row for row in functions(old, index, wrappers=wrappers)}
    after = {row.name: row for row in functions(new, index, wrappers=wrappers)}
    pairs = [
        (before.get(name, FunctionRow(name)), after.get(name, FunctionRow(name)))
        for name in {**before, **after}
    ]
    pairs = [(a, b) for a, b in pairs if (a.flat, a.total) != (b.flat, b.total)]
    return sorted(pairs, key=lambda p: (-abs(p[1].flat - p[0].flat), p[0].name))


def span(profile: Profile) -> str:
    """What it covers; the library writes no duration for what goes back to the start."""
    return (
        f"{profile.duration_ns / 1e9:.1f} s" if profile.duration_ns > 0 else "all since the start"
    )


def uneven(old: Profile, new: Profile) -> str | None:
    """A warning if one of the two covers much more than the other: a whole run and a window."""
    short, long = sorted((old.duration_ns, new.duration_ns))
    if long <= 0 or (short > 0 and long < UNEVEN * short):
        return None
    return (
        f"the old profile covers {span(old)}, the new one {span(new)}: "
        "the change is mostly that; compare two windows of a length, or two whole profiles"
    )


def signed(value: int, unit: str) -> str:
    return ("+" if value > 0 else "") + quantity(value, unit)


def add_to(app: typer.Typer) -> None:
    @app.command("flame")
    def flame_command(
        profiles: Sources,
        output: Annotated[
            Path, typer.Option("-o", "--output", help="A file .html, .svg or .folded.")
        ] = Path("flame.html"),
        kind: AskedKind = None,
        type_: TypeName = None,
        focus: Focus = None,
        ignore: Ignore = None,
        hide: Hide = None,
        root: Root = Path("/"),
    ) -> None:
        """Draw who owns a process's memory, or a profile, as a flame graph: a page or a picture."""
        form = form_of(output)
        expect_asked(kind, profiles)
        profile = read(profiles, root, say, kind, focus=focus, ignore=ignore, hide=hide)
        title = f"{program_of(profile)}: {', '.join(path.name for path in profiles)}"
        picture = Picture(title, describe(profile))
        write_file(output, draw(form, picture, profile, None, type_))
        say(f"wrote {output}")

    @app.command("diff")
    def diff_command(
        old: Annotated[Path, typer.Argument(help="The profile, or report, from before.")],
        new: Annotated[Path, typer.Argument(help="The profile, or report, from after.")],
        kind: AskedKind = None,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", help="Also draw: a file .html or .svg.")
        ] = None,
        type_: TypeName = None,
        focus: Focus = None,
        ignore: Ignore = None,
        hide: Hide = None,
        wrappers: Wrappers = False,
        rows: Rows = 20,
        root: Root = Path("/"),
    ) -> None:
        """Show what changed between two profiles of a kind: a table, and a flame graph."""
        form = form_of(output, (".html", ".svg")) if output is not None else ""
        expect_asked(kind, [old, new])
        chosen = partial(read, root=root, say=say, focus=focus, ignore=ignore, hide=hide)
        before = chosen([old], kind=kind, note_empty=False)
        after = chosen([new], kind=kind, note_empty=False)
        before, after = alike([before, after])
        if before.types != after.types:
            raise StrataError(f"{old} and {new} are profiles of different kinds")
        if not before.samples and not after.samples:
            say("neither profile has a sample" + (" that matches" if focus or ignore else ""))
        warning = uneven(before, after)
        if warning:
            say(warning)
        index = check_type(after, type_)
        unit = after.types[index].unit
        pairs = changes(after, before, index, wrappers=wrappers)
        owned = [(a, b) for a, b in pairs if a.flat or b.flat]
        table = [
            [
                signed(b.flat - a.flat, unit),
                quantity(a.flat, unit),
                quantity(b.flat, unit),
                signed(b.total - a.total, unit),
                a.name,
            ]
            for a, b in owned[:rows]
        ]
        totals = [sum(sample.values[index] for sample in p.samples) for p in (before, after)]
        title = (
            f"{after.types[index].type}: {quantity(totals[0], unit)} → "
            f"{quantity(totals[1], unit)} ({signed(totals[1] - totals[0], unit)})"
        )
        print_table(title, ["change", "old", "new", "with callees", "function"], table)
        if output is not None:
            picture = Picture(f"{program_of(after)}: {old.name} → {new.name}", describe(after))
            write_file(output, draw(form, picture, after, before, type_))
            say(f"wrote {output}")

    @app.command("top")
    def top_command(
        profiles: Sources,
        kind: AskedKind = None,
        type_: TypeName = None,
        focus: Focus = None,
        ignore: Ignore = None,
        hide: Hide = None,
        wrappers: Wrappers = False,
        rows: Rows = 20,
        root: Root = Path("/"),
    ) -> None:
        """Print the functions that own most of a process's memory, or of a profile."""
        expect_asked(kind, profiles)
        profile = read(profiles, root, say, kind, focus=focus, ignore=ignore, hide=hide)
        index = check_type(profile, type_)
        total = sum(sample.values[index] for sample in profile.samples)
        unit = profile.types[index].unit
        title = f"{program_of(profile)}, {profile.types[index].type}: {quantity(total, unit)}"
        counted = with_sample_counts(profile, index)
        if total and counted is not None and counted.samples:
            whole = round(sum(sample.values[0] for sample in counted.samples) / 1000)
            title += f", from about {max(1, whole):,} sample{'s' if whole > 1 else ''}"
        columns = ["own", "", *([""] if counted else []), "with callees", "", "function"]
        print_table(title, columns, top_rows(profile, index, rows, wrappers=wrappers))
