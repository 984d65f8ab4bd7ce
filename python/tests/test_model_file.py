"""The file of a model: written and read, the same bytes as the golden ones that the tests of
the run time read, and what is refused."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from strata.errors import StrataError
from strata.learn import model_file
from strata.learn.classes import NAMES
from strata.learn.forecast import predict
from strata.learn.model_file import CLASSES, load, size_rows
from strata.learn.tokens import MOST_TOKENS, fnv, tokens_of

LIFETIME = Path(__file__).resolve().parents[2] / "tests/lifetime"
GOLDEN = LIFETIME / "golden"


def test_the_golden_files_are_still_what_python_makes(tmp_path: Path) -> None:
    script = LIFETIME / "make_golden.py"
    subprocess.run([sys.executable, script, tmp_path], check=True)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in GOLDEN.iterdir()}
    for path in GOLDEN.iterdir():
        made = (tmp_path / path.name).read_bytes()
        if path.suffix == ".txt" and path.name != "tokens.txt":
            ours, theirs = (
                [row.split("\t")[1].split() for row in data.decode().splitlines()]
                for data in (made, path.read_bytes())
            )
            assert np.allclose(np.array(ours, float), np.array(theirs, float), atol=1e-6)
        else:
            assert made == path.read_bytes()


def test_the_fuzzer_begins_with_a_model_of_this_version() -> None:
    corpus = LIFETIME.parent / "fuzz/corpus/model_fuzz"
    assert (corpus / "int8").read_bytes()[1:] == (GOLDEN / "int8.model").read_bytes()


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("sds_new_len", ["sds", "new", "len"]),
        ("_ZN5outer5inner8functionEv", ["outer", "inner", "function"]),
        ("_ZN3abcILi42EE4evenEv.isra.0", ["abc", "even"]),
        ("_ZN4core3fmt5write17h0123456789abcdefE", ["core", "fmt", "write"]),
        ("_ZNSt6vectorIiSaIiEE4sizeEv", ["vector", "size"]),
        ("_ZN1aS1_1bE", ["a", "b"]),
        ("135afc8c6d1b9e02+0x4a60", ["135afc8c6d1b9e02", "135afc8c6d1b9e02+0x4a60"]),
        ("libfoo.so+0x12", ["libfoo"]),
        ("malloc@@GLIBC_2.2.5", ["malloc"]),
        ("_ZN1a9cut", ["a"]),
        ("", []),
    ],
)
def test_tokens(name: str, tokens: list[str]) -> None:
    assert tokens_of(name) == [token.encode() for token in tokens]


def test_a_frame_has_so_many_tokens_at_most() -> None:
    assert len(tokens_of(" ".join("abcdefghijklmnopqrstuvwxyz"))) == MOST_TOKENS


def test_sizes_have_two_coarse_and_eight_fine_rows_a_power_of_two() -> None:
    sizes = (0, 1, 2, 3, 4, 6, 8, 9, 1024, 1151, 1152, 1536, 2047, 1 << 60)
    coarse, fine = zip(*map(size_rows, sizes), strict=True)
    assert coarse == (0, 0, 2, 3, 4, 5, 6, 6, 20, 20, 20, 21, 21, 63)
    assert [row - 64 for row in fine] == [0, 1, 2, 3, 4, 6, 8, 9, 64, 64, 65, 68, 71, 191]


def test_int8_predicts_nearly_the_same() -> None:
    exact, small = load(GOLDEN / "f32.model"), load(GOLDEN / "int8.model")
    stack = ["malloc_wrapper", "_ZN5outer5inner8functionEv", "main"]
    for said, nearly in zip(predict(exact, stack, 64), predict(small, stack, 64), strict=True):
        assert said.shape == (CLASSES,)
        assert said.sum() == pytest.approx(1, abs=1e-5)
        assert np.abs(nearly - said).max() < 0.1
    assert small.size < exact.size / 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:100], "too short for a model"),
        (lambda data: data[:-64], "too short for a model"),
        (lambda _data: b"", "too short for a model"),
        (lambda data: b"x" * len(data), "not a model of strata train"),
        (lambda data: data[:8] + b"\3" + data[9:], "version 3; this strata reads version 4"),
        (lambda data: data[:9000] + b"\xff\xfe" + data[9002:], "damaged"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, change: object, reason: str) -> None:
    assert callable(change)
    path = tmp_path / "a.model"
    path.write_bytes(change((GOLDEN / "f32.model").read_bytes()))
    with pytest.raises(StrataError) as refused:
        load(path)
    assert str(refused.value) == f"{path}: {reason}"


@pytest.mark.filterwarnings("ignore:overflow")  # weights that are no numbers
def test_a_checksum_that_fits_proves_nothing() -> None:
    """Whatever the bytes say, they are a model or refused."""
    whole = (GOLDEN / "int8.model").read_bytes()
    draw = random.Random(4)
    refused = 0
    for _ in range(60):
        data = bytearray(whole)
        at = draw.randrange(model_file.CHECKSUM_AT + 8, model_file.HEAD_BYTES)
        data[at] ^= 1 << draw.randrange(8)
        data[model_file.CHECKSUM_AT : model_file.CHECKSUM_AT + 8] = bytes(8)
        struct.pack_into("<Q", data, model_file.CHECKSUM_AT, fnv(bytes(data)))
        try:
            model_file.parse(bytes(data))
        except ValueError as error:
            assert str(error) == "damaged"  # noqa: PT017
            refused += 1
    assert refused > 40


@pytest.mark.parametrize("kind", ["f32", "int8"])
def test_a_section_of_another_length_is_refused(kind: str) -> None:
    numbers, parts = model_file.sections_of((GOLDEN / f"{kind}.model").read_bytes())
    model_file.from_sections(numbers, parts, 0)
    for name in set(parts) - {"about"}:
        for other in (parts[name][:-1], parts[name] + bytes(8)):
            if len(other) != len(parts[name]):
                with pytest.raises(ValueError, match="of another length"):
                    model_file.from_sections(numbers, parts | {name: other}, 0)


def test_facts_that_are_too_long_are_no_model() -> None:
    model = load(GOLDEN / "f32.model")
    model.about = {"note": "x" * model_file.MOST_BYTES}
    with pytest.raises(StrataError, match="has to stay below 1,000,000"):
        model_file.dump(model)


def test_the_shares_of_a_known_stack_add_up() -> None:
    model = load(GOLDEN / "int8.model")
    stack, known = next(iter(model.known.items()))
    more = bytes([*known.shares[:-1], known.shares[-1] ^ 1])
    model.known[stack] = model_file.Known(known.label, more)
    with pytest.raises(ValueError, match="damaged"):
        model_file.parse(model_file.dump(model))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_has_no_end_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "a.model"
    make(path)
    with pytest.raises(StrataError, match=r"is a (pipe|device)"):
        load(path)


def test_the_largest_vocabulary_stays_below_a_megabyte() -> None:
    rows = 1 + model_file.MOST_TOKENS + model_file.SIZES
    weights = load(GOLDEN / "f32.model").weights
    weights.embedding = np.zeros((rows, model_file.EMBEDDING), np.float32)
    tokens = [str(number).encode() for number in range(model_file.MOST_TOKENS)]
    builds = ["ab" * 20] * model_file.MOST_BUILDS
    shares = bytes([model_file.OF] + [0] * (CLASSES - 1))
    known = {number: model_file.Known(1, shares) for number in range(model_file.MOST_KNOWN + 1)}
    about = {"programs": [f"program{number}" for number in range(100_000)]}
    data = model_file.dump(model_file.Model(tokens, weights, builds, about, known=known))
    assert len(data) < 1_000_000
    assert model_file.parse(data).about["programs"][:2] == ["program0", "program1"]
    assert len(model_file.parse(data).known) == model_file.MOST_KNOWN


def test_show_says_what_it_is() -> None:
    command = [sys.executable, "-m", "strata", "model", "show", str(GOLDEN / "int8.model")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "version 4, int8, 37 KiB" in done.stdout
    assert "programs: golden" in done.stdout
    assert ", ".join(NAMES) in done.stdout
