"""strata lint on small programs: from the wrapper to findings, bad input, baselines, SARIF.

What others find of the 24 errors in `programs`. clang 19's analyzer (with alpha.unix.PthreadLock
and alpha.security.taint): 11, which are 0 of 6 format strings (it loses taint in a table, through
vsnprintf, memcpy and argv), 8 of 9 on the heap, 2 of 5 of files, 1 of 4 of locks. Joern 4.0.379
(c2cpg, flows from the same sources to the same sinks, and from free to uses): 2 of the 6 format
strings and 2 of the 9 on the heap, with 13 other lines. It says 176 things of tinyproxy, and
nothing of mawk in 15 minutes: its flows have no order and no state.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, missing

ENGINE = Path(os.environ.get("STRATA_LINT_ENGINE") or ROOT / "build/bin/strata-lint-engine")
BIN = ROOT / ".venv/bin"
HEAD = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
FORMAT = HEAD + "int main(void) { char b[64]; if (!fgets(b, 64, stdin)) return 1;\nprintf(b); }\n"


@pytest.fixture(autouse=True, scope="module")
def _engine() -> None:
    if not ENGINE.exists():
        missing("no engine; `make analyzer` builds it")


def run(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(w) for w in words], cwd=folder, capture_output=True, text=True, check=False
    )


def lint(folder: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    return run(BIN / "strata", "lint", folder, *more, folder=folder)


def build(folder: Path, text: str, name: str = "a.c") -> None:
    (folder / name).write_text(text)
    done = run(BIN / "strata-cc", "-w", "-O2", name, "-o", "program", folder=folder)
    assert done.returncode == 0, done.stderr


def test_make_with_archive_and_assembly(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("void show(char*);\n" + FORMAT.replace("printf(b)", "show(b)"))
    (tmp_path / "show.c").write_text(HEAD + "void show(char* s) { printf(s); }\n")
    (tmp_path / "none.s").write_text(".globl none\nnone: ret\n")
    (tmp_path / "Makefile").write_text(
        "program: main.o libs.a\n\t$(CC) main.o -L. -ls -o program\n"
        "libs.a: show.o none.o\n\tar rcs libs.a show.o none.o\n"
    )
    made = run("make", "-s", f"CC={BIN / 'strata-cc'}", "CFLAGS=-w -MD", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "main.d").read_text().startswith("main.o:")
    result = lint(tmp_path, "--sarif", "s.json", "--html", "h.html")
    assert result.returncode == 1, result.stderr
    assert "show.c:4: taint: a format string comes from outside" in result.stdout
    assert "main.c:5: in main: tainted by fgets" in result.stdout
    sarif = json.loads((tmp_path / "s.json").read_text())
    assert sarif["version"] == "2.1.0"
    (found,) = sarif["runs"][0]["results"]
    assert found["ruleId"] == "taint"
    assert len(found["codeFlows"][0]["threadFlows"][0]["locations"]) >= 3
    assert "show.c:4" in (tmp_path / "h.html").read_text()


@pytest.mark.parametrize("what", [".", "bin/program"])
def test_a_shared_library_of_the_project_is_part_of_its_programs(what: str, tmp_path: Path) -> None:
    """By what the program asks for, as libtool and meson link; through another library as well."""
    for name, text in (TWO | {"c.c": "int c(void) { return 1; }\n"}).items():
        (tmp_path / name).write_text(text)
    for folder in ("bin", "lib"):
        (tmp_path / folder).mkdir()
    cc: list[str | Path] = [BIN / "strata-cc", "-w", "-fPIC"]
    for words in (
        ["-shared", "b.c", "-Wl,-soname,libb.so.1", "-o", "lib/libb.so.1"],
        ["-shared", "c.c", "lib/libb.so.1", "-Wl,--no-as-needed", "-o", "lib/libc-own.so"],
        ["a.c", "-Llib", "-Wl,--no-as-needed", "-lc-own", "-Wl,-rpath,$ORIGIN/../lib",
         "-Wl,-rpath-link,lib", "lib/libb.so.1", "-o", "bin/program"],
    ):  # fmt: skip
        assert run(*cc, *words, folder=tmp_path).returncode == 0
    result = run(BIN / "strata", "lint", what, folder=tmp_path)
    assert "b.c:4: taint" in result.stdout, result.stderr
    assert "a.c:5: in main: tainted by fgets" in result.stdout
    assert "1 found" in result.stdout


def test_a_library_of_many_programs_is_whole_in_one(tmp_path: Path) -> None:
    """Dovecot's 203 programs on two libraries were 203 times those: 18 minutes and no end."""
    long = "".join(f"  n += n * {i};\n" for i in range(200))
    sources = {
        "show.c": HEAD + "void show(char* s) { printf(s); }\n",
        "big.c": HEAD + f"int big(int n) {{\n{long}  void* p = malloc(9);\n  free(p);\n"
        "  free(p);\n  return n;\n}\n",
        "one.c": FORMAT.replace("printf(b)", "puts(b)"),
        "two.c": "void show(char*);\n" + FORMAT.replace("printf(b)", "show(b)"),
        "three.c": FORMAT.replace("printf(b)", "puts(b)"),
    }  # fmt: skip
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    cc = (BIN / "strata-cc", "-w", "-fPIC", "-g")
    made = ["-shared", "show.c", "big.c", "-o", "libown.so"]
    assert run(*cc, *made, folder=tmp_path).returncode == 0
    for program in ("one", "two", "three"):
        made = [f"{program}.c", "-Wl,--no-as-needed", "./libown.so", "-o", program]
        assert run(*cc, *made, folder=tmp_path).returncode == 0
    result = lint(tmp_path)
    assert "show.c:4: taint" in result.stdout, "two gives what it reads"
    assert "big.c:207: heap" in result.stdout, "nobody calls it, and one program has it whole"
    assert "2 found" in result.stdout
    (lines,) = re.findall(r"(\d+) lines", result.stdout)
    assert 200 < int(lines) < 300, "not three times the library"


