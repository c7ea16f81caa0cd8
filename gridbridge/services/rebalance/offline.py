"""What would be moved of the hosts, jobs and tasks that a file tells of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gridbridge.config.rebalance import SECTION
from gridbridge.decisions.rebalance.auto import plan as plan_round
from gridbridge.decisions.rebalance.failing import plan_fail
from gridbridge.decisions.rebalance.hosts import plan_host
from gridbridge.decisions.rebalance.jobs import plan_job
from gridbridge.decisions.rebalance.loads import loads
from gridbridge.errors import ConfigError
from gridbridge.model.rebalance.loads import Load
from gridbridge.model.rebalance.moves import Advice
from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.model.rebalance.snapshot import Snapshot
from gridbridge.state.rebalance import saved

WHAT = ("host", "job", "fail")
NEAR = 5  # names that are told where one is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What is advised, and from what."""

    snapshot: Snapshot
    rules: Rebalance
    advice: Advice

    @property
    def loads(self) -> tuple[Load, ...]:
        """Every host as it is, and as it would be."""
        return loads(self.snapshot, self.rules, self.advice)


def plan(path: str, what: str = "", name: str = "") -> Planned:
    """Decide about a file: a round, or what a host or a job needs, or what leaves a failed host.

    Raises ParseError for what is no JSON, and ConfigError with a line for each thing that is wrong.
    """
    snapshot, policy = saved.read(path)
    rules = _rules(path, policy)
    if what:
        _require(path, snapshot, what, name)
    return Planned(snapshot=snapshot, rules=rules, advice=_advice(snapshot, rules, what, name))


def _advice(snapshot: Snapshot, rules: Rebalance, what: str, name: str) -> Advice:
    if not what:
        return plan_round(snapshot, rules)
    if what == "job":
        return plan_job(snapshot, name, rules)
    return (plan_host if what == "host" else plan_fail)(snapshot, name, rules)


def _rules(path: str, policy: Mapping[str, object]) -> Rebalance:
    """Return the usual rules with what a file says of them."""
    table: Any = dict(policy)
    problems = [f"{path}: policy: {told}" for told in SECTION.problems(table)]
    if problems:
        raise ConfigError(tuple(problems))
    given = SECTION.read(table)
    assert isinstance(given, Rebalance)
    return given


def _require(path: str, snapshot: Snapshot, what: str, name: str) -> None:
    """Refuse a name that the file does not know."""
    kind = "jobs" if what == "job" else "hosts"
    known = sorted(one.name for one in (snapshot.jobs if what == "job" else snapshot.hosts))
    if name not in known:
        some = ", ".join(known[:NEAR]) + (" ..." if len(known) > NEAR else "")
        raise ConfigError((f"{path}: {kind}: no {name}; there are {some or 'none'}",))
