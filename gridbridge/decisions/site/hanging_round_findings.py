"""Findings about rebalancing rounds and runner cycles that never end."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from gridbridge.model.rebalance.published_rebalance_rounds import (
    LONGEST_ROUND,
    WORDS,
    PublishedRebalanceRound,
    RebalanceRoundKind,
)
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity
from gridbridge.model.status_report import number_with_noun

LATE_ROUND_HINT = (
    "the round's log says what fails or blocks; `ps -eo pid,etime,args | grep rebalance` shows a"
    " hanging round, which may be killed: the next round continues its work"
)

RESUME_COMMAND = "gridbridge rebalance quiesce --off"


def rebalance_round_findings(
    rounds: Mapping[RebalanceRoundKind, PublishedRebalanceRound], at: datetime
) -> Iterator[CheckFinding]:
    """Check the last rebalancing round of each kind that ever began."""
    for kind, last in rounds.items():
        hangs = is_rebalance_round_late(kind, last, at)
        yield CheckFinding(
            item=f"rebalancing: {kind.value}",
            state=FindingSeverity.WARNING if hangs else FindingSeverity.OK,
            found=_last_round(last, at),
            right=f"a round that ends within {_age(LONGEST_ROUND[kind])}" if hangs else "",
            hint=LATE_ROUND_HINT if hangs else "",
        )


def paused_rebalance_finding(since: datetime, at: datetime) -> CheckFinding:
    """Return the finding that rebalancing is paused, with the resuming command."""
    return CheckFinding(
        item="rebalancing: quiesce",
        state=FindingSeverity.NOTE,
        found=f"moves are paused since {_age(at - since)} ago",
        right="moves resumed",
        hint=f"to resume: {RESUME_COMMAND}",
    )


def paused_rebalance_sentence(since: datetime, at: datetime) -> str:
    """Return one line about paused rebalancing moves, with the command that resumes."""
    return f"rebalancing: moves are paused since {_age(at - since)} ago, until `{RESUME_COMMAND}`"


def is_rebalance_round_late(kind: RebalanceRoundKind, last: PublishedRebalanceRound, at: datetime) -> bool:
    """Say whether a rebalancing round exceeds the longest time of its kind."""
    return last.is_open and at - last.began_at > LONGEST_ROUND[kind]


def late_rebalance_sentences(
    rounds: Mapping[RebalanceRoundKind, PublishedRebalanceRound], at: datetime
) -> tuple[str, ...]:
    """Return a sentence for each kind of rebalancing round that is late."""
    return tuple(
        f"rebalancing: no {WORDS[kind]} has ended since one began {_age(at - last.began_at)} ago"
        for kind, last in rounds.items()
        if is_rebalance_round_late(kind, last, at)
    )


def _last_round(last: PublishedRebalanceRound, at: datetime) -> str:
    if last.is_open:
        return f"no round ended since one began {_age(at - last.began_at)} ago"
    return f"the last round ended {_age(at - (last.ended_at or last.began_at))} ago"


def _age(passed: timedelta) -> str:
    minutes = max(0, int(passed / timedelta(minutes=1)))
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


RUNNER_LATE = timedelta(minutes=5)  # cron starts a cycle each minute; a slow cycle takes a minute or two
RUNNER_HINT = (
    "start gridbridge-runner as the service account:"
    " /opt/gridbridge/conf/systemd/gridbridge-runner.service, or cron as in"
    " /opt/gridbridge/conf/cron.d/gridbridge-campaigns; if it runs, its log says why it is late"
)


def campaign_runner_cycle_findings(
    going_on: int, brought: int, last: datetime | None, at: datetime
) -> Iterator[CheckFinding]:
    """Check the runner's last cycle, if campaigns or submitted files wait."""
    if not (going_on or brought):
        return
    late = "never" if last is None else f"{int((at - last) / timedelta(minutes=1))} min ago"
    is_late = last is None or at - last > RUNNER_LATE
    news = f" and {number_with_noun(brought, 'file')} not accepted yet" if brought else ""
    yield CheckFinding(
        item="campaigns",
        state=FindingSeverity.WARNING if is_late else FindingSeverity.OK,
        found=f"{going_on} unfinished{news}, last cycle of gridbridge-runner: {late}",
        right="a cycle each minute" if is_late else "",
        hint=RUNNER_HINT if is_late else "",
    )
