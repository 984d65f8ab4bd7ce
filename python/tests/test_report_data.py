"""The report from saved data: whole, old, cut off, empty and hostile."""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_data import HOSTILE, MIB, profile, save, stats
from rich.console import Console

from strata.errors import StrataError
from strata.pprof import Label, Profile, Sample, ValueType, dump, load
from strata.report import (
    build,
    charts,
    command,
    contexts,
    document,
    hugemap,
    model,
    samples,
    spans,
    terminal,
    tiers,
)
from strata.report.advice import Level
from strata.report.advice_hugepages import Fill
from strata.report.page import Section, stack_list
from strata.report.profiles import build as build_profile

NAMES = {
    "resident", "live-stacks", "waste-stacks", "churn-stacks", "peak-stacks", "fragmentation",
    "map", "coverage", "sizes", "cpu-time", "lifetimes", "misses", "return-live", "return-capacity",
}  # fmt: skip


class Tags(HTMLParser):
    """What a browser would see: the tags, and the text outside of them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def draw(folder: Path, pictures: bool = False) -> tuple[dict[str, Section], str]:
    """The sections by name, and the page. Pictures take seconds, so most tests go without."""
    recording = model.load(folder)
    with pytest.MonkeyPatch.context() as patch:
        if not pictures:
            patch.setattr(charts, "chart", lambda *_: "<svg></svg>")
        found = build.sections(recording)
    return {section.name: section for section in found}, build.page(recording, found)


def test_whole_report_has_every_figure(tmp_path: Path) -> None:
    found, page = draw(save(tmp_path), pictures=True)
    check_self_contained(page)
    assert set(found) == NAMES
    assert [name for name, section in found.items() if section.missing] == []
    assert all(section.advice is not None for section in found.values())
    for name in NAMES:
        assert f'<section id="{name}">' in page
    for name, section in found.items():
        assert "<svg" in section.picture or "<ol" in section.picture, name


def check_self_contained(page: str) -> None:
    """Nothing in the page can fetch or run anything, and every id is there once."""
    seen = Tags(page)
    tags = [tag for tag, _ in seen.tags]
    assert "script" not in tags
    assert "img" not in tags
    for tag, attributes in seen.tags:
        for key in ("src", "href", "srcset", "data", "action"):
            value = attributes.get(key) or "#"
            assert value.startswith(("#", "data:,")), (tag, key, value)
        assert not any(key.startswith("on") for key in attributes), attributes
        if tag == "svg":
            assert attributes.get("aria-label")
    assert "http:" not in page.lower()
    assert "https:" not in page.lower()
    ids = [attributes["id"] for _, attributes in seen.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = re.findall(r"url\(#([^)]+)\)", page) + re.findall(r'href="#([^"]+)"', page)
    assert set(used) <= set(ids)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    _, page = draw(save(tmp_path))
    assert HOSTILE not in page
    assert HOSTILE in Tags(page).words


def test_figures_are_those_of_the_data(tmp_path: Path) -> None:
    found, _ = draw(save(tmp_path))
    rows = {row[0]: row[1] for row in found["resident"].rows}
    assert rows["live"] == "60.0 MiB"
    assert rows["not the heap's"] == "14.0 MiB"
    assert rows["sum"] == "90.0 MiB"
    live = found["live-stacks"].advice
    assert live is not None
    expected = "readQueryFromClient holds 67 % of the sampled live bytes (40.0 MiB)."
    assert live.text.startswith(expected)
    waste = found["waste-stacks"].advice
    assert waste is not None
    assert HOSTILE[:10] in waste.text  # std::vector is passed over
    assert "hugepages resident (75 %" in waste.text
    churn = found["churn-stacks"]
    assert "in 10 seconds" in churn.about
    assert "6.40 MiB a second" in churn.picture
    assert found["cpu-time"].rows[0] == ["per-CPU caches", "200", "50 %", "5.0 %"]
    assert [row[1] for row in found["cpu-time"].rows] == ["200", "40", "120", "40", "0", "0", "400"]
    assert found["misses"].rows[0] == ["0", "600", "0", "1.00 MiB", "1.00 MiB"]
    assert found["return-live"].rows[0] == ["1", "10", "8", "80 %"]  # of the one large class
    assert found["return-live"].rows[-1] == ["128+", "40", "0", "0.0 %"]
    assert [row[3] for row in found["return-capacity"].rows] == ["3.3 %", "50 %", "80 %", "100 %"]
    # As its class counts, 400,000 hits and 300 misses, where samples would say 1,000.
    assert found["sizes"].rows[0] == ["64.0 KiB", "400,300", "24.4 GiB"]
    assert "100 MiB were live, now it is 60.0 MiB" in found["peak-stacks"].about


def test_sizes_are_counted_where_a_class_counts_them(tmp_path: Path) -> None:
    """Blocks above 256 KiB are in no class; caches of threads count no sizes."""
    recording = model.load(save(tmp_path))
    large = build_profile(
        "allocs", 0, [(("f",), {"alloc_objects": 3, "alloc_space": 3 * MIB}, {"bytes": MIB}),
                      (("f",), {"alloc_objects": 7, "alloc_space": 224}, {"bytes": 32})]
    )  # fmt: skip
    recording.profiles["allocs"] = large
    rows, source = tiers.size_rows(recording)
    assert rows[-1] == (MIB, 3, 3 * MIB)
    assert rows[0] == (32, 400_300, 32 * 400_300)
    assert "above 256 KiB are estimated" in source
    assert recording.last is not None
    for row in recording.last.stats.rows("classes"):
        row["hits"] = 0
    rows, source = tiers.size_rows(recording)
    assert rows == [(32, 7, 224), (MIB, 3, 3 * MIB)]
    assert source.startswith("Sampled allocations")
    del recording.profiles["allocs"]
    assert tiers.size_rows(recording)[0] == [], "misses alone say nothing of sizes"


def test_samples_are_counted_by_interval(tmp_path: Path) -> None:
    recording = model.load(save(tmp_path))
    assert samples.sampled(recording, 64 * MIB, 1 << 20) == 32  # small: one each 2 MiB
    assert samples.sampled(recording, 64 * MIB, 4) == 4  # larger than the interval: every one
    assert samples.sampled(model.Recording(), 64 * MIB, 4) is None
    found, _ = draw(tmp_path)
    assert found["live-stacks"].about.endswith("estimated, from about 30 samples.")


def test_parts_add_up_to_rss(tmp_path: Path) -> None:
    recording = model.load(save(tmp_path))
    assert recording.last is not None
    parts = tiers.resident_parts(recording.last)
    causes = parts.live + parts.slack + parts.caches + parts.free + parts.metadata
    assert causes - parts.untouched + (parts.other or 0) == parts.rss == 90 * MIB


def test_old_library_without_profiles_says_what_is_missing(tmp_path: Path) -> None:
    found, page = draw(save(tmp_path, old=True, with_profiles=False))
    missing = {name for name, section in found.items() if section.missing}
    assert missing == NAMES - {
        "resident", "fragmentation", "map", "coverage", "sizes", "peak-stacks"
    }  # fmt: skip
    assert all(section.remedy for section in found.values() if section.missing)
    assert "How old each is: not counted" in page
    assert (
        "each size class has served since the start, counted: blocks above" in found["sizes"].about
    )


@pytest.mark.parametrize("why", ["sampling is off", "Operation not supported: sampler disabled"])
def test_sampling_off_names_the_remedy(tmp_path: Path, why: str) -> None:
    save(tmp_path, with_profiles=False)
    kinds = dict.fromkeys(model.KINDS, why)
    (tmp_path / "report.json").write_text(json.dumps({"pid": 7, "missing": kinds}))
    found, _ = draw(tmp_path)
    for name in ("live-stacks", "waste-stacks", "churn-stacks", "lifetimes"):
        assert found[name].missing.startswith("Sampling is off")
        assert found[name].remedy == "strata set 7 sample=2M"


def test_single_sample_counts_from_the_start(tmp_path: Path) -> None:
    found, _ = draw(save(tmp_path, samples=1))
    assert found["cpu-time"].rows[0] == ["per-CPU caches", "200", "50 %", "5.0 %"]
    assert [row[1] for row in found["cpu-time"].rows] == ["200", "40", "120", "40", "0", "0", "400"]
    assert found["misses"].rows[0] == ["0", "200", "10", "1.00 MiB", "1.00 MiB"]
    assert "since the process started" in found["misses"].about
    verdict = found["misses"].advice
    assert verdict is not None
    assert "a second" not in found["misses"].about + verdict.text


def test_cache_advice_scales_what_is_in_force(tmp_path: Path) -> None:
    """Memory moves to the caches that miss: one vCPU's limit may be many shares."""
    lines = []
    for step in range(2):
        document = stats(step)
        document["cache"] |= {"hits": 10**6 * step, "misses_alloc": 10**5 * step}
        document["cache"] |= {"vcpus": 32, "limit_bytes": 32 * (1536 << 10)}
        document["cpu_caches"][0]["limit"] = 6144 << 10
        lines.append(json.dumps({"at": step, "rss": 90 * MIB, "stats": document}) + "\n")
    (tmp_path / "samples.jsonl").write_text("".join(lines))
    found, _ = draw(tmp_path)
    verdict = found["misses"].advice
    assert verdict is not None
    assert verdict.command == "strata set 4242 cpu_cache_bytes=3072K"


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({}, "the kernel found no free ones"),
        ({"hugepages_option": "off"}, "STRATA_HUGEPAGES=off asks for none"),
        ({"thp_allowed": False}, "PR_SET_THP_DISABLE"),
    ],
)
def test_low_coverage_has_its_cause(tmp_path: Path, meta: dict[str, object], words: str) -> None:
    """Of few broken hugepages, and what the process was told, only the latter is the reason."""
    document = stats()
    document["coverage"] = 0.1
    sample = json.dumps({"at": 0, "rss": 90 * MIB, "stats": document})
    (tmp_path / "samples.jsonl").write_text(sample)
    (tmp_path / "report.json").write_text(json.dumps({"pid": 7} | meta))
    found, _ = draw(tmp_path)
    verdict = found["coverage"].advice
    assert verdict is not None
    assert words in verdict.text


