"""What `strata lint` finds of fifty errors that are put into real programs, what it says of right
code beside them and of the programs as they are. Writes docs/benchmarks/lint.md. Sources come from
crates that carry them, pinned, under build/lint; nothing of them is committed."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from strata.lint import engine
from strata.lint.finding import Finding, distinct
from strata.lint.units import find

from strata_bench import clang_analyzer
from strata_bench.groups import Group
from strata_bench.sources import SourceError, call

GROUP = Group("lint", "Errors found before they run", "", (), (), rounds=1)
SEEDS = Path(__file__).resolve().parent.parent / "lint" / "seeds.c.in"
PROPERTIES = ("taint", "heap", "file", "lock")
MANIFEST = """[package]
name = "sources"
version = "0.0.0"
edition = "2021"

[dependencies]
libsqlite3-sys = "=0.35.0"
lua-src = "=551.1.0"
libz-sys = "=1.1.31"
bzip2-sys = "=0.1.13"
"""
HEAD = "\n".join(
    f"#include <{name}.h>"
    for name in "stdio stdlib string stdarg unistd fcntl syslog pthread sys/socket".split()
)
TARGET_SECONDS, TARGET_MIB, TARGET_LINES = 420, 6144, 200_000
ABOUT = """Fifty errors (`bench/lint/seeds.c.in`) are put into five real programs, ten into each,
with code beside them that looks wrong and is right; a function of the program calls them. An error
counts as found if a finding of its property ends in its lines. Whatever else is said of the seeded
program and not of the clean one, and whatever is said of the right code, is a false alarm.
"""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Subject:
    """A program: where its sources are, which of them it is made of, who calls the seeds."""

    name: str
    kind: str
    folder: str  # below vendor/
    files: tuple[str, ...]  # globs
    without: tuple[str, ...]
    host: str  # the file that gets the calls
    anchor: str  # the calls come after this line of it
    flags: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


MAINS = {
    "sqlite": """#include "sqlite3.h"
#include <stdio.h>
int main(int argc, char **argv) {
  sqlite3 *db; char *e = 0;
  if (sqlite3_open(argc > 1 ? argv[1] : ":memory:", &db) == SQLITE_OK) {
    if (sqlite3_exec(db, "select 1", 0, 0, &e)) { printf("%s\\n", e); sqlite3_free(e); }
  }
  sqlite3_close(db);
  return 0;
}
""",
    "zlib": """#include "zlib.h"
#include <stdio.h>
int main(int argc, char **argv) {
  char b[512]; int n;
  if (argc < 3) return 2;
  gzFile in = gzopen(argv[1], "rb"), out = gzopen(argv[2], "wb");
  if (in && out) { while ((n = gzread(in, b, sizeof b)) > 0) gzwrite(out, b, (unsigned)n); }
  if (in) gzclose(in);
  if (out) gzclose(out);
  return 0;
}
""",
    "lua": """#include "lua.h"
