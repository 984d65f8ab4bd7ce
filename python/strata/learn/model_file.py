"""The file of a model: writes it, checks and reads it. src/lifetime/model_file.h describes the
bytes, and reads them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from strata.errors import StrataError
from strata.files import read_file, write_file
from strata.learn.classes import NAMES
from strata.learn.tokens import FNV_BASIS, FNV_PRIME, fnv, hash_of

MAGIC = b"STRATALM"
VERSION = 4
HEADER = struct.Struct("<8sIIQQ8I")
SECTION = struct.Struct("<QQ")
ALIGNMENT = 64
EMBEDDING = 32
HIDDEN = 64
GATES = 3 * HIDDEN
CLASSES = len(NAMES)
HEAD = 2 * CLASSES  # its columns: of the class, and of an object
COARSE_SIZES, FINE_SIZES = 64, 192
SIZES = COARSE_SIZES + FINE_SIZES  # rows of the embedding, behind those of tokens
INT8 = 1
NAME_BYTES = 16
BUILD_BYTES = 64
MOST_BYTES = 1_000_000
MOST_ABOUT = 16 << 10
READ_AT_MOST = 4 << 20  # as the run time does
MOST_WORDS = 4096  # tokens of names
MOST_TOKENS = 4608  # with those of places: so that a file of floats stays below 1 MB
MOST_BUILDS = 256
MOST_KNOWN = 3584  # stacks
OF = 255  # that the shares of a known stack add up to
MOST_FRAMES = 64  # of a stack: the innermost
SECTIONS = (
    "hashes",
    "rows",
    "embedding",
    "embedding_scales",
    "input",
    "input_scales",
    "hidden",
    "hidden_scales",
    "biases",
    "head",
    "head_scales",
    "head_bias",
    "class_names",
    "known",
    "known_shares",
    "known_classes",
    "builds",
    "about",
)
HEAD_BYTES = HEADER.size + len(SECTIONS) * SECTION.size
CHECKSUM_AT = 24
Array = npt.NDArray[np.float32]


@dataclass
class Weights:
    """Matrices stand as [from][to]. Row 0 of the embedding is of every unknown token."""

    embedding: Array  # [1 + tokens + SIZES][EMBEDDING]
    input: Array  # [EMBEDDING][GATES]: reset, update, new
    hidden: Array  # [HIDDEN][GATES]
    input_bias: Array
    hidden_bias: Array
    head: Array  # [HIDDEN][HEAD]
    head_bias: Array


@dataclass(frozen=True)
class Known:
    """What was recorded of a stack and a size."""

    label: int  # from 1
    shares: bytes  # of OF, by class


@dataclass
class Model:
    tokens: list[bytes]  # their hashes are what the file keeps
    weights: Weights
    builds: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    is_int8: bool = False
    hashes: dict[int, int] = field(default_factory=dict)  # to rows
    size: int = 0  # bytes of the file
    known: dict[int, Known] = field(default_factory=dict)  # by hash_of_stack

    def __post_init__(self) -> None:
        if not self.hashes:
            self.hashes = {hash_of(token): row for row, token in enumerate(self.tokens, 1)}


def size_rows(size: int) -> tuple[int, int]:
    """Two of the rows for sizes: of a coarse scale, with two for each power of two, and of a fine
    one, with eight."""
    power = max(size, 1).bit_length() - 1
    coarse = 2 * power + (size >> (power - 1) & 1) if power else 0
    fine = 8 * (power - 2) + (size >> (power - 3) & 7) if power > 2 else size
    return min(coarse, COARSE_SIZES - 1), COARSE_SIZES + min(fine, FINE_SIZES - 1)


def quantized(matrix: Array, axis: int) -> tuple[npt.NDArray[np.int8], Array]:
    """Whole numbers of -127 to 127 and a scale for each row that is left when `axis` is summed."""
    scales = np.maximum(np.abs(matrix).max(axis=axis), 1e-12).astype(np.float32) / np.float32(127)
    spread = np.expand_dims(scales, axis)
    return np.rint(matrix / spread).astype(np.int8), scales.astype(np.float32)


def hash_table(hashes: dict[int, int]) -> tuple[bytes, bytes, int]:
    slots = 16
    while slots < 2 * len(hashes):
        slots *= 2
    keys = np.zeros(slots, "<u8")
    rows = np.zeros(slots, "<u4")
    for value, row in sorted(hashes.items(), key=lambda item: item[1]):
        at = value & (slots - 1)
        while keys[at]:
            at = (at + 1) & (slots - 1)
        keys[at], rows[at] = value, row
    return keys.tobytes(), rows.tobytes(), slots


def hash_of_stack(symbols: Sequence[str], size: int) -> int:
    """Of the innermost frames; they are called as a running program sees them."""
    value = FNV_BASIS
    names = (name.encode("utf-8", "surrogateescape") for name in symbols[:MOST_FRAMES])
    for part in (*map(hash_of, names), size):
        value = (value ^ part) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return value


def known_of(model: Model, symbols: Sequence[str], size: int) -> Known | None:
    return model.known.get(hash_of_stack(symbols, size)) if symbols else None


def fixed(texts: Iterable[str], size: int) -> bytes:
    return b"".join(text.encode()[: size - 1].ljust(size, b"\0") for text in texts)


def about_text(about: dict[str, Any]) -> bytes:
    """Without the last of the programs if there are too many, or their names too long."""
    programs = list(about.get("programs", ()))
    while len(text := json.dumps(about, sort_keys=True).encode()) > MOST_ABOUT and programs:
        programs = programs[: len(programs) // 2]
        about = about | {"programs": programs}
    return text


def dump(model: Model) -> bytes:
    weights = model.weights
    keys, rows, slots = hash_table(model.hashes)
    matrices = {
        "embedding": (weights.embedding, 1),
        "input": (weights.input, 0),
        "hidden": (weights.hidden, 0),
        "head": (weights.head, 0),
    }
    parts: dict[str, bytes] = dict.fromkeys(SECTIONS, b"")
    for name, (matrix, axis) in matrices.items():
        if model.is_int8:
            numbers, scales = quantized(matrix, axis)
            parts[name] = numbers.tobytes()
            parts[f"{name}_scales"] = scales.astype("<f4").tobytes()
        else:
            parts[name] = matrix.astype("<f4").tobytes()
    both = np.concatenate([weights.input_bias, weights.hidden_bias])
    stacks = sorted(model.known.items())[:MOST_KNOWN]
    parts |= {
        "hashes": keys,
        "rows": rows,
        "biases": both.astype("<f4").tobytes(),
        "head_bias": weights.head_bias.astype("<f4").tobytes(),
        "class_names": fixed(NAMES, NAME_BYTES),
        "known": np.array([value for value, _ in stacks], "<u8").tobytes(),
        "known_shares": b"".join(known.shares for _, known in stacks),
        "known_classes": bytes(known.label for _, known in stacks),
        "builds": fixed(model.builds[:MOST_BUILDS], BUILD_BYTES),
        "about": about_text(model.about),
    }
    body = bytearray(HEAD_BYTES)
    places = []
    for name in SECTIONS:
        body += bytes(-len(body) % ALIGNMENT)
        places.append((len(body), len(parts[name])))
        body += parts[name]
    body += bytes(-len(body) % ALIGNMENT)
    if len(body) >= MOST_BYTES:
        raise StrataError(f"a model of {len(body):,} bytes; it has to stay below {MOST_BYTES:,}")
    shape = (len(weights.embedding), slots, EMBEDDING, HIDDEN, CLASSES, SIZES, len(SECTIONS))
    flags = INT8 if model.is_int8 else 0
    HEADER.pack_into(body, 0, MAGIC, VERSION, HEAD_BYTES, len(body), 0, flags, *shape)
    for number, place in enumerate(places):
        SECTION.pack_into(body, HEADER.size + number * SECTION.size, *place)
    struct.pack_into("<Q", body, CHECKSUM_AT, fnv(bytes(body)))
    return bytes(body)


def write(model: Model, path: Path) -> int:
    data = dump(model)
    write_file(path, data)
    return len(data)


def sections_of(data: bytes) -> tuple[tuple[int, ...], dict[str, bytes]]:
    """The header's numbers and the sections, checked; ValueError says what is wrong."""
    if len(data) < HEAD_BYTES:
        raise ValueError("too short for a model")
    magic, version, head, size, checksum, *numbers = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ValueError("not a model of strata train")
    if version != VERSION:
        raise ValueError(f"version {version}; this strata reads version {VERSION}")
    if size > len(data):
        raise ValueError("too short for a model")
    clean = data[:CHECKSUM_AT] + bytes(8) + data[CHECKSUM_AT + 8 :]
    if size != len(data) or head != HEAD_BYTES or fnv(clean) != checksum:
        raise ValueError("damaged")
    parts = {}
    for number, name in enumerate(SECTIONS):
        at, length = SECTION.unpack_from(data, HEADER.size + number * SECTION.size)
        if at % ALIGNMENT or at + length > size:
            raise ValueError("damaged")
        parts[name] = data[at : at + length]
    return tuple(numbers), parts