def test_profiles_alone_make_a_report(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "samples.jsonl").unlink()
    found, _ = draw(tmp_path)
    assert found["resident"].missing
    assert found["live-stacks"].advice is not None


def test_files_of_the_library_make_a_report(tmp_path: Path) -> None:
    for step in range(3):
        (tmp_path / f"stats-{step}.json").write_text(json.dumps(stats(step)))
    (tmp_path / "other.json").write_text('{"not": "ours"}')
    recording = model.load(tmp_path)
    assert len(recording.samples) == 3
    assert (recording.pid, recording.others) == ("4242", [])


def test_of_several_processes_the_last_is_taken_and_the_others_are_named(tmp_path: Path) -> None:
    for step, pid in enumerate((17, 4242)):
        path = tmp_path / f"stats-{pid}.json"
        path.write_text(json.dumps({**stats(step), "pid": pid}))
        os.utime(path, (1000 + step, 1000 + step))
    recording = model.load(tmp_path)
    assert (recording.pid, recording.others) == ("4242", [17])


def test_page_that_no_report_wrote_is_spared(tmp_path: Path) -> None:
    page = save(tmp_path) / "index.html"
    page.write_text("<h1>mine</h1>")
    with pytest.raises(StrataError, match="was not written by a report"):
        command.draw(tmp_path, tmp_path)
    assert page.read_text() == "<h1>mine</h1>"
    command.draw(tmp_path, tmp_path / "out")
    command.draw(tmp_path, tmp_path / "out")  # its own page it draws anew


