"""nginx and Apache: their own request pools on two allocators, and the same pools on reaps."""

from __future__ import annotations

from strata_bench import request_pools
from strata_bench.allocators import GLIBC
from strata_bench.groups import RATE, RSS, THROUGHPUT, Group, Target, Variant, Work
from strata_bench.plan import Case, Kind


def _server(name: str) -> Work:
    case = Case(name, name, ("1",), THROUGHPUT.key, kind=Kind.SERVER, quick=("1",))
    return Work(case, (THROUGHPUT, RATE, RSS))


SERVERS = Group(
    "servers",
    "Request pools of nginx and Apache on reaps",
    "Debian's servers, one worker on a CPU of its own, a page of 950 bytes to 16 connections that"
    " wrk keeps open; Apache with the event MPM and `EnableMMAP Off`. The"
    " base has the servers' own pools on glibc; `strata` has their own pools on Strata's malloc;"
    " `reaps` has the pools themselves on reaps ([servers](../servers.md)). RSS is the worker's.",
    (
        Variant("stock", library=GLIBC),
        Variant("strata"),
        Variant("reaps", {request_pools.POOLS: "reaps"}),
    ),
    (_server("nginx"), _server("apache2")),
    rounds=10,
    targets=tuple(Target("reaps", THROUGHPUT.key, 1.0, name) for name in ("nginx", "apache2")),
    picture="RSS over time while one request allocates and frees a million objects of 400 bytes."
    " `stock` is the server's own pools on glibc's malloc and `strata` the same pools on Strata's:"
    " both keep every object until the request ends. Of what nginx then frees, Strata's malloc"
    " holds a tenth for the next such request, after half a second; Apache's pools give theirs back"
    " to the system. `reaps` is the pools on reaps, where each object is used again",
)

GROUPS = {SERVERS.name: SERVERS}
