"""strata-cc builds whatever its compiler builds, and keeps the bitcode of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, missing

BIN = ROOT / ".venv/bin"
ONE = "int b(void); int main(void) { return b(); }\n"
TWO = "int b(void) { return 0; }\n"
AVX = "#ifndef __AVX2__\n#error no AVX2\n#endif\n" + TWO
SET = "#ifndef SET\n#error not set\n#endif\n" + TWO


@pytest.fixture(autouse=True, scope="module")
def _compiler() -> None:
    for tool in ("clang-19", "objcopy"):
        if shutil.which(tool) is None:
            missing(f"no {tool}")


def cc(folder: Path, *words: str, compiler: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"STRATA_LINT_CC": compiler} if compiler else {})
    return subprocess.run(
        [str(BIN / "strata-cc"), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(".*.bc"))


@pytest.mark.parametrize(
    ("text", "words", "compiler"),
    [
        pytest.param(AVX, "-march=haswell", "", id="machine"),
        pytest.param(AVX, "-march=haswell -mtune=intel", "gcc", id="gcc's machine"),
        pytest.param(TWO, "-fno-ipa-sra --param=max-inline-insns-auto=4", "gcc", id="gcc's option"),
        pytest.param(SET, "-Wp,-DSET", "", id="preprocessor"),
        pytest.param(SET, "-Wp,-MMD,b.d -Wp,-DSET,-U_FORTIFY_SOURCE", "", id="dependencies"),
        pytest.param(TWO, "-Wp,-D_FORTIFY_SOURCE=2 -O2", "", id="fortified"),
        pytest.param(SET, "-DSET -xc -xnone", "", id="language joined"),
    ],
)
def test_options_that_the_meaning_hangs_on(
    text: str, words: str, compiler: str, tmp_path: Path
) -> None:
    if "march" in words and os.uname().machine != "x86_64":
        pytest.skip("x86-64's options")
    if compiler and shutil.which(compiler) is None:
        missing(f"no {compiler}")
    (tmp_path / "b.c").write_text(text)
    done = cc(tmp_path, *words.split(), "-c", "b.c", compiler=compiler)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "b.o").exists()
    assert kept(tmp_path) == [".b.o.bc"]
    assert (tmp_path / "b.d").exists() == ("-MMD" in words)


@pytest.mark.parametrize("steps", ["apart", "at once"])
def test_a_source_that_only_the_compiler_takes(steps: str, tmp_path: Path) -> None:
    """Nested functions are gcc's own: a line says it, and the build goes on."""
    if shutil.which("gcc") is None:
        missing("no gcc")
    (tmp_path / "a.c").write_text(
        "int main(void) { int f(void) { return 0; } return f(); } /*\xff*/"
    )
    words = ["-c", "a.c"] if steps == "apart" else ["a.c", "-o", "p"]
    done = cc(tmp_path, *words, compiler="gcc")
    assert done.returncode == 0
    assert (tmp_path / words[-1].replace(".c", ".o")).exists()
    assert done.stderr.startswith("strata-cc: no bitcode of a.c: ")
    assert len(done.stderr.splitlines()) == 1
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    "words",
    [
        "-shared -fPIC",
        "-rdynamic",
        "-no-pie -s",
        "-fuse-ld=lld",
        "-static-libgcc -rpath /x",
        "-r",
        "-x c -xnone",
        "-gsplit-dwarf --coverage",
    ],
)
def test_compile_and_link_at_once(words: str, tmp_path: Path) -> None:
    """All is left that the compiler makes, and the program names what it is made of."""
    if "lld" in words and shutil.which("ld.lld") is None and shutil.which("ld.lld-19") is None:
        missing("no lld")
    (tmp_path / "a.c").write_text(ONE)
    (tmp_path / "b.c").write_text(TWO)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    options = ["-Werror", "-MD", *words.split(), "../a.c", "../b.c", "-o", "p"]
    for folder in (theirs, ours):
        folder.mkdir()
    plain = subprocess.run(["clang-19", *options], cwd=theirs, capture_output=True, check=False)
    assert plain.returncode == 0, plain.stderr
    done = cc(ours, *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert kept(ours) == [".p-0-a.o.bc", ".p-1-b.o.bc"]
    made = sorted(path.name for path in ours.iterdir() if not path.name.startswith("."))
    assert made == sorted(path.name for path in theirs.iterdir())
    assert b".p-1-b.o.bc" in (ours / "p").read_bytes()
    if "-r" not in words.split() and "-shared" not in words:
        assert subprocess.run([ours / "p"], check=False).returncode == 0


@pytest.mark.parametrize("text", ["@words", "-DX 'unclosed"])
def test_a_file_of_words_is_the_compilers_to_refuse(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "words").write_text(text)
    plain = subprocess.run(
        ["clang-19", "@words", "-c", "a.c"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    done = cc(tmp_path, "@words", "-c", "a.c")
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)
