"""Objects that move, as programs use them: with the checks of a debug build and without."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, cases, need

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "hot_cases.cpp"
ENDS = HERE / "hot_end_cases.cpp"
GOOD = [
    pytest.param(source, case, id=case)
    for source in (SOURCE, ENDS)
    for case in cases(source)
    if not case.startswith(("bad_", "late_"))
]
CHECKS = {
    "checked": "-DSTRATA_HOT_CHECK=1",
    "bounded": "-DSTRATA_HOT_CHECK=2",
    "plain": "-DSTRATA_HOT_CHECK=0",
}


def program(lab: Lab, checks: str, source: Path = SOURCE) -> Path:
    library = lab.require_strata()
    link = (f"-Wl,-rpath,{library.parent}", "-Wl,--no-as-needed", str(library), "-pthread")
    return lab.build(source, f"-I{ROOT / 'include'}", CHECKS[checks], *link)


@pytest.mark.parametrize(("source", "case"), GOOD)
@pytest.mark.parametrize("checks", CHECKS)
def test_case(lab: Lab, source: Path, case: str, checks: str) -> None:
    lab.run(program(lab, checks, source), case, preload=False).silent()


@pytest.mark.parametrize(
    ("compiler", "checks"), [("g++", "plain"), ("g++", "checked"), ("clang++-19", "bounded")]
)
def test_no_race_is_invented(lab: Lab, compiler: str, checks: str, tmp_path: Path) -> None:
    """A program built with ThreadSanitizer, on the library that is not."""
    library = lab.require_strata()
    target = tmp_path / "races"
    words = ("-std=c++20", "-O1", "-fsanitize=thread", CHECKS[checks], f"-I{ROOT / 'include'}")
    link = (f"-Wl,-rpath,{library.parent}", str(library), "-pthread", "-o", str(target))
    command = [need(compiler), *words, "-g", str(HERE / "race_cases.cpp"), *link]
    subprocess.run(command, check=True)
    lab.run(target, "right", preload=False).silent()
    wrong = lab.run(target, "wrong", preload=False)
    assert "data race" in wrong.stderr and "g_plain" in wrong.stderr, wrong.explain()


def test_what_an_ended_domain_did_is_told_at_exit(lab: Lab) -> None:
    env = {"STRATA_STATS": "exit"}
    case = "moves_what_is_used_apart_from_the_rest"
    result = lab.run(program(lab, "plain"), case, env=env, preload=False)
    line = next(line for line in result.stderr.splitlines() if "moving objects" in line)
    assert re.search(r"; [1-9][0-9]* moves, [0-9]+ aborted, [0-9.]+ s of CPU$", line), line


def test_a_kernel_that_refuses_advice_is_one_line(lab: Lab) -> None:
    deny = lab.build(ROOT / "tests" / "edge" / "deny.c")
    words = ("madvise:EPERM", "--", program(lab, "plain"), "marks_cold_pages")
    result = lab.run(deny, *words, preload=False)
    assert result.returncode == 0, result.explain()
    (line,) = result.stderr.splitlines()
    assert line.startswith("strata: the kernel refuses advice (madvise): "), line


@pytest.mark.parametrize(
    ("case", "says", "type_"),
    [
        ("bad_copy_of_bytes", "a guide was copied as bytes", "Counted"),
        ("bad_use_after_the_operation", "after its operation", "Counted"),
        ("bad_use_after_the_end", "its life had ended", "int []"),
    ],
)
@pytest.mark.parametrize("checks", ["checked", "bounded"])
def test_misuse_is_named(lab: Lab, checks: str, case: str, says: str, type_: str) -> None:
    result = lab.run(program(lab, checks), case, preload=False)
    assert result.returncode in (-signal.SIGABRT, -signal.SIGSEGV), result.explain()
    (line,) = result.stderr.splitlines()
    assert line.startswith("strata: ") and says in line and line.endswith(type_), line


def test_a_domain_that_goes_too_early_names_what_is_left(lab: Lab) -> None:
    result = lab.run(program(lab, "checked"), "late_objects", preload=False)
    (line,) = result.stderr.splitlines()
    assert "destroyed with 1 object in it, one of them" in line, line
    assert "Counted" in line, line


def test_a_domain_that_its_own_thread_ends_stays(lab: Lab) -> None:
    result = lab.run(program(lab, "checked"), "late_call_from_its_own_thread", preload=False)
    (line,) = result.stderr.splitlines()
    assert "destroyed with 2 objects in it, one of them" in line, line
    library_aborts = result.returncode == -signal.SIGABRT  # one with assertions
    assert library_aborts or result.returncode == 0, result.explain()


@pytest.mark.parametrize("case", ["late_second_end", "late_end_of_anothers"])
def test_a_second_end_ends_nobody_elses(lab: Lab, case: str) -> None:
    result = lab.run(program(lab, "plain", ENDS), case, preload=False)
    assert result.stderr == "strata: a domain of moving objects was destroyed twice\n"
    library_aborts = result.returncode == -signal.SIGABRT  # one with assertions
    assert library_aborts or result.returncode == 0, result.explain()


def test_without_hugepages_it_says_so_and_works(lab: Lab, tmp_path: Path) -> None:
    mode = tmp_path / "enabled"
    mode.write_text("always madvise [never]\n")
    there = "/sys/kernel/mm/transparent_hugepage/enabled"
    case = "moves_what_is_used_apart_from_the_rest"
    words = [
        "unshare",
        "-m",
        "sh",
        "-c",
        f'mount --bind {mode} {there} || exit 77; exec "$@"',
        "sh",
    ]
    command = [*words, str(program(lab, "plain")), case]
    # What the tests set for themselves are no options.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=kept)
    if done.returncode in (1, 77) and "strata" not in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("strata: transparent hugepages are off (never): "), line


@pytest.mark.parametrize(
    ("what", "type_"),
    [
        ("const objects", "const int"),
        ("what may throw as it moves", "ThrowsOnMove"),
        ("what cannot move", "Fixed"),
    ],
)
def test_types_that_cannot_move_do_not_compile(what: str, type_: str, tmp_path: Path) -> None:
    del what
    source = tmp_path / "refused.cpp"
    text = """
