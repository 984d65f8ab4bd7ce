"""nginx and Apache: their own request pools on two allocators, and the same pools on reaps."""

from __future__ import annotations

from strata_bench import request_pools
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
    " `reaps` has the pools themselves on reaps ([servers](../servers.md)). RSS is the worker's."
    " What it has more on Strata than on glibc, in KiB, by /proc/PID/smaps, the mean of 8 workers"
    " each that have not served yet: the library's code 128 (nginx) and 144 (Apache), its constants"
    " and symbols 168 and 160, its variables 80 and 80, blocks and what keeps account of them 230"
    " and 115; of all this the worker alone has written 160 and 101. The kernel maps file pages by"
    " 64 KiB, and the account has a page for each size class in use. Reaps add 112 and 194 to the"
    " blocks, nearly all of them the parent's, which the worker shares. A request's or connection's"
    " reap begins with a chunk of 8 KiB and writes to both of its pages, to the second one for the"
    " tag at its end alone.",
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
