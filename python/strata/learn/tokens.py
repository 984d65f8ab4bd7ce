"""A frame's tokens, by the rule that src/lifetime/tokens.h describes:
tests/lifetime/golden/tokens.txt holds both to it. After LLAMA (Maas et al., ASPLOS 2020, section
5.2), but from symbols as the linker knows them, which a running program can read for itself."""

from __future__ import annotations

from collections.abc import Iterator

MOST_TOKENS = 16  # of a frame
MOST_BYTES = 4096  # of a name; the rest is not looked at
FNV_BASIS = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
HEX = frozenset(b"0123456789abcdef")
RUST_HASH = 17


def fnv(data: bytes) -> int:
    value = FNV_BASIS
    for byte in data:
        value = (value ^ byte) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return value


def hash_of(token: bytes) -> int:
    """Never 0, which marks a free place in the table of tokens."""
    return fnv(token) or 1


def digit(byte: int) -> bool:
    return 48 <= byte <= 57


def in_word(byte: int) -> bool:
    return digit(byte) or 65 <= byte <= 90 or 97 <= byte <= 122 or byte >= 128


def words(text: bytes) -> Iterator[bytes]:
    begin = 0
    for at in range(len(text) + 1):
        if at == len(text) or not in_word(text[at]):
            if at > begin:
                yield text[begin:at]
            begin = at + 1


def build_of_place(name: bytes) -> bytes:
    """The build id of a build id and an offset, which stand for a function without a symbol; empty
    if the name is something else."""
    build, _, offset = name.partition(b"+0x")
    return build if build and offset and HEX.issuperset(build + offset) else b""


def at_site(name: str, build_id: str, place: int) -> str:
    """A frame: its function, and where in its file it returns to, less one. The place is the same
    in every run of one build, and tells the calls within a function apart."""
    return f"{name} <{build_id[:16]}+{place:#x}>" if build_id else name


def parts_of(frame: bytes) -> tuple[bytes, bytes]:
    """The function's name, and the place with its brackets, or nothing."""
    name, mark, place = frame.rpartition(b" <")
    if mark and place.endswith(b">") and build_of_place(place[:-1]):
        return name, b"<" + place
    return frame, b""


def is_rust_hash(text: bytes) -> bool:
    return len(text) == RUST_HASH and text[:1] == b"h" and HEX.issuperset(text[1:])


def identifiers(name: bytes) -> Iterator[bytes]:
    """The names in a mangled one (Itanium C++ ABI, 5.1): each has its length in front. What else
    holds digits, substitutions and literals, is passed over."""
    at = 2
    end = len(name)
    while at < end:
        if name[at] in b"ST":
            stop = at + 1
            while stop < end and (digit(name[stop]) or 65 <= name[stop] <= 90):
                stop += 1
            at = stop + 1 if stop < end and name[stop] == 95 else at + 1
            continue
        if name[at] == 76 and at + 2 < end and 97 <= name[at + 1] <= 122:
            stop = at + 2
            while stop < end and (digit(name[stop]) or name[stop] == 110):
                stop += 1
            if stop < end and stop > at + 2 and name[stop] == 69:
                at = stop + 1
                continue
        if not digit(name[at]):
            at += 1
            continue
        length = 0
        while at < end and digit(name[at]):
            length = min(length * 10 + name[at] - 48, MOST_BYTES)
            at += 1
        text = name[at : at + length]
        if len(text) < length:
            return
        at += length
        if not is_rust_hash(text):
            yield text


def all_tokens(name: bytes) -> Iterator[bytes]:
    name = name[:MOST_BYTES]
    if build := build_of_place(name):
        yield from (build, name)
        return
    if name.startswith(b"_Z"):
        for text in identifiers(name.partition(b".")[0].partition(b"@")[0]):
            yield from words(text)
    else:
        plain = name.partition(b"@")[0]
        yield from words(plain.partition(b".")[0] or plain)


def site_of(frame: str) -> bytes:
    """The token of the place; empty if the frame has none."""
    return parts_of(frame.encode("utf-8", "surrogateescape"))[1]


def tokens_of(frame: str) -> list[bytes]:
    """Those of the function's name."""
    found = []
    for token in all_tokens(parts_of(frame.encode("utf-8", "surrogateescape"))[0]):
        found.append(token)
        if len(found) == MOST_TOKENS:
            break
    return found
