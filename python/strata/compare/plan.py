"""The plan of an experiment: what runs, how often, in which order. It travels as JSON to other
machines and lies in the run directory; its hash keeps records of different plans apart."""

from __future__ import annotations

import hashlib
import json
import random
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from strata.errors import StrataError

DEFAULT_MARGIN = 0.01  # a ratio this close to 1 does not matter
WARM_UP = 0  # the round whose records are kept but not counted
DIRECTION = re.compile(r"(?P<name>[A-Za-z_][\w.%-]*)(:(?P<way>lower|higher))?")


@dataclass(frozen=True)
class Metric:
    """A figure to take out of the output with a regular expression."""

    name: str
    pattern: str
    higher_is_better: bool | None  # None: told by the name

    @classmethod
    def parse(cls, text: str) -> Metric:
        """`NAME=REGEX` or `NAME:lower=REGEX`; the expression's group is the number."""
        head, equals, pattern = text.partition("=")
        match = DIRECTION.fullmatch(head)
        if not equals or match is None:
            raise StrataError(f"--metric {text!r}: expected NAME=REGEX or NAME:lower=REGEX")
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise StrataError(f"--metric {text!r}: {error}") from error
        if groups != 1:
            raise StrataError(f"--metric {text!r}: the expression needs one group, the number")
        way = match["way"]
        return cls(match["name"], pattern, None if way is None else way == "higher")


@dataclass(frozen=True)
class Plan:
    """Everything that decides what is run. Two runs with the same hash may be put together."""

    arms: list[str]
    command: list[str]  # the measured command, or the server
    load: list[str] = field(default_factory=list)  # with a server: what is run against it
    ready_port: int = 0
    rounds: int = 10
    warm_up: bool = True
    seed: int = 1
    timeout: float = 600.0
    metrics: list[Metric] = field(default_factory=list)

    @property
    def hash(self) -> str:
        """Rounds are left out: a finished run may be resumed for more."""
        content = {k: v for k, v in asdict(self).items() if k != "rounds"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"hash": self.hash})

    @classmethod
    def from_json(cls, text: str, where: str) -> Plan:
        """The plan, after a look whether it is still the one that was written."""
        try:
            document: dict[str, Any] = json.loads(text)
            known = document.pop("hash")
            document["metrics"] = [Metric(**m) for m in document["metrics"]]
            plan = cls(**document)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise StrataError(f"{where} is not a plan: {error}") from error
        if type(plan.rounds) is not int or plan.rounds < 1:  # they are not in the hash
            raise StrataError(f"{where} is not a plan: it has {plan.rounds!r} rounds")
        if plan.hash != known:
            raise StrataError(f"{where} was changed after the run began; start a new one")
        return plan

    def first_round(self) -> int:
        return WARM_UP if self.warm_up else WARM_UP + 1

    def order(self, round_number: int) -> list[str]:
        """The arms in the order of one round: shuffled, but the same after an interruption."""
        arms = list(self.arms)
        random.Random(f"{self.seed}:{round_number}").shuffle(arms)
        return arms

    def runs(self) -> list[tuple[int, str]]:
        """All runs as (round, arm), the warm-up round first."""
        return [(r, a) for r in range(self.first_round(), self.rounds + 1) for a in self.order(r)]
