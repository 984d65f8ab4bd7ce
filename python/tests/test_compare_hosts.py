"""`strata compare` on other machines: a fake ssh that runs things here, a stub of Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from comparing import Compare, cell

from strata.compare.hosts import remote_command
from strata.compare.plan import Plan
from strata.compare.record import RunDirectory

FAKE_SSH = """#!/bin/sh
# ssh [-o OPTION]... HOST COMMAND, run here
while [ "$1" = -o ]; do shift 2; done
host=$1; shift
case $host in
  dead) echo "ssh: connect to host dead port 22: No route to host" >&2; exit 255 ;;
  babel) echo "Welcome to babel"; exit 0 ;;
esac
echo "$host" >> "$SSH_LOG"
exec sh -c "$*"
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path) -> Path:
    tool = tmp_path / "bin" / "ssh"
    tool.parent.mkdir()
    tool.write_text(FAKE_SSH)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SSH_LOG", str(tmp_path / "ssh.log"))
    monkeypatch.setenv("STRATA_LIB", str(library))
    return tmp_path


def test_runs_on_hosts_and_merges(compare: Compare, ssh: Path) -> None:
    hosts = ssh / "hosts"
    hosts.write_text("# ours\none\nuser@two  # fast\n\ndead\nbabel\n")
    options = ["--hosts", str(hosts), "--remote-strata", f"{sys.executable} -m strata"]
    arms = ["--arm", "none", "--arm", "strata", "--rounds", "2", "--", "sleep", "0.05"]
    found = compare(*options, *arms, status=1)
    assert sorted(found["hosts"]) == ["one", "user@two"]
    assert cell(found, "wall_s", "strata")["rounds"] == 4
    assert sorted((ssh / "ssh.log").read_text().split()) == ["one", "user@two"]
    hosts.write_text("one\nuser@two\n")
    again = compare(*options, "--resume", str(ssh / "run"), "--rounds", "3", out=False)
    assert cell(again, "wall_s", "strata")["rounds"] == 6
    assert again["missing_runs"] == 0


def test_a_library_rebuilt_on_a_host_is_not_mixed_in(
    compare: Compare, ssh: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = ssh / "hosts"
    hosts.write_text("one\n")
    options = ["--hosts", str(hosts), "--remote-strata", f"{sys.executable} -m strata"]
    compare(*options, "--arm", "none", "--arm", "strata", "--rounds", "1", "--", "true")
    before = len(RunDirectory.open(ssh / "run").records)
    copy = ssh / "libstrata.so"
    copy.write_bytes(library.read_bytes() + b"\0")
    monkeypatch.setenv("STRATA_LIB", str(copy))
    compare(*options, "--resume", str(ssh / "run"), "--rounds", "3", out=False, status=1)
    assert "one: the library of arm strata is not the one that the first runs" in compare.errors
    added = RunDirectory.open(ssh / "run").records[before:]
    assert not any(record.arm == "strata" for record in added)


def test_a_library_here_is_none_for_hosts(compare: Compare, ssh: Path, library: Path) -> None:
    (ssh / "hosts").write_text("one\n")
    options = ["--hosts", str(ssh / "hosts"), "--lib", str(library)]
    said = compare(*options, "--arm", "none", "--arm", "strata", "--", "true", status=2)
    assert "STRATA_LIB" in said


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("strata", "strata compare-worker"),
        ("~/venv/bin/strata", "~/venv/bin/strata compare-worker"),
        ("'~me/my venv/strata' -x", "~me/'my venv/strata' -x compare-worker"),
        ("~/$(x)/s", "~/'$(x)/s' compare-worker"),
        ("/a~/b '; x'", "'/a~/b' '; x' compare-worker"),
    ],
)
def test_a_remote_home_is_expanded_there(given: str, sent: str) -> None:
    assert remote_command(given) == sent


def test_says_why_a_host_failed(compare: Compare, ssh: Path) -> None:
    hosts = ssh / "hosts"
    hosts.write_text("dead\nbabel\none\n")
    options = ["--hosts", str(hosts), "--remote-strata", f"{sys.executable} -m strata"]
    compare(*options, "--arm", "none", "--arm", "snail", "--", "true", status=1)
    assert "No route to host" in compare.errors
    assert "babel: sent something else than records" in compare.errors
    assert "one: --arm 'snail': unknown; there are" in compare.errors


