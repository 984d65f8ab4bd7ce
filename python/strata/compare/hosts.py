"""The same plan on several machines over ssh, all at once; records come back as they are made.

Each machine needs `strata` and what the plan runs. Ratios are made within a machine, then put
together, so machines of different speed can be mixed.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from strata.compare.record import MixedError, Record, RunDirectory
from strata.errors import StrataError
from strata.files import read_file
from strata.terminal import say

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=30")
STOP_SECONDS = 5.0
MOST_LINE = 64 << 20  # letters: a record with its series is far below


def read_hosts(path: Path) -> list[str]:
    """One host a line, as ssh takes it; `#` begins a comment."""
    try:
        lines = read_file(path, named_by="--hosts").decode().splitlines()
    except UnicodeDecodeError as error:
        raise StrataError(f"--hosts {path}: {error}") from error
    hosts = [line.partition("#")[0].strip() for line in lines]
    hosts = [host for host in hosts if host]
    for host in hosts:
        if host.startswith("-") or len(host.split()) != 1:
            raise StrataError(f"--hosts {path}: {host!r} is not a host")
    if not hosts:
        raise StrataError(f"--hosts {path}: no host in it")
    if len(set(hosts)) != len(hosts):
        raise StrataError(f"--hosts {path}: a host is named twice")
    return hosts


@dataclass
class _Remote:
    """One machine at work."""

    host: str
    process: subprocess.Popen[str]
    finished: bool = False
    problem: str = ""
    thread: threading.Thread = field(default_factory=threading.Thread)


def _read(remote: _Remote, folder: RunDirectory, lock: threading.Lock) -> None:
    """Takes what one machine sends until it has no more to say."""
    output: IO[str] = remote.process.stdout  # type: ignore[assignment]
    for line in iter(lambda: output.readline(MOST_LINE), ""):
        try:
            message = json.loads(line)
            if "record" in message:
                record = Record.from_json(json.dumps(message["record"]))
                record.host = remote.host
                if record.plan != folder.plan.hash or record.arm not in folder.plan.arms:
                    raise ValueError("a record of another plan")
                with lock:
                    folder.add(record)
                    _say(record)
            elif "error" in message:
                remote.problem = str(message["error"])
            remote.finished |= bool(message.get("finished"))
        except MixedError as error:
            remote.problem = str(error)
            remote.process.terminate()
            return
        except (ValueError, RecursionError, TypeError, AttributeError) as error:
            remote.problem = f"sent something else than records: {line.strip()[:80]!r} ({error})"
            remote.process.terminate()
            return


def _say(record: Record) -> None:
    what = f"round {record.round}" if record.round else "warm-up"
    how = f": {record.error}" if record.error else ""
    say(f"{record.host}: {what}, {record.arm}{how}")


def remote_command(strata: str) -> str:
    """What the remote shell is given; a home folder in front stays for it to expand."""
    words = []
    for word in shlex.split(strata):
        home = re.match(r"~[\w.-]*/", word)
        rest = word[home.end() :] if home else word
        words.append((home[0] if home else "") + shlex.quote(rest))
    return " ".join([*words, "compare-worker"])


def _start(host: str, folder: RunDirectory, strata: str) -> _Remote:
    try:
        process = subprocess.Popen(
            [*SSH, host, remote_command(strata)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is for us; they notice by the end of their stdin
        )
    except OSError as error:
        raise StrataError(f"ssh cannot be started: {error.strerror}", 127) from error
    request = {"plan": folder.plan.to_json(), "done": sorted(folder.done(host))}
    with contextlib.suppress(BrokenPipeError):
        assert process.stdin is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
    return _Remote(host, process)


def _end(remote: _Remote) -> None:
    """Ends the connection, which ends the far end, and finds out why if it was too early."""
    with contextlib.suppress(BrokenPipeError, OSError):
        assert remote.process.stdin is not None
        remote.process.stdin.close()
    try:
        remote.process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        remote.process.kill()
        remote.process.wait()
    remote.thread.join(STOP_SECONDS)
    assert remote.process.stderr is not None
    complaint = remote.process.stderr.read().strip().splitlines()[-1:]
    if not remote.finished and not remote.problem:
        remote.problem = complaint[0] if complaint else f"ssh ended: {remote.process.returncode}"


def run_on_hosts(folder: RunDirectory, hosts: list[str], strata: str) -> list[str]:
    """Runs the plan on all hosts; a line for each host that did not finish it."""
    lock = threading.Lock()
    remotes: list[_Remote] = []
    try:
        for host in hosts:
            remotes.append(_start(host, folder, strata))
        for remote in remotes:
            remote.thread = threading.Thread(
                target=_read, args=(remote, folder, lock), daemon=True, name=remote.host
            )
            remote.thread.start()
        for remote in remotes:
            while remote.thread.is_alive():
                remote.thread.join(0.2)  # so that Ctrl-C comes through
    finally:
        for remote in remotes:
            _end(remote)
    return [f"{remote.host}: {remote.problem}" for remote in remotes if not remote.finished]
