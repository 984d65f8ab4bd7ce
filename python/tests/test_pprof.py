"""Reading and writing profiles: what is written is read again, what is broken is refused with one
error whatever the bytes, sums and differences are right."""

from __future__ import annotations

import contextlib
import gzip
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from profiles import HEAP, PROGRAM, anything, heap, place

from strata.errors import StrataError
from strata.pprof import (
    Line,
    Location,
    Mapping,
    Profile,
    Sample,
    ValueType,
    dumps,
    filter_profile,
    load,
    merge,
    parse,
    subtract,
)
from strata.pprof import profile_pb2 as pb


def test_what_is_written_is_read_again() -> None:
    draw = random.Random(1)
    for _ in range(300):
        profile = anything(draw)
        packed = dumps(profile)
        again = parse(packed)
        used = {place.mapping for sample in again.samples for place in sample.stack}
        assert set(again.mappings) >= used - {None}
        assert again == profile
        assert parse(gzip.decompress(packed)) == again
        assert dumps(again) == packed


def test_any_damage_is_refused_or_harmless() -> None:
    """Random changes to the packed and the plain bytes: a profile or a StrataError, in no time."""
    draw = random.Random(2)
    begin = time.monotonic()
    read = 0
    refused: list[str] = []
    for turn in range(3000):
        data = bytearray(dumps(anything(draw)))
        if turn % 3:
            data = bytearray(gzip.decompress(data))
        for _ in range(draw.choice([1, 1, 2, 5, 40])):
            at = draw.randrange(len(data))
            change = draw.randrange(4)
            if change == 0:
                data[at] = draw.randrange(256)
            elif change == 1:
                data[at] ^= 1 << draw.randrange(8)
            elif change == 2:
                del data[at : at + draw.randrange(1, 9)]
            else:
                data[at:at] = draw.randbytes(draw.randrange(1, 9))
            data = data or bytearray(b"x")
        if turn % 3 == 2:
            data = bytearray(gzip.compress(bytes(data), 1))
        try:
            profile = parse(bytes(data), "file")
        except StrataError as error:
            refused.append(str(error))
        else:
            read += 1
            dumps(profile)
    assert len(refused) > 500
    assert all(text.startswith("file: ") and "\n" not in text for text in refused)
    assert read > 100
    assert time.monotonic() - begin < 60


def test_cut_at_every_byte() -> None:
    packed = dumps(heap({"main;run;take": 1000, "main;idle": 10}))
    for size in range(len(packed)):
        with pytest.raises(StrataError):
            parse(packed[:size])


def test_noise_is_refused() -> None:
    draw = random.Random(3)
    for size in range(400):
        noise = draw.randbytes(size)
        for data in (noise, b"\x1f\x8b" + noise, gzip.compress(noise)):
            with contextlib.suppress(StrataError):
                parse(data)


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.pprof.read.MAX_BYTES", 1 << 20)
    with pytest.raises(StrataError, match="unpacks to more than 1 MiB"):
        parse(gzip.compress(bytes(64 << 20)))
    with pytest.raises(StrataError, match="unpacks to more than 1 MiB"):
        parse(gzip.compress(bytes(700_000)) * 2)


def test_what_takes_long_to_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.pprof.read.MAX_ROWS", 100)
    monkeypatch.setattr("strata.pprof.read.MAX_FRAMES", 200)
    wide = replace(heap({"main;take": 1000}), samples=heap({"main;take": 1000}).samples * 101)
    with pytest.raises(StrataError, match="more than 100 rows"):
        parse(dumps(wide))
    with pytest.raises(StrataError, match="more than 200 frames"):
        parse(plain(lambda m: m.sample[0].location_id.extend([1] * 201)))
    inlined = replace(place("take"), lines=place("take").lines * 15)
    deep = heap({"main": 1000})
    deep.samples = [replace(deep.samples[0], stack=(inlined,) * 20)]
    with pytest.raises(StrataError, match="more than 200 frames"):
        parse(dumps(deep))


