"""strata-cc builds whatever its compiler builds, and keeps the bitcode of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from blackbox import ROOT, missing
from strata.lint.words import UNWANTED, of_meaning

BIN = ROOT / ".venv/bin"
ONE = "int b(void); int main(void) { return b(); }\n"
TWO = "int b(void) { return 0; }\n"
FAST = "#ifndef __OPTIMIZE__\n#error no -O\n#endif\n" + TWO
AVX = "#ifndef __AVX2__\n#error no AVX2\n#endif\n" + TWO
SET = "#ifndef SET\n#error not set\n#endif\n" + TWO


@pytest.fixture(autouse=True, scope="module")
def _compiler() -> None:
    for tool in ("clang-19", "objcopy"):
        if shutil.which(tool) is None:
            missing(f"no {tool}")


def cc(
    folder: Path, *words: str, compiler: str = "", path: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"STRATA_LINT_CC": compiler} if compiler else {})
    if path:
        environment["PATH"] = f"{folder / path}:{environment['PATH']}"
    return subprocess.run(
        [str(BIN / "strata-cc"), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def script(file: Path, text: str) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


def has_lld() -> bool:
    return any(map(shutil.which, ("ld.lld", "ld.lld-19")))


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(".*.bc"))


@pytest.mark.parametrize(
    ("text", "words", "compiler"),
    [
        pytest.param(AVX, "-march=haswell", "", id="machine"),
        pytest.param(AVX, "-march=haswell -mtune=intel", "gcc", id="gcc's machine"),
        pytest.param(TWO, "-fno-ipa-sra --param=max-inline-insns-auto=4", "gcc", id="gcc's option"),
        pytest.param(TWO, "-fno-ipa-sra -mtune=intel", "gcc", id="gcc's, named one by one"),
        pytest.param(SET, "-Wp,-DSET", "", id="preprocessor"),
        pytest.param(SET, "-Wp,-MMD,b.d -Wp,-DSET,-U_FORTIFY_SOURCE", "", id="dependencies"),
        pytest.param(TWO, "-Wp,-D_FORTIFY_SOURCE=2 -O2", "", id="fortified"),
        pytest.param(SET, "-DSET -xc -xnone", "", id="language joined"),
    ],
)
def test_options_that_the_meaning_hangs_on(
    text: str, words: str, compiler: str, tmp_path: Path
) -> None:
    if "-m" in words and os.uname().machine != "x86_64":
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
    if "lld" in words and not has_lld():
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


@pytest.mark.parametrize(
    "words",
    [
        "-x c -c <(cat b.c)",
        "-x c -c /dev/fd/7 7<b.c",
        "-x c -c /dev/stdin <b.c",
        "-include <(echo) -c b.c",
        "@<(echo -x c -c b.c)",
        "-x c -c fifo & cat b.c >fifo; wait $!",
    ],
)
def test_a_source_that_cannot_be_read_twice_is_the_compilers_alone(
    words: str, tmp_path: Path
) -> None:
    (tmp_path / "b.c").write_text(TWO)
    os.mkfifo(tmp_path / "fifo")
    line = f"{BIN / 'strata-cc'} -o f.o {words}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=20
    )
    assert (done.returncode, done.stderr) == (0, "")
    symbols = subprocess.run(["nm", "f.o"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert b" T b\n" in symbols
    assert kept(tmp_path) == []


def test_descriptors_reach_the_compiler(tmp_path: Path) -> None:
    """make's job server, for one."""
    (tmp_path / "b.c").write_text(TWO)
    script(tmp_path / "compiler", '#!/bin/sh\necho >&7 && exec clang-19 "$@"\n')
    line = f"STRATA_LINT_CC=./compiler {BIN / 'strata-cc'} -c b.c 7>said"
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
    assert (tmp_path / "said").read_text() == "\n"
    assert kept(tmp_path) == [".b.o.bc"]