#include "lauxlib.h"
#include "lualib.h"
#include <stdio.h>
int main(int argc, char **argv) {
  lua_State *l = luaL_newstate();
  if (!l) return 1;
  luaL_openlibs(l);
  if (argc > 1 && luaL_dofile(l, argv[1])) fprintf(stderr, "%s\\n", lua_tostring(l, -1));
  lua_close(l);
  return 0;
}
""",
}
MAIN, SEEDED = "strata_main.c", "strata_seeds.c"
SUBJECTS = (
    Subject("bzip2", "compressor, tool", "bzip2-sys/bzip2-1.0.8", ("*.c",),
            ("bzip2recover.c", "dlltest.c", "mk251.c", "spewG.c", "unzcrash.c"),
            "bzip2.c", r"^IntNative main "),
    Subject("zlib", "compressor, library", "libz-sys/src/zlib", ("*.c",), (), MAIN, "int main",
            ("-DZ_HAVE_UNISTD_H",)),
    Subject("lua", "interpreter", "lua-src/lua-5.4.9", ("*.c",), ("lua.c", "luac.c", "onelua.c"),
            MAIN, "int main", ("-DLUA_USE_LINUX",), ("-lm", "-ldl")),
    Subject("sqlite", "database", "libsqlite3-sys/sqlite3", ("sqlite3.c", MAIN), (), MAIN,
            "int main", (), ("-lm", "-ldl")),
    Subject("sqlcipher", "database, encrypted", "libsqlite3-sys/sqlcipher", ("sqlite3.c", MAIN), (),
            MAIN, "int main", (), ("-lm", "-ldl")),
)  # fmt: skip


@dataclass(frozen=True)
class Seed:
    number: int
    wrong: bool
    property: str
    what: str
    code: str


@dataclass
class Row:
    subject: Subject
    lines: int = 0
    functions: int = 0
    seconds: float = 0
    peak: float = 0
    found: dict[str, int] = field(default_factory=dict)
    seeded: dict[str, int] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    clean: list[Finding] = field(default_factory=list)
    given_up: int = 0
    planted: dict[int, Seed] = field(default_factory=dict)  # by line
    clang: dict[str, int] | None = None  # what clang's analyzer finds of the errors
    clang_seconds: float = 0
    clang_more: int = 0  # what it says beside them


def read_seeds() -> list[Seed]:
    out = []
    for number, part in enumerate(re.split(r"^//= ", SEEDS.read_text(), flags=re.M)[1:]):
        head, code = part.split("\n", 1)
        kind, name, what = head.split(" ", 2)
        out.append(Seed(number, kind == "bad", name, what, code))
    return out


def share(seeds: list[Seed], subjects: int) -> list[list[Seed]]:
    """Ten wrong ones for each program, all at least once, and all that is right beside them."""
    wrong = [s for s in seeds if s.wrong]
    others = [s for s in wrong if s.property != "taint"]
    wrong += others[: 10 * subjects - len(wrong)]
    right = [s for s in seeds if not s.wrong]
    dealt = [wrong[place::subjects] + right[place::subjects] for place in range(subjects)]
    return [
        [Seed(100 * p + n, s.wrong, s.property, s.what, s.code) for n, s in enumerate(some)]
        for p, some in enumerate(dealt)
    ]


def plant(folder: Path, subject: Subject, seeds: list[Seed]) -> dict[int, Seed]:
    """Appends the seeds to the host and calls them; which line is whose."""
    host = folder / subject.host
    lines = host.read_text(errors="surrogateescape").splitlines()
    at = next(i for i, line in enumerate(lines) if re.search(subject.anchor, line))
    brace = next(i for i in range(at, len(lines)) if lines[i].rstrip().endswith("{"))
    calls = " ".join(f"seed_{s.number}();" for s in seeds)
    declared = " ".join(f"extern int seed_{s.number}();" for s in seeds)
    lines.insert(brace + 1, f"{declared} {calls}")
    host.write_text("\n".join(lines) + "\n", errors="surrogateescape")
    planted = {}
    text = HEAD + "\n"
    for seed in seeds:
        first = text.count("\n") + 1
        text += seed.code.replace("@", str(seed.number))
        planted.update(dict.fromkeys(range(first, text.count("\n") + 1), seed))
    (folder / SEEDED).write_text(text)
    return planted


def sources_of(folder: Path, subject: Subject, extra: tuple[str, ...]) -> list[str]:
    files = sorted({p for glob in subject.files for p in folder.glob(glob)})
    names = [str(p.relative_to(folder)) for p in files if p.name not in subject.without]
    return sorted({*names, *extra})


def flags_of(subject: Subject) -> tuple[str, ...]:
    return ("-std=gnu17", "-w", "-D_GNU_SOURCE", *subject.flags)


def build(folder: Path, subject: Subject, extra: tuple[str, ...]) -> Path:
    wrapper = shutil.which("strata-cc") or str(Path(sys.executable).parent / "strata-cc")
    words = [wrapper, *flags_of(subject), *sources_of(folder, subject, extra)]
    call([*words, "-o", "program", *subject.links, "-pthread"], folder)
    return folder / "program"


def compare(row: Row, root: Path) -> None:
    """Clang's analyzer on the same program."""
    folder = root / f"{row.subject.name}-seeded"
    sources = sources_of(folder, row.subject, (SEEDED,))
    flags = [flag for flag in flags_of(row.subject) if flag != "-w"]
    warned, row.clang_seconds = clang_analyzer.run(folder, sources, flags)
    hit: dict[int, str] = {}
    for w in warned:
        seed = row.planted.get(w.line) if w.file == SEEDED else None
        if seed is not None and seed.wrong and seed.property == w.property:
            hit[seed.number] = seed.property
        elif w.property and not (seed is not None and seed.wrong):
            row.clang_more += 1
    row.clang = {name: list(hit.values()).count(name) for name in PROPERTIES}


