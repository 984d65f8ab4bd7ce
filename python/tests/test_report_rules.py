"""What the report advises, rule by rule: on each side of every bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.report import (
    advice,
    advice_hugepages,
    advice_memory,
    advice_objects,
    advice_stacks,
    advice_time,
    contexts,
    cpu_time,
    lifetimes,
    model,
    spans,
)
from strata.report.advice import Level
from strata.report.advice_hugepages import Fill
from strata.report.advice_memory import Caches, Pinned, Resident
from strata.report.document import Document
from strata.report.page import Section, first_html, first_things
from strata.report.profiles import build as build_profile

MIB = 1 << 20


def resident(**parts: int) -> Resident:
    names = ("live", "slack", "caches", "free", "metadata", "untouched")
    values = {name: parts.get(name, 0) * MIB for name in names}
    whole = sum(values.values()) - 2 * values["untouched"]
    return Resident(**values, resident=whole, other=parts.get("other", 0) * MIB)


IDLE = Caches(1536 << 10, 100 * MIB, MIB, 0.0, 0.0)
HEAVY = Caches(1536 << 10, 80 * MIB, 9 * MIB, 0.0, 0.0)  # much lies in caches
SHORT = Caches(1536 << 10, 100 * MIB, MIB, 0.05, 9e4)  # calls miss
BOTH = Caches(1536 << 10, 80 * MIB, 9 * MIB, 0.05, 9e4)


def test_headline_names_what_stands_out() -> None:
    other = advice_memory.headline(resident(live=10, other=40), IDLE, "7", "")
    assert other.text.startswith("80 % of RSS is not the heap's")
    assert other.command.startswith("sudo pmap -x 7 ")
    assert "PYTHONMALLOC" not in other.text
    python = advice_memory.headline(resident(live=10, other=40), IDLE, "7", "Store.load (app.py)")
    assert "PYTHONMALLOC=malloc" in python.text
    assert (python.brings, other.brings) == (40 * MIB, 0)
    small = advice_memory.headline(resident(live=1, other=12), IDLE, "7", "")
    assert (small.level, small.text[:19]) == (Level.FINE, "92 % of RSS is not ")
    cached = advice_memory.headline(resident(live=80, caches=9), HEAVY, "7", "")
    assert (cached.level, cached.command) == (Level.LOOK, "strata release 7")
    assert cached.text.startswith("Caches hold 9.00 MiB, 11 % of what is live. What lies unused")
    free = advice_memory.headline(resident(live=50, free=30), IDLE, "7", "")
    assert (free.level, free.command) == (Level.ACT, "strata release 7")
    returns = replace(resident(live=50, free=30), swing=25 * MIB)
    assert advice_memory.headline(returns, IDLE, "7", "").command == ""
    between = replace(resident(live=50, free=30), between=25 * MIB)
    stays = Pinned(22 * MIB, "fill_cache")
    pinned = advice_memory.headline(between, IDLE, "7", "", stays)
    assert (pinned.level, pinned.command, pinned.brings) == (Level.LOOK, "", 22 * MIB)
    assert "fill_cache" in pinned.text
    goes = advice_memory.headline(between, IDLE, "7", "", Pinned(5 * MIB))
    assert (goes.level, goes.command, goes.brings) == (Level.ACT, "strata release 7", 20 * MIB)
    assert "Up to 20.0 MiB of it is in whole pages" in goes.text
    unknown = advice_memory.headline(between, IDLE, "7", "")
    assert (unknown.level, unknown.command) == (Level.LOOK, "strata release 7")
    assert "the rest stays while the objects live" in unknown.text
    scattered = Pinned(site="fill_cache", by_chance=4 * MIB)
    little = advice_memory.headline(between, IDLE, "7", "", scattered)
    assert (little.level, little.command, little.brings) == (Level.LOOK, "", 21 * MIB)
    assert "beside objects of fill_cache" in little.text
    own = advice_memory.headline(resident(live=90, free=5), IDLE, "7", "loadAll")
    assert own.level is Level.FINE
    assert "95 % of RSS is the program's own" in own.text
    assert "own objects, most of them from loadAll: no allocator" in own.text
    spread = advice_memory.headline(resident(live=60, free=10, slack=20), IDLE, "7", "")
    assert "own objects. Of the rest slack is most: 20.0 MiB, 22 %." in spread.text
    mixed = advice_memory.headline(resident(live=60, free=10, slack=9, other=50), IDLE, "7", "")
    assert (
        "Of the rest what is not the heap's (code, stacks, files, own mappings) is most: 50.0"
        in (mixed.text)
    )
    even = advice_memory.headline(
        resident(live=73, free=9, slack=8, caches=5, metadata=5), IDLE, "7", ""
    )
    assert "nothing makes up a tenth of RSS" in even.text
    assert advice_memory.headline(resident(), IDLE, "7", "").level is Level.FINE


def test_headline_counts_untouched_out_of_live() -> None:
    parts = resident(live=100, untouched=50, slack=50)
    assert advice_memory.headline(parts, IDLE, "7", "").text.startswith(
        "50 % of RSS is the program's own"
    )


def test_caches_are_not_emptied_where_calls_miss() -> None:
    """Nor larger in one figure and emptied in the other; the bound is that of a vCPU."""

    def both(caches: Caches) -> tuple[str, str]:
        head = advice_memory.headline(resident(live=80, caches=9), caches, "7", "")
        return head.command, advice_time.misses(caches, 0.5, 4, "7").command

    assert both(HEAVY) == ("strata release 7", "")
    assert both(replace(SHORT, bound=256 << 10)) == ("", "strata set 7 cpu_cache_bytes=512K")
    assert both(BOTH) == ("", "")
    assert "They are in use" in advice_memory.headline(resident(live=80), BOTH, "7", "").text
    assert "larger ones would cost more memory" in advice_time.misses(BOTH, 0.5, 4, "7").text
    for bound in (None, 1 << 30):  # not known, or no sensible step left
        assert not advice_time.misses(replace(SHORT, bound=bound), 0.5, 4, "7").command
    own = advice_memory.headline(resident(live=80), replace(HEAVY, bound=None), "7", "")
    assert "only that thread can empty" in own.text


def tiers(**parts: int) -> dict[str, int]:
    return {name: parts.get(name, 0) * MIB for name in advice_memory.TIERS}


@pytest.mark.parametrize(
    ("tier", "level", "words"),
    [
        ("internal_slack", Level.LOOK, "many here lie just above one"),
        ("cpu_cache", Level.LOOK, "What lies unused in them goes back with the command"),
        ("transfer_cache", Level.FINE, "goes back by itself"),
        ("central_free", Level.LOOK, "It lies between live objects."),
        ("page_heap_free", Level.ACT, "kept for the next peak"),
    ],
)
def test_fragmentation_answers_to_the_worst_tier(tier: str, level: Level, words: str) -> None:
    found = advice_memory.fragmentation(tiers(**{tier: 30}), 100 * MIB, IDLE, "7")
    assert found.level is level
    assert words in found.text
    assert "30 % of what is live" in found.text


def test_free_pages_that_are_taken_again_are_left() -> None:
    cyclic = advice_memory.fragmentation(
        tiers(page_heap_free=30), 100 * MIB, IDLE, "7", swing=20 * MIB
    )
    assert (cyclic.level, cyclic.command) == (Level.FINE, "")
    assert "takes again" in cyclic.text
    for swing, level in ((85 * MIB, Level.LOOK), (10 * MIB, Level.ACT)):
        empty = Fill(40, 60 * MIB, 30, 50, 100 * MIB)
        assert advice_hugepages.hugepages(empty, "f", "7", swing).level is level


def test_little_fragmentation_is_left_alone() -> None:
    few = advice_memory.fragmentation(tiers(central_free=9), 100 * MIB, IDLE, "7")
    assert few.level is Level.FINE
    assert advice_memory.fragmentation(tiers(), 0, IDLE, "7").level is Level.FINE


def test_sizes() -> None:
    mixed = [(64, 900.0, 30.0), (8192, 100.0, 40.0), (100_000, 1.0, 30.0)]
    fine = advice_objects.sizes(mixed)
    assert fine.level is Level.FINE
    assert fine.text.startswith("90 % of the objects are of at most 1 KiB")
    assert "above 256 KiB" in advice_objects.sizes([(64, 10.0, 60.0), (1 << 20, 1.0, 40.0)]).text
    one = advice_objects.sizes([(64, 10.0, 60.0), (8192, 1.0, 40.0)], "addNode").text
    assert "60 % of the bytes are objects of 64 B, mostly from addNode: a field less" in one
    nodes = advice_objects.sizes([(16, 90.0, 60.0), (8192, 1.0, 40.0)], "addNode").text
    assert "allocate them by the array" in nodes, "half a field is no advice"
    buffer = advice_objects.sizes([(64, 10.0, 40.0), (8192, 1.0, 60.0)]).text
    assert "objects of 8.00 KiB: a buffer that is kept" in buffer
    tiny = [(16, 900.0, 20.0), (4096, 1.0, 40.0), (8192, 1.0, 40.0)]
    assert "at most 32 bytes" in advice_objects.sizes(tiny).text
    assert advice_objects.sizes([]).level is Level.FINE


def test_lifetimes() -> None:
    few = advice_objects.lifetimes(0.9, 0.0, None, "f", 29, "7")
    assert (few.level, few.command) == (Level.LOOK, "strata set 7 sample=64K")
    assert "come from parse" in advice_objects.lifetimes(0.6, 0.1, None, "parse", 500, "7").text
    assert "another thread" in advice_objects.lifetimes(0.4, 0.1, 60.0, "f", 500, "7").text
    assert advice_objects.lifetimes(0.0, 0.95, 99.0, "f", 500, "7").level is Level.FINE
    assert advice_objects.lifetimes(0.4, 0.1, 40.0, "f", 500, "7").level is Level.FINE
    assert advice_objects.lifetimes(0.4, 0.1, None, "f", 500, "7").level is Level.FINE


def test_misses() -> None:
    many = advice_time.misses(SHORT, 0.5, 4, "7")
    assert (many.level, many.command) == (Level.ACT, "strata set 7 cpu_cache_bytes=3072K")
    assert "the neediest of 4 vCPUs has 50 % of all misses" in many.text
    seldom_miss = replace(SHORT, rate=0.01)
    assert advice_time.misses(seldom_miss, 1.0, 1, "7").level is Level.FINE
    assert "neediest" not in advice_time.misses(seldom_miss, 1.0, 1, "7").text
    assert advice_time.misses(replace(SHORT, rate=1.0, speed=900), 1.0, 1, "7").level is Level.FINE


def test_misses_without_a_time_have_no_rate() -> None:
    """The totals of a life are not so many a second."""
    told = advice_time.misses(replace(SHORT, speed=None), 1.0, 1, "7")
    assert told.level is Level.LOOK
    assert "a second" not in told.text
    assert told.command == "strata report 7 -o DIR"
    assert advice_memory.headline(resident(live=80), replace(BOTH, speed=None), "7", "").command


def ticks(**parts: int) -> dict[str, int]:
    names = {"front": advice_time.FRONT, "transfer": advice_time.TRANSFER,
             "central": advice_time.CENTRAL, "pages": advice_time.PAGES,
             "sampling": advice_time.SAMPLING, "other": advice_time.OTHER}  # fmt: skip
    return {text: parts.get(name, 0) for name, text in names.items()}


def test_cpu_time() -> None:
    def told(whole: int, caches: Caches = IDLE, **parts: int) -> advice.Advice:
        return advice_time.cpu_time(ticks(**parts), whole, caches, "7", "parse")

    assert told(0).level is Level.FINE
    little = told(10_000, front=500)
    assert (little.level, little.command) == (Level.FINE, "")
    assert little.text.startswith("5.0 % of the process's CPU time")
    assert "4.3 %" in little.text
    assert "too few to divide" in told(100, front=50).text
    calls = told(1000, front=400, central=100)
    assert calls.level is Level.LOOK
    assert "parse makes most of them" in calls.text
    central = told(1000, front=100, central=100)
    assert (central.level, central.command) == (Level.ACT, "strata set 7 cpu_cache_bytes=3072K")
    assert "50 % of that goes to the central free lists" in central.text
    assert told(1000, HEAVY, front=100, transfer=100).command == ""
    assert told(1000, front=100, sampling=100).command == "strata set 7 sample=8M"
    assert "keep its buffers" in told(1000, front=100, pages=100, central=50).text
    assert "twice as much" in told(1000, front=100, pages=100, central=51).text


@pytest.mark.parametrize(
    ("stack", "tier"),
    [
        (("strata::RseqPush(strata::RseqSlabs const&)", "strata::Free(void*)"), "FRONT"),
        (("free",), "FRONT"),
        (("operator new(unsigned long)",), "FRONT"),
        (("strata::SystemKernel::base() const", "strata::Free(void*)", "free"), "FRONT"),
        (("strata::SystemKernel::Release(strata::HugePageId)",), "PAGES"),
        (("bool strata::CpuCache<strata::RseqOps, strata::TransferCache<int> >::Pop()",), "FRONT"),
        (("std::atomic<int>::load()", "strata::Lock::Acquire()",
          "strata::DomainTransferCache<strata::CpuCache<int> >::Take()"), "TRANSFER"),
        (("strata::CentralFreeList<strata::SpanSource<strata::SystemKernel> >::Take()",
          "strata::TransferCache<int>::Take()"), "CENTRAL"),
        (("strata::SpanPool::New(unsigned long)",
          "strata::SpanSource<strata::SystemKernel>::TakeSpan()"), "CENTRAL"),
        (("strata::SpanSource<strata::SystemKernel>::TakeSpan()",
          "strata::CentralFreeList<int>::Take()"), "PAGES"),
        (("strata::PageHeap<int>::Take()",), "PAGES"),
        (("strata::(anonymous namespace)::WalkStep(int)",), "SAMPLING"),
        (("strata::Sampler::Add(int)", "strata::AllocateCounted(int)", "malloc"), "SAMPLING"),
        (("strata::BackgroundTick()",), "OTHER"),
        (("libstrata.so.0.1.0@0x40",), "OTHER"),
        ((), "OTHER"),
    ],
)  # fmt: skip
def test_tier_of_a_place_in_the_library(stack: tuple[str, ...], tier: str) -> None:
    assert cpu_time.tier_of(stack) == getattr(advice_time, tier)


def test_span_return_by_live_objects() -> None:
    falling = advice_stacks.span_by_live(60, (0.8, 0.1), "7")
    assert falling.level is Level.FINE
    assert falling.text.startswith("80 % of the spans with up to 3 live objects")
    few = advice_stacks.span_by_live(200, (0.0, 0.02), "7")
    assert few.level is Level.FINE
    assert "hardly any came free" in few.text
    assert advice_stacks.span_by_live(60, (0.05, 0.45), "7").level is Level.LOOK
    more = advice_stacks.span_by_live(15, (0.8, 0.1), "7", speed=1 / 60)
    assert more.command == "strata report 7 -o DIR --seconds 600"
    for rate, said in ((None, "to tell (15)."), (0.0, "no more come."), (1 / 61, "too few come")):
        assert said in advice_stacks.span_by_live(15, (0.8, 0.1), "7", rate).text
    assert advice_stacks.span_by_live(60, None, "7").level is Level.FINE


def span_class(objects: int, seen: list[int], returned: list[int]) -> dict[str, object]:
    """A row of the statistics, from counts that begin with the emptiest spans."""
    return {"objects": objects, "observed": seen[::-1], "returned": returned[::-1]}


def test_span_return_is_compared_within_classes() -> None:
    """A class that keeps its spans and one that gives them back: together they would say that few
    live objects keep a span, though in each of them it is the other way round."""
    stays = span_class(256, [90, 0, 0, 0, 10, 0, 0, 0], [9, 0, 0, 0, 0, 0, 0, 0])
    comes_free = span_class(256, [10, 0, 0, 0, 90, 0, 0, 0], [10, 0, 0, 0, 81, 0, 0, 0])
    found = spans.by_live(Document({"classes": [stays, comes_free]}))
    assert found is not None
    assert spans.few_and_many(found) == pytest.approx((0.55, 0.45))  # pooled: 0.19 and 0.81
    rates = spans.rates_by_live(found)
    assert (rates[0], rates[4]) == pytest.approx((0.55, 0.45))
    assert rates[1] is None


def test_span_return_leaves_out_small_spans() -> None:
    """A span of at most 31 objects never has many: what it does says nothing about few."""
    small = span_class(8, [900, 0, 0, 0, 0, 0, 0, 0], [900, 0, 0, 0, 0, 0, 0, 0])
    large = span_class(32, [20, 0, 0, 0, 20, 0, 0, 0], [2, 0, 0, 0, 10, 0, 0, 0])
    found = spans.by_live(Document({"classes": [small, large]}))
    assert found is not None
    assert spans.few_and_many(found) == pytest.approx((0.1, 0.5))
    seldom = span_class(32, [19, 0, 0, 0, 20, 0, 0, 0], [2, 0, 0, 0, 10, 0, 0, 0])
    assert spans.few_and_many(spans.by_live(Document({"classes": [seldom]})) or []) is None
    assert spans.by_live(Document({"classes": [small]})) == []
    assert spans.by_live(Document({"classes": [{"objects": 64}]})) is None


def test_span_return_by_capacity() -> None:
    stuck = advice_stacks.span_by_capacity(-0.7, (64, 900, 5 * MIB), "addNode")
    assert stuck.level is Level.LOOK
    assert "correlate by -0.70" in stuck.text
    assert "64 B objects, mostly allocated by addNode, hold 900 spans with about 5.00" in stuck.text
    assert advice_stacks.span_by_capacity(-0.7, (64, 9, MIB // 2), "").level is Level.FINE
    assert "Too few size classes" in advice_stacks.span_by_capacity(None, None, "").text


def test_hugepages() -> None:
    pinned = advice_hugepages.hugepages(Fill(40, 60 * MIB, 30, 0, 0), "openSession", "7")
    assert pinned.level is Level.LOOK
    assert "30 of them for more than a minute" in pinned.text
    assert "Objects from openSession pin" in pinned.text
    assert (
        advice_hugepages.hugepages(Fill(40, 60 * MIB, None, 0, 0), "", "7").command
        == "strata release 7"
    )
    assert advice_hugepages.hugepages(Fill(40, 3 * MIB, 30, 0, 0), "f", "7").level is Level.FINE
    assert advice_hugepages.hugepages(Fill(0, 0, None, 0, 0), "", "7").level is Level.FINE
    empty = advice_hugepages.hugepages(Fill(40, 60 * MIB, 30, 50, 100 * MIB), "openSession", "7")
    assert empty.level is Level.ACT
    assert empty.text.startswith("50 hugepages are empty, with 100 MiB still resident")
    assert advice_hugepages.hugepages(Fill(0, 0, None, 5, 10 * MIB), "", "7").level is Level.FINE


@pytest.mark.parametrize(("freed", "leaks"), [(0, True), (3 << 30, False)])
def test_a_leak_is_told_by_all_that_a_function_allocated(freed: int, leaks: bool) -> None:
    """By one way everything stays, as it should; what came by another was freed."""
    kept = 36 * MIB
    rows = (("load", kept + (1 << 20), kept), ("handle", freed, 0))
    heap = build_profile(
        "heap",
        0,
        [
            (("malloc", "get", caller, "main"), {"alloc_space": ever, "inuse_space": now}, {})
            for caller, ever, now in rows
        ],
    )
    recording = model.Recording(profiles={"heap": heap, "allocs": heap})
    live, churn = contexts.live_section(recording), contexts.churn_section(recording)
    assert live.advice is not None
    assert churn.advice is not None
    assert ("this is the leak" in live.advice.text) == leaks
    assert ("growth, not churn" in churn.advice.text) == leaks


def test_stacks() -> None:
    leak = advice_stacks.live_stacks("cacheEntry", 0.4, 40 * MIB, 0.95)
    assert "this is the leak" in leak.text
    assert leak.command == "strata report PID -o NEW; strata diff OLD/heap.pb.gz NEW/heap.pb.gz"
    assert "start there" in advice_stacks.live_stacks("f", 0.6, MIB, 0.1, samples=5).text
    for others, why in ((1388, "is not the heap's"), (100, "holds no objects")):
        parts = resident(live=12, free=1388 - others, other=others)
        little = advice_stacks.live_stacks("f", 1, 12 * MIB, 0.1, samples=9, parts=parts)
        assert little.level is Level.FINE
        assert little.text.endswith(f"That is 0.9 % of RSS, most of which {why}.")
    assert "too few to say" in advice_stacks.live_stacks("f", 0.6, 40 * MIB, 0.95, samples=2).text
    unknown = advice_stacks.waste_unexplained(8 << 10, 12 * MIB)
    assert (
        "12.0 MiB is free between live objects; the samples explain only 8.00 KiB." in unknown.text
    )
    assert unknown.command == "strata run --set SAMPLE=64K -- COMMAND"
    assert advice_stacks.live_stacks("f", 0.3, 40 * MIB, 0.5).level is Level.FINE
    assert advice_stacks.live_stacks("f", 0.3, 40 * MIB, None).level is Level.FINE
    waste = advice_stacks.waste_stacks("openSession", 0.6, 8 * MIB, pinned=True, pid="7")
    assert waste.level is Level.LOOK
    assert "keep 8.00 MiB of otherwise free hugepages resident (60 %" in waste.text
    assert waste.command == "strata top 7 --kind fragmentation"
    few = advice_stacks.waste_stacks("f", 1.0, 8 * MIB - 1, pinned=False, pid="7")
    assert few.level is Level.FINE
    assert "20.0 MiB a second" in advice_stacks.churn_stacks("f", 0.5, 20.0 * MIB, 0.1).text
    assert advice_stacks.churn_stacks("f", 0.5, 20.0 * MIB, 0.1).level is Level.LOOK
    assert advice_stacks.churn_stacks("f", 0.5, 1.0 * MIB, 0.1).level is Level.FINE
    assert "growth, not churn" in advice_stacks.churn_stacks("f", 0.9, 90.0 * MIB, 0.6).text
    assert "70 % of it is free again" in advice_stacks.churn_stacks("f", 0.5, None, 0.3).text
    assert "too few" in advice_stacks.churn_stacks("f", 0.9, 90.0 * MIB, 0.1, samples=4).text
    assert "at rest" in advice_stacks.churn_stacks("f", 0.9, 0.0, 0.3).text
    assert advice_stacks.peak_stacks("f", 0.9, 5).level is Level.LOOK
    assert "Too few samples of the peak" in advice_stacks.peak_stacks("f", 0.9, 4).text
    assert advice_stacks.churn_stacks("f", 0.2, 90.0 * MIB, 0.1).level is Level.FINE


def test_shares_have_as_many_digits_as_they_deserve() -> None:
    assert [advice.share(part, 100) for part in (0, 0.01, 0.5, 9.94, 42.4)] == [
        "0.0 %",
        "less than 0.1 %",
        "0.5 %",
        "9.9 %",
        "42 %",
    ]
    assert advice.share(3, 0) == "0.0 %"
    assert advice.of_live(1234, 10) == "123 times what is live"
    assert advice.of_live(12, 10) == "120 % of what is live"


def test_lifetimes_are_spread_by_quantiles() -> None:
    edge = float(lifetimes.MS)
    assert lifetimes.below(edge, [1, 1, 1, 1, 1, 1]) == 1.0
    assert lifetimes.below(edge, [2 * edge] * 6) == 0.0
    # the median is exact; up to it, a millisecond lies half way from 100 us to 10 ms by logarithm
    points = [edge / 10, edge * 10, edge * 10, edge * 10, edge * 10, edge * 10]
    assert lifetimes.below(edge, points) == pytest.approx(0.25)
    row = dict.fromkeys(lifetimes.COLUMNS, 10**6 // 2) | {"objects": 80, "still_live": 20}
    assert lifetimes.spread(row) == [80, 0, 0, 0, 0, 0, 20]
    backwards = dict.fromkeys(lifetimes.COLUMNS, 5) | {"lifetime_max": 0}
    assert sum(lifetimes.spread(backwards | {"objects": 7, "still_live": -3})) == 7


@pytest.mark.parametrize(
    ("size", "at"), [(0, 0), (64, 0), (65, 1), (8192, 3), (262144, 4), (262145, 5), (1 << 40, 5)]
)
def test_sizes_fall_into_bins(size: int, at: int) -> None:
    assert lifetimes.size_bin(size) == at


def test_rank_correlation() -> None:
    rising = [(float(x), float(x) ** 3) for x in range(6)]
    assert spans.spearman(rising) == pytest.approx(1)
    assert spans.spearman([(x, -y) for x, y in rising]) == pytest.approx(-1)
    assert spans.spearman([(1, 1), (2, 1), (2, 2), (4, 2)]) == pytest.approx(0.7071, abs=1e-3)
    assert spans.spearman(rising[:3]) is None
    assert spans.spearman([(1, 5), (2, 5), (3, 5), (4, 5)]) is None


def test_the_page_begins_with_the_three_things_that_bring_most() -> None:
    def section(name: str, found: advice.Advice | None) -> Section:
        return Section(name, name.title(), advice=found)

    sections = [
        section("none", None),
        section("fine", advice.fine("good")),
        section("some", advice.look("some", brings=10 * MIB)),
        section("uncounted", advice.look("who knows")),
        section("most", advice.look("most", brings=90 * MIB)),
        section("do", advice.act("do it", "strata release 1", brings=MIB)),
        section("less", advice.look("less", brings=MIB)),
    ]
    assert [one.name for one in first_things(sections)] == ["do", "most", "some"]
    html = first_html(sections)
    assert html.index("do it") < html.index("most") < html.index("some")
    assert "strata release 1" in html
    assert "Nothing." in first_html(sections[:2])


def test_a_command_is_one_thing_to_do_whatever_figures_ask_for_it() -> None:
    sections = [
        Section("small", "Small", advice=advice.act("a", "strata release 1", MIB)),
        Section("large", "Large", advice=advice.act("b", "strata release 1", 9 * MIB)),
        Section("other", "Other", advice=advice.look("c", brings=MIB)),
        Section("more", "More", advice=advice.look("d", brings=MIB)),
    ]
    assert [one.name for one in first_things(sections)] == ["large", "other", "more"]


def test_a_cause_is_one_thing_to_do_and_the_figure_with_a_command_tells_it() -> None:
    pinned = {
        "spans": advice_stacks.span_by_capacity(-0.7, (64, 900, 95 * MIB), "addNode"),
        "tiers": advice_memory.fragmentation(
            tiers(central_free=97), 40 * MIB, IDLE, "7", Pinned(81 * MIB)
        ),
        "stacks": advice_stacks.waste_stacks("addNode", 0.6, 80 * MIB, pinned=False, pid="7"),
        "small": advice.look("a byte less", brings=MIB),
    }
    sections = [Section(name, name, advice=one) for name, one in pinned.items()]
    assert [one.name for one in first_things(sections)] == ["stacks", "small"]
