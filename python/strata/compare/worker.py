"""The far end of `strata compare --hosts`: a plan comes in on stdin, records go out on stdout.

The first line of stdin is {"plan": ..., "done": [[round, arm], ...]}. Stdout has one JSON object a
line: {"start": [round, arm]}, {"record": {...}}, {"error": "..."}. When stdin ends, the other side
is gone or was interrupted: the run under way is stopped and nothing more is started.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import TextIO

from strata.compare import runner
from strata.compare.plan import Plan
from strata.compare.record import Record
from strata.errors import StrataError


def _stop_at_end_of(source: TextIO) -> None:
    source.read()
    os.kill(os.getpid(), signal.SIGINT)


def serve(source: TextIO, target: TextIO) -> int:
    """Runs one plan; the exit status."""

    def send(**message: object) -> None:
        target.write(json.dumps(message, separators=(",", ":")) + "\n")
        target.flush()

    def on_start(round_number: int, arm: str) -> None:
        send(start=[round_number, arm])

    def on_record(record: Record) -> None:
        send(record=json.loads(record.to_json()))

    host = os.uname().nodename
    try:
        request = json.loads(source.readline())
        plan = Plan.from_json(request["plan"], "the plan received")
        done = {(int(r), str(a)) for r, a in request["done"]}
    except (ValueError, RecursionError, KeyError, TypeError, StrataError) as error:
        send(error=f"this is no request of strata compare: {error}")
        return 2
    threading.Thread(target=_stop_at_end_of, args=(source,), daemon=True).start()
    try:
        library = os.environ.get("STRATA_LIB")
        arms = runner.prepare(plan, Path(library) if library else None)
        runner.run_plan(plan, arms, host, done, on_start, on_record)
        send(finished=True)
    except StrataError as error:
        send(error=str(error))
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0
