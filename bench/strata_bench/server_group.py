"""nginx and Apache: their own request pools on two allocators, and the same pools on reaps."""

from __future__ import annotations

from strata_bench import idle_workers, request_pools
from strata_bench.allocators import GLIBC
from strata_bench.groups import RATE, RSS, THROUGHPUT, Figure, Group, Target, Variant, Work
from strata_bench.plan import Case, Kind


def _server(name: str) -> Work:
    case = Case(name, name, ("1",), THROUGHPUT.key, kind=Kind.SERVER, quick=("1",))
    pss = Figure("pss_kib", "RSS, what is shared divided by its users", False)
    private = Figure("private_kib", "written by it alone", False)
    return Work(case, (THROUGHPUT, RATE, RSS, pss, private))


SERVERS = Group(
    "servers",
    "Request pools of nginx and Apache on reaps",
    "Debian's servers, one worker on a CPU of its own, a page of 950 bytes to 16 connections that"
    " wrk keeps open; Apache with the event MPM and `EnableMMAP Off`. The"
    " base has the servers' own pools on glibc; `strata` has their own pools on Strata's malloc;"
    " `reaps` has the pools themselves on reaps ([servers](../servers.md))."
    " RSS is the worker's under load, where no other is named.\n\n"
    "The kernel maps file pages by 64 KiB, and there is a page or two of blocks and a piece of "
    "the records for each size class in use. A request's reap begins with a chunk of 8 KiB and "
    "writes to both of its pages, to the second at first only for the tag at its end. Under load a "
    "sampled allocation's stack is walked by the unwind tables of the server and libc, which all "
    "processes share.",
    (
        Variant("stock", library=GLIBC),
        Variant("strata"),
        Variant("reaps", {request_pools.POOLS: "reaps"}),
    ),
    (_server("nginx"), _server("apache2")),
    rounds=10,
    targets=tuple(Target("reaps", THROUGHPUT.key, 1.0, name) for name in ("nginx", "apache2")),
    beside=idle_workers.table,
    picture="RSS over time while one request allocates and frees a million objects of 400 bytes. "
    "The lines are the tables' `stock` (own pools, glibc), `strata` (own pools, Strata) and "
    "`reaps`. Own pools keep every object until the request ends. Of what nginx then frees, "
    "Strata's malloc keeps all of it for 0.7 s, then about a tenth, for the next such request; "
    "Apache's pools give theirs back to the system. On reaps each object is used again",
)

GROUPS = {SERVERS.name: SERVERS}