@pytest.mark.parametrize("text", ["", "# none\n", "a b\n", "-oProxyCommand=x\n", "a\na\n"])
def test_bad_host_files_are_told(compare: Compare, tmp_path: Path, text: str) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(text)
    arms = ["--arm", "none", "--arm", "glibc"]
    assert "--hosts" in compare("--hosts", str(hosts), *arms, "--", "true", status=2)


def test_the_far_end_stops_when_the_near_one_is_gone(tmp_path: Path) -> None:
    plan = Plan(["none", "glibc"], ["sleep", "30"])
    process = subprocess.Popen(
        [sys.executable, "-m", "strata", "compare-worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"plan": plan.to_json(), "done": []}) + "\n")
    process.stdin.flush()
    assert "start" in json.loads(process.stdout.readline())
    process.stdin.close()
    assert process.wait(20) == 130
    process.stdout.close()


class StubRay(ModuleType):
    """As much of Ray as the job uses, run in this process."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        super().__init__("ray")
        self._nodes = nodes
        self._results: dict[str, list[str]] = {}
        self.tasks: list[tuple[tuple[str, bool], float]] = []
        self.address = ""
        self.dying: set[str] = set()

    def init(self, *, address: str, ignore_reinit_error: bool) -> None:
        assert ignore_reinit_error
        self.address = address

    def nodes(self) -> list[dict[str, Any]]:
        return self._nodes

    def remote(self, function: Callable[..., list[str]]) -> SimpleNamespace:
        def options(*, num_cpus: float, scheduling_strategy: tuple[str, bool]) -> SimpleNamespace:
            def start(*arguments: object) -> str:
                self.tasks.append((scheduling_strategy, num_cpus))
                self._results[name := f"task{len(self.tasks)}"] = function(*arguments)
                return name

            return SimpleNamespace(remote=start)

        return SimpleNamespace(options=options)

    def wait(self, tasks: list[str], num_returns: int) -> tuple[list[str], list[str]]:
        return tasks[:num_returns], tasks[num_returns:]

    def get(self, task: str) -> list[str]:
        name, _ = self.tasks[int(task.removeprefix("task")) - 1][0]
        if name in self.dying:
            raise RuntimeError(f"The node died\n  and {name} with it\n")
        return self._results[task]


def node(name: str, host: str, **other: object) -> dict[str, Any]:
    return {"NodeID": name, "NodeManagerHostname": host, "Alive": True, "Resources": {}} | other


def stub_ray(monkeypatch: pytest.MonkeyPatch, *nodes: dict[str, Any]) -> StubRay:
    ray = StubRay(list(nodes))
    strategies = ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda *, node_id, soft: (node_id, soft)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.util", ModuleType("ray.util"))
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
    return ray


def test_runs_as_a_ray_job(
    compare: Compare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one, gone = node("n1", "one", Resources={"CPU": 8.0}), node("n3", "gone", Alive=False)
    ray = stub_ray(monkeypatch, one, node("n2", "two"), gone)
    arms = ["--arm", "none", "--arm", "glibc", "--rounds", "2"]
    found = compare("--ray", *arms, "--", "true")
    assert found["hosts"] == ["one", "two"]
    assert cell(found, "wall_s", "glibc")["rounds"] == 4
    assert sorted(ray.tasks) == [(("n1", False), 8.0)] * 3 + [(("n2", False), 1)] * 3
    assert ray.address == "auto"
    compare("--ray", "--resume", str(tmp_path / "run"), out=False)
    assert len(RunDirectory.open(tmp_path / "run").records) == 12  # nothing was run again


def test_two_ray_nodes_on_one_host_run_all_rounds(
    compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = stub_ray(monkeypatch, node("n1", "one"), node("n2", "one"), node("n3", "two"))
    found = compare("--ray", "--arm", "none", "--arm", "glibc", "--rounds", "2", "--", "true")
    assert found["hosts"] == ["one/n1", "one/n2", "two"]
    assert found["missing_runs"] == 0
    assert len(ray.tasks) == 9


def test_a_dying_ray_node_does_not_stop_the_others(
    compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = stub_ray(monkeypatch, node("n1", "one"), node("n2", "two"))
    ray.dying = {"n1"}
    arms = ["--arm", "none", "--arm", "glibc", "--rounds", "2"]
    found = compare("--ray", *arms, "--", "true", status=1)
    assert found["hosts"] == ["two"]
    assert cell(found, "wall_s", "glibc")["rounds"] == 2
    assert "strata: one: and n1 with it" in compare.errors


def test_ray_missing_is_one_line(compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    arms = ["--arm", "none", "--arm", "glibc"]
    assert "pip install ray" in compare("--ray", *arms, "--", "true", status=2)
