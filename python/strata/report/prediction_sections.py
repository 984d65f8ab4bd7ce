"""The sections about predictions of lifetimes. None of them where nothing is predicted."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from matplotlib.figure import Figure

from strata.learn.classes import NAMES
from strata.report import advice_predictions, charts, predictions
from strata.report.advice import share
from strata.report.model import CLASSES, Recording, Sample
from strata.report.page import Section, stack_list, table
from strata.report.predictions import OBSERVED, Context, Verdict, Wrong
from strata.report.profiles import Top
from strata.stats import human

MOST_WRONG = 10
UNKNOWN = "not predicted"


def sections(recording: Recording) -> list[Section | None]:
    found = predictions.contexts(recording.profiles.get("lifetime"))
    verdict = predictions.judge(found, recording.meta.number("age"))
    return [
        matrix_section(found, verdict),
        over_time_section(recording.samples) if found else None,
        wrong_section(found, verdict),
        saved_section(recording, found),
    ]


def matrix_section(found: Sequence[Context], verdict: Verdict) -> Section | None:
    cells = predictions.matrix(found)
    if not any(map(sum, cells)):
        return None
    rows = [
        [name, *(human(value) for value in row)]
        for name, row in zip(NAMES, cells, strict=True)
        if sum(row)
    ]
    return Section(
        "predictions",
        "Predicted and observed lifetimes",
        "Down, what the model says: the time within which 95 % of the objects of a call stack and "
        "a size die. Across, how long they lived, in per cent of the row's bytes. Shorter "
        "lives than predicted are no mistake as long as one in twenty lasts as said, and what is "
        "still alive may yet die in time.",
        advice_predictions.accuracy(verdict),
        matrix_html(cells),
        ("predicted", *OBSERVED),
        rows,
    )


def matrix_html(matrix: Sequence[Sequence[float]]) -> str:
    """Only the rows and columns in which there is something: on a phone there is little room."""
    columns = [at for at in range(len(OBSERVED)) if any(row[at] for row in matrix)]
    heads = "".join(f'<th scope="col">{escape(OBSERVED[at])}</th>' for at in columns)
    lines = [f'<table class="map"><thead><tr><td></td>{heads}</tr></thead><tbody>']
    for number, (name, row) in enumerate(zip(NAMES, matrix, strict=True)):
        whole = sum(row)
        if not whole:
            continue
        cells = "".join(matrix_cell(row[at], whole, is_right=at == number) for at in columns)
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    return "".join([*lines, "</tbody></table>"])


def matrix_cell(value: float, whole: float, *, is_right: bool) -> str:
    percent = 100 * value / whole
    text = "·" if not value else "&lt;1" if percent < 0.5 else f"{percent:.0f}"
    shown = f"<b>{text}</b>" if is_right else text
    colour = f"color-mix(in srgb, var(--c0) {0.6 * percent:.0f}%, transparent)"
    return f'<td class="cell" style="background:{colour}">{shown}</td>'


def class_name(number: int) -> str:
    return NAMES[number - 1] if number else UNKNOWN


def over_time_section(samples: Sequence[Sample]) -> Section | None:
    seen = [sample for sample in samples if sample.by_class]
    classes = [n for n in range(CLASSES + 1) if any(sample.by_class.get(n) for sample in seen)]
    if not classes:
        return None
    last = seen[-1].by_class
    whole = sum(last.values())
    text = ", ".join(f"{class_name(n)} {human(last.get(n, 0))}" for n in classes)
    return Section(
        "predicted-bytes",
        "Live bytes by predicted lifetime",
        f"Estimated from samples, while the report was taken. At the end: {text}.",
        None,
        over_time_chart(seen, classes, text) if len(seen) > 1 else "",
        ("predicted", "live bytes", "share"),
        [[class_name(n), human(last.get(n, 0)), share(last.get(n, 0), whole)] for n in classes],
    )


def over_time_chart(seen: Sequence[Sample], classes: Sequence[int], text: str) -> str:
    times = [sample.at for sample in seen]
    rows = [[float(sample.by_class.get(number, 0)) for sample in seen] for number in classes]
    most = max(map(sum, zip(*rows, strict=True)))

    def draw(narrow: bool) -> Figure:
        figure, axes = charts.subplots(narrow, 2.8, 3.2)
        colours = [charts.SERIES[n - 1] if n else charts.EDGE for n in classes]
        labels = [class_name(number) for number in classes]
        axes.stackplot(times, rows, colors=colours, labels=labels)
        axes.set_ylim(0, max(most, 1) * 1.05)
        axes.set_xlim(times[0], times[-1])
        axes.set_xlabel("seconds")
        charts.as_bytes(axes.yaxis, most)
        charts.legend(figure, narrow)
        return figure

    return charts.chart("predicted-bytes", f"Live bytes by predicted lifetime: {text}", draw)


def wrong_section(found: Sequence[Context], verdict: Verdict) -> Section | None:
    """The call stacks whose prediction was wrong for the most bytes."""
    worst = verdict.wrong[:MOST_WRONG]
    whole = verdict.judged
    if not worst:
        return None
    name = predictions.site_namer(found)
    tops = [
        Top(stack := one.context.stack, int(size := one.context.bytes), size / whole, name(stack))
        for one in worst
    ]
    return Section(
        "wrong-sites",
        "Where predictions are wrong",
        "The call stacks of which another class was predicted than was seen, by the bytes that "
        "they allocated.",
        advice_predictions.wrong_sites(verdict, tops[0].site),
        stack_list(tops, [amount(one, top) for one, top in zip(worst, tops, strict=True)]),
    )


def amount(one: Wrong, top: Top) -> str:
    predicted = NAMES[one.context.predicted - 1]
    seen = "still alive" if one.seen > len(NAMES) - 1 else NAMES[one.seen - 1]
    return (
        f"predicted {predicted}, observed {seen}; objects of {human(one.context.size)}, "
        f"{human(top.value)} in all, {share(top.share, 1)}"
    )


def saved_section(recording: Recording, found: Sequence[Context]) -> Section | None:
    """What the heap would hold, and what wrong guesses keep."""
    last = recording.last
    if last is None:
        return None
    apart = predictions.lasting(last.stats)
    if apart is None:
        return None
    rows: list[list[str]] = []
    held = last.stats.number("bytes", "resident")
    profiles = recording.profiles
    without = predictions.held_without(profiles.get("heap"), profiles.get("peak"), last.stats)
    verdict = None
    if held is not None and without is not None:
        verdict = advice_predictions.saved(held, without)
        rows += [
            ["held", human(held), "by the heap, now"],
            ["without predictions", human(without), "estimated, once memory has gone back"],
        ]
    rows += [
        [
            "spans of what lasts",
            human(apart.held),
            f"{human(apart.live)} of it live objects, the rest free or given back",
        ],
        [
            "kept by wrong guesses",
            advice_predictions.kept_sentence(
                predictions.kept(found, profiles.get("fragmentation")) if found else None
            ),
            "free, beside objects that are older than was predicted",
        ],
    ]
    return Section(
        "predictions-saved",
        "What predictions save",
        "The estimate: without predictions an object may lie anywhere among those of its size. Of "
        "the pages that a size filled at the peak, those stay that hold one of the objects that "
        "are alive now.",
        verdict,
        table(("", "bytes", "what it is"), rows),
    )
