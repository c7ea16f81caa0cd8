"""The decisions about moves, kept with what they looked at, and made again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gridbridge.model.rebalance.placement_snapshot import PlacementSnapshot
from gridbridge.model.rebalance.rebalance_section import Rebalance
from gridbridge.program.encoding import decode, encode
from gridbridge.program.journal import JournalEntry, NotKept, telling
from gridbridge.rebalance.mover.rule_choice import (
    RebalancePlan,
    RebalanceQuestion,
    RebalanceRequest,
    plan,
    sentences,
)

PROGRAM = "rebalance"
MOST_ROWS = 10_000  # hosts, jobs and tasks of one decision: 1 MB


def entry(planned: RebalancePlan, asked: RebalanceQuestion, now: datetime) -> JournalEntry | None:
    """Tell a decision with its rows; nothing for one to move nothing."""
    if not planned.advice.moves:
        return None
    seen = _looked_at(planned.snapshot, asked)
    rows = len(seen.hosts) + len(seen.jobs) + len(seen.tasks)
    kept = {
        "snapshot": encode(seen) if rows <= MOST_ROWS else None,
        "rows": rows,
        "rules": encode(planned.rules),
        "asked": encode(asked),
    }
    return telling(PROGRAM, now, kept, [*sentences(planned.advice)], [planned.advice.sentence])


def _looked_at(snapshot: PlacementSnapshot, asked: RebalanceQuestion) -> PlacementSnapshot:
    """Return what a decision looked at: about a job its own tasks alone."""
    if asked.what is not RebalanceRequest.JOB:
        return snapshot
    return replace(
        snapshot,
        jobs=tuple(one for one in snapshot.jobs if one.name == asked.name),
        tasks=tuple(one for one in snapshot.tasks if one.job == asked.name),
    )


def again(kept: Mapping[str, Any]) -> list[str]:
    """Decide again from what was kept; NotKept where that was too much."""
    if kept["snapshot"] is None:
        raise NotKept(f"its {kept['rows']} hosts, jobs and tasks were too many to be kept")
    snapshot, rules = decode(kept["snapshot"], PlacementSnapshot), decode(kept["rules"], Rebalance)
    return [*sentences(plan(snapshot, rules, decode(kept["asked"], RebalanceQuestion)))]


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