def analyse(program: Path) -> tuple[list[Finding], engine.Outcome]:
    binary = engine.find_engine()
    files = [engine.properties(binary) / f"{name}.prop" for name in PROPERTIES]
    (one,) = find(program)
    outcome = engine.analyse(one, files, binary, lambda *_: None)
    return distinct([f for f in outcome.findings if not f.possible]), outcome


def prepare(subject: Subject, root: Path, name: str) -> Path:
    folder = root / f"{subject.name}-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "sources" / "vendor" / subject.folder, folder)
    if MAIN in (subject.host, *subject.files):
        (folder / MAIN).write_text(MAINS.get(subject.name, MAINS["sqlite"]))
    return folder


def measure(subject: Subject, seeds: list[Seed], root: Path, say: Say) -> Row:
    row = Row(subject)
    clean = build(prepare(subject, root, "clean"), subject, ())
    row.clean, _ = analyse(clean)
    folder = prepare(subject, root, "seeded")
    planted = plant(folder, subject, seeds)
    findings, outcome = analyse(build(folder, subject, (SEEDED,)))
    row.lines, row.functions = outcome.lines, outcome.functions
    row.seconds, row.peak, row.given_up = outcome.seconds, outcome.peak_mib, outcome.given_up
    known = {f.key() for f in row.clean}
    hit = set()
    for f in findings:
        seed = planted.get(f.sink.line) if f.sink.file.endswith(SEEDED) else None
        if seed is not None and seed.wrong and seed.property == f.property:
            hit.add(seed.number)
        elif f.key() not in known and not (seed is not None and seed.wrong):
            row.false.append(f"{f.property}: {f.message} ({Path(f.sink.file).name}:{f.sink.line})")
    for seed in seeds:
        if seed.wrong:
            row.seeded[seed.property] = row.seeded.get(seed.property, 0) + 1
            row.found[seed.property] = row.found.get(seed.property, 0) + (seed.number in hit)
            if seed.number not in hit:
                row.missed.append(f"{seed.property}: {seed.what}")
    row.planted = planted
    say(
        f"{subject.name}: {sum(row.found.values())} of {sum(row.seeded.values())} found,"
        f" {len(row.false)} false, {row.seconds:.1f} s"
    )
    return row


def run(out: Path, say: Say, *, quick: bool) -> list[Row]:
    sources = out / "sources"
    if not (sources / "vendor").exists():
        (sources / "src").mkdir(parents=True, exist_ok=True)
        (sources / "src" / "lib.rs").touch()
        (sources / "Cargo.toml").write_text(MANIFEST)
        call(["cargo", "vendor", "-q"], sources)
    subjects = SUBJECTS[:2] if quick else SUBJECTS
    dealt = share(read_seeds(), len(SUBJECTS))
    rows = []
    for subject, seeds in zip(subjects, dealt, strict=False):
        try:
            rows.append(measure(subject, seeds, out, say))
        except SourceError as error:
            say(f"{subject.name} is left out: {error}")
    if rows and clang_analyzer.tools_are_here():  # last: what it takes counts for no row
        compare(rows[0], out)
    return rows


