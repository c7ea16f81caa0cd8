"""Whether rounds of rebalancing end: one that hangs holds up all that follow."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from gridbridge.model.rebalance.published_rounds import LONGEST, WORDS, RebalanceRound, ShownRound
from gridbridge.model.site.setup_findings import CheckFinding, FindingState

HINT = (
    "its log says what fails or is waited for; `ps -eo pid,etime,args | grep rebalance` shows one"
    " that hangs, and what one that is killed had begun goes on in the next"
)

AGAIN = "gridbridge rebalance quiesce --off"


def findings(rounds: Mapping[RebalanceRound, ShownRound], at: datetime) -> Iterator[CheckFinding]:
    """Judge the last round of each kind, where one ever began."""
    for kind, last in rounds.items():
        hangs = is_late(kind, last, at)
        yield CheckFinding(
            item=f"rebalancing: {kind.value}",
            state=FindingState.WARNING if hangs else FindingState.OK,
            found=_last_round(last, at),
            right=f"one that ends within {_age(LONGEST[kind])}" if hangs else "",
            hint=HINT if hangs else "",
        )


def resting(since: datetime, at: datetime) -> CheckFinding:
    """Tell that somebody wants nothing to be moved, and what ends that."""
    return CheckFinding(
        item="rebalancing: quiesce",
        state=FindingState.NOTE,
        found=f"nothing is moved since {_age(at - since)} ago",
        right="moved again",
        hint=f"when it may: {AGAIN}",
    )


def rests(since: datetime, at: datetime) -> str:
    """Say the same in a line."""
    return f"rebalancing: nothing is moved since {_age(at - since)} ago, until `{AGAIN}`"


def is_late(kind: RebalanceRound, last: ShownRound, at: datetime) -> bool:
    """Say whether none has ended for longer than one takes, since one began."""
    return last.is_open and at - last.began_at > LONGEST[kind]


def late(rounds: Mapping[RebalanceRound, ShownRound], at: datetime) -> tuple[str, ...]:
    """Say which kinds had no round that ended for long."""
    return tuple(
        f"rebalancing: no {WORDS[kind]} has ended since one began {_age(at - last.began_at)} ago"
        for kind, last in rounds.items()
        if is_late(kind, last, at)
    )


def _last_round(last: ShownRound, at: datetime) -> str:
    if last.is_open:
        return f"none has ended since one began {_age(at - last.began_at)} ago"
    return f"the last one ended {_age(at - (last.ended_at or last.began_at))} ago"


def _age(passed: timedelta) -> str:
    minutes = max(0, int(passed / timedelta(minutes=1)))
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
