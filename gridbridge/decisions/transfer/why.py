"""Explains a transfer: where its job is, the states on both sides, what it waits for."""

from collections.abc import Callable, Mapping
from datetime import datetime

from gridbridge.decisions.transfer import dropped_clusters
from gridbridge.decisions.transfer.health import silence
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import Cause, Desired, Phase
from gridbridge.model.report import Attempt, age
from gridbridge.model.shown import Shown, ShownHistory, ShownTransfer
from gridbridge.model.states import Fact, JobState, QueueFact

_SUSPENDERS = (  # the strongest first
    (Fact.BY_HAND, "by hand"),
    (Fact.BY_QUEUE, "with its queue"),
    (Fact.BY_THRESHOLD, "by its queue's suspend threshold"),
)


def tell(history: ShownHistory, shown: Shown, now: datetime) -> Attempt:
    """Explain one attempt."""
    one = history.transfer
    return Attempt(
        transfer=one,
        where=where(one),
        here=_here(one, now),
        there=_there(one, now),
        waits_for=waits_for(one, shown, now),
        events=history.events,
        left_out=history.left_out,
    )


def where(one: ShownTransfer) -> str:
    """Say where the job is."""
    job = f"job {parse_transfer(one.transfer).local} of {one.owner}"
    if one.closed_at:
        away = f" as job {one.remote_id}" if one.remote_id else ""
        return f"{job} was sent to {one.remote}{away}; that is over"
    if not one.remote_id:
        return f"{job} is being sent to {one.remote} and has no id there yet"
    return f"{job} is at {one.remote} as job {one.remote_id}"


def _here(one: ShownTransfer, now: datetime) -> str:
    if one.closed_at:
        return one.reason
    state = one.local_state or ("ending" if one.outcome else "not listed")
    since = f" for {age(now - one.local_since)}" if one.local_since else ""
    return f"{state} in {one.queue}{since}"


def _there(one: ShownTransfer, now: datetime) -> str:
    if one.outcome:
        return one.outcome
    if one.closed_at or not one.remote_state:
        return "not seen yet" if one.remote_id and not one.closed_at else ""
    host = f" on {one.remote_host}" if one.remote_host else ""
    since = f" for {age(now - one.since)}" if one.since else ""
    return f"{one.remote_state}{host}{since}"


def waits_for(one: ShownTransfer, shown: Shown, now: datetime) -> str:
    """Say what happens next, or what it needs; empty once it is over."""
    if one.closed_at:
        return ""
    if one.outcome:
        return f"its starter, to take the end home ({one.outcome})"
    if one.cause == Cause.DROPPED:
        return dropped_clusters.wait(one.remote)
    return _waits_away(one, shown, now)


def _waits_away(one: ShownTransfer, shown: Shown, now: datetime) -> str:
    """Say what a transfer waits for while its end is not known."""
    if one.desired == Desired.DEAD:
        return f"{one.remote} to delete its job there: it was deleted here"
    if quiet := silence(shown.clusters.get(one.remote), now):
        return f"{one.remote}, which {quiet}; until it answers the job counts as alive"
    if one.phase == Phase.SUBMITTING:
        return f"its starter, to submit it to {one.remote}{_tried(one)}"
    if one.missing_since:
        return _missing(one, now)
    if one.phase == Phase.HELD and one.desired != Desired.SUSPENDED:
        return f"its starter, to release it at {one.remote}{_tried(one)}"
    return _remote(one, shown)


def _tried(one: ShownTransfer) -> str:
    """Say how its starter's last try failed; empty when it did not."""
    return f"; {one.reason}" if one.cause else ""


def _missing(one: ShownTransfer, now: datetime) -> str:
    assert one.missing_since
    gone = age(now - one.missing_since)
    return f"the accounting of job {one.remote_id}, which {one.remote} has not listed for {gone}"


def _remote(one: ShownTransfer, shown: Shown) -> str:
    """Say what the remote job's own state means for it."""
    if one.desired == Desired.SUSPENDED and not one.there.is_suspended:
        return f"{_own_resume(one)}: it is held at {one.remote} by your suspend"
    if not one.remote_state:
        return f"the next answer of {one.remote}"
    if _is_unheard(one, shown):
        return f"news of host {one.remote_host}, which {one.remote} does not hear of"
    if one.there.word == Fact.SUSPENDED and one.desired == Desired.SUSPENDED:
        return f"{_own_resume(one)}: it is suspended at {one.remote} by your suspend"
    if one.there.word == Fact.SUSPENDED:
        return f"a resume: it is suspended at {one.remote}{_suspender(one.there)}"
    return _WAITS[one.there.word](one, shown)


def _own_resume(one: ShownTransfer) -> str:
    return f"a resume (qmod -usj {_local(one)})"


def _suspender(state: JobState) -> str:
    """Say who suspended it; empty when its cluster does not tell."""
    return next((f" {words}" for fact, words in _SUSPENDERS if fact in state.facts), "")


def _is_unheard(one: ShownTransfer, shown: Shown) -> bool:
    cluster = shown.clusters.get(one.remote)
    queues = cluster.queues if cluster else ()
    return any(
        queue.host == one.remote_host and QueueFact.UNREACHABLE in queue.facts for queue in queues
    )


def _local(one: ShownTransfer) -> str:
    return parse_transfer(one.transfer).local


def _slot(one: ShownTransfer, shown: Shown) -> str:
    cluster = shown.clusters.get(one.remote)
    if cluster is None or cluster.pending is None:
        return "a free slot"
    return f"a free slot ({cluster.pending} waiting, {cluster.free_slots} free)"


_WAITS: Mapping[str, Callable[[ShownTransfer, Shown], str]] = {
    Fact.WAITING: _slot,
    Fact.HELD: lambda one, _: f"its hold at {one.remote} to be released there",
    Fact.RUNNING: lambda _, __: "its end",
    Fact.DELETING: lambda one, _: f"{one.remote} to delete it",
    Fact.ERROR: lambda one, _: (
        f"the service, to bring it home: {one.remote} put it into the error state"
    ),
    Fact.FINISHED: lambda one, _: f"{one.remote} to account for it",
    Fact.UNKNOWN: lambda one, _: (
        f"its end; {one.remote} says {one.remote_state}, which is not known here"
    ),
}