#include <strata/hot_ptr.h>
struct ThrowsOnMove {
  ThrowsOnMove();
  ThrowsOnMove(ThrowsOnMove&&) noexcept(false);
  ~ThrowsOnMove();
};
struct Fixed {
  Fixed();
  Fixed(Fixed&&) = delete;
  ~Fixed();
};
struct Moves {
  Moves();
  Moves(Moves&&) noexcept;
  ~Moves();
};
void f(strata::hot_domain& d) { d.make<TYPE>(); }
"""
    source.write_text(text.replace("TYPE", type_))
    command = [need("g++"), "-std=c++20", f"-I{ROOT / 'include'}", "-fsyntax-only", str(source)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "constraints not satisfied" in refused.stderr
    source.write_text(text.replace("TYPE", "Moves"))
    assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize("flags", [("-fno-exceptions",), ("-fno-rtti",), ("-DNDEBUG", "-Wextra")])
def test_the_header_compiles_by_itself(flags: tuple[str, ...], tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    source.write_text("#include <strata/hot_ptr.h>\nstrata::hot_ptr<int> p;\n")
    command = [need("g++"), "-std=c++20", "-Wall", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run([*command, *flags, "-fsyntax-only", str(source)], check=True)
    c = tmp_path / "alone.c"
    c.write_text("#include <strata/hot.h>\nstrata_hot_guide g;\n")
    command = [need("gcc"), "-std=c11", "-Wall", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run([*command, "-fsyntax-only", str(c)], check=True)


@pytest.mark.parametrize("header", ["hot_ptr", "layers", "pool_resource"])
def test_an_older_standard_is_refused_in_one_line(header: str, tmp_path: Path) -> None:
    source = tmp_path / "old.cpp"
    source.write_text(f"#include <strata/{header}.h>\n")
    command = [need("g++"), "-std=c++17", f"-I{ROOT / 'include'}", "-fsyntax-only", str(source)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in refused.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1 and f'"strata/{header}.h needs C++20' in errors[0], refused.stderr


def test_examples_of_the_page(lab: Lab, tmp_path: Path) -> None:
    """Every whole program on the page runs and prints nothing."""
    import re

    text = (ROOT / "docs/hotness.md").read_text()
    programs = re.findall(r"```(c|cpp)\n(.*?int main.*?)```", text, re.DOTALL)
    assert programs
    for number, (suffix, program_text) in enumerate(programs):
        source = tmp_path / f"hotness{number}.{suffix}"
        source.write_text(program_text)
        lab.run(lab.build_linked(source), preload=False).ok()


def test_a_handler_that_ends_the_program_waits_for_nobody(lab: Lab, tmp_path: Path) -> None:
    env = {"STRATA_STATS": str(tmp_path / "stats"), "STRATA_PROFILE": f"heap:{tmp_path}/profile"}
    case = "late_exits_of_handlers"
    result = lab.run(program(lab, "plain", ENDS), case, env=env, preload=False, timeout=60)
    assert result.returncode == 0, result.explain()
    said = "strata: a signal handler that interrupted malloc ends the program; nothing is written"
    assert all(line.startswith(said) for line in result.stderr.splitlines()), result.explain()