def parse(data: bytes) -> Model:
    """ValueError says what is wrong."""
    numbers, parts = sections_of(data)
    try:
        return from_sections(numbers, parts, len(data))
    except (ValueError, RecursionError) as error:  # what is there is not what has to be there
        raise ValueError("damaged") from error


def lengths_hold(parts: dict[str, bytes], rows: int, slots: int, *, is_int8: bool) -> bool:
    """Whether each section is as long as its file's description says."""
    width, scale = (1, 4) if is_int8 else (4, 0)
    known = len(parts["known_classes"])
    exact = {
        "hashes": 8 * slots,
        "rows": 4 * slots,
        "embedding": rows * EMBEDDING * width,
        "embedding_scales": rows * scale,
        "input": EMBEDDING * GATES * width,
        "input_scales": GATES * scale,
        "hidden": HIDDEN * GATES * width,
        "hidden_scales": GATES * scale,
        "biases": 4 * 2 * GATES,
        "head": HIDDEN * HEAD * width,
        "head_scales": HEAD * scale,
        "head_bias": 4 * HEAD,
        "class_names": CLASSES * NAME_BYTES,
        "known": 8 * known,
        "known_shares": CLASSES * known,
    }
    whole_builds, rest = divmod(len(parts["builds"]), BUILD_BYTES)
    return (
        all(len(parts[name]) == length for name, length in exact.items())
        and rest == 0
        and whole_builds <= MOST_BUILDS
    )


