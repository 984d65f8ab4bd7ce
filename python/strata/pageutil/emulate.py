"""Runs a command in qemu-user with our plugin, and says beforehand why that would not work."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.elf import MAX_SCRIPT_DEPTH, read_elf, script_interpreter
from strata.errors import StrataError, why_refused
from strata.launch import Outcome, resolve, run
from strata.trace.command import find_tool

QEMU = ("qemu-x86_64", "qemu-x86_64-static")
PLUGIN = "strata-pageutil.so"
PLACES = "libstrata-places.so"
EM_X86_64 = 62


def find_qemu() -> Path:
    for name in QEMU:
        if found := shutil.which(name):
            return Path(found)
    raise StrataError("qemu-x86_64 not found: `make tools` or `apt-get install qemu-user` has it")


def loaded_program(program: Path, command: Sequence[str]) -> list[str]:
    """What QEMU can load for a command: a script's interpreter with what the kernel would add."""
    words = [str(program), *command[1:]]
    for _ in range(MAX_SCRIPT_DEPTH):
        try:
            facts = read_elf(Path(words[0]))
            interpreter = script_interpreter(Path(words[0]))
        except OSError as error:
            raise StrataError(f"{words[0]}: {why_refused(error)}", 126) from error
        if facts is not None:
            if facts.machine != EM_X86_64 or facts.bits != 64:
                raise StrataError(f"{words[0]}: not an x86-64 program", 126)
            return words
        if interpreter is None:
            raise StrataError(f"{words[0]}: neither an x86-64 program nor a script", 126)
        with Path(words[0]).open("rb") as file:
            line = os.fsdecode(file.read(256).split(b"\n", 1)[0][2:]).split(maxsplit=1)
        words = [*(word.strip() for word in line), *words]
    raise StrataError(f"{command[0]}: too many levels of interpreters", 126)


@dataclass(frozen=True)
class Emulated:
    outcome: Outcome
    end_ns: int


def emulate(
    command: Sequence[str], preload: str | None, file: int, epoch: float, unit: str
) -> Emulated:
    """Runs it to its end. `preload` is the program's own LD_PRELOAD, which QEMU must not get."""
    qemu, plugin = find_qemu(), find_tool(PLUGIN)
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    words = loaded_program(resolve(command[0], environment), command)
    shared = f"/proc/{os.getpid()}/fd/{file}"
    options = f"shared={shared},epoch={max(1, round(epoch * 1000))},unit={unit}"
    plugin_option = f"{str(plugin).replace(',', ',,')},{options}"
    whole = [str(qemu), "-plugin", plugin_option, "-0", command[0]]
    if preload:
        whole += ["-E", f"LD_PRELOAD={preload}"]
    if words[1:] != list(command[1:]):
        whole[3:5] = []  # a script: its interpreter is the program
    outcome = run(qemu, [*whole, *words], environment, None, lambda _: None)
    return Emulated(outcome, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
