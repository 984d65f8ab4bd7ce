"""PostgreSQL on the library: initdb, pgbench's tables and load, and a check of the sums."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blackbox import Lab, Result, free_port, missing


def program(name: str) -> Path:
    """Debian keeps the server's programs off the PATH, a folder for each version."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not found:
        missing(f"{name} is not installed (postgresql-15)")
    return found[-1]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path (it holds a socket) that the server's user can reach."""
    path = Path(tempfile.mkdtemp(prefix="pg-"))
    yield path
    shutil.rmtree(path)


def unprivileged() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = [entry.pw_name for entry in pwd.getpwall()]
    entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def test_database_under_load(lab: Lab, folder: Path) -> None:
    identity = unprivileged()
    reachable = lab
    if identity:
        os.chown(folder, identity["user"], identity["group"])
        if lab.library is not None:
            # The project's folder may be closed to that user.
            copy = folder / lab.library.name
            shutil.copy(lab.library, copy)
            copy.chmod(0o755)
            reachable = Lab(copy, folder)
    data, port = folder / "data", free_port()
    env = {"PGHOST": str(folder), "PGPORT": str(port), "HOME": str(folder), "LC_ALL": "C"}

    def pg(name: str, *args: str | Path, timeout: float = 120) -> Result:
        result = reachable.run(
            program(name), *args, env=env, cwd=folder, timeout=timeout, **identity
        )
        assert result.returncode == 0, result.explain()
        assert "strata:" not in result.stdout + result.stderr, result.explain()
        return result

    pg("initdb", "-D", data, "-A", "trust", "-U", "tester", "--no-sync")
    env["PGUSER"] = "tester"
    options = f"-F -p {port} -k {folder} -h 127.0.0.1 -c shared_buffers=32MB -c work_mem=1MB"
    log = folder / "log"
    pg("pg_ctl", "-D", data, "-w", "-l", log, "-o", options, "start")
    try:
        reachable.assert_loaded(int((data / "postmaster.pid").read_text().split()[0]))
        pg("pgbench", "-q", "-i", "-s", "3", "postgres")
        pg("pgbench", "-n", "-c", "4", "-j", "2", "-t", "500", "postgres")
        query = (
            "select (select sum(abalance) from pgbench_accounts) ="
            " (select sum(delta) from pgbench_history),"
            " (select sum(bbalance) from pgbench_branches) ="
            " (select sum(delta) from pgbench_history),"
            " (select count(*) from pgbench_history)"
        )
        sums = pg("psql", "-At", "-c", query, "postgres").stdout
        assert sums == "t|t|2000\n", sums
        # Sorts and hashes that spill, aggregates that grow, and a parallel plan.
        heavy = (
            "set max_parallel_workers_per_gather = 2; set min_parallel_table_scan_size = 0;"
            "select count(*), sum(length(s)) from (select string_agg(aid::text, ',' order by aid) s"
            " from pgbench_accounts group by aid % 5000) x"
        )
        assert pg("psql", "-Atq", "-c", heavy, "postgres").stdout == "5000|1983895\n"
    finally:
        pg("pg_ctl", "-D", data, "-m", "fast", "-w", "stop")
    text = log.read_text()
    assert "strata:" not in text and "PANIC" not in text and "terminated by signal" not in text, (
        text
    )
