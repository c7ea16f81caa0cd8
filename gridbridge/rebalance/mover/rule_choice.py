"""Which rule decides, about a snapshot of whatever origin."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gridbridge.decisions.rebalance.automatic_round import plan as plan_round
from gridbridge.decisions.rebalance.automatic_round import why_later
from gridbridge.decisions.rebalance.evacuation import plan_fail
from gridbridge.decisions.rebalance.host_balance import plan_host
from gridbridge.decisions.rebalance.job_balance import plan_job
from gridbridge.decisions.rebalance.projected_host_load import loads
from gridbridge.decisions.rebalance.storage_balance import plan as plan_replicas
from gridbridge.errors import ConfigError
from gridbridge.model.rebalance.host_load import HostLoad
from gridbridge.model.rebalance.moves import MovePlan, PlacementMove
from gridbridge.model.rebalance.placement_snapshot import PlacementSnapshot
from gridbridge.model.rebalance.rebalance_section import Rebalance

NEAR = 5  # names that are told where one is not known


class RebalanceRequest(StrEnum):
    """What a decision is asked about."""

    NONE = ""  # nothing: a round decides that by itself
    HOST = "host"
    JOB = "job"
    FAIL = "fail"  # what leaves a host that is given up


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceQuestion:
    """What is to be evened out; nothing: what a round does by itself."""

    what: RebalanceRequest = RebalanceRequest.NONE
    name: str = ""
    is_of_data: bool = False  # of datasets in storage areas, not of tasks at clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePlan:
    """What is advised, and from what."""

    snapshot: PlacementSnapshot
    rules: Rebalance
    advice: MovePlan

    @property
    def loads(self) -> tuple[HostLoad, ...]:
        """Every host as it is, and as it would be."""
        return loads(self.snapshot, self.rules, self.advice)


def plan(snapshot: PlacementSnapshot, rules: Rebalance, question: RebalanceQuestion) -> MovePlan:
    """Decide; what is asked about has to be there."""
    if not question.what:
        return (plan_replicas if question.is_of_data else plan_round)(snapshot, rules)
    if question.what is RebalanceRequest.JOB:
        return plan_job(snapshot, question.name, rules)
    return (plan_host if question.what is RebalanceRequest.HOST else plan_fail)(
        snapshot, question.name, rules
    )


def planned(
    where: str,
    snapshot: PlacementSnapshot,
    rules: Rebalance,
    question: RebalanceQuestion,
    *,
    why_none: str = "",
) -> RebalancePlan:
    """Decide about what is there, or advise nothing where there is a reason for that.

    ConfigError for a host or a job that is not there; `where` says of what origin the snapshot is.
    """
    _require(where, snapshot, question)
    advice = MovePlan(sentence=why_none) if why_none else plan(snapshot, rules, question)
    return RebalancePlan(snapshot=snapshot, rules=rules, advice=advice)


def later(snapshot: PlacementSnapshot, question: RebalanceQuestion) -> str:
    """Say why a host or a job is not evened out just now; empty when it is."""
    return (
        why_later(snapshot)
        if question.what in (RebalanceRequest.HOST, RebalanceRequest.JOB)
        else ""
    )


def _require(where: str, snapshot: PlacementSnapshot, question: RebalanceQuestion) -> None:
    """Refuse a name that is not there; ConfigError."""
    if not question.what:
        return
    is_of_job = question.what is RebalanceRequest.JOB
    kind = "jobs" if is_of_job else "hosts"
    names = sorted(row.name for row in (snapshot.jobs if is_of_job else snapshot.hosts))
    if question.name not in names:
        listed = ", ".join(names[:NEAR]) + (" ..." if len(names) > NEAR else "")
        raise ConfigError((f"{where}: {kind}: no {question.name}; there are {listed or 'none'}",))


def sentences(advice: MovePlan) -> Iterator[str]:
    """Say what is advised, then each move."""
    yield advice.sentence
    yield from map(worded, advice.moves)


def worded(move: PlacementMove) -> str:
    """Say a move to people."""
    source = f"from {move.source}" if move.source else ""
    to = f"to {move.target}" if move.target else "removed"
    words = (move.job, str(move.number), f"({move.kind.value})", source, to)
    return " ".join(filter(None, words))