def from_sections(numbers: tuple[int, ...], parts: dict[str, bytes], size: int) -> Model:
    flags, rows, slots, *shape = numbers
    if shape != [EMBEDDING, HIDDEN, CLASSES, SIZES, len(SECTIONS)]:
        raise ValueError("another shape")
    is_int8 = bool(flags & INT8)
    if not lengths_hold(parts, rows, slots, is_int8=is_int8):
        raise ValueError("sections of another length")

    def matrix(name: str, height: int, width: int, axis: int) -> Array:
        if not is_int8:
            return np.frombuffer(parts[name], "<f4").reshape(height, width).astype(np.float32)
        scales = np.expand_dims(np.frombuffer(parts[f"{name}_scales"], "<f4"), axis)
        plain = np.frombuffer(parts[name], np.int8).reshape(height, width).astype(np.float32)
        return np.asarray(plain * scales, np.float32)

    biases = np.frombuffer(parts["biases"], "<f4").astype(np.float32)
    weights = Weights(
        matrix("embedding", rows, EMBEDDING, 1),
        matrix("input", EMBEDDING, GATES, 0),
        matrix("hidden", HIDDEN, GATES, 0),
        biases[:GATES],
        biases[GATES : 2 * GATES],
        matrix("head", HIDDEN, HEAD, 0),
        np.frombuffer(parts["head_bias"], "<f4").astype(np.float32),
    )
    keys = np.frombuffer(parts["hashes"], "<u8", slots)
    places = np.frombuffer(parts["rows"], "<u4", slots)
    hashes = {int(key): int(row) for key, row in zip(keys, places, strict=True) if key}
    split = parts["builds"]
    builds = [
        split[at : at + BUILD_BYTES].rstrip(b"\0").decode("utf-8", "replace")
        for at in range(0, len(split), BUILD_BYTES)
    ]
    about = json.loads(parts["about"])
    known = known_stacks(parts)
    if not isinstance(about, dict) or not all(0 <= row < rows - SIZES for row in hashes.values()):
        raise ValueError("rows or facts that are none")
    return Model([], weights, builds, about, is_int8, hashes or {0: 0}, size, known)


def known_stacks(parts: dict[str, bytes]) -> dict[int, Known]:
    stacks = np.frombuffer(parts["known"], "<u8")
    shares = np.frombuffer(parts["known_shares"], np.uint8).reshape(len(stacks), CLASSES)
    labels = list(parts["known_classes"])
    if len(stacks) > MOST_KNOWN or (stacks[1:] <= stacks[:-1]).any():
        raise ValueError("stacks out of order")
    if not all(1 <= label <= CLASSES for label in labels):
        raise ValueError("classes that are none")
    if (shares.sum(axis=1, dtype=np.int64) != OF).any():
        raise ValueError("shares that do not add up")
    each = zip(stacks.tolist(), labels, shares, strict=True)
    return {value: Known(label, share.tobytes()) for value, label, share in each}


def load(path: Path) -> Model:
    data = read_file(path, READ_AT_MOST)
    try:
        return parse(data)
    except ValueError as error:
        raise StrataError(f"{path}: {error}") from error