def beside_clang(rows: list[Row]) -> list[str]:
    out: list[str] = []
    for r in (r for r in rows if r.clang is not None):
        out += [
            f"## clang 19's analyzer on the ten of {r.subject.name}",
            "",
            "Across units (CTU), with its checkers of memory, streams and locks, and its taint with"
            " our sinks",
            "(`bench/lint/clang_taint.yaml`). Else: what it says of these four beside the errors.",
            "",
            f"| | {' | '.join(PROPERTIES)} | all | else | seconds |",
            f"|---|{'---:|' * (len(PROPERTIES) + 3)}",
        ]
        clang = (r.clang or {}, r.clang_more, r.clang_seconds)
        ours = (r.found, len(r.false), r.seconds)
        for name, (found, more, seconds) in (("clang", clang), ("strata lint", ours)):
            each = " | ".join(f"{found.get(p, 0)} of {r.seeded.get(p, 0)}" for p in PROPERTIES)
            out.append(f"| {name} | {each} | {sum(found.values())} | {more} | {seconds:.1f} |")
        out.append("")
    return out


def page(rows: list[Row], how: str) -> str:
    text = [f"# {GROUP.title}", "", ABOUT, how, ""]
    text.append(
        "| program | kind | lines | functions | seconds | peak MiB | errors found | false |"
    )
    text.append("|---|---|---:|---:|---:|---:|---:|---:|")
    for r in rows:
        found = f"{sum(r.found.values())} of {sum(r.seeded.values())}"
        text.append(
            f"| {r.subject.name} | {r.subject.kind} | {r.lines:,} | {r.functions:,} |"
            f" {r.seconds:.1f} | {r.peak:.0f} | {found} | {len(r.false)} |"
        )
    text += ["", "Lines are those with code, as debug information has them.", ""]
    text += ["| property | found | seeded |", "|---|---:|---:|"]
    for name in PROPERTIES:
        noticed = sum(r.found.get(name, 0) for r in rows)
        text.append(f"| {name} | {noticed} | {sum(r.seeded.get(name, 0) for r in rows)} |")
    lines = sum(r.lines for r in rows)
    seconds = sum(r.seconds for r in rows)
    wrong = sum(len(r.false) for r in rows)
    unseen = "[code that it had not seen](../lint.md#how-right-it-is)"
    text += ["", "## Targets, of these errors alone", "", f"Its rate in {unseen} is another.", ""]
    others = [(r.found.get(n, 0), r.seeded.get(n, 0)) for r in rows for n in PROPERTIES[1:]]
    part = sum(f for f, _ in others) / max(1, sum(s for _, s in others))
    taint = [(r.found.get("taint", 0), r.seeded.get("taint", 0)) for r in rows]
    per = seconds / max(lines, 1) * TARGET_LINES
    peak = max((r.peak for r in rows), default=0)
    met = {True: "met", False: "missed"}
    all_taint = sum(f for f, _ in taint) == sum(s for _, s in taint)
    text += [
        f"- every format string found: {sum(f for f, _ in taint)} of"
        f" {sum(s for _, s in taint)}: {met[all_taint]}.",
        f"- of the others at least 90 %: {100 * part:.0f} %: {met[part >= 0.9]}.",
        f"- at most one false alarm in 50,000 lines: {wrong} in {lines:,}:"
        f" {met[wrong * 50_000 <= lines]}.",
        f"- {TARGET_LINES:,} lines in {TARGET_SECONDS} s: at this rate {per:.0f} s:"
        f" {met[per <= TARGET_SECONDS]}.",
        f"- under {TARGET_MIB} MiB: {peak:.0f}: {met[peak < TARGET_MIB]}.",
        "",
    ]
    for title, items in (
        ("Missed", [(r, m) for r in rows for m in r.missed]),
        ("False alarms", [(r, m) for r in rows for m in r.false]),
    ):
        text += [f"## {title}", ""]
        text += [f"- {r.subject.name}: {m}" for r, m in items] or ["None."]
        text.append("")
    text += [*beside_clang(rows), "## What it says of the programs as they are", ""]
    said = [
        f"- {r.subject.name}: {f.property}: {f.message}, {Path(f.sink.file).name}:{f.sink.line},"
        f" from line {f.origin.line}"
        for r in rows
        for f in r.clean
    ]
    text += said or ["Nothing."]
    over = sum(r.given_up for r in rows)
    text += ["", f"{over} starting points took too much work to be followed to the end.", ""]
    return "\n".join(text)


__all__ = ["GROUP", "page", "run"]