def test_cut_off_samples_keep_the_whole_ones(tmp_path: Path) -> None:
    path = save(tmp_path) / "samples.jsonl"
    path.write_bytes(path.read_bytes()[:-300])
    assert len(model.load(tmp_path).samples) == 3


def test_cut_off_profile_is_missing_with_the_reason(tmp_path: Path) -> None:
    path = save(tmp_path) / "heap.pb.gz"
    path.write_bytes(path.read_bytes()[:-20])
    found, _ = draw(tmp_path)
    assert "cut short" in found["live-stacks"].missing
    assert found["churn-stacks"].advice is not None


def test_empty_profiles_say_so(tmp_path: Path) -> None:
    save(tmp_path)
    for kind in model.KINDS:
        dump(Profile([ValueType("inuse_space", "bytes")]), tmp_path / f"{kind}.pb.gz")
    found, _ = draw(tmp_path)
    assert "is empty" in found["live-stacks"].missing
    assert "is empty" in found["lifetimes"].missing
    assert "is empty" in found["churn-stacks"].missing
    verdict = found["waste-stacks"].advice
    assert verdict is not None
    assert verdict.level is Level.FINE


@pytest.mark.parametrize("kind", [*model.KINDS, model.CPU])
def test_one_empty_profile_takes_nothing_from_the_others(tmp_path: Path, kind: str) -> None:
    """As of a process at rest, whose heap was sampled before and whose profile is of this second:
    the sections look one profile's stacks up in another."""
    save(tmp_path)
    whole = load(tmp_path / f"{kind}.pb.gz")
    dump(replace(whole, samples=[]), tmp_path / f"{kind}.pb.gz")
    found, _ = draw(tmp_path)
    assert NAMES - set(found) <= {"peak-stacks"}


