"""Runs a plan on this machine: round by round, arm by arm, what is done already left out."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Set
from pathlib import Path

from strata.compare.arms import Arm, find_arms, obstacle
from strata.compare.measure import answers, run_once
from strata.compare.plan import Plan
from strata.compare.record import Record
from strata.errors import StrataError
from strata.launch import resolve
from strata.settings import check as check_settings

OnRecord = Callable[[Record], None]
OnStart = Callable[[int, str], None]


def prepare(plan: Plan, lib: Path | None) -> dict[str, Arm]:
    """The arms, found; raises for what cannot work at all: a missing program or library, or a
    setting that the library would ignore, so that an arm would measure something else."""
    arms = find_arms(plan.arms, lib)
    resolve(plan.command[0], os.environ)
    if plan.load:
        resolve(plan.load[0], os.environ)
    if plan.ready_port and answers(plan.ready_port):
        raise StrataError(
            f"port {plan.ready_port} is taken: the load would go to what answers there already"
        )
    for arm in arms:
        if arm.library is not None:
            check_settings(arm.environment(os.environ), f"--arm {arm.name!r}")
    return {arm.name: arm for arm in arms}


def warnings(plan: Plan, arms: dict[str, Arm]) -> list[str]:
    """Arms whose library will not get into the command: said once before the rounds begin."""
    found = []
    for arm in arms.values():
        problem = obstacle(arm, plan.command[0], os.environ)
        if problem is not None:
            found.append(f"arm {arm.name} cannot work: {problem}")
    return found


def run_plan(
    plan: Plan,
    arms: dict[str, Arm],
    host: str,
    done: Set[tuple[int, str]],
    on_start: OnStart,
    on_record: OnRecord,
) -> None:
    session = uuid.uuid4().hex[:12]
    for round_number, name in plan.runs():
        if (round_number, name) not in done:
            on_start(round_number, name)
            on_record(run_once(plan, arms[name], round_number, host, session))