def test_parts_packed_apart_are_one_up_to_a_number() -> None:
    whole = gzip.decompress(dumps(heap({"main;take": 1000})))
    parts = [gzip.compress(whole[at : at + 1]) + bytes(3) for at in range(len(whole))]
    assert parse(b"".join(parts)) == parse(whole)
    with pytest.raises(StrataError, match="cut short"):
        parse(b"".join(parts)[:-7])
    with pytest.raises(StrataError, match="more than 10,000 parts"):
        parse(gzip.compress(b"") * 10_001)


def plain(change: Callable[[pb.Profile], object]) -> bytes:
    message = pb.Profile()
    message.ParseFromString(gzip.decompress(dumps(heap({"main;take": 1000}))))
    change(message)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m.ClearField("string_table"), "string table"),
        (lambda m: m.string_table.insert(0, b"x"), "string table"),
        (lambda m: m.ClearField("sample_type"), "what its values are"),
        (lambda m: m.sample[0].value.pop(), "3 values of 4 types"),
        (lambda m: m.sample[0].location_id.append(77), "location 77"),
        (lambda m: m.location.add(id=1), "1 of a location"),
        (lambda m: m.location.add(id=0), "0 of a location"),
        (lambda m: m.location.add(id=99, mapping_id=9), "mapping 9"),
        (lambda m: m.location.add(id=99).line.add(function_id=9), "function 9"),
        (lambda m: m.mapping.add(id=9, memory_start=2, memory_limit=1), "ends before"),
        (lambda m: m.comment.append(-1), "string -1"),
        (lambda m: m.comment.append(2**60), "string 1152921504606846976"),
        (lambda m: m.sample[0].label.add(key=10**6), "string 1000000"),
    ],
)
def test_what_is_wrong_is_said(change: Callable[[pb.Profile], object], says: str) -> None:
    with pytest.raises(StrataError, match=says):
        parse(plain(change))


def test_strings_need_not_be_utf8() -> None:
    profile = parse(plain(lambda m: m.string_table.append(b"\xff\xfe")))
    assert len(profile.samples) == 1


