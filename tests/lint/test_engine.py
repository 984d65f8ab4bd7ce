"""strata-lint-engine by itself, on bitcode: random programs against brute force, errors as programs
have them, right code that looks wrong. tests/mutants/lint.toml runs this file for each mutant."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from blackbox import ROOT, missing

ENGINE = Path(os.environ.get("STRATA_LINT_ENGINE") or ROOT / "build/bin/strata-lint-engine")
HERE = Path(__file__).resolve().parent
KINDS = ("taint", "heap", "file", "lock")
HEAD = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
MORE = HEAD + "#include <fcntl.h>\n#include <pthread.h>\n#include <stdarg.h>\n#include <unistd.h>\n"
OPTIONS = ["-w", "-O1", "-Xclang", "-disable-llvm-passes", "-g", "-emit-llvm", "-c"]


@pytest.fixture(autouse=True, scope="module")
def _engine() -> None:
    if not ENGINE.exists():
        missing("no engine; `make analyzer` builds it")


def analysis(
    source: Path,
    kinds: Iterable[str] = KINDS,
    folder: Path | None = None,
    options: Iterable[str] = (),
) -> dict[str, Any]:
    """What the engine says of one source; its bitcode goes into the folder, or beside it."""
    clang = ["clang-19", "-D_GNU_SOURCE"] if source.suffix == ".c" else ["clang++-19"]
    bitcode = (folder or source.parent) / "a.bc"
    subprocess.run([*clang, *OPTIONS, source, "-o", bitcode], check=True)
    words = [w for k in kinds for w in ("--property", ROOT / f"lint/properties/{k}.prop")]
    words += options
    done = subprocess.run(
        [ENGINE, *words, bitcode], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def findings(
    source: Path, kinds: Iterable[str] = KINDS, folder: Path | None = None, possible: bool = False
) -> list[dict[str, Any]]:
    """Those that are sure, or those that are possible only."""
    found = analysis(source, kinds, folder)
    assert found["given_up"] == 0
    return [f for f in found["findings"] if f["possible"] == possible]


@dataclass(frozen=True)
class Language:
    """Statements about two variables, `{0}` and `{1}` in a text, and what each does to them.

    `run` changes their states, a list that begins as `first`, and says whether it goes wrong.
    """

    kind: str
    begin: str  # of the file
    locals: str
    texts: Mapping[str, str]
    first: Callable[[], list[Any]]
    run: Callable[[str, int, list[Any]], bool]


@dataclass
class Random:
    """A random program in a language, each statement behind a choice of the caller's or none."""

    language: Language
    shape: list[tuple[str, int, int]]

    @staticmethod
    def draw(language: Language, rng: random.Random) -> Random:
        names = list(language.texts)
        shape = [
            (rng.choice(names), rng.randrange(2), rng.randrange(-2, 4))
            for _ in range(rng.randrange(3, 9))
        ]
        return Random(language, shape)

    def text(self, name: str) -> str:
        lines = [f"void {name}(int c0, int c1) {{ {self.language.locals}"]
        for what, which, choice in self.shape:
            code = self.language.texts[what].format("xy"[which], "yx"[which])
            if choice >= 0:
                code = f"if ({'' if choice % 2 else '!'}c{choice // 2}) {{ {code} }}"
            lines.append(code)
        return "\n".join([*lines, "}"])

    def goes_wrong(self, choices: tuple[int, int]) -> bool:
        states = self.language.first()
        for what, which, choice in self.shape:
            if choice >= 0 and bool(choices[choice // 2]) != bool(choice % 2):
                continue
            if self.language.run(what, which, states):
                return True
        return False

    def is_wrong(self) -> bool:
        return any(self.goes_wrong((a, b)) for a in (0, 1) for b in (0, 1))


class Block:
    """What malloc gave."""

    freed = False


def heap(what: str, which: int, v: list[Any]) -> bool:
    """v: x, y, and what the record and the global variable hold."""
    if what == "swap":
        v[0], v[1] = v[1], v[0]
    elif what == "fresh":
        v[which] = Block()
    elif what in ("keep", "publish"):
        v[2 if what == "keep" else 3] = v[which]
    elif what in ("take", "fetch"):
        v[which] = v[2 if what == "take" else 3] or v[which]
    elif what in ("same", "spare"):
        pass
    elif v[which].freed:
        return True
    elif what in ("free", "release", "give", "deep"):
        v[which].freed = True
    return False


HEAP = Language(
    "heap",
    """struct s { int n; char *p; };
    static char *shared;
    void release(char *p) { free(p); }
    void touch(char *p) { p[1] = 2; }
    void perhaps(char *p, int really) { if (really) free(p); }
    char *same(char *p) { return p; }
    void hold(struct s *s, char *p) { s->n = 1; s->p = p; }
    void deep(int n, char *p) { if (n == 0) { free(p); return; } deep(n - 1, p); }
    void (*const table[])(char *) = {release};
    """,
    "struct s s = {0}; shared = 0;char *x = malloc(8), *y = malloc(8); if (!x || !y) exit(1);",
    {
        "free": "free({0});",
        "use": "{0}[1] = 1;",
        "swap": "{{ char *t = x; x = y; y = t; }}",
        "fresh": "{0} = malloc(8); if (!{0}) exit(1);",
        "release": "table[0]({0});",
        "give": "perhaps({0}, 1);",
        "spare": "perhaps({0}, 0);",
        "deep": "deep(2, {0});",
        "touch": "touch({0});",
        "same": "{0} = same({0});",
        "keep": "hold(&s, {0});",
        "take": "if (s.p) {0} = s.p;",
        "publish": "shared = {0};",
        "fetch": "if (shared) {0} = shared;",
    },
    lambda: [Block(), Block(), None, None],
    heap,
)


def taint(what: str, which: int, v: list[Any]) -> bool:
    """v: whether x and y hold what came from outside."""
    if what in ("read", "get"):
        v[which] = True
    elif what in ("copy", "print", "move"):
        v[which] = v[1 - which]
    elif what == "append":
        v[which] |= v[1 - which]
    elif what in ("clear", "number", "cut"):
        v[which] = False
    else:
        return bool(v[which])
    return False


TAINT = Language(
    "taint",
    """void say(const char *f, ...) { va_list l; va_start(l, f); vprintf(f, l); va_end(l); }
    void one(const char *s) { puts(s); }
    """,
    'char x[64] = "x", y[64] = "y";',
    {
        "read": "if (!fgets({0}, 64, stdin)) exit(1);",
        "get": "if (read(0, {0}, 63) <= 0) exit(1);",
        "copy": "strcpy({0}, {1});",
        "print": 'snprintf({0}, 64, "%s", {1});',
        "append": "strcat({0}, {1});",
        "number": 'snprintf({0}, 64, "%d", c0);',
        "clear": "memset({0}, 0, 64);",
        "cut": "{0}[0] = 0;",
        "format": "printf({0});",
        "say": "say({0}, 1);",
    },
    lambda: [False, False],
    taint,
)


def lock(what: str, which: int, v: list[Any]) -> bool:
    """v: whether x and y are locked; None once they were given back."""
    if what in ("lock", "take"):
        if v[which]:
            return True
        v[which] = True
    elif what in ("unlock", "give"):
        if v[which] is None:
            return True
        v[which] = None
    return False


LOCK = Language(
    "lock",
    """void take(pthread_mutex_t *m) { pthread_mutex_lock(m); }
    void give(pthread_mutex_t *m) { pthread_mutex_unlock(m); }
    """,
    "pthread_mutex_t a, b, *x = &a, *y = &b; pthread_mutex_init(x, 0); pthread_mutex_init(y, 0);",
    {
        "lock": "pthread_mutex_lock({0});",
        "take": "take({0});",
        "unlock": "pthread_mutex_unlock({0});",
        "give": "give({0});",
        "work": "getpid();",
    },
    lambda: [False, False],
    lock,
)


LANGUAGES = (HEAP, TAINT, LOCK)


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda x: x.kind)
def test_random_programs_against_brute_force(language: Language, tmp_path: Path) -> None:
    rng = random.Random(11)
    programs = {f"f{number}": Random.draw(language, rng) for number in range(300)}
    source = tmp_path / "a.c"
    calls = "\n".join(f"{name}(n & 1, n & 2);" for name in programs)
    bodies = [p.text(name) for name, p in programs.items()]
    main = f"int main(int n, char **v) {{ {calls} return 0; }}"
    source.write_text("\n".join([MORE, language.begin, *bodies, main]))
    told = set()
    for finding in findings(source, [language.kind]):
        if finding["message"] == "left locked":  # asks what others do as well
            continue
        told |= {step["function"] for step in finding["steps"]} & programs.keys()
    wrong = {name for name, p in programs.items() if p.is_wrong()}
    assert 50 < len(wrong) < 250
    false, missed = sorted(told - wrong), sorted(wrong - told)
    assert not false, programs[false[0]].text(false[0])
    # Two names that meet in a callee alone may part (docs/lint.md); a lock that was given back may
    # be taken by a function that is called and takes any.
    few = len(wrong) // (30 if language.kind == "lock" else 100)
    assert len(missed) <= few, programs[missed[0]].text(missed[0])


PROGRAMS = sorted((HERE / "programs").glob("*.c*"))


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda p: p.stem)
def test_errors_as_programs_have_them(source: Path, tmp_path: Path) -> None:
    """Wrappers, callbacks, error paths, loops, destructors: found, and nothing of another kind."""
    found = findings(source, folder=tmp_path)
    assert {f["property"] for f in found} == {source.stem.split("_")[0]}
    assert all(f["steps"][-1]["file"] == str(source) for f in found)


