"""Names for the addresses of a profile, found outside of the process that wrote it.

A file is only asked if its build id is the one that ran. llvm-symbolizer or addr2line read debug
information (also from /usr/lib/debug); without them the symbol tables of the file have to do.
A function without any name is called by its file and where it begins, so that its calls stay one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from strata.errors import StrataError
from strata.objfile import ObjectFile
from strata.pprof import Line, Location, Mapping, Profile, dump, load
from strata.terminal import say

RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
TIMEOUT = 600
Lines = dict[int, tuple[Line, ...]]
Warn = Callable[[str], None]


class Tool(StrEnum):
    LLVM = "llvm"
    ADDR2LINE = "addr2line"
    BUILTIN = "builtin"


def choose_tool() -> Tool:
    if llvm_symbolizer():
        return Tool.LLVM
    return Tool.ADDR2LINE if shutil.which("addr2line") else Tool.BUILTIN


def llvm_symbolizer() -> str | None:
    versions = [f"llvm-symbolizer-{version}" for version in range(24, 13, -1)]
    names = ["llvm-symbolizer", "llvm-symbolizer-19", *versions]
    return next((name for name in names if shutil.which(name)), None)


def symbolize(
    profile: Profile, root: Path = Path("/"), tool: Tool | None = None, warn: Warn = lambda _: None
) -> Profile:
    """The profile with names where any are found. `root` is where its file names begin, which for a
    process in a container is /proc/PID/root."""
    tool = tool or choose_tool()
    places = {location for sample in profile.samples for location in sample.stack}
    by_mapping: dict[Mapping, list[Location]] = {}
    for place in places:
        if place.mapping is not None and not place.mapping.has_functions and not place.lines:
            by_mapping.setdefault(place.mapping, []).append(place)
    named: dict[Location, Location] = {}
    mappings = {}
    for mapping, members in by_mapping.items():
        done = replace(mapping, has_functions=True)
        lines = name_places(mapping, members, root, tool, warn)
        if lines is None:
            continue
        mappings[mapping] = done
        for place in members:
            named[place] = replace(place, mapping=done, lines=lines.get(place.file_address, ()))
    return replace(
        profile,
        mappings=[mappings.get(mapping, mapping) for mapping in profile.mappings],
        samples=[
            replace(sample, stack=tuple(named.get(place, place) for place in sample.stack))
            for sample in profile.samples
        ],
    )


def name_places(
    mapping: Mapping, places: list[Location], root: Path, tool: Tool, warn: Warn
) -> Lines | None:
    """The lines at each offset of a file; None if the file cannot be asked."""
    if not mapping.file.startswith("/") or mapping.file.startswith(("//", "/memfd:", "/dev/")):
        return None
    path = root / mapping.file.lstrip("/")
    file = ObjectFile.open(path)
    if file is None:
        warn(f"{path}: no such ELF file; its functions stay without names")
        return None
    if mapping.build_id and file.build_id != mapping.build_id:
        warn(
            f"{path} is not the file that ran (build id {file.build_id or 'none'}, "
            f"not {mapping.build_id}); its functions stay without names"
        )
        return None
    virtual = {}
    for place in places:
        address = file.virtual(place.file_address)
        if address is not None:
            virtual[place.file_address] = address
    ask = {Tool.LLVM: ask_llvm, Tool.ADDR2LINE: ask_addr2line, Tool.BUILTIN: ask_table}[tool]
    answers = ask(path, file, sorted(set(virtual.values())))
    short = Path(mapping.file).name
    found: Lines = {}
    for offset, address in virtual.items():
        lines = answers.get(address) or ()
        if not lines:
            start = file.function_start(address)
            if start is None:
                continue
            lines = (Line(f"{short}@{start:#x}"),)
        symbol = file.symbol(address) or nameless(file, address)
        found[offset] = (*lines[:-1], replace(lines[-1], system_name=symbol))
    return found


def nameless(file: ObjectFile, address: int) -> str:
    """What a function is called that the file's own tables have no symbol for."""
    start = file.function_start(address)
    return f"{file.build_id[:16]}+{start:#x}" if file.build_id and start is not None else ""


def run_tool(command: list[str], addresses: list[int]) -> str:
    text = "".join(f"{address:#x}\n" for address in addresses)
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StrataError(f"{command[0]} failed: {error}") from error
    if done.returncode != 0:
        raise StrataError(f"{command[0]} failed: {done.stderr.strip()[:300]}")
    return done.stdout


def tidy(function: str) -> str:
    """Without the hash that Rust adds to each symbol."""
    return RUST_HASH.sub("", function)


def ask_llvm(path: Path, _file: ObjectFile, addresses: list[int]) -> Lines:
    tool = llvm_symbolizer()
    if tool is None:
        raise StrataError("llvm-symbolizer is not installed: install llvm-19, or use addr2line")
    command = [tool, f"--obj={path}", "--output-style=JSON", "--demangle", "--inlines"]
    found: Lines = {}
    for text in run_tool(command, addresses).splitlines():
        try:
            row = json.loads(text)
            found[int(row["Address"], 16)] = tuple(
                Line(tidy(frame["FunctionName"]), frame["FileName"], int(frame["Line"]))
                for frame in row.get("Symbol", [])
                if frame["FunctionName"]
            )
        except (ValueError, KeyError, TypeError):
            continue
    return found


def ask_addr2line(path: Path, _file: ObjectFile, addresses: list[int]) -> Lines:
    out = run_tool(["addr2line", "-e", str(path), "-a", "-f", "-i", "-C"], addresses)
    found: dict[int, list[Line]] = {}
    rows = iter(out.splitlines())
    current: list[Line] = []
    for row in rows:
        if row.startswith("0x"):
            current = found.setdefault(int(row, 16), [])
            continue
        where, _, line = next(rows, "").rpartition(":")
        number = line.split(" ")[0]
        if row != "??":
            file = "" if where == "??" else where
            current.append(Line(tidy(row), file, int(number) if number.isdigit() else 0))
    return {address: tuple(lines) for address, lines in found.items()}


def ask_table(_path: Path, file: ObjectFile, addresses: list[int]) -> Lines:
    named = {address: file.symbol(address) for address in addresses}
    plain = sorted({name for name in named.values() if name})
    nice = dict(zip(plain, demangle(plain), strict=True))
    return {
        address: (Line(tidy(nice[name]), system_name=name),)
        for address, name in named.items()
        if name
    }


def demangle(symbols: list[str]) -> list[str]:
    """By c++filt if it is there; symbols hold no line ends, so the answer has as many lines."""
    if not symbols or not shutil.which("c++filt"):
        return symbols
    done = subprocess.run(
        ["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    return lines if done.returncode == 0 and len(lines) == len(symbols) else symbols


def add_to(app: typer.Typer) -> None:
    @app.command("symbolize")
    def symbolize_command(
        profile: Annotated[Path, typer.Argument(help="A profile in pprof's format.")],
        output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the result.")],
        root: Annotated[
            Path, typer.Option(help="Where to find the program's files, such as /proc/PID/root.")
        ] = Path("/"),
        tool: Annotated[
            Tool | None, typer.Option(help="Which tool to ask. Default: the best there is.")
        ] = None,
    ) -> None:
        """Add function names to a profile, so that it can be read on another machine."""
        dump(symbolize(load(profile), root, tool, say), output)
