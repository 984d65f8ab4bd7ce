"""Predictions in the report: the matrix, what is wrong, and what would have been held without."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from report_data import LIFETIME_TYPES, MIB, save, stats

from strata.learn.classes import NEVER
from strata.pprof import Label, Line, Location, Profile, Sample, ValueType, dump, dumps
from strata.processes import Process
from strata.report import build, collect, document, model, predictions
from strata.report.advice import Level
from strata.report.page import Section
from strata.report.predictions import Context, Wrong
from strata.report.profiles import as_rows

MS = 1_000_000
SECOND = 1000 * MS
REQUEST = ("malloc", "Make", "NewRow", "Serve", "main")
SESSION = ("malloc", "Make", "NewEntry", "Serve", "main")
NAMES = ("predictions", "predicted-bytes", "wrong-sites", "predictions-saved")


def lived(stack: tuple[str, ...], size: int, died: int, ns: int, live: int, says: int) -> Sample:
    """A row of a lifetime profile whose dead objects all lived equally long."""
    values = dict.fromkeys(LIFETIME_TYPES, 0) | {
        "objects": died, "space": died * size, "still_live": live,
        **{f"lifetime_{name}": ns for name in ("min", "mean", "max", "p50", "p75", "p90", "p95")},
    }  # fmt: skip
    labels = [Label("bytes", size, "bytes")]
    if says:
        labels.append(Label("predicted_class", says))
    return sample(stack, [values[name] for name in LIFETIME_TYPES], labels)


def sample(stack: tuple[str, ...], values: list[int], labels: list[Label]) -> Sample:
    places = tuple(Location(1 + sum(name.encode()), None, (Line(name),)) for name in stack)
    return Sample(places, tuple(values), tuple(labels))


def profile(types: tuple[str, ...], samples: list[Sample]) -> Profile:
    return Profile([ValueType(name, "count") for name in types], samples)


def lifetimes(*samples: Sample) -> Profile:
    return profile(LIFETIME_TYPES, list(samples))


def contexts(*samples: Sample) -> list[Context]:
    return predictions.contexts(as_rows("lifetime", lifetimes(*samples), "test"))


def context(says: int, died: tuple[float, ...] = (0,) * 7, live: float = 0) -> Context:
    return Context(REQUEST, 100, says, died, live)


def inuse(kind: str, *rows: tuple[tuple[str, ...], int, int]) -> Profile:
    """A profile of (stack, size, objects in use)."""
    types = ("inuse_objects", "inuse_space")
    heap = ("alloc_objects", "alloc_space", *types) if kind == "heap" else types
    made = [
        sample(
            stack,
            [count, count * size] * (len(heap) // 2),
            [Label("bytes", size, "bytes")],
        )
        for stack, size, count in rows
    ]
    return profile(heap, made)


def test_only_predicted_contexts_count() -> None:
    found = contexts(
        lived(REQUEST, 64, 10, 5 * MS, 0, 0),
        lived(SESSION, 64, 10, 5 * MS, 0, NEVER),
        lived(SESSION, 128, 10, 5 * MS, 0, NEVER + 1),  # of a newer library
    )
    assert [(one.stack, one.size, one.predicted) for one in found] == [(SESSION, 64, NEVER)]


def test_matrix_is_by_bytes_of_objects() -> None:
    found = contexts(
        lived(REQUEST, 100, 1000, 50 * MS, 0, 2),
        lived(REQUEST, 300, 10, 5 * SECOND, 0, 2),
        lived(SESSION, 200, 100, 500 * MS, 900, NEVER),
    )
    table = predictions.matrix(found)
    assert table[1] == pytest.approx([0, 100_000, 0, 3_000, 0, 0, 0, 0])
    assert table[7] == pytest.approx([0, 0, 20_000, 0, 0, 0, 0, 180_000])
    assert sum(map(sum, table)) == pytest.approx(303_000)


@pytest.mark.parametrize(
    ("one", "age", "seen"),
    [
        (context(2, (0, 100, 0, 0, 0, 0, 0)), 100.0, 2),
        (context(3, (95, 0, 5, 0, 0, 0, 0)), 100.0, 1),  # 95 % die at once
        (context(1, (90, 0, 10, 0, 0, 0, 0)), 100.0, 3),
        (context(2, live=100), 100.0, NEVER),
        (context(5, live=100), 100.0, None),  # may still die within 100 s
        (context(2, live=100), None, None),  # nobody knows for how long they have lived
        (context(NEVER, live=100), 100.0, None),  # nothing says the contrary
        (context(NEVER, (0, 0, 0, 100, 0, 0, 0)), 100.0, 4),
        (context(4, (0, 0, 0, 88, 0, 0, 0), 12), 100.0, None),  # some are young
        (context(4, (0, 0, 0, 80, 0, 0, 0), 20), 100.0, NEVER),  # too many to be young
        (context(2, (0, 0, 0, 0, 0, 0, 0), 0), 100.0, None),
    ],
)
def test_what_was_seen(one: Context, age: float | None, seen: int | None) -> None:
    assert predictions.observed(one, age) == seen


def test_verdict_weighs_bytes_and_ranks_what_is_wrong() -> None:
    right = context(2, (0, 30, 0, 0, 0, 0, 0))
    near = context(2, (10, 0, 0, 0, 0, 0, 0))
    far = context(2, (0, 0, 0, 0, 20, 0, 0))
    early = context(5, live=40)
    verdict = predictions.judge([near, right, far, early], 10.0)
    assert (verdict.right, verdict.near, verdict.far, verdict.open) == (3000, 1000, 2000, 4000)
    assert verdict.wrong == [Wrong(far, 5), Wrong(near, 1)]


def test_call_site_is_what_tells_stacks_apart() -> None:
    found = contexts(*(lived(s, 64, 1, MS, 0, 2) for s in (REQUEST, SESSION)))
    name = predictions.site_namer(found)
    assert [name(REQUEST), name(SESSION)] == ["NewRow", "NewEntry"]
    alone = predictions.site_namer(found[:1])
    assert alone(REQUEST) == "Make"  # nothing to tell it from


def test_only_outlived_guesses_keep_memory() -> None:
    found = contexts(
        lived(REQUEST, 64, 0, 0, 9, 3),
        lived(SESSION, 64, 0, 0, 9, 5),
        lived(SESSION, 96, 0, 0, 9, NEVER),
    )

    def row(stack: tuple[str, ...], size: int, age: int, level: str, wasted: int) -> Sample:
        labels = [Label("bytes", size, "bytes"), Label("age_s", age), Label("level", level)]
        return sample(stack, [wasted, size], labels)

    rows = [
        row(REQUEST, 64, 1, "hugepage", 7 * MIB),
        row(REQUEST, 64, 10, "page", 3 * MIB),
        row(SESSION, 64, 10, "hugepage", 100 * MIB),  # said to live for 100 s
        row(SESSION, 64, 100, "hugepage", 5 * MIB),
        row(SESSION, 96, 1000, "hugepage", 100 * MIB),  # said to last
        row(REQUEST, 32, 1000, "hugepage", 100 * MIB),  # not predicted
    ]
    waste = as_rows("fragmentation", profile(("wasted_space", "inuse_space"), rows), "test")
    kept = predictions.kept(found, waste)
    assert kept is not None
    assert (kept.in_hugepages, kept.in_pages) == (12 * MIB, 3 * MIB)
    assert predictions.kept(found, None) is None


@pytest.mark.parametrize("size", [96, 256, 1000, 3000, 8192])
def test_pages_kept_are_those_of_a_simulation(size: int) -> None:
    """Objects of a size fill pages, and which of them stay is drawn."""
    peak, live = 20_000, 1_500
    stay = random.Random(size).sample(range(peak), live)
    page = predictions.NATIVE_PAGE
    touched = {
        at
        for number in stay
        for at in range(number * size // page, ((number + 1) * size - 1) // page + 1)
    }
    assert predictions.pages_kept(peak, live, size) == pytest.approx(len(touched), rel=0.05)


def test_pages_kept_at_the_ends() -> None:
    assert predictions.pages_kept(0, 0, 64) == 0
    assert predictions.pages_kept(6400, 0, 64) == 0
    assert predictions.pages_kept(6400, 6400, 64) == pytest.approx(100)
    assert predictions.pages_kept(10, 6400, 64) == pytest.approx(100)  # a peak from few samples


def test_live_objects_are_counted_where_they_can_be() -> None:
    heap = as_rows("heap", inuse("heap", (REQUEST, 64, 500), (SESSION, 1 << 20, 3)), "test")
    classes = [
        {"size": 64, "live": 400, "lasting": False},
        {"size": 64, "live": 30, "lasting": True},
        {"size": 96, "live": "many"},
        "no class",
    ]
    found = predictions.live_by_size(heap, document.Document({"classes": classes}))
    assert found == {64: 430, 1 << 20: 3}


def predicting(folder: Path) -> Path:
    """A saved report of a process with a model: 400 MiB at the peak, 40 MiB of it are left."""
    save(folder)
    lines = []
    for step in range(3):
        document = stats(step)
        document["predictions"] = {"places": 2, "model_asked": 2}
        document["classes"] = [
            {"size": 256, "pages": 2, "spans": 2500, "live": 163_840, "lasting": True}
        ]
        by_class = {"0": MIB, "3": (step + 1) * MIB, "8": 40 * MIB}
        row = {"at": step, "rss": 90 * MIB, "stats": document, "by_class": by_class}
        lines.append(json.dumps(row) + "\n")
    (folder / "samples.jsonl").write_text("".join(lines))
    meta = json.loads((folder / "report.json").read_text())
    (folder / "report.json").write_text(json.dumps(meta | {"age": 100}))
    wrong = [lived((f"Site{n}", "main"), 64, 10 + n, 5 * SECOND, 0, 2) for n in range(12)]
    rows = [
        lived(REQUEST, 256, 10**6, 50 * MS, 0, 2),
        lived(SESSION, 256, 0, 0, 163_840, NEVER),
        *wrong,
    ]
    dump(lifetimes(*rows), folder / "lifetime.pb.gz")
    dump(inuse("heap", (SESSION, 256, 163_840)), folder / "heap.pb.gz")
    peak = inuse("peak", (SESSION, 256, 163_840), (REQUEST, 256, 1_474_560))
    dump(peak, folder / "peak.pb.gz")
    return folder


def sections(folder: Path) -> dict[str, Section]:
    recording = model.load(folder)
    found = build.sections(recording)
    build.page(recording, found)  # can be drawn
    return {section.name: section for section in found}


def test_report_of_a_process_with_a_model(tmp_path: Path) -> None:
    found = sections(predicting(tmp_path / "report"))
    assert set(NAMES) <= set(found)
    over_time = found["predicted-bytes"]
    assert "100 ms" not in over_time.about
    assert "1 s 3.00 MiB" in over_time.about
    assert over_time.picture.count("<svg") == 2
    wrong = found["wrong-sites"].picture
    assert wrong.count("predicted 100 ms, observed 10 s") == 10  # of the twelve
    assert wrong.index("<strong>Site11</strong>") < wrong.index("<strong>Site2</strong>")
    assert "<strong>Site1</strong>" not in wrong
    saved = found["predictions-saved"].advice
    assert saved is not None
    assert saved.level is Level.FINE
    # 102,400 pages at the peak, of which 1 - 0.9^16 stay, and 4 MiB of caches and tables
    assert "about 330 MiB" in saved.text


def test_no_section_where_nothing_is_predicted(tmp_path: Path) -> None:
    assert not set(NAMES) & set(sections(save(tmp_path / "report")))


def test_samples_keep_live_bytes_by_class(tmp_path: Path) -> None:
    """A process that predicts is asked for lifetimes with each sample, another one is not."""
    asked: list[str] = []

    class Predicting(collect.Collector):
        def __init__(self, asks: int) -> None:
            document = stats()
            document["predictions"] = {"model_asked": asks}

            def ask(request: str, _: float) -> bytes:
                asked.append(request)
                if request == "stats json":
                    return json.dumps(document).encode()
                rows = (lived(REQUEST, 100, 5, MS, 7, 2), lived(SESSION, 10, 5, MS, 3, 0))
                return dumps(lifetimes(*rows))

            super().__init__(Process(1), ask, tmp_path)

    assert Predicting(2)._sample(0)["by_class"] == {"0": 30, "2": 700}
    assert asked == ["stats json", "profile lifetime"]
    asked.clear()
    assert "by_class" not in Predicting(0)._sample(0)
    assert asked == ["stats json"]


@pytest.mark.parametrize("value", [None, -1, "x", 1e300])
def test_nonsense_never_breaks_the_sections(tmp_path: Path, value: object) -> None:
    folder = predicting(tmp_path / "report")
    lines = (folder / "samples.jsonl").read_text().splitlines()
    row = json.loads(lines[-1])
    row["by_class"] = {"0": value, "3": value, "99": 5}
    for one in row["stats"]["classes"]:
        one["live"] = one["spans"] = value
    (folder / "samples.jsonl").write_text("\n".join([*lines, json.dumps(row)]))
    meta = json.loads((folder / "report.json").read_text())
    (folder / "report.json").write_text(json.dumps(meta | {"age": value}))
    assert "predictions" in sections(folder)
