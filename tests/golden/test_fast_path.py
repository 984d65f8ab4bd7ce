"""The fast paths of malloc, free, new, delete and sized delete, instruction by instruction.

step.c executes them on warm caches and tells each address; objdump tells what stands there. The
counts must equal tests/golden/fast_path.COMPILER.txt; `make golden` rewrites it. Whatever the
counts, no path calls a function, takes a lock prefix or enters the kernel.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LIB = Path(os.environ.get("STRATA_LIB", HERE.parent.parent / "build/lib/libstrata.so"))
COMPILER = {"gnu": "gcc"}.get(os.environ.get("STRATA_COMPILER", "gnu"), "clang")
GOLDEN = HERE / f"fast_path.{COMPILER}.txt"
PATHS = ("malloc", "free", "operator_new", "operator_delete", "sized_delete")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(.+)$")
# An exchange with memory locks the bus without saying so.
FORBIDDEN = re.compile(r"^(call|syscall|sysenter|int |cpuid|lock |[lms]fence|xchg .*\()")


def disassemble() -> dict[int, str]:
    """Every instruction of the library by its offset."""
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(LIB)],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout
    matches = map(INSTRUCTION.match, listing.splitlines())
    return {int(m[1], 16): " ".join(m[2].split("#")[0].split()) for m in matches if m}


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that executes the library's functions instruction by instruction."""
    step = tmp_path_factory.mktemp("step") / "step"
    subprocess.run(
        ["cc", "-O1", "-Wall", "-Werror", "-o", str(step), str(HERE / "step.c"), "-lstdc++"],
        check=True,
    )
    return step


def run_step(step: Path, *arguments: str) -> list[list[str]]:
    """The words of the lines that it prints."""
    done = subprocess.run(
        [str(step), str(LIB.resolve()), *arguments],
        env={name: value for name, value in os.environ.items() if not name.startswith("STRATA_")},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        timeout=60,
    )
    if done.returncode == 77:
        pytest.skip("ptrace is not allowed here")
    assert done.returncode == 0, f"step exited with {done.returncode}"
    return [line.split() for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def paths(step: Path) -> dict[str, list[str]]:
    """The instructions that each fast path executes, in order."""
    code = disassemble()
    return {
        name: [code[int(offset, 16)] for offset in offsets] for name, *offsets in run_step(step)
    }


def test_every_path_was_executed(paths: dict[str, list[str]]) -> None:
    assert tuple(paths) == PATHS
    for name in PATHS:
        assert len(paths[name]) > 3, f"{name}: {paths[name]}"
        assert paths[name][-1].startswith("ret"), f"{name} ends in {paths[name][-1]}"


@pytest.mark.parametrize("name", PATHS)
def test_no_call_no_lock_no_kernel(paths: dict[str, list[str]], name: str) -> None:
    assert not [line for line in paths[name] if FORBIDDEN.match(line)], "\n".join(paths[name])


def test_counts_equal_golden(paths: dict[str, list[str]]) -> None:
    found = "".join(f"{name} {len(paths[name])}\n" for name in PATHS)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(found)
    golden = GOLDEN.read_text() if GOLDEN.exists() else ""
    listing = "\n\n".join(f"{name}:\n  " + "\n  ".join(paths[name]) for name in PATHS)
    assert found == golden, f"if this is meant, run `make golden` and commit its diff\n{listing}"


def test_a_stretch_ends_without_the_slow_path(step: Path) -> None:
    """Also while the heap is so small that it has no background thread. The slow path takes 400."""
    [[name, longest]] = run_step(step, "stretches")
    assert name == "longest"
    assert 50 < int(longest) < 300  # no call that ended a stretch is shorter


def test_the_check_can_fail() -> None:
    for bad in ("call 1234 <f>", "lock xadd %eax,(%rdi)", "syscall", "xchg %eax,(%rdi)"):
        assert FORBIDDEN.match(bad)
    for good in ("mov (%rdi),%rax", "xchg %ax,%ax", "ret"):
        assert not FORBIDDEN.match(good)