def test_baseline_and_suppression(tmp_path: Path) -> None:
    build(tmp_path, FORMAT)
    assert lint(tmp_path, "--write-baseline", "known.json").returncode == 0
    assert lint(tmp_path, "--baseline", "known.json").returncode == 0
    build(tmp_path, "\n\n" + FORMAT)  # lines move
    assert lint(tmp_path, "--baseline", "known.json").returncode == 0
    build(tmp_path, FORMAT.replace("printf(b);", "printf(b); // strata-lint: allow taint\n"))
    result = lint(tmp_path)
    assert result.returncode == 0
    assert "1 allowed" in result.stdout


def test_what_is_possible_is_said_when_asked_for(tmp_path: Path) -> None:
    source = Path(__file__).parent / "possible/file_loop_hands_it_on.c"
    build(tmp_path, source.read_text() + "int main(void) { return serve(); }\n")
    result = lint(tmp_path)
    assert result.returncode == 0, result.stdout
    assert "0 found, 1 possible (--possible shows them)" in result.stdout
    result = lint(tmp_path, "--possible", "--sarif", "s.json")
    assert result.returncode == 1
    assert "file: possibly never closed" in result.stdout
    (found,) = json.loads((tmp_path / "s.json").read_text())["runs"][0]["results"]
    assert found["level"] == "note"


def test_own_property_of_the_documentation(tmp_path: Path) -> None:
    page = (ROOT / "docs/lint.md").read_text()
    prop, program, says = re.findall(r"```(?:text|c)\n(.*?)```", page, re.S)[:3]
    (tmp_path / "session.prop").write_text(prop)
    build(tmp_path, program, "session.c")
    result = lint(tmp_path, "--property", "session.prop")
    assert result.returncode == 1, result.stderr
    assert result.stdout.startswith(says.rstrip("\n")), "as the page shows it"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("property p\nlattice a < b\nproduce f : 1 = c\n", "3:17: no state 'c'"),
        ('property p\nlattice a < b\nforbid f : 0 is b "x"\n', "3:12: arguments are counted"),
        ("lattice a < b\n", "1:1: expected 'property NAME' first"),
        ("property p\nlattice a < b < a\n", "2:"),
    ],
)
def test_errors_in_a_property_have_a_place(tmp_path: Path, text: str, where: str) -> None:
    build(tmp_path, FORMAT)
    (tmp_path / "p.prop").write_text(text)
    result = lint(tmp_path, "--property", "./p.prop")
    assert result.returncode == 2
    assert f"p.prop:{where}" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.bc").write_bytes(b"BC\xc0\xde no bitcode of LLVM 19")
    result = run(BIN / "strata", "lint", "x.bc", folder=tmp_path)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert "no bitcode that LLVM 19 reads" in result.stderr
    assert lint(tmp_path).returncode == 2


def test_names_that_are_odd(tmp_path: Path) -> None:
    for name in (b"l\xe9.c", b"two\nlines.c"):
        folder = tmp_path / os.fsdecode(name.removesuffix(b".c"))
        folder.mkdir()
        (folder / os.fsdecode(name)).write_text(FORMAT)
        done = run(BIN / "strata-cc", "-w", os.fsdecode(name), "-o", "p", folder=folder)
        assert done.returncode == 0, done.stderr
        result = run(BIN / "strata", "lint", "p", folder=folder)
        assert result.returncode == 1, result.stderr
        assert "1 found" in result.stdout
        assert ".c:5: taint" in result.stdout