def test_folder_without_anything_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StrataError, match="no statistics and no profile"):
        model.load(tmp_path)
    with pytest.raises(StrataError, match="not a folder"):
        model.load(tmp_path / "absent")
    (tmp_path / "samples.jsonl").write_bytes(b"\xff\xfe\0garbage\n{}\n[1]\nnull\n")
    with pytest.raises(StrataError, match="no statistics"):
        model.load(tmp_path)


NONSENSE: list[object] = [
    None, True, "x", -1, 1e308, -(10**400), 10**400, [], {}, [[]], [{}], [[None, "a", 3, "z"]],
    [{"vcpu": "0", "size": -5, "objects": 0, "observed": [1], "hits": -9}], float("nan"),
]  # fmt: skip


@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: repr(value)[:20])
def test_nonsense_in_the_statistics_never_breaks_the_page(tmp_path: Path, value: object) -> None:
    keys = [*stats(), *stats()["bytes"]]
    for key in keys:
        document = stats()
        if key in document:
            document[key] = value
        else:
            document["bytes"][key] = value
        (tmp_path / "samples.jsonl").write_text(
            json.dumps({"at": 0, "rss": 5, "stats": stats()})
            + "\n"
            + json.dumps({"at": 1, "rss": 5, "stats": document})
        )
        found, _ = draw(tmp_path)
        assert set(found) == NAMES - {"peak-stacks"}, key


def test_nonsense_of_every_kind_can_be_drawn(tmp_path: Path) -> None:
    document = stats()
    document["classes"] = [{"size": 1 << 61, "hits": 1, "misses_alloc": 0}, {"size": 0}]
    document["bytes"] = dict.fromkeys(document["bytes"], 0) | {"untouched": 1 << 61}
    document["coverage"] = -7
    document["hugepage_occupancy"] = [[-5, 1 << 60, "<b>", -3], [1 << 61, 0, 7]]
    document["cpu_caches"] = [dict.fromkeys(document["cpu_caches"][0], 0)]
    (tmp_path / "samples.jsonl").write_text(json.dumps({"at": 0, "rss": 0, "stats": document}))
    found, page = draw(tmp_path, pictures=True)
    assert found["resident"].advice is not None
    assert "<b>" not in found["map"].picture
    assert "</html>" in page


def test_what_a_filter_hides_is_not_drawn(tmp_path: Path) -> None:
    document = stats() | {"resident_known": False}
    del document["coverage"], document["bytes"]["untouched"], document["bytes"]["hugepage_backed"]
    (tmp_path / "samples.jsonl").write_text(json.dumps({"at": 0, "rss": 0, "stats": document}))
    found, _ = draw(tmp_path)
    for name in ("coverage", "resident", "map"):  # what lies in memory at most is no part of RSS
        assert found[name].missing == tiers.UNSEEN
    out = io.StringIO()
    Console(file=out).print(terminal.summary(model.load(tmp_path), list(found.values())))
    assert "metadata" not in out.getvalue()


def test_huge_and_negative_values_stay_in_bounds(tmp_path: Path) -> None:
    save(tmp_path)
    big = (1 << 63) - 1
    rows = [(at % 3, (big, big, -big, big), big) for at in range(9)]
    dump(profile(("alloc_objects", "alloc_space", "inuse_objects", "inuse_space"), rows),
         tmp_path / "heap.pb.gz")  # fmt: skip
    loaded = model.load(tmp_path).profiles["heap"]
    assert [round(top.share, 6) for top in loaded.top("inuse_space", 9)] == [0.333333] * 3
    assert loaded.total("inuse_objects") == 0
    found, _ = draw(tmp_path)
    assert found["live-stacks"].advice is not None


def test_strange_value_names_are_refused(tmp_path: Path) -> None:
    save(tmp_path)
    for names in (("stack",), ("a", "a"), ("bytes",)):
        kinds = [ValueType(name, "count") for name in names]
        data = Profile(kinds, [Sample((), (1,) * len(names), (Label("level", "page"),))])
        dump(data, tmp_path / "heap.pb.gz")
        assert "named strangely" in model.load(tmp_path).missing["heap"]


def test_map_groups_what_does_not_fit() -> None:
    pages = [hugemap.Hugepage(256, 256, "r", 5.0)] * 10_000
    cells = re.findall(r"M\d+ \d+h8v8h-8z", hugemap.grid(pages, "label"))
    assert len(cells) == 2 * 3334  # three hugepages a cell, wide and narrow
    assert "One cell is 3 hugepages" in hugemap.grid(pages, "label")


