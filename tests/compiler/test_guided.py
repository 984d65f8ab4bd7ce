"""Plain structures that strata-cxx compiles: the same answers while objects move, and refusals."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, need

HERE = Path(__file__).resolve().parent


def wrapper(lab: Lab) -> Path:
    cxx = lab.require_strata().parent.parent / "bin/strata-cxx"
    if not cxx.exists():
        pytest.skip("built without the headers of clang 19")
    return cxx


def built(compiler: str | Path, target: Path, *flags: str) -> Path:
    command = [str(compiler), "-std=c++20", *flags, str(HERE / "treap.cpp"), "-o", str(target)]
    subprocess.run(command, check=True)
    return target


@pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O2", "-g")], ids="".join)
def test_same_answers(lab: Lab, flags: tuple[str, ...], tmp_path: Path) -> None:
    cxx = wrapper(lab)
    plain = built(need("clang++-19"), tmp_path / "plain", *flags)
    guided = built(cxx, tmp_path / "guided", "-DGUIDED", *flags)
    expected = lab.run(plain, preload=False).ok().stdout
    result = lab.run(guided, preload=False)
    assert result.returncode == 0, result.explain()
    assert result.stdout == expected
    moves = next(line for line in result.stderr.splitlines() if line.startswith("moves "))
    assert int(moves.split()[1]) > 1000
    outside = lab.run(guided, "outside", preload=False)
    assert outside.returncode == -signal.SIGABRT, outside.explain()
    assert "used outside of an operation" in outside.stderr


STRUCTURES = ("hash_table", "list", "treap", "trie")


@pytest.mark.parametrize("structure", STRUCTURES)
def test_as_dense_as_by_hand(lab: Lab, structure: str, tmp_path: Path) -> None:
    """Plain, compiled by strata-cxx, and with hot_ptr: the same answers; where nodes may move,
    the hot ones come to lie on pages that they fill, as well in one form as in the other."""
    source = str(HERE / f"structures/{structure}.cpp")
    library = lab.require_strata()
    forms = {
        "plain": [need("clang++-19")],
        "guided": [str(wrapper(lab)), "-DGUIDED"],
        "hand": [need("clang++-19"), "-DHAND", "-DNDEBUG", f"-I{ROOT / 'include'}", str(library)],
    }
    sums, used = {}, {}
    for form, words in forms.items():
        target = tmp_path / form
        rpath = f"-Wl,-rpath,{library.parent}"
        subprocess.run([*words, "-std=c++20", "-O2", source, rpath, "-o", str(target)], check=True)
        result = lab.run(target, preload=False)  # which may say that there is no swap
        assert result.returncode == 0, result.explain()
        sums[form], percent = result.stdout.split()
        used[form] = float(percent)
    assert len(set(sums.values())) == 1, sums
    assert abs(used["guided"] / used["hand"] - 1) < 0.1, used
    assert used["hand"] > 1.5 * used["plain"], used


REFUSED = {
    "union U { GUIDE N* p; };": "union",
    "N* f(T& t) { return t.p + 1; }": "arithmetic",
    "void f(T& t) { ++t.p; }": "arithmetic",
    "int f(T& t) { return t.p[1].v; }": "indexing",
    "N** f(T& t) { return &t.p; }": "address",
    "N*& f(T& t) { return t.p; }": "address",
    "long f(T& t) { return reinterpret_cast<long>(t.p); }": "reinterpretation",
    "T f(T& t) { return t; }": "copy",
    "void f(T& t, T& u) { t = u; }": "copy",
    "void f(T& t) { N*& r = t.p; r = nullptr; }": "address",
    "GUIDE N* v;": "variable",
    "N* f() { return new N[2]; }": "array",
    "struct S { std::string s; }; struct R { GUIDE S* p; }; S* f() { return new S; }": "bytes",
}


@pytest.mark.parametrize("line", REFUSED)
def test_refused(lab: Lab, line: str, tmp_path: Path) -> None:
    source = tmp_path / "refused.cpp"
    head = '#include <string>\n#define GUIDE [[clang::annotate("strata::guided")]]\n'
    source.write_text(
        f"{head}struct N {{ int v; }}; struct T {{ GUIDE N* p; }}; "
        f"N* g(T& t) {{ return t.p; }}\n{line}\n"
    )
    command = [str(wrapper(lab)), "-c", str(source), "-o", str(tmp_path / "o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"{source.name}:4:" in done.stderr and "error: strata: " in done.stderr, done.stderr
    assert REFUSED[line] in done.stderr, done.stderr


def test_example_of_the_page(lab: Lab, tmp_path: Path) -> None:
    page = (ROOT / "docs/compiler.md").read_text()
    source = tmp_path / "page.cpp"
    source.write_text(page.split("```cpp\n")[1].split("```")[0])
    command = [str(wrapper(lab)), "-O2", str(source), "-o", str(tmp_path / "page")]
    subprocess.run(command, check=True)
    lab.run(tmp_path / "page", preload=False).ok()