@pytest.mark.parametrize("text", [b"property p\nlattice a < \xe9\n", b"\xff"])
def test_a_property_in_another_encoding(text: bytes, tmp_path: Path) -> None:
    build(tmp_path, FORMAT)
    (tmp_path / "own.prop").write_bytes(text)
    result = lint(tmp_path, "--property", "own.prop")
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()[-1:]
    assert re.search(r"own\.prop:\d+:\d+: unexpected", line)


def test_damaged_bitcode_is_named(tmp_path: Path) -> None:
    """LLVM's reader crashes on some: no bit that is changed may leave the file unnamed."""
    build(tmp_path, FORMAT)
    (bitcode,) = tmp_path.glob(".*.bc")
    whole = bitcode.read_bytes()
    for at in range(600, len(whole) - 600, len(whole) // 24):
        bitcode.write_bytes(whole[:at] + bytes([whole[at] ^ 0x14]) + whole[at + 1 :])
        words = ("--property", ROOT / "lint/properties/heap.prop", bitcode)
        result = run(ENGINE, *words, folder=tmp_path)
        assert result.returncode == 0 or bitcode.name in result.stderr, (at, result.stderr)


def test_shapes_that_are_hard(tmp_path: Path) -> None:
    """No main, recursion, a table of functions, inline assembly."""
    (tmp_path / "a.c").write_text(
        HEAD + "static void a(char *p) { free(p); }\nstatic void b(char *p) { p[0] = 1; }\n"
        "static void (*const table[])(char *) = {a, b};\n"
        'int deep(int n, char *p) { __asm__ volatile("nop" ::: "memory");\n'
        "  if (n == 0) { free(p); return 0; } return deep(n - 1, p); }\n"
        "void use(int i) { char *p = malloc(4); if (!p) return; table[i & 1](p); }\n"
        "void wrong(int n) { char *p = malloc(4); if (!p) return; deep(n, p); p[1] = 1; }\n"
    )
    run(BIN / "strata-cc", "-w", "-c", "a.c", folder=tmp_path)
    result = lint(tmp_path)
    assert result.returncode == 1, result.stderr
    assert "a.c:10: heap: used after it was freed" in result.stdout


def test_compile_and_link_of_several(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int b(void); int main(void) { return b(); }\n")
    (tmp_path / "b.c").write_text("int b(void) { return 0; }\n")
    assert run(BIN / "strata-cc", "-c", "a.c", "b.c", folder=tmp_path).returncode == 0
    assert (tmp_path / ".a.o.bc").exists()
    assert (tmp_path / ".b.o.bc").exists()
    assert run(BIN / "strata-cc", "a.o", "b.o", "-o", "p", folder=tmp_path).returncode == 0
    result = lint(tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("0 found")


TWO = {
    "a.c": "void show(char *);\n" + FORMAT.replace("printf(b)", "show(b)"),
    "b.c": HEAD + "void show(char *s) {printf(s);}\n",
}


@pytest.mark.parametrize("compiler", ["clang-19", "gcc", "ccache clang-19"])
@pytest.mark.parametrize("steps", ["at once", "apart", "in a library"])
def test_link_time_optimisation(compiler: str, steps: str, tmp_path: Path) -> None:
    """Objects of -flto are no ELF files, or their sections get lost at the link."""
    if any(shutil.which(word) is None for word in compiler.split()):
        missing(f"no {compiler}")
    for name, text in TWO.items():
        (tmp_path / name).write_text(text)
    cc: list[str | Path] = ["env", f"STRATA_LINT_CC={compiler}", f"CCACHE_DIR={tmp_path / 'cache'}"]
    cc += [BIN / "strata-cc", "-w", "-flto"]
    if steps != "at once":
        assert run(*cc, "-c", "a.c", "b.c", folder=tmp_path).returncode == 0
    if steps == "apart":
        made = run(*cc, "a.o", "b.o", "-o", "p", folder=tmp_path)
    elif steps == "in a library":
        archiver = "gcc-ar" if compiler == "gcc" else "llvm-ar-19"
        (tmp_path / "lib").mkdir()
        assert run(archiver, "rcs", "lib/libb.a", "b.o", folder=tmp_path).returncode == 0
        (tmp_path / "b.o").unlink()
        made = run(*cc, "a.o", "-L", "lib", "-lb", "-o", "p", folder=tmp_path)
    else:
        made = run(*cc, "a.c", "b.c", "-o", "p", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    result = run(BIN / "strata", "lint", "p", folder=tmp_path)
    assert "b.c:4: taint" in result.stdout, result.stderr
    assert "a.c:5: in main: tainted by fgets" in result.stdout


@pytest.mark.parametrize("option", ["-O2", "-flto"])
@pytest.mark.parametrize("kind", ["rcs", "rcsT"])
def test_a_static_library_by_itself(kind: str, option: str, tmp_path: Path) -> None:
    """Also one that is all there is in a folder, as installed; a thin one leads elsewhere."""
    (tmp_path / "a_file_with_a_long_name.c").write_text(FORMAT.replace("main", "work"))
    (tmp_path / "b.c").write_text("int b(void) { return 0; }\n")
    done = run(
        *(BIN / "strata-cc", "-w", option, "-c", "b.c", "a_file_with_a_long_name.c"),
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "lib").mkdir()
    objects = ("b.o", "a_file_with_a_long_name.o")
    assert run("llvm-ar-19", kind, "lib/lib.a", *objects, folder=tmp_path).returncode == 0
    for what in ("lib/lib.a", "lib"):
        result = run(BIN / "strata", "lint", what, folder=tmp_path)
        assert result.returncode == 1, result.stderr
        assert "a_file_with_a_long_name.c:5: taint" in result.stdout


def test_outputs_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(FORMAT)
    for more in ([], ["-c"]):
        done = run(BIN / "strata-cc", "-w", *more, "a.c", "-o", "/dev/null", folder=tmp_path)
        assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.c"]
    assert not list(Path("/dev").glob(".*.bc"))


def test_precompiled_header(tmp_path: Path) -> None:
    (tmp_path / "h.h").write_text(HEAD)
    (tmp_path / "a.c").write_text(FORMAT.replace(HEAD, ""))
    cc = BIN / "strata-cc"
    assert run(cc, "-x", "c-header", "h.h", "-o", "h.h.pch", folder=tmp_path).returncode == 0
    done = run(cc, "-w", "-include-pch", "h.h.pch", "-c", "a.c", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "a.c:2: taint" in lint(tmp_path).stdout


def test_bitcode_that_outlived_its_object(tmp_path: Path) -> None:
    """`make clean` knows nothing of it, and the next compiler neither."""
    (tmp_path / "gone.c").write_text(FORMAT.replace("main", "gone"))
    (tmp_path / "other.c").write_text(FORMAT.replace("main", "other"))
    build(tmp_path, "int main(void) { return 0; }\n")
    cc = BIN / "strata-cc"
    assert run(cc, "-w", "-c", "gone.c", "other.c", folder=tmp_path).returncode == 0
    assert "2 found" in lint(tmp_path).stdout
    (tmp_path / "gone.o").unlink()
    assert run("gcc", "-w", "-c", "other.c", folder=tmp_path).returncode == 0
    assert lint(tmp_path).stdout.startswith("0 found")


def test_object_whose_bitcode_is_gone(tmp_path: Path) -> None:
    """What a compiler's cache hands out, say: nothing was looked at, nothing is called right."""
    build(tmp_path, FORMAT)
    for bitcode in tmp_path.glob(".*.bc"):
        bitcode.unlink()
    result = lint(tmp_path)
    assert result.returncode == 2
    assert "is gone; build it anew" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("compiler", ["clang-14", "clang-15", "clang-16"])
def test_bitcode_of_another_llvm(compiler: str, tmp_path: Path) -> None:
    """An older one's is read, or refused in one line."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    (tmp_path / "a.c").write_text(FORMAT)
    made = run(
        compiler, "-w", "-O1", "-g", "-c", "-emit-llvm", "a.c", "-o", "a.bc", folder=tmp_path
    )
    assert made.returncode == 0, made.stderr
    result = run(BIN / "strata", "lint", "a.bc", folder=tmp_path)
    assert result.returncode == 1, result.stderr
    assert "a.c:5: taint" in result.stdout


def test_what_was_not_followed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the bounds on the work are reached: a line each, and the status is that of findings."""
    build(tmp_path, FORMAT)
    found = {"findings": [], "lines": 2, "functions": 1, "given_up": 3, "coarse": True}
    fake = tmp_path / "engine"
    fake.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(found)}\nEND\n")
    fake.chmod(0o755)
    monkeypatch.setenv("STRATA_LINT_ENGINE", str(fake))
    result = lint(tmp_path)
    assert result.returncode == 0, result.stderr
    assert "3 paths were too long to follow" in result.stderr
    assert "too many pointers to tell where each leads" in result.stderr
