"""Explains a transfer: where its job is, the states on both sides, what it waits for."""

from collections.abc import Callable, Mapping
from datetime import datetime

from gridbridge.decisions.transfer import dropped_clusters
from gridbridge.decisions.transfer.queue_health import silence
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import DesiredJobState, FailureCause, StarterPhase
from gridbridge.model.published import PublishedState, ShownHistory, ShownTransfer
from gridbridge.model.states import JobFact, JobState, QueueFact
from gridbridge.model.status_report import TransferAttempt, age

_SUSPENDERS = (  # the strongest first
    (JobFact.BY_HAND, "by hand"),
    (JobFact.BY_QUEUE, "with its queue"),
    (JobFact.BY_THRESHOLD, "by its queue's suspend threshold"),
)


def tell(history: ShownHistory, shown: PublishedState, now: datetime) -> TransferAttempt:
    """Explain one attempt."""
    one = history.transfer
    return TransferAttempt(
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


def waits_for(one: ShownTransfer, shown: PublishedState, now: datetime) -> str:
    """Say what happens next, or what it needs; empty once it is over."""
    if one.closed_at:
        return ""
    if one.outcome:
        return f"its starter, to take the end home ({one.outcome})"
    if one.cause == FailureCause.DROPPED:
        return dropped_clusters.wait(one.remote)
    return _waits_away(one, shown, now)


def _waits_away(one: ShownTransfer, shown: PublishedState, now: datetime) -> str:
    """Say what a transfer waits for while its end is not known."""
    if one.desired == DesiredJobState.DEAD:
        return f"{one.remote} to delete its job there: it was deleted here"
    if quiet := silence(shown.clusters.get(one.remote), now):
        return f"{one.remote}, which {quiet}; until it answers the job counts as alive"
    if one.phase == StarterPhase.SUBMITTING:
        return f"its starter, to submit it to {one.remote}{_tried(one)}"
    if one.missing_since:
        return _missing(one, now)
    if one.phase == StarterPhase.HELD and one.desired != DesiredJobState.SUSPENDED:
        return f"its starter, to release it at {one.remote}{_tried(one)}"
    return _remote(one, shown)


def _tried(one: ShownTransfer) -> str:
    """Say how its starter's last try failed; empty when it did not."""
    return f"; {one.reason}" if one.cause else ""


def _missing(one: ShownTransfer, now: datetime) -> str:
    assert one.missing_since
    gone = age(now - one.missing_since)
    return f"the accounting of job {one.remote_id}, which {one.remote} has not listed for {gone}"


def _remote(one: ShownTransfer, shown: PublishedState) -> str:
    """Say what the remote job's own state means for it."""
    if one.desired == DesiredJobState.SUSPENDED and not one.there.is_suspended:
        return f"{_own_resume(one)}: it is held at {one.remote} by your suspend"
    if not one.remote_state:
        return f"the next answer of {one.remote}"
    if _is_unheard(one, shown):
        return f"news of host {one.remote_host}, which {one.remote} does not hear of"
    if one.there.word == JobFact.SUSPENDED and one.desired == DesiredJobState.SUSPENDED:
        return f"{_own_resume(one)}: it is suspended at {one.remote} by your suspend"
    if one.there.word == JobFact.SUSPENDED:
        return f"a resume: it is suspended at {one.remote}{_suspender(one.there)}"
    return _WAITS[one.there.word](one, shown)


def _own_resume(one: ShownTransfer) -> str:
    return f"a resume (qmod -usj {_local(one)})"


def _suspender(state: JobState) -> str:
    """Say who suspended it; empty when its cluster does not tell."""
    return next((f" {words}" for fact, words in _SUSPENDERS if fact in state.facts), "")


def _is_unheard(one: ShownTransfer, shown: PublishedState) -> bool:
    cluster = shown.clusters.get(one.remote)
    queues = cluster.queues if cluster else ()
    return any(
        queue.host == one.remote_host and QueueFact.UNREACHABLE in queue.facts for queue in queues
    )


def _local(one: ShownTransfer) -> str:
    return parse_transfer(one.transfer).local


def _slot(one: ShownTransfer, shown: PublishedState) -> str:
    cluster = shown.clusters.get(one.remote)
    if cluster is None or cluster.pending is None:
        return "a free slot"
    return f"a free slot ({cluster.pending} waiting, {cluster.free_slots} free)"


_WAITS: Mapping[str, Callable[[ShownTransfer, PublishedState], str]] = {
    JobFact.WAITING: _slot,
    JobFact.HELD: lambda one, _: f"its hold at {one.remote} to be released there",
    JobFact.RUNNING: lambda _, __: "its end",
    JobFact.DELETING: lambda one, _: f"{one.remote} to delete it",
    JobFact.ERROR: lambda one, _: (
        f"the service, to bring it home: {one.remote} put it into the error state"
    ),
    JobFact.FINISHED: lambda one, _: f"{one.remote} to account for it",
    JobFact.UNKNOWN: lambda one, _: (
        f"its end; {one.remote} says {one.remote_state}, which is not known here"
    ),
}