def test_map_counts_by_age_and_fill() -> None:
    rows = [[0, 256, "p", 5], [63, 256, "r", 70], [256, 256, "r", 9000], [0, 0, "u", 3]]
    pages = hugemap.hugepages(document.Document({"hugepage_occupancy": rows}))
    counts = hugemap.by_age(pages)
    assert counts is not None
    assert counts[2] == [1, 0, 0, 0, 0]
    assert counts[4] == [0, 0, 0, 0, 1]
    assert sum(map(sum, counts)) == 2  # the free ones, one of them in memory, have no age
    assert hugemap.summary(pages) == Fill(1, 193 * 8192, 1, 1, 256 * 8192)


def test_broken_hugepages_are_those_with_something_left() -> None:
    rows = [[9, 100, "p", 5], [9, 50, "x", 5], [0, 0, "e", 0], [9, 256, "r", 5], [0, 256, "c", 0]]
    rows += [[9, 30, "s", 5], [9, 20, "b", 5]]
    pages = hugemap.hugepages(document.Document({"hugepage_occupancy": rows}))
    assert hugemap.of_states(pages, hugemap.BROKEN) == (3, 170 * 8192)
    assert hugemap.of_states(pages, hugemap.BEGUN_SMALL) == (1, 30 * 8192)


def test_stuck_class_is_the_one_with_most_free_memory() -> None:
    assert spans.stuck_class(document.Document(stats())) == (4096, 100, 100 * 8192)
    assert spans.stuck_class(document.Document({})) is None


def test_missing_profile_of_a_dead_process_keeps_a_placeholder() -> None:
    section = contexts.missing(model.Recording(), "heap", "n", "h")
    assert section.remedy == "strata report PID -o DIR"


def test_functions_are_ranked_not_stacks() -> None:
    """One function by several ways stands there once, with what all of them hold."""
    samples: list[tuple[tuple[str, ...], dict[str, int], dict[str, int | str]]] = [
        (("malloc", "handle", "read", "main"), {"inuse_space": 30}, {}),
        (("malloc", "handle", "retry", "main"), {"inuse_space": 40}, {}),
        (("operator new(unsigned long)", "load", "main"), {"inuse_space": 60}, {}),
    ]
    profile = build_profile("heap", 0, samples)
    first, second = profile.top("inuse_space", 9)
    assert (first.site, first.value, round(first.share, 3)) == ("handle", 70, 0.538)
    assert [value for _, value in first.stacks] == [40, 30]
    assert first.stack == ("malloc", "handle", "retry", "main")
    assert (second.site, second.value) == ("load", 60)
    html = stack_list([first, second], ["70 B", "60 B"])
    assert html.count("<strong>handle</strong>") == 1
    assert "57 % by 4 frames" in html
    assert "<summary>3 frames</summary>" in html


@pytest.mark.parametrize(
    ("objects", "interval", "said"),
    [
        (400, 100, " (± 5 %, 400 samples)"),
        (1, 2 * MIB, " (one sample)"),
        (400, 0, ""),
    ],
)
def test_a_sum_says_how_far_it_can_be_off(objects: int, interval: int, said: str) -> None:
    stack = ("malloc", "handle", "main")
    values = {"inuse_space": 1000 * objects, "inuse_objects": objects}
    found = build_profile("heap", 0, [(stack, values, {})])
    meta = document.Document({"sample_interval": interval})
    recording = model.Recording(meta=meta)
    (top,) = found.top("inuse_space", 1)
    assert samples.error_of(recording, found, top, "inuse_space", "inuse_objects") == said


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # One sample that stands for 4,000 objects, beside 100 blocks that stand for themselves.
        ([(4000, 4 * MIB, 1)], " (one sample)"),
        ([(100, 100 * MIB, 100)], " (100 samples)"),
        ([(4000, 4 * MIB, 4), (100, 12 * MIB, 100)], " (± 12 %, 104 samples)"),
        ([(40_000, 4 * MIB, 400)], " (± 5 %, 400 samples)"),
    ],
)
def test_a_sum_s_error_is_that_of_what_was_guessed(
    rows: list[tuple[int, int, int]], said: str
) -> None:
    stack = ("malloc", "handle", "main")
    found = build_profile(
        "heap",
        0,
        [
            (stack, {"inuse_objects": n, "inuse_space": held, "samples": count}, {})
            for n, held, count in rows
        ],
    )
    (top,) = found.top("inuse_space", 1)
    recording = model.Recording()
    assert samples.error_of(recording, found, top, "inuse_space", "inuse_objects") == said