@pytest.mark.parametrize("source", sorted((HERE / "marked").glob("*.c*")), ids=lambda p: p.stem)
def test_the_lines_that_are_wrong(source: Path, tmp_path: Path) -> None:
    """Many functions in one file, wrong ones beside right ones."""
    lines = source.read_text().splitlines()
    found = {f["steps"][-1]["line"]: f["message"] for f in findings(source, folder=tmp_path)}
    assert sorted(found) == [n for n, line in enumerate(lines, 1) if line.endswith("// wrong")]


RIGHT = {
    "a lock that was not taken": "static pthread_rwlock_t l; int f(int n) {\n"
    "if (pthread_rwlock_wrlock(&l) != 0) return -1; n += getpid(); if (n == 7) n = 0;\n"
    "pthread_rwlock_unlock(&l); return n; }",
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
    source = tmp_path / "a.c"
    source.write_text(MORE + text)
    assert findings(source) == []


@pytest.mark.parametrize("source", sorted((HERE / "right").glob("*.c*")), ids=lambda p: p.stem)
def test_says_nothing_of_right_programs(source: Path, tmp_path: Path) -> None:
    assert findings(source, folder=tmp_path) == []


def linked(folder: Path, *sources: Path) -> list[dict[str, Any]]:
    """What the engine says of heap memory in the parts of one program, possible or not."""
    parts = []
    for source in sources:
        parts.append(folder / f"{source.stem}.bc")
        subprocess.run(["clang-19", *OPTIONS, source, "-o", parts[-1]], check=True)
    heap = ROOT / "lint/properties/heap.prop"
    done = subprocess.run([ENGINE, "--property", heap, *parts], capture_output=True, check=True)
    return list(json.loads(done.stdout)["findings"])


def test_a_union_is_one_after_linking(tmp_path: Path) -> None:
    """LLVM's linker takes a union of pointers for a record of another part that has one; another
    record of that name says nothing of it."""
    other = tmp_path / "other.c"
    other.write_text(
        "struct box { void *p; };\nvoid *unbox(struct box *b) { return b->p; }\n"
        "struct node { long k[3]; };\nlong first(struct node *n) { return n->k[0]; }\n"
    )
    found = linked(tmp_path, other, HERE / "right/members_of_a_union.c")
    assert [f["possible"] for f in found] == [True]


@pytest.mark.parametrize("first", ["long k;", "int n, m;"], ids=["another", "alike"])
def test_two_records_of_one_name_are_two(first: str, tmp_path: Path) -> None:
    """That another part has a union in its record of that name says nothing of this one."""
    other, source = tmp_path / "other.c", tmp_path / "source.c"
    other.write_text(
        f"struct node {{ {first} union {{ char *s; int *t; }} u; }};\n"
        "char *text(struct node *n) { return n->u.s; }\n"
    )
    source.write_text(
        HEAD + "struct node { int n, m; char *s; };\n"
        "static void drop(struct node *x) { if (x->n) free(x->s); if (x->m) free(x->s); }\n"
        "int main(int n, char **v) { struct node x = {n, n > 1, strdup(v[0])};\n"
        "drop(&x); return 0; }"
    )
    for parts in ((other, source), (source, other)):
        assert [f["possible"] for f in linked(tmp_path, *parts)] == [False]


POSSIBLE = sorted((HERE / "possible").glob("*.c*"))


@pytest.mark.parametrize("source", POSSIBLE, ids=lambda p: p.stem)
def test_what_hangs_on_a_loop_is_possible_only(source: Path, tmp_path: Path) -> None:
    """Wrong only if a loop leaves something as it is, or is not gone into."""
    assert findings(source, folder=tmp_path) == []
    found = findings(source, folder=tmp_path, possible=True)
    assert {f["property"] for f in found} == {source.stem.split("_")[0]}


@pytest.mark.parametrize(
    ("between", "sure"),
    [
        ("t[0] = 0;", False),
        ('snprintf(t, 8, "%d", n);', False),
        ("memset(t, 0, n & 7);", False),
        ("put(&number(n)->n, n);", False),
        ("s->flags = n;", True),
        ("pick(n + 1)->flags = n;", True),
        ("turn(s);", True),
        ("(void)!read(0, s, sizeof *s);", True),
    ],
)
def test_a_pointer_that_may_lead_anywhere_changes_nothing_for_sure(
    between: str, sure: bool, tmp_path: Path
) -> None:
    """Where two questions differ, text or another record's number was written to an unknown place;
    or the very field was, or the record by the same pointer."""
    source = tmp_path / "a.c"
    count = range(600)  # more than a pointer's targets are told apart
    each = "".join(
        f"static struct s s{i}; static struct m m{i}; static char t{i}[8];\n" for i in count
    )
    tables = "".join(
        f"static {kind} *{name}s[600] = {{{', '.join(f'{sign}{letter}{i}' for i in count)}}};\n"
        f"static {kind} *{name}(int i) {{ return {name}s[i % 600]; }}\n"
        for kind, name, sign, letter in (
            ("struct s", "pick", "&", "s"),
            ("struct m", "number", "&", "m"),
            ("char", "text", "", "t"),
        )
    )
    source.write_text(
        MORE
        + "struct s { int flags, n; }; struct m { int k, n; };\n"
        + each
        + tables
        + "static void turn(struct s *s) { s->flags ^= 1; }\n"
        "static void put(int *at, int n) { *at = n; }\n"
        "int run(int n, char **v) { struct s *s = pick(n); char *t = text(n); FILE *f = 0;\n"
        'if (s->flags & 1) { f = fopen(v[0], "r"); if (!f) return 1; }\n'
        f"{between}\nif (s->flags & 1) fclose(f); return puts(t); }}\n"
        "int main(int n, char **v) { return run(n, v); }"
    )
    (found,) = analysis(source, ["file"])["findings"]
    assert found["message"] == "never closed"
    assert found["possible"] != sure


def test_work_is_bounded_by_the_lines_of_a_program(tmp_path: Path) -> None:
    """Once the steps for its lines are spent, a long way is not followed to its end, which is said;
    what lies near its beginning is found."""
    source = tmp_path / "a.c"
    far = "".join(f"if (n == {i}) putchar(n + {i});\n" for i in range(500))
    source.write_text(
        HEAD + "void a(void) { char *p = malloc(8); if (p) *p = 1; free(p); }\n"
        f"void b(int n) {{ char *p = malloc(8); if (!p) return;\n{far.replace('r(n', 'r(*p')}"
        "free(p); free(p); }\n"
        f"void d(int n) {{ char *p = malloc(8); if (!p) return; free(p);\n{far} free(p); }}\n"
        "void c(void) { char *p = malloc(8); free(p); free(p); }\n"
        "int main(int n, char **v) { a(); b(n); c(); d(n); return 0; }"
    )
    whole = analysis(source, ["heap"])
    bounded = analysis(source, ["heap"], options=["--work", "0"])
    assert whole["given_up"] == 0
    assert bounded["given_up"] > 0
    for found in (whole, bounded):
        assert "c" in {f["steps"][-1]["function"] for f in found["findings"]}


def test_what_is_found_hangs_on_no_order(tmp_path: Path) -> None:
    """Of two that open a file one leaks and one may not: the same, whoever comes first."""
    head = (
        HEAD + "static void perhaps(FILE *f, int really) { if (really) fclose(f); }\n"
        "static void put(FILE *f, int really) { perhaps(f, really); }\n"
    )
    never = 'void never(void) { FILE *f = fopen("a", "r"); if (f) put(f, 0); }\n'
    may = 'void may(int n) { FILE *f = fopen("b", "r"); if (f) put(f, n); }\n'
    for number, text in enumerate((never + may, may + never)):
        source = tmp_path / f"{number}.c"
        source.write_text(head + text)
        assert [f["steps"][0]["function"] for f in findings(source, ["file"])] == ["never"]


def test_constants_are_followed_for_a_bounded_time(tmp_path: Path) -> None:
    """Each function passes a row of constants on to the next, so that there are millions."""
    source = tmp_path / "a.c"
    rows, levels = 40, 7
    text = "static int f0(int a, int b, int c, int d) { return a + b + c + d; }\n"
    for level in range(1, levels):
        calls = "".join(f"r += f{level - 1}({i}, a, b, c);" for i in range(rows))
        text += f"static int f{level}(int a, int b, int c, int d) {{\n"
        text += f"int r = d; {calls} return r; }}\n"
    source.write_text(
        HEAD + text + f"int main(int n, char **v) {{ char *p = malloc(8); free(p);\n"
        f"if (f{levels - 1}(1, 2, 3, 4) == n) free(p); return 0; }}"
    )
    assert [f["steps"][-1]["function"] for f in findings(source, ["heap"])] == ["main"]


@pytest.mark.parametrize("number", ["abc", "", "12x", "-1", "99999999999999999999999"])
def test_work_that_is_no_number_is_refused(number: str, tmp_path: Path) -> None:
    property_file, bitcode = ROOT / "lint/properties/heap.prop", tmp_path / "a.bc"
    words: list[str | Path] = [ENGINE, "--work", number, "--property", property_file, bitcode]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"strata-lint-engine: --work takes a number of steps, not '{number}'\n"