def test_files(tmp_path: Path) -> None:
    with pytest.raises(StrataError, match="No such file"):
        load(tmp_path / "none")
    with pytest.raises(StrataError, match="Is a directory"):
        load(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(StrataError, match="empty"):
        load(tmp_path / "empty")


def by_stack(profile: Profile) -> dict[str, int]:
    return {";".join(sample.names()): sample.values[3] for sample in profile.samples}


def test_merge_and_subtract() -> None:
    old, new = heap({"main;a": 100, "main;b": 50}), heap({"main;a": 130, "main;c": 20})
    assert by_stack(merge([old, new])) == {"main;a": 230, "main;b": 50, "main;c": 20}
    assert by_stack(subtract(new, old)) == {"main;a": 30, "main;b": -50, "main;c": 20}
    assert subtract(new, new).samples == []
    assert merge([old]).samples == old.samples
    with pytest.raises(StrataError, match="different kinds"):
        merge([old, Profile([ValueType("cpu", "ns")])])


def with_counts(profile: Profile, *names: str) -> Profile:
    return replace(
        profile,
        types=[*profile.types, *(ValueType(name, "count") for name in names)],
        samples=[
            replace(each, values=(*each.values, *map(len, names))) for each in profile.samples
        ],
    )


@pytest.mark.parametrize("fewer", [(), ("samples",), ("died_1s", "died_10s")])
def test_a_profile_with_fewer_counts_is_compared_all_the_same(fewer: tuple[str, ...]) -> None:
    """An older library wrote none by lifetime; a still older one none of samples."""
    old = with_counts(heap({"main;a": 100}), *fewer)
    new = with_counts(heap({"main;a": 130, "main;c": 20}), "died_1s", "died_10s", "samples")
    for one, other in ((old, new), (new, old)):
        assert subtract(one, other).types == merge([one, other]).types == old.types
    assert by_stack(subtract(new, old)) == {"main;a": 30, "main;c": 20}
    assert by_stack(merge([old, new])) == {"main;a": 230, "main;c": 20}
    assert {each.values[4:] for each in merge([old, old]).samples} == {
        tuple(2 * len(name) for name in fewer)
    }
    assert merge([new, new]).types == new.types


def test_counts_in_another_order_are_added_up() -> None:
    one = with_counts(heap({"main;a": 100}), "died_1s", "samples", "died_100s")
    other = with_counts(heap({"main;a": 100}), "samples", "died_100s", "died_1s")
    assert merge([one, other]).types == one.types
    assert merge([one, other]).samples[0].values[4:] == (14, 14, 18)


def test_two_runs_are_compared_by_place_in_the_file() -> None:
    def run(base: int, values: tuple[int, ...]) -> Profile:
        mapping = Mapping(base, base + 0x1000, 0x2000, "/bin/x", "cafe")
        return Profile(HEAP, [Sample((Location(base + 0x10, mapping),), values)], [mapping])

    (sample,) = subtract(run(0x5000, (3, 3, 3, 3)), run(0x9000, (1, 1, 1, 1))).samples
    assert sample.values == (2, 2, 2, 2)
    assert sample.names() == ("x+0x2010",)


def test_merge_is_the_sum_of_its_parts() -> None:
    draw = random.Random(4)
    for _ in range(100):
        parts = [anything(draw) for _ in range(3)]
        for part in parts:
            part.types = parts[0].types
            part.samples = [
                Sample(s.stack, tuple(draw.randrange(-9, 99) for _ in part.types), s.labels)
                for s in part.samples
            ]
        for index in range(len(parts[0].types)):
            want = sum(s.values[index] for part in parts for s in part.samples)
            assert sum(s.values[index] for s in merge(parts).samples) == want
        whole = merge(parts)
        for part in parts:
            whole = subtract(whole, part)
        assert whole.samples == []


def test_lifetimes_do_not_add_up() -> None:
    types = [
        ValueType("objects", "count"), ValueType("lifetime_min", "nanoseconds"),
        ValueType("lifetime_max", "nanoseconds"), ValueType("lifetime_p50", "nanoseconds"),
        ValueType("freed_by_other_cpu", "percent"), ValueType("cpu", "nanoseconds"),
    ]  # fmt: skip

    def one(*values: int) -> Profile:
        return Profile(types, [Sample((place("main"),), values)], [PROGRAM])

    a, b, nothing = one(10, 5, 90, 20, 100, 7), one(30, 7, 50, 40, 0, 7), one(0, 0, 0, 0, 0, 1)
    (sample,) = merge([a, b, nothing]).samples
    assert sample.values == (40, 5, 90, 35, 25, 15)
    assert merge([a]).samples[0].values == a.samples[0].values
    (sample,) = subtract(b, a).samples
    assert sample.values == (20, 2, -40, 20, -100, 0)


def test_filter() -> None:
    profile = heap({"main;parse;take": 1, "main;parse;skip": 2, "main;send;take": 4})
    assert set(by_stack(filter_profile(profile, focus="^parse$")).values()) == {1, 2}
    assert set(by_stack(filter_profile(profile, focus="take", ignore="send")).values()) == {1}
    with pytest.raises(StrataError, match="--focus"):
        filter_profile(profile, focus="(")


def test_hidden_functions_leave_what_they_hold_to_their_callers() -> None:
    profile = heap({"main;dup;malloc": 1, "main;malloc": 2, "malloc": 4})
    assert by_stack(filter_profile(profile, hide="^malloc$")) == {"main;dup": 1, "main": 2, "": 4}
    inlined = Location(1, PROGRAM, (Line("new"), Line("make")))
    sample = Sample((inlined, Location(0x77)), (1, 1, 1, 1))
    (left,) = filter_profile(Profile(HEAP, [sample]), hide="new|0x").samples
    assert left.names() == ("make",)


def test_types_by_name() -> None:
    profile = heap({"main": 1})
    assert profile.index_of() == 3
    assert profile.index_of("alloc_space") == 1
    profile.default_type = ""
    assert profile.index_of() == 3
    with pytest.raises(StrataError, match="it has alloc_objects, alloc_space"):
        profile.index_of("cpu")


def test_names_without_symbols() -> None:
    inlined = Location(1, PROGRAM, (Line("inner"), Line("outer")))
    assert Sample((inlined, place("main")), ()).names() == ("main", "outer", "inner")
    assert list(Location(0x401010, PROGRAM).names()) == ["server+0x1010"]
    assert list(Location(0x77).names()) == ["0x77"]
