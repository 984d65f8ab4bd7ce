"""Every row of the table of settings: what it takes is read back, what it does not take changes
nothing; by the socket and by strata_set and strata_get."""

from __future__ import annotations

import json
import os
import sys

from blackbox import ROOT, Lab, wait_until
from command import good, refused
from memory_cgroup import JOIN, KILLED, made
from reaching import ask_raw, body_of, started

SIZES = {"67108864": "67108864", "64M": "67108864", "1GiB": "1073741824"}
NO_SIZES = ["", "64Q", "-1", "1.5M", "M", "99999999999999999999", "64M more"]
SWITCH = {"off": "off", "1": "on", "0": "off", "on": "on"}
NO_SWITCH = ["", "yes", "2", "onn", "ON"]

# name: what is given and what is then read, and what is refused
ROWS: dict[str, tuple[dict[str, str], list[str]]] = {
    "sample": ({**SIZES, "0": "0", "2M": "2097152", "4T": str(1 << 40)}, NO_SIZES),
    "adaptive": (SWITCH, NO_SWITCH),
    "cpu_cache_bytes": ({"64K": "65536", "1M": "1048576"}, [*NO_SIZES, "2G"]),
    "release": (SWITCH, NO_SWITCH),
    "heap_limit": ({**SIZES, "0": "0"}, NO_SIZES),
    "soft_limit": (
        {"80%": "80%", "100%": "100%", "off": "off", "4G": "4294967296"},
        ["", "0%", "101%", "%", "0", "80 %", "on"],
    ),
    "price": (SWITCH, NO_SWITCH),
    "weight": ({"1": "1", "250": "250"}, ["", "0", "10001", "-1", "1K"]),
    "stats_interval": ({"15": "15", "86400": "86400", "0": "0"}, ["", "86401", "1s", "-1"]),
}

BY_CALLS = """
import ctypes, json, sys
api = ctypes.CDLL(None)
api.strata_get.restype = ctypes.c_size_t
def get(name, room=64):
    buffer = ctypes.create_string_buffer(b"untouched", 64)
    length = api.strata_get(name, buffer, ctypes.c_size_t(room))
    return [length, buffer.value.decode()]
done = []
for name, value in json.loads(sys.argv[1]):
    status = api.strata_set(name.encode(), value.encode())
    done.append([status, get(name.encode())[1]])
api.strata_set(b"sample", b"2M")
more = {
    "unknown": [api.strata_set(b"nothing", b"1"), get(b"nothing")],
    "null": [api.strata_set(None, b"1"), api.strata_set(b"sample", None)],
    "null_get": [get(None), api.strata_get(b"sample", None, ctypes.c_size_t(0))],
    "cut": [get(b"sample", 4), get(b"sample", 8), get(b"sample", 7), get(b"sample", 0)],
}
print(json.dumps([done, more]))
"""


def test_rows_of_the_table_by_the_socket(lab: Lab) -> None:
    with started(lab, "grow_and_sleep", env={"STRATA_CONTROL": "always"}) as (process, _):

        def get(name: str) -> str:
            return body_of(ask_raw(process.pid, f"get {name}".encode())).decode()

        lines = body_of(ask_raw(process.pid, b"options")).decode().splitlines()
        listed = [line.split("\t") for line in lines]
        assert [line[0].partition("=")[0] for line in listed] == list(ROWS)
        assert all(len(line) == 3 and all(line) for line in listed)
        for name, (good, bad) in ROWS.items():
            begin = get(name)
            for value in bad:
                refused = ask_raw(process.pid, f"set {name}={value}".encode())
                assert refused.startswith(b"error "), (name, value)
            assert get(name) == begin, "what is refused changes nothing"
            for value, read in good.items():
                assert body_of(ask_raw(process.pid, f"set {name}={value}".encode())) == b""
                assert get(name) == f"{name}={read}\n", value
            # What is read is what may be set.
            again = get(name).strip()
            assert body_of(ask_raw(process.pid, f"set {again}".encode())) == b""
            assert get(name).strip() == again


def test_rows_of_the_table_by_calls(lab: Lab) -> None:
    lab.require_strata()
    pairs = [(name, value) for name, (good, bad) in ROWS.items() for value in [*good, *bad]]
    result = lab.run(sys.executable, "-c", BY_CALLS, json.dumps(pairs)).ok()
    done, more = json.loads(result.stdout)
    last = ""
    for (name, value), (status, read) in zip(pairs, done, strict=True):
        good = ROWS[name][0]
        assert status == (0 if value in good else 22), (name, value)
        last = good.get(value, last)
        assert read == last, (name, value)
    assert more["unknown"] == [2, [0, ""]]
    assert more["null"] == [22, 22]
    assert more["null_get"] == [[0, ""], len("2097152")]
    assert more["cut"] == [[7, "209"], [7, "2097152"], [7, "209715"], [7, "untouched"]]


def test_the_commands_refuse_what_the_library_would_ignore(lab: Lab) -> None:
    library = lab.require_strata()
    run = ("run", "--lib", library)
    assert "--set: unknown option STRATA_SAMPEL\n" in refused(*run, "--set", "SAMPEL=0", "true")
    assert "STRATA_HEAP_LIMIT=xx makes no sense; it takes" in refused(
        *run, "--set", "SAMPLE=0", "--set", "HEAP_LIMIT=xx", "true"
    )
    assert good(*run, "--set", "SAMPLE=0", "--set", "HEAP_LIMIT=1G", "true") == ""


def test_who_waits_goes_on_when_the_price_is_switched_off(lab: Lab) -> None:
    """The look of a thread that waits sets where it looks next: never after that."""
    hog = lab.build(ROOT / "bench/programs/grow.cpp", "-O2")
    env = {"STRATA_CONTROL": "always", "STRATA_PRICE": "on"}
    with made(f"strata-price-off-{os.getpid()}") as group:
        group.limit(96)
        with lab.start("/bin/sh", "-c", JOIN, str(group.path), hog, "--mode=hog", env=env) as it:
            assert wait_until(lambda: group.usage_mib() > 0.85 * 96)
            assert not wait_until(lambda: it.poll() is not None, 1)
            good("set", it.pid, "price=off")
            assert wait_until(lambda: it.poll() is not None, 20)
            assert it.returncode in KILLED
