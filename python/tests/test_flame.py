"""Flame graphs, tables and names: the page in a browser, the picture, the commands' errors."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from profiles import HEAP, heap, place

from strata.errors import StrataError
from strata.flame.command import changes, program_of, uneven
from strata.flame.graph import CallTree, by_function, shown_types
from strata.flame.page import Picture, page
from strata.flame.svg import folded, svg
from strata.objfile import ObjectFile
from strata.pprof import (
    Label,
    Line,
    Location,
    Mapping,
    Profile,
    Sample,
    ValueType,
    dump,
    dumps,
    parse,
    with_comment,
)
from strata.symbolize import Tool, symbolize

EVIL = '</script><script>document.title="taken"</script><b>&"\'\n\x01'
OLD = heap({"main;parse;grow": 600, "main;send": 300, "main;parse": 100})
NEW = heap({"main;parse;grow": 900, f"main;{EVIL.replace(';', ',')}": 50, "main;parse": 100})
STRATA = [sys.executable, "-m", "strata"]


def tree_values(profile: Profile, index: int) -> dict[str, list[int]]:
    tree = CallTree([profile], [index])
    return {frame.name: frame.values for frame in tree.frames}


def test_a_frame_counts_what_it_calls() -> None:
    assert tree_values(OLD, 3) == {
        "all": [1000], "main": [1000], "parse": [700], "grow": [600], "send": [300],
    }  # fmt: skip


def test_functions_that_call_themselves_count_once() -> None:
    rows = {row.name: row for row in by_function(heap({"main;walk;walk;walk": 10}), 3)}
    assert (rows["walk"].flat, rows["walk"].total) == (10, 10)
    assert (rows["main"].flat, rows["main"].total) == (0, 10)


def test_frames_are_dropped_thinnest_first_and_never_without_their_callees() -> None:
    draw = random.Random(1)
    stacks = {
        ";".join(draw.choice("abcdef") for _ in range(draw.randrange(1, 9))): draw.randrange(1, 99)
        for _ in range(300)
    }
    tree = CallTree([heap(stacks)], [2, 3])
    for limit in (1, 7, 50, 10_000):
        kept = tree.biggest(limit)
        assert len(kept) == min(limit, len(tree.frames))
        assert all(tree.frames[index].parent in {-1, *kept} for index in kept)


def test_only_sums_are_drawn() -> None:
    types = [
        ValueType("lifetime_p50", "nanoseconds"), ValueType("space", "bytes"),
        ValueType("freed_by_other_cpu", "percent"),
    ]  # fmt: skip
    assert shown_types(Profile(types)) == [1]
    with pytest.raises(StrataError, match="no values that add up"):
        shown_types(Profile(types[:1]))
    assert shown_types(OLD) == [3, 0, 1, 2]


def test_folded() -> None:
    assert folded(OLD) == "main;parse 100\nmain;parse;grow 600\nmain;send 300\n"
    assert folded(OLD, 0).startswith("main;parse 20\n")


def test_the_picture_is_xml_whatever_the_names() -> None:
    for old in (None, OLD):
        root = ET.fromstring(svg(Picture(EVIL, EVIL), NEW, old))
        titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
        assert len(titles) == 5
        assert any("grow: 900 B" in title or "→ 900 B" in title for title in titles)
    assert ET.fromstring(svg(Picture(""), Profile(HEAP))) is not None


def test_changes() -> None:
    rows = [(b.name[:5], b.flat - a.flat) for a, b in changes(NEW, OLD, 3)]
    assert rows[:2] == [("grow", 300), ("send", -300)] or rows[0][1] in (300, -300)
    assert {name for name, _ in rows} == {"grow", "send", "main", "parse", EVIL[:5]}
    assert changes(OLD, OLD, 3) == []


PROBE = """<script>
addEventListener("load", () => {
  const graph = document.getElementById("graph"), said = {};
  const boxes = () => [...graph.querySelectorAll("button")];
  const box = name => boxes().find(b => b.textContent === name);
  const seen = () => boxes().map(b => b.textContent);
  said.first = seen();
  said.wide = document.documentElement.scrollWidth <= innerWidth;
  box("parse").click();
  said.zoomed = seen();
  said.facts = document.getElementById("facts").textContent;
  const search = document.getElementById("search");
  search.value = "GROW";
  search.oninput();
  said.found = boxes().filter(b => b.classList.contains("found")).length;
  said.matched = document.getElementById("matched").textContent;
  document.getElementById("reset").click();
  said.back = seen();
  const type = document.getElementById("type");
  type.value = "1";
  type.dispatchEvent(new Event("change"));
  said.objects = document.getElementById("facts").textContent;
  said.title = document.title;
  said.requests = performance.getEntriesByType("resource").length;
  const out = document.createElement("pre");
  out.id = "said";
  out.textContent = JSON.stringify(said);
  document.body.append(out);
});
</script>"""


@pytest.mark.parametrize("size", ["1280,800", "390,844"])
@pytest.mark.parametrize("old", [None, OLD])
def test_the_page_in_a_browser(tmp_path: Path, size: str, old: Profile | None) -> None:
    """Zoom, search, reset and another type, at the width of a desk and of a phone."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    path = tmp_path / "flame.html"
    path.write_text(page(Picture("a title", "below"), NEW, old).replace("</html>", PROBE))
    done = subprocess.run(
        [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={tmp_path}/browser", f"--window-size={size}",
         "--virtual-time-budget=3000", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    match = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stdout[-2000:] + done.stderr[-2000:]
    text = match[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    said = json.loads(text)
    assert said["first"][:4] == ["all", "main", "parse", "grow"]
    assert said["wide"], "the page is wider than the window"
    assert said["zoomed"] == ["all", "main", "parse", "grow"]
    assert said["facts"].startswith("parse")
    assert "1000 B" in said["facts"]
    assert said["found"] == 1
    assert said["matched"] == "found: 90.0 %"
    assert said["back"] == said["first"]
    assert "210" in said["objects"]
    assert said["title"] == "a title", "a function's name ran as a script"
    assert said["requests"] == 0


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STRATA, *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )


def test_commands(tmp_path: Path) -> None:
    old, new, out = tmp_path / "old.pb.gz", tmp_path / "new.pb.gz", tmp_path / "x.html"
    dump(OLD, old)
    dump(NEW, new)
    done = run("diff", old, new, "-o", out)
    assert done.returncode == 0, done.stderr
    assert "inuse_space: 1000 B → 1.03 KiB (+50 B)" in done.stdout
    assert re.search(r"\+300 B +600 B +900 B +\+300 B +grow", done.stdout)
    assert re.search(r"-300 B +300 B +0 B +-300 B +send", done.stdout)
    assert out.stat().st_size > 5000
    done = run("top", old, new, "--type", "alloc_space", "-n", "1")
    assert "server, alloc_space: 4.00 KiB, from about 1 sample" in done.stdout
    assert re.search(r"2\.93 KiB +73\.2 % +one sample +2\.93 KiB +73\.2 % +grow", done.stdout)
    done = run("flame", old, "-o", tmp_path / "x.folded", "--focus", "send")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.folded").read_text() == "main;send 300\n"
    assert run("flame", old, new, "-o", tmp_path / "x.svg").returncode == 0
    assert run("symbolize", old, "-o", tmp_path / "named.pb.gz").returncode == 0


def test_commands_take_an_older_library_and_a_newer_one_together(tmp_path: Path) -> None:
    old, new = tmp_path / "old.pb.gz", tmp_path / "new.pb.gz"
    for path, names in ((old, ["samples"]), (new, ["died_10ms", "samples"])):
        counts = [ValueType(name, "count") for name in names]
        samples = [
            replace(each, values=(*each.values, *([7] * len(names)))) for each in OLD.samples
        ]
        dump(replace(OLD, types=[*OLD.types, *counts], samples=samples), path)
    for words in (("top", old, new), ("flame", old, new, "-o", tmp_path / "x.svg")):
        assert run(*words).returncode == 0
    done = run("diff", new, old)
    assert "inuse_space: 1000 B → 1000 B" in done.stdout, done.stderr


def test_memory_belongs_to_who_asked_a_wrapper_for_it(tmp_path: Path) -> None:
    def at(number: int, name: str) -> Location:
        return Location(number, None, (Line(name),))

    stack = (at(3, "malloc"), at(2, "zmalloc"), at(1, "load"))
    for kind, owner in (("inuse_space", "load"), ("cpu", "malloc")):
        unit = "bytes" if kind == "inuse_space" else "nanoseconds"
        dump(replace(OLD, types=[ValueType(kind, unit)], default_type=kind,
                     samples=[Sample(stack, (100,))]), tmp_path / "p.pb.gz")  # fmt: skip
        first = run("top", tmp_path / "p.pb.gz").stdout.splitlines()[2]
        assert first.split()[-1] == owner
    dump(replace(OLD, types=[ValueType("inuse_space", "bytes")], default_type="inuse_space",
                 samples=[Sample(stack, (100,))]), tmp_path / "p.pb.gz")  # fmt: skip
    assert run("top", "--wrappers", tmp_path / "p.pb.gz").stdout.splitlines()[2].endswith("malloc")


def test_a_report_is_a_place_for_profiles(tmp_path: Path) -> None:
    for name, profile in (("old", OLD), ("new", NEW)):
        folder = tmp_path / name
        folder.mkdir()
        dump(profile, folder / "heap.pb.gz")
        dump(profile, folder / "allocs.pb.gz")
    assert run("top", tmp_path / "old").stdout.startswith("server, inuse_space: 1000 B")
    done = run("diff", tmp_path / "old", tmp_path / "new", "--kind", "allocs")
    assert "inuse_space: 1000 B → 1.03 KiB (+50 B)" in done.stdout
    dump(OLD, tmp_path / "old.pb.gz")
    mixed = run("diff", tmp_path / "old.pb.gz", tmp_path / "new", "--kind", "allocs")
    assert "inuse_space: 1000 B → 1.03 KiB (+50 B)" in mixed.stdout
    neither = run("diff", tmp_path / "old.pb.gz", tmp_path / "old.pb.gz", "--kind", "allocs")
    assert "you named neither" in neither.stderr
    gone = run("top", tmp_path / "old", "--kind", "peak")
    assert gone.returncode == 2
    assert "peak.pb.gz: no such file" in gone.stderr.lower()


def test_top_says_how_far_its_figures_can_be_off(tmp_path: Path) -> None:
    """One sample for each 2 MiB of small objects, and for each object that is larger."""
    mib = 1 << 20
    stacks = {"main;small": (1 << 19, 200 * mib), "main;large": (4, 64 * mib)}
    samples = [
        Sample(tuple(place(name) for name in stack.split(";")[::-1]), values)
        for stack, values in stacks.items()
    ]
    dump(replace(OLD, types=OLD.types[2:], samples=samples), tmp_path / "p.pb.gz")
    title, _, *rows = run("top", tmp_path / "p.pb.gz").stdout.splitlines()
    assert len(rows) == 2, "main owns nothing"
    assert title.endswith("inuse_space: 264 MiB, from about 104 samples")
    assert re.search(r"^ *200 MiB +75\.8 % +± 10 % +200 MiB +75\.8 % +small", rows[0])
    assert re.search(r"^ *64\.0 MiB +24\.2 % +± 50 % +64\.0 MiB +24\.2 % +large", rows[1])


def test_top_says_how_many_objects_tell_of_waste(tmp_path: Path) -> None:
    """A sample stands for each 2 MiB of objects of a size, whatever lies free beside them."""
    mib = 1 << 20
    labels = (Label("bytes", 1024), Label("level", "page"))
    samples = [Sample((place("keep"),), (90 * mib, 32 * mib), labels)]
    types = [ValueType("wasted_space", "bytes"), ValueType("inuse_space", "bytes")]
    dump(replace(OLD, types=types, default_type="wasted_space", samples=samples),
         tmp_path / "p.pb.gz")  # fmt: skip
    title, _, row = run("top", tmp_path / "p.pb.gz").stdout.splitlines()
    assert title.endswith("wasted_space: 90.0 MiB, from about 16 samples")
    assert re.search(r"90\.0 MiB +100\.0 % +± 25 %", row)


def test_top_names_the_line_that_asked_for_most(tmp_path: Path) -> None:
    def stack(line: int, name: str = "load", file: str = "/src/app.c") -> tuple[Location, ...]:
        frames = (Line("malloc"), Line(name, file, line), Line("main", "/src/main.c", 3))
        return tuple(Location(n, None, (frame,)) for n, frame in enumerate(frames, 1))

    samples = [Sample(stack(7), (60,)), Sample(stack(9), (90,)), Sample(stack(7), (50,))]
    samples.append(Sample(stack(4, "Store.load", "/src/store.py"), (20,)))
    stripped = (Line("lib.so@0x40"), Line("lib.so@0x20"), Line("api_load"), Line("main"))
    places = tuple(Location(n, None, (frame,)) for n, frame in enumerate(stripped, 1))
    samples.append(Sample(places, (10,)))
    types = [ValueType("inuse_space", "bytes")]
    profile = replace(OLD, types=types, default_type="inuse_space", samples=samples)
    dump(profile, tmp_path / "p.pb.gz")
    rows = run("top", tmp_path / "p.pb.gz").stdout.splitlines()[2:]
    assert rows[0].endswith("  load (app.c:7)")
    assert rows[1].endswith("  Store.load (store.py:4)")
    assert rows[2].endswith("  lib.so@0x40 (under api_load)")
    assert len(rows) == 3, "main owns nothing"


def test_nothing_to_show_is_said(tmp_path: Path) -> None:
    """Not a table of headings: the option may be mistyped, or the program has only begun."""
    old, empty = tmp_path / "old.pb.gz", tmp_path / "empty.pb.gz"
    dump(OLD, old)
    dump(replace(OLD, samples=[]), empty)
    done = run("top", old, "--focus", "nosuchfn")
    assert done.stderr == f"strata: {old}: nothing matches --focus 'nosuchfn' in 3 samples\n"
    assert "callees" not in done.stdout
    done = run("top", empty)
    assert f"{empty}: no samples yet: one is taken for about each 2.00 MiB" in done.stderr
    assert "callees" not in done.stdout
    waste = [ValueType("wasted_space", "bytes")]
    dump(replace(OLD, samples=[], types=waste, default_type="wasted_space"), empty)
    done = run("top", empty)
    assert f"{empty}: no sample shows wasted memory: one is taken for about" in done.stderr
    assert run("top", old, "--focus", "send").stderr == ""
    done = run("diff", old, old, "--focus", "nosuchfn")
    assert done.stderr == "strata: neither profile has a sample that matches\n"


@pytest.mark.parametrize(
    ("seconds", "warned"),
    [((0, 0), ""), ((10, 12), ""), ((10, 29), ""), ((0, 10), "covers all since the start, the"),
     ((10, 60), "covers 10.0 s, the new one 60.0 s"), ((60, 10), "covers 60.0 s, the new")],
)  # fmt: skip
def test_a_window_against_a_whole_profile(seconds: tuple[int, int], warned: str) -> None:
    old, new = (replace(OLD, duration_ns=s * 10**9) for s in seconds)
    said = uneven(old, new)
    assert said is None if not warned else warned in str(said)


def test_the_process_is_called_by_its_name() -> None:
    """Not by what its file is a link to, if the one who took the profile knew."""
    assert program_of(OLD) == "server"
    named = parse(with_comment(dumps(OLD), "process redis-server"))
    assert program_of(named) == "redis-server"
    assert replace(named, comments=[]) == OLD


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["top", "none.pb.gz"], "none.pb.gz: No such file"),
        (["top", "noise"], "noise: "),
        (["flame", "good", "-o", "x.png"], "x.png: the name has to end in .html, .svg, .folded"),
        (["flame", "good", "-o", "no/such/x.svg"], "no/such/x.svg: no such file"),
        (["top", "good", "--type", "cpu"], "no values 'cpu'"),
        (["top", "good", "--focus", "("], "--focus '('"),
        (["diff", "good", "other"], "different kinds"),
        (["top", "good", "--tool", "x"], "No such option"),
        (["symbolize", "good"], "Missing option"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    dump(OLD, tmp_path / "good")
    dump(Profile([ValueType("objects", "count")]), tmp_path / "other")
    (tmp_path / "noise").write_bytes(b"\x1f\x8bnoise")
    done = run(*words)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_object_files_that_lie() -> None:
    """Random damage to a real file: fewer answers, never an exception."""
    data = Path("/bin/true").read_bytes()
    whole = ObjectFile(data)
    assert re.fullmatch(r"[0-9a-f]{40}", whole.build_id)
    assert whole.function_start(whole._starts[5] + 1) == whole._starts[5]
    draw = random.Random(6)
    for _ in range(300):
        damaged = bytearray(data[: draw.choice([len(data), draw.randrange(len(data))])])
        for _ in range(draw.choice([1, 3, 30])):
            if damaged:
                damaged[draw.randrange(min(len(damaged), draw.choice([64, 1000, 10**9])))] = (
                    draw.randrange(256)
                )
        file = ObjectFile(bytes(damaged))
        if file.valid:
            assert isinstance(file.build_id, str)
            file.virtual(0x1000)
            file.symbol(0x1000)
            file.function_start(0x1000)


def test_stripped_functions_are_called_by_their_begin(tmp_path: Path) -> None:
    """All calls from one function without a name are one frame."""
    program = Path("/bin/true").resolve()
    file = ObjectFile.open(program)
    assert file is not None
    start = next(s for s in file._starts[3:] if file.symbol(s) is None)
    code = next(s for s in file.segments if s.type == 1 and 0 <= start - s.virtual < s.size)
    offset = start - code.virtual + code.offset
    mapping = Mapping(0x10000, 0x10000 + (1 << 30), 0, str(program), file.build_id)
    stack = tuple(Location(0x10000 + offset + step, mapping) for step in (0, 1, 2))
    profile = Profile(HEAP, [Sample(stack, (1, 1, 1, 1))], [mapping])
    for tool in Tool:
        (sample,) = symbolize(profile, tool=tool).samples
        assert len(set(sample.names())) == 1, tool
    complaints: list[str] = []
    gone = replace(mapping, file=str(tmp_path / "gone"))
    lost = Profile(HEAP, [Sample((Location(0x10010, gone),), (1, 1, 1, 1))], [gone])
    assert symbolize(lost, warn=complaints.append).samples[0].names() == ("gone+0x10",)
    assert len(complaints) == 1
    assert symbolize(profile, root=Path("/nowhere"), warn=complaints.append) == profile


def test_rust_hashes_are_cut() -> None:
    from strata.symbolize import tidy

    assert tidy("core::fmt::write::h0123456789abcdef") == "core::fmt::write"
    assert tidy("h0123456789abcdef") == "h0123456789abcdef"
