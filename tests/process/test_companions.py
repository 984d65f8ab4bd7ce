"""Programs with an allocator or a memory checker of their own, and loading by dlopen."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from blackbox import Lab, Result, need

HERE = Path(__file__).resolve().parent
SANITIZED = HERE / "sanitized.cpp"
REORDERED = {"ASAN_OPTIONS": "verify_asan_link_order=0"}


def works(result: Result) -> None:
    assert result.returncode == 0, result.explain()
    assert re.fullmatch(r"sum \d+\n", result.stdout), result.explain()


def test_program_with_its_own_malloc(lab: Lab) -> None:
    lab.run(lab.build(HERE / "own_malloc.cpp"), "works").silent()


# ---- sanitizers and valgrind: the library stands down, the tool still finds its errors


def test_address_sanitizer_linked_statically(lab: Lab) -> None:
    program = lab.build(SANITIZED, "-fsanitize=address", "-static-libasan", name="asan_static")
    works(lab.run(program, timeout=120))
    broken = lab.run(program, "use-after-free", timeout=120)
    assert "heap-use-after-free" in broken.stderr, broken.explain()


def test_address_sanitizer_linked_dynamically(lab: Lab) -> None:
    """ASan refuses to come second unless told otherwise; then its malloc must be the one in use."""
    program = lab.build(SANITIZED, "-fsanitize=address", name="asan_dynamic")
    works(lab.run(program, env=REORDERED, timeout=120))


def test_address_sanitizer_still_finds_errors(lab: Lab) -> None:
    lab.require_strata()
    program = lab.build(SANITIZED, "-fsanitize=address", name="asan_dynamic")
    broken = lab.run(program, "use-after-free", env=REORDERED, timeout=120)
    assert "heap-use-after-free" in broken.stderr, broken.explain()


@pytest.mark.parametrize("link", ["-static-libtsan", "-shared-libgcc"], ids=["static", "dynamic"])
def test_thread_sanitizer(lab: Lab, link: str) -> None:
    name = "tsan" + link.replace("-", "_")
    program = lab.build(SANITIZED, "-fsanitize=thread", "-fPIE", "-pie", link, name=name)
    works(lab.run(program, timeout=120))
    racing = lab.run(program, "race", timeout=120)
    assert "WARNING: ThreadSanitizer: data race" in racing.stderr, racing.explain()


def test_clang_sanitizers(lab: Lab, tmp_path: Path) -> None:
    """clang links its run time statically, and its own malloc with it."""
    clang = next((path for path in map(shutil.which, ("clang++-19", "clang++")) if path), None)
    if clang is None:
        pytest.skip("no clang++")
    for kind in ("address", "thread"):
        program = tmp_path / kind
        flags: list[str | Path] = [
            "-O1",
            "-g",
            "-pthread",
            f"-fsanitize={kind}",
            "-o",
            program,
            SANITIZED,
        ]
        built = lab.run(clang, *flags, preload=False, timeout=120)
        if built.returncode != 0 and "libclang_rt" in built.stderr:
            pytest.skip("clang has no sanitizer run time here")
        built.ok()
        works(lab.run(program, timeout=120))


def test_valgrind(lab: Lab) -> None:
    valgrind = need("valgrind")
    program = lab.build(SANITIZED)
    result = lab.run(valgrind, "--error-exitcode=9", program, timeout=240)
    works(result)
    assert "ERROR SUMMARY: 0 errors" in result.stderr, result.explain()


def test_valgrind_still_finds_errors(lab: Lab) -> None:
    lab.require_strata()
    program = lab.build(SANITIZED)
    result = lab.run(need("valgrind"), "--error-exitcode=9", program, "use-after-free", timeout=240)
    assert result.returncode == 9, result.explain()
    assert "Invalid read" in result.stderr, result.explain()


@pytest.mark.parametrize("case", ["allocates_frees_and_clears", "reallocates", "aligns"])
def test_reaps_on_the_next_allocator(lab: Lab, case: str) -> None:
    """Where Strata stands down their memory is another malloc's, less aligned than its own."""
    program = lab.build_linked(HERE.parent / "edge" / "reap_cases.c")
    tool = (need("valgrind"), "--error-exitcode=9")
    result = lab.run(*tool, program, case, preload=False, timeout=240)
    assert result.returncode == 0, result.explain()


# ---- dlopen


@pytest.mark.parametrize("flag", ["local", "global"])
@pytest.mark.parametrize("early", ["", "libstdc++.so.6"], ids=["plain", "with libstdc++"])
def test_dlopen_from_python(lab: Lab, flag: str, early: str) -> None:
    """The process has glibc's malloc, threads and a heap before the library arrives."""
    library = lab.require_strata()
    prologue = f"import ctypes; ctypes.CDLL({early!r}); " if early else ""
    script = HERE / "from_python.py"
    start = f"{prologue}import runpy, sys; sys.argv[:] = ['', {str(library)!r}, {flag!r}]; "
    line = start + f"runpy.run_path({str(script)!r}, run_name='__main__')"
    lab.run(sys.executable, "-c", line, preload=False).silent()


def test_dlopen_control(lab: Lab) -> None:
    """The script itself is sound: it passes with libc's own malloc."""
    script = HERE / "from_python.py"
    lab.run(sys.executable, script, "libc.so.6", "local", preload=False).silent()


def test_dlopen_when_already_preloaded(lab: Lab) -> None:
    library = lab.require_strata()
    lab.run(sys.executable, HERE / "from_python.py", library, "local").silent()


# ---- ordinary programs under hard limits


@pytest.mark.parametrize(
    "command",
    [
        "seq 1 300000 | sort -R | sort -n | tail -1",
        "python3 -c 'print(max(sorted(range(300000), reverse=True)) + 1)'",
        "awk 'BEGIN { for (i = 0; i < 200000; i++) a[i] = i \"\"; print length(a) + 100000 }'",
    ],
    ids=["sort", "python", "awk"],
)
def test_program_under_address_space_limit(lab: Lab, command: str) -> None:
    """`ulimit -v` of 512 MiB: everyday programs run as before, and say nothing more."""
    preload = "" if lab.library is None else f"export LD_PRELOAD={lab.library}; "
    script = f"ulimit -v 524288; {preload}{command}"
    result = lab.run("bash", "-c", script, preload=False, env={"PATH": "/usr/bin:/bin"}).ok()
    assert result.stdout == "300000\n", result.explain()


@pytest.mark.parametrize("mib", [48, 64, 96])
def test_tight_address_space(lab: Lab, mib: int) -> None:
    """So little that hardly anything can be reserved: small programs still run."""
    preload = "" if lab.library is None else f"export LD_PRELOAD={lab.library}; "
    script = f"ulimit -v {mib * 1024}; {preload}exec /bin/echo fine"
    result = lab.run("bash", "-c", script, preload=False).ok()
    assert result.stdout == "fine\n", result.explain()
