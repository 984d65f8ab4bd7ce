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


def built(compiler: str | Path, target: Path, *flags: str, source: str = "treap") -> Path:
    command = [str(compiler), "-std=c++20", *flags, f"{HERE}/{source}.cpp", "-o", str(target)]
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


@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-fsanitize=undefined")], ids="".join)
def test_everyday_code(lab: Lab, flags: tuple[str, ...], tmp_path: Path) -> None:
    plain = built(need("clang++-19"), tmp_path / "plain", *flags, source="everyday")
    guided = built(wrapper(lab), tmp_path / "guided", "-DGUIDED", *flags, source="everyday")
    expected = lab.run(plain, preload=False).ok()
    result = lab.run(guided, preload=False)
    assert result.returncode == 0, result.explain()
    assert result.stdout == expected.stdout
    assert int(result.stderr.split("moves ")[1].split()[0]) > 1000, result.explain()


HEAD = """
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#define GUIDE [[clang::annotate("strata::guided")]]
struct N { int v; };
struct T { int k; GUIDE N* p; };
struct Own { int v; static void operator delete(void*); };
struct Text { std::string s; };
struct Used { GUIDE Own* own; GUIDE Text* text; };
struct Wide { long words[2]; };
inline N n0;
"""
REFUSED = {
    "union U { GUIDE N* p; };": "union",
    "union U { T t; int x; };": "union",
    "struct S { union { struct { GUIDE N* q; }; int x; }; };": "union",
    "template <class X> union E { X x; int y; }; int f(E<T>& e) { return e.y; }": "union",
    "N* f(T& t) { return t.p + 1; }": "arithmetic",
    "void f(T& t) { ++t.p; }": "arithmetic",
    "int f(T& t) { return t.p[1].v; }": "indexing",
    "N** f(T& t) { return &t.p; }": "address",
    "N*& f(T& t) { return t.p; }": "address",
    "void f(T& t) { N*& r = t.p; r = nullptr; }": "address",
    "struct S { N*& r; S(T& t) : r(t.p) {} };": "address",
    "struct R { N*& r; }; R f(T& t) { return {t.p}; }": "address",
    "void h(N*&); void f(T& t, T& u, bool c) { h(c ? t.p : u.p); }": "address",
    "void f(T& t, T& u, bool c, N* n) { (c ? t.p : u.p) = n; }": "address",
    "N** f(T& t) { auto& [k, p] = t; return &p; }": "address",
    "int f(T& t) { auto& [k, p] = t; return [&p] { return p->v; }(); }": "address",
    "N** f(T& t) { return [&](auto) { return &t.p; }(1); }": "address",
    "template <class X> auto a(X& x) { return &x.p; } N** f(T& t) { return a(t); }": "address",
    'void f(T& t) { asm("" : "=m"(t.p)); }': "address",
    "N* f(T& t) { return std::exchange(t.p, nullptr); }": "address",
    "N* f(T& t) { N* T::*m = &T::p; return t.*m; }": "member",
    "long f(T& t) { return reinterpret_cast<long>(t.p); }": "reinterpretation",
    "T f(T& t) { return t; }": "copy",
    "void f(T& t, T& u) { t = u; }": "copy",
    "int f(T& t) { return [t] { return t.k; }(); }": "copy",
    "Wide f(T& t) { return __builtin_bit_cast(Wide, t); }": "copy",
    "void f(T& t, T& u) { memcpy(&t, &u, sizeof t); }": "bytes",
    "void f(T* t) { std::memmove(t, (char*)(t + 1), sizeof *t); }": "bytes",
    "void* f(T* t) { return realloc(t, 99); }": "bytes",
    "void f(std::vector<T>& v) { v.push_back({1, nullptr}); }": "copy",
    "void f(T* t, T* u) { std::copy(t, t + 1, u); }": "copy",
    "bool l(const T& t, const T& u); void f(T* a, T* b) { std::sort(a, b, l); }": "value",
    "T f() { return {1, nullptr}; }": "value",
    "void f(T t);": "value",
    "N* f(std::initializer_list<T> l); N* h() { return f({{1, nullptr}}); }": "list",
    "const T t{1, &n0};": "constant",
    "struct __attribute__((packed)) P { char c; GUIDE N* p; };": "aligned",
    "GUIDE N* v;": "variable",
    "N* f() { return new N[2]; }": "array",
    "Text* f() { return new Text; }": "bytes",
    "Own* f() { return new Own; }": "operator",
}
ACCEPTED = """
N* f(T& t, T& u, bool c) { return c ? t.p : t.k ? u.p : nullptr; }
int f1(T& t) { return [r = t.p, &t] { return r == t.p ? r->v : 0; }(); }
void f2(T& t, T& u, N* n) { t.p = u.p = n; }
size_t f3(T& t) { return sizeof t.p + offsetof(T, p) + std::hash<N*>{}(t.p); }
struct Two { N *a, *b; }; Two f4(T& t) { return {t.p, t.p}; }
int f5(T& t) { auto& [k, p] = t; p = nullptr; return [p] { return p->v; }(); }
void f6(std::optional<T>& o) { o.emplace(1, nullptr); }
void f7(T& t) { memset(&t, 0, sizeof t); }
struct Same { GUIDE N* p; bool operator==(const Same&) const = default; };
bool f8(Same& a, Same& b) { return a == b; }
struct Twice { [[clang::annotate("strata::guided"), clang::annotate("mine")]] N* p; };
N* f9(Twice& t) { return t.p; }
"""


def test_refused(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "refused.cpp"
    spaces = [f"namespace n{i} {{ {line} }}" for i, line in enumerate(REFUSED)]
    source.write_text(HEAD + "\n".join(spaces) + "\n" + ACCEPTED)
    command = [str(wrapper(lab)), "-ferror-limit=0", "-c", str(source), "-o", str(tmp_path / "o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    for number, (line, word) in enumerate(REFUSED.items(), HEAD.count("\n") + 1):
        errors = [e for e in done.stderr.splitlines() if f"refused.cpp:{number}:" in e]
        assert any("error: strata: " in e and word in e for e in errors), line
    source.write_text(HEAD + ACCEPTED)
    subprocess.run(command, check=True)


def test_example_of_the_page(lab: Lab, tmp_path: Path) -> None:
    page = (ROOT / "docs/compiler.md").read_text()
    source = tmp_path / "page.cpp"
    source.write_text(page.split("```cpp\n")[1].split("```")[0])
    command = [str(wrapper(lab)), "-O2", str(source), "-o", str(tmp_path / "page")]
    subprocess.run(command, check=True)
    lab.run(tmp_path / "page", preload=False).ok()