@pytest.mark.parametrize(
    ("words", "bitcode"),
    [
        ("-MJ c.json -c b.c", ".b.o.bc"),
        ("-c b.c --serialize-diagnostics d.dia", ".b.o.bc"),
        ("-F include -c b.c", ".b.o.bc"),
        ("-ftime-trace -c b.c", ".b.o.bc"),
        ("-fsave-optimization-record -c b.c", ".b.o.bc"),
        ("-v --compile b.c --output=q.o", ".q.o.bc"),
        ("--language=c b.c --output q -shared --save-temps", ".q-0-b.o.bc"),
        ("--preprocess b.c", ""),
        ("--analyze b.c", ""),
    ],
)
def test_options_with_values_and_long_ones(words: str, bitcode: str, tmp_path: Path) -> None:
    """The compiler's files are all there is, and none of our options is taken for a value."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
        (folder / "b.c").write_text(FAST)
    plain = ["clang-19", "-O2", *words.split()]
    subprocess.run(plain, cwd=theirs, capture_output=True, check=True)
    done = cc(ours, "-O2", *words.split())
    assert done.returncode == 0
    assert "no bitcode" not in done.stderr
    expected = {path.name for path in theirs.iterdir()} | ({bitcode} if bitcode else set())
    assert {path.name for path in ours.iterdir()} == expected


@pytest.mark.parametrize(
    "words",
    [
        "-Xclang -dependency-file -Xclang d.d",
        "-Xclang -serialize-diagnostic-file -Xclang d.dia",
        "-foptimization-record-file=r --save-temps=obj",
        "-D _FORTIFY_SOURCE=2 -l m",
    ],
)
def test_what_is_the_objects_alone_is_written_once(words: str) -> None:
    assert of_meaning([*words.split(), "-D", "SET"], UNWANTED, ()) == ["-D", "SET"]


def test_an_object_keeps_what_the_linker_folds_by(tmp_path: Path) -> None:
    if shutil.which("llvm-objcopy-19") is None or not has_lld():
        missing("no llvm-objcopy-19 or no lld")
    (tmp_path / "a.c").write_text(ONE + TWO)
    link = ["-fuse-ld=lld", "-Wl,--icf=safe", "-Wl,--fatal-warnings", "a.o"]
    for words in (["-O2", "-ffunction-sections", "-c", "a.c"], link):
        done = cc(tmp_path, *words)
        assert (done.returncode, done.stderr) == (0, "")
    assert b".a.o.bc" in (tmp_path / "a.out").read_bytes()


@pytest.mark.parametrize("text", ["#!/bin/sh\nfor f; do :; done; echo >$f; exit 1\n", "#!/none\n"])
def test_an_object_stays_whole_without_its_section(text: str, tmp_path: Path) -> None:
    for tool in ("objcopy", "llvm-objcopy-19"):
        script(tmp_path / "bin" / tool, text)
    for name in ("a", "b"):
        (tmp_path / f"{name}.c").write_text(TWO)
    done = cc(tmp_path, "-c", "a.c", "b.c", path="bin")
    assert done.returncode == 0
    assert "strata-cc: no bitcode" in done.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["a.c", "a.o", "b.c", "b.o", "bin"]
    assert (tmp_path / "a.o").read_bytes().startswith(b"\x7fELF")


def test_a_failed_compilation_leaves_nothing(tmp_path: Path) -> None:
    """Not even the file that clang writes before it renames it."""
    os.mkfifo(tmp_path / "fifo")  # holds clang up
    (tmp_path / "b.c").write_text('#include "fifo"\n')
    wait = "until ls .b.o-*.tmp; do sleep 0.02; done"
    compiler = script(tmp_path / "compiler", f"#!/bin/sh\n{wait}\nkill -SEGV $$\n")
    assert cc(tmp_path, "-c", "b.c", compiler=compiler).returncode == 128 + signal.SIGSEGV
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.c", "compiler", "fifo"]


def test_a_signal_ends_the_compiler_too(tmp_path: Path) -> None:
    (tmp_path / "b.c").write_text(TWO)
    pid = tmp_path / "pid"
    compiler = script(tmp_path / "compiler", "#!/bin/sh\necho $$ >p; mv p pid; exec sleep 60\n")
    environment = os.environ | {"STRATA_LINT_CC": compiler}
    words = [str(BIN / "strata-cc"), "-c", "b.c"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment) as build:
        while not pid.exists() and build.poll() is None:
            time.sleep(0.01)
        build.terminate()
        assert build.wait() == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert kept(tmp_path) == []


@pytest.mark.parametrize("folder", ["_CMakeLTOTest-C/src", "CMakeScratch/TryCompile-1"])
def test_a_probe_leaves_no_bitcode(folder: str, tmp_path: Path) -> None:
    place = tmp_path / "CMakeFiles" / folder
    place.mkdir(parents=True)
    (place / "b.c").write_text(TWO)
    assert cc(place, "-c", "b.c").returncode == 0
    assert sorted(path.name for path in place.iterdir()) == ["b.c", "b.o"]
