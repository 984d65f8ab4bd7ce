"""What each work of docs/benchmarks/works.md does, in a line, for who has not seen its source."""

from __future__ import annotations

WORKS = {
    "tight": "allocates one object and frees it at once: the fast path alone",
    "batch": "allocates COUNT objects of SIZE bytes, then frees them all: `batch-COUNTxSIZE`",
    "replace": "frees a random live object and puts one of random size in its place; with"
    " `changing`, the sizes move on over time",
    "large": "the same with a few blocks of 20 KB to 2 MB, written at both ends; `large-used`"
    " writes every page of them",
    "threadtest": "each thread allocates 8-byte objects by the thousand and frees them (Hoard)",
    "larson": "a server: random replacement by threads that end and leave their objects to"
    " others (Larson)",
    "prodcons": "one thread allocates what another frees",
    "cache-thrash": "each thread allocates, writes many times, frees: slow where two threads'"
    " objects share a cache line (Hoard)",
    "cache-scratch": "the same after each thread has freed an object that lay beside the others'",
    "tight-64-sized-new": "`tight` by C++'s `new` and sized `delete`",
    "realloc": "grows a buffer by doubling it or by 64 KiB a time, or strings by some bytes; in"
    " `realloc-double` the buffer is alone at the top of the heap, where glibc grows it in place",
    "bysize": "allocates and frees up to 64 objects of each size from 8 B to 1 MiB",
    "oscillation": "the heap swings between 1 MB and 1 GB, and one object in 10,000 stays: what"
    " is held two seconds after the last swing, which is sooner than most allocators, Strata among"
    " them, begin to give back (Strata waits, in case the next swing comes)",
    "chase": "follows pointers at random through 1 GiB of 256-byte objects: what TLB misses cost",
    "burst": "fills 1 GiB, frees 95 % (the oldest, or any) and idles: what is still held",
    "swing": "the heap moves between 200 MiB and 1 GiB every two seconds: what giving memory"
    " back costs when it is soon needed again",
    "redis": "redis-server filled with 300,000 keys over pipelined sockets; `coverage` is the part"
    " of its anonymous memory that lies on hugepages",
    "startup": "starts and ends /bin/true",
}


def lines() -> str:
    return "\n".join(f"- `{name}`: {what}." for name, what in WORKS.items())
