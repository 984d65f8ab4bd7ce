"""strata lint on small programs: from the wrapper to findings, random programs against brute force,
bad input, baselines, suppressions, SARIF.

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
import random
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


def test_own_property_of_the_documentation(tmp_path: Path) -> None:
    page = (ROOT / "docs/lint.md").read_text()
    prop, program = re.findall(r"```(?:text|c)\n(.*?)```", page, re.S)[:2]
    (tmp_path / "session.prop").write_text(prop)
    build(tmp_path, program)
    result = lint(tmp_path, "--property", "session.prop")
    assert result.returncode == 1, result.stderr
    assert "sent after its end" in result.stdout


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


def random_program(rng: random.Random) -> tuple[str, bool]:
    """Statements over two pointers behind choices; whether some choice goes wrong."""
    shape = [
        (rng.choice(["free", "use", "swap", "fresh"]), rng.randrange(2), rng.randrange(-2, 4))
        for _ in range(rng.randrange(3, 8))
    ]
    lines = ["void f(int c0, int c1) { char *p[2]; char *x = malloc(8), *y = malloc(8);"]
    lines.append("if (!x || !y) exit(1);")
    for what, which, choice in shape:
        name = "xy"[which]
        code = {
            "free": f"free({name});",
            "use": f"{name}[1] = 1;",
            "swap": "{ char *t = x; x = y; y = t; }",
            "fresh": f"{name} = malloc(8); if (!{name}) exit(1);",
        }[what]
        if choice >= 0:
            code = f"if ({'' if choice % 2 else '!'}c{choice // 2}) {{ {code} }}"
        lines.append(code)
    lines.append("}\nint main(int n, char **v) { f(n & 1, n & 2); return 0; }")
    wrong = any(goes_wrong(shape, (a, b)) for a in (0, 1) for b in (0, 1))
    return HEAD + "\n".join(lines), wrong


def goes_wrong(shape: list[tuple[str, int, int]], choices: tuple[int, int]) -> bool:
    names, freed, count = [0, 1], set(), 2
    for what, which, choice in shape:
        if choice >= 0 and bool(choices[choice // 2]) != bool(choice % 2):
            continue
        if what == "swap":
            names.reverse()
        elif what == "fresh":
            names[which] = count
            count += 1
        elif names[which] in freed:
            return True
        elif what == "free":
            freed.add(names[which])
    return False


def test_random_programs_against_brute_force(tmp_path: Path) -> None:
    rng = random.Random(11)
    for number in range(60):
        text, wrong = random_program(rng)
        source, bitcode = tmp_path / f"{number}.c", tmp_path / f"{number}.bc"
        source.write_text(text)
        clang = ["clang-19", "-w", "-O1", "-Xclang", "-disable-llvm-passes", "-g", "-emit-llvm"]
        subprocess.run([*clang, "-c", source, "-o", bitcode], check=True)
        heap = ROOT / "lint/properties/heap.prop"
        done = run(ENGINE, "--property", heap, bitcode, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert bool(json.loads(done.stdout)["findings"]) == wrong, text


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
@pytest.mark.parametrize("steps", ["at once", "apart"])
def test_link_time_optimisation(compiler: str, steps: str, tmp_path: Path) -> None:
    """Objects of -flto are no ELF files, or their sections get lost at the link."""
    if any(shutil.which(word) is None for word in compiler.split()):
        missing(f"no {compiler}")
    for name, text in TWO.items():
        (tmp_path / name).write_text(text)
    cc: list[str | Path] = ["env", f"STRATA_LINT_CC={compiler}", f"CCACHE_DIR={tmp_path / 'cache'}"]
    cc += [BIN / "strata-cc", "-w", "-flto"]
    if steps == "apart":
        assert run(*cc, "-c", "a.c", "b.c", folder=tmp_path).returncode == 0
        made = run(*cc, "a.o", "b.o", "-o", "p", folder=tmp_path)
    else:
        made = run(*cc, "a.c", "b.c", "-o", "p", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    result = run(BIN / "strata", "lint", "p", folder=tmp_path)
    assert "b.c:4: taint" in result.stdout, result.stderr
    assert "a.c:5: in main: tainted by fgets" in result.stdout


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


PROGRAMS = sorted((ROOT / "tests/lint/programs").glob("*.c*"))


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda p: p.stem)
def test_errors_as_programs_have_them(source: Path, tmp_path: Path) -> None:
    """Wrappers, callbacks, error paths, loops, destructors: found, and nothing of another kind."""
    bitcode = tmp_path / "a.bc"
    clang = ["clang++-19", "-w", "-O1", "-Xclang", "-disable-llvm-passes", "-g", "-emit-llvm"]
    if source.suffix == ".c":
        clang = ["clang-19", "-D_GNU_SOURCE", *clang[1:]]
    subprocess.run([*clang, "-c", source, "-o", bitcode], check=True)
    kinds = [w for k in ("taint", "heap", "file", "lock") for w in ("--property", f"{k}.prop")]
    done = run(ENGINE, *kinds, bitcode, folder=ROOT / "lint/properties")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["findings"]
    assert {f["property"] for f in found} == {source.stem.split("_")[0]}
    assert all(f["steps"][-1]["file"] == str(source) for f in found)


RIGHT = {
    "a scope that is left by goto": 'int f(const char *n) { FILE *s = fopen(n, "r"); int r = -1;\n'
    "if (!s) return -1; { int fd = fileno(s); char b[9]; if (fd < 0) goto out;\n"
    "if (!fgets(b, 9, s)) goto out; r = b[0]; } out: fclose(s); return r; }",
    "not one of libc's streams": 'int f(const char *n) { FILE *s = n ? fopen(n, "r") : stdin;\n'
    "if (!s) return 1; int r = fgetc(s); if (s != stdin) fclose(s); return r; }",
    "fdopen takes it over": "FILE *f(const char *n) { int d = open(n, 0); if (d < 0) return 0;\n"
    'FILE *s = fdopen(d, "r"); if (!s) close(d); return s; }',
    "a flag says so": "struct s { pthread_mutex_t m; int in; void (*cb)(struct s *); };\n"
    "static void send(struct s *s) { if (s->in) return; pthread_mutex_lock(&s->m);\n"
    "pthread_mutex_unlock(&s->m); } static struct s one = {.cb = send};\n"
    "int f(void) { pthread_mutex_lock(&one.m); one.in = 1; one.cb(&one); one.in = 0;\n"
    "pthread_mutex_unlock(&one.m); return 0; }",
    "a queue of a library's caller": "struct p { struct p *next; char *b; };\n"
    "struct q { struct p *out, *now; }; void f(struct q *q) { struct p *p;\n"
    "while (q->now) { p = q->now; q->now = q->out; if (q->out) q->out = q->out->next;\n"
    "free(p->b); free(p); } }",
    "a record copied over it": "struct m { char *s; char *e; }; int f(int n) { struct m a, b;\n"
    "a.s = malloc(4); if (!a.s) return 1; free(a.s); b.s = malloc(8); if (!b.s) return 1;\n"
    "b.e = b.s; a = b; a.s[0] = 1; free(a.s); return n; }",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_says_nothing_of_right_code(text: str, tmp_path: Path) -> None:
    head = HEAD + "#include <fcntl.h>\n#include <pthread.h>\n#include <unistd.h>\n"
    (tmp_path / "a.c").write_text(head + text)
    clang = ["clang-19", "-w", "-O1", "-Xclang", "-disable-llvm-passes", "-g", "-emit-llvm"]
    subprocess.run([*clang, "-c", tmp_path / "a.c", "-o", tmp_path / "a.bc"], check=True)
    kinds = [w for k in ("taint", "heap", "file", "lock") for w in ("--property", f"{k}.prop")]
    done = run(ENGINE, *kinds, tmp_path / "a.bc", folder=ROOT / "lint/properties")
    assert json.loads(done.stdout)["findings"] == []
