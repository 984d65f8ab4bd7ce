"""What a worker of nginx or Apache that has not served yet has in memory on Strata beyond what it
has on glibc, by what it is for."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from strata_bench import request_pools
from strata_bench.allocators import Allocator

WORKERS = 8  # of each server and variant
AT_REST_S = 0.3  # after the first answer of its server

CODE, CONSTANTS, VARIABLES = "the library's code", "its constants and symbols", "its variables"
MODULE = "the module of its pools, code and all"
OTHERS = "blocks and the records of them"
FILES = "pages of the program's and libc's files"
PARTS = (CODE, CONSTANTS, VARIABLES, MODULE, OTHERS, FILES)
TOGETHER = "together"
STOCK = "all that it has on glibc"
WRITTEN = "of these, written by the worker alone"
MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \d+ *(.*)")
SIZE = re.compile(r"(Rss|Private_Dirty): +(\d+) kB")


def parts(smaps: str) -> Counter[str]:
    """KiB of each part, by the text of /proc/PID/smaps. What follows the library without a name
    are its variables that were zero at the start."""
    sizes: Counter[str] = Counter()
    part = OTHERS
    for line in smaps.splitlines():
        if mapping := MAPPING.match(line):
            rights, name = mapping[1], Path(mapping[2]).name
            if name.startswith("libstrata.so"):
                part = CODE if "x" in rights else VARIABLES if "w" in rights else CONSTANTS
            elif name.startswith(("ngx_strata_module", "libstrata-apr")):
                part = MODULE
            elif name not in ("", "[heap]"):
                part = FILES
            elif name or part != VARIABLES:
                part = OTHERS
        elif size := SIZE.match(line):
            sizes[part if size[1] == "Rss" else WRITTEN] += int(size[2])
    return sizes


def of_all(name: str, allocator: Allocator) -> Counter[str]:
    """KiB of all workers together."""
    sizes: Counter[str] = Counter()
    for _ in range(WORKERS):
        with request_pools.server(name, allocator) as (worker, _):
            time.sleep(AT_REST_S)
            sizes += parts(Path(f"/proc/{worker}/smaps").read_text())
    return sizes


def table(found: Mapping[str, Allocator]) -> list[str]:
    """Lines of the page; the first that was found is what the others are compared with."""
    base, *others = found
    heads, columns = [], []
    for name in request_pools.KINDS:
        stock = of_all(name, found[base])
        written = stock.pop(WRITTEN)
        for variant in others:
            sizes = of_all(name, found[variant])
            less = {**stock, WRITTEN: written}
            heads.append(f"{name}, {variant}")
            columns.append({key: sizes[key] - less.get(key, 0) for key in (*PARTS, WRITTEN)})
            columns[-1][TOGETHER] = sum(columns[-1][key] for key in PARTS)
            columns[-1][STOCK] = stock.total()
    lines = [
        f"The mean of {WORKERS} workers that had not served yet (`/proc/PID/smaps`), in KiB more"
        f" than on {base}:\n",
        "| " + " | ".join(["before it serves", *heads]) + " |",
        "|---|" + "---:|" * len(heads),
    ]
    for key in (*PARTS, TOGETHER, WRITTEN, STOCK):
        cells = [f"{column[key] / WORKERS:,.0f}" for column in columns]
        lines.append("| " + " | ".join([key, *cells]) + " |")
    return [*lines, ""]
