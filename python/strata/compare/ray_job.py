"""The same plan on the nodes of a Ray cluster: one task a node and round, which takes all of the
node's CPUs so that nothing of the cluster's runs beside it. Ray itself is not a dependency."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

from strata.compare import runner
from strata.compare.plan import Plan
from strata.compare.record import Record, RunDirectory
from strata.errors import StrataError


def _import_ray() -> ModuleType:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise StrataError("--ray needs Ray in this Python: `pip install ray`") from error


def run_round(plan_text: str, round_number: int, done: list[str], lib: str | None) -> list[str]:
    """On a node: the arms of one round that are not done yet; the records as JSON."""
    plan = Plan.from_json(plan_text, "the plan received")
    arms = runner.prepare(plan, Path(lib) if lib else None)
    other = {(r, a) for r, a in plan.runs() if r != round_number}
    records: list[Record] = []
    runner.run_plan(
        plan,
        arms,
        os.uname().nodename,
        other | {(round_number, arm) for arm in done},
        lambda *_: None,
        records.append,
    )
    return [record.to_json() for record in records]


def run_on_ray(folder: RunDirectory, lib: Path | None) -> list[str]:
    """Starts every node on its first round, and on the next one when that is kept. A node that
    fails is left out from there on; a line for each."""
    ray = _import_ray()
    ray.init(address="auto", ignore_reinit_error=True)
    nodes = [node for node in ray.nodes() if node.get("Alive")]
    if not nodes:
        raise StrataError("--ray: the cluster has no live node")
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    plan_text = folder.plan.to_json()
    names = _names(nodes)
    problems: list[str] = []

    def submit(node: dict[str, Any], round_number: int) -> object:
        done = [arm for r, arm in folder.done(names[node["NodeID"]]) if r == round_number]
        strategy = strategies.NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        task = ray.remote(run_round).options(
            num_cpus=node["Resources"].get("CPU", 1), scheduling_strategy=strategy
        )
        return task.remote(plan_text, round_number, done, str(lib) if lib else None)

    pending = {submit(node, folder.plan.first_round()): node for node in nodes}
    rounds = {node["NodeID"]: folder.plan.first_round() for node in nodes}
    try:
        while pending:
            ready, _ = ray.wait(list(pending), num_returns=1)
            node = pending.pop(ready[0])
            which = node["NodeID"]
            try:
                for text in ray.get(ready[0]):
                    record = Record.from_json(text)
                    record.host = names[which]
                    folder.add(record)
            except Exception as error:  # Ray's own kinds, and whatever the task raised
                problems.append(f"{names[which]}: {_in_a_line(error)}")
                continue
            rounds[which] += 1
            if rounds[which] <= folder.plan.rounds:
                pending[submit(node, rounds[which])] = node
    except KeyboardInterrupt:
        for task in pending:
            ray.cancel(task)
        raise
    return problems


def _names(nodes: list[dict[str, Any]]) -> dict[str, str]:
    """What the records call each node: its host, and where a host has several, its id too."""
    hosts = {node["NodeID"]: str(node.get("NodeManagerHostname") or "") for node in nodes}
    times = Counter(hosts.values())
    return {
        node: host if host and times[host] == 1 else f"{host}/{node[:12]}".lstrip("/")
        for node, host in hosts.items()
    }


def _in_a_line(error: Exception) -> str:
    """The last line of what Ray tells, which is the remote exception's own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
