"""Explain why a cluster is silent, why a transfer queue is closed, and what a transfer waits for."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from gridbridge.decisions.transfer.circuit_breaker import describe_failure_cause
from gridbridge.decisions.transfer.transfer_queue_closing import are_load_values_fresh, load_value_closing_queue
from gridbridge.model import published_status_and_reports as reports
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.job_and_queue_states import JobStateFact, QueueStartBlocker
from gridbridge.model.published_status_and_reports import PublishedFilesSnapshot, PublishedTransfer, format_duration
from gridbridge.model.site.setup_findings_and_edits import CheckFinding
from gridbridge.model.transfer.transfer_queue_load_values import PENDING, UP, load_value_complex_attribute
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, StarterPhase, TransferFailureCause
from gridbridge.model.transfer_name import parse_transfer_name

NOT_YET_REPORTED = "the load values are fine: the queue opens at the next load report"

CLOSED_QUEUE_REASONS = (  # the reason of the first matching fact is shown
    (QueueStartBlocker.ERROR, "in error state: after the repair, qmod -cq clears the state"),
    (QueueStartBlocker.DISABLED, "disabled"),
    (QueueStartBlocker.OFF_HOURS, "disabled"),
    (QueueStartBlocker.SUSPENDED, "suspended"),
    (QueueStartBlocker.UNREACHABLE, "the host does not report to the qmaster"),
    (QueueStartBlocker.LOADED, NOT_YET_REPORTED),
    (QueueStartBlocker.OVERLOADED, NOT_YET_REPORTED),
)


NEVER_PUBLISHED = (
    "gridbridge-poller has never published anything here; gridbridge check prints the command that starts the poller"
)

SENDING, UNLISTED = "sending", "unlisted"  # states of a remote job that the remote cluster does not list


def poller_silence_alarm(published_files: PublishedFilesSnapshot, now: datetime) -> str:
    if published_files.load is None:
        return NEVER_PUBLISHED
    old = now - published_files.load.taken_at
    if old <= published_files.load.stale:
        return ""
    limit = f"(the limit is {format_duration(published_files.load.stale)})"
    outdated = "the report below has the same age, and the transfer queues are closed"
    return f"gridbridge-poller is silent for {format_duration(old)} {limit}: {outdated}"


def full_folder_warning(published_files: PublishedFilesSnapshot) -> str:
    lacks = published_files.service.full if published_files.service else ""
    return f"{lacks}; every transfer queue is closed until the folder has room" if lacks else ""


def refused_configuration_warning(published_files: PublishedFilesSnapshot) -> str:
    """Return a warning if the poller rejects the newest gridbridge.toml as invalid; else ''."""
    configuration = published_files.service.configuration if published_files.service else None
    if configuration is None or not configuration.refused:
        return ""
    problems = summarize_config_problems(configuration.refused)
    return f"the service uses an older gridbridge.toml, because it refuses the new file: {problems}"


def summarize_config_problems(problems: Sequence[str]) -> str:
    """Return the first problem of a gridbridge.toml, and the number of further problems."""
    first, *more = problems
    return f"{first} (and {len(more)} more, see gridbridge check)" if more else first


def report_cluster_reachability(cluster: reports.PublishedClusterAnswer, now: datetime) -> reports.ClusterStatusReport:
    age = format_duration(now - cluster.taken_at) if cluster.taken_at else ""
    return reports.ClusterStatusReport(
        cluster=cluster.cluster,
        answers=not cluster.trouble,
        taken_at=cluster.taken_at,
        waiting=cluster.pending,
        free_slots=cluster.free_slots,
        why=describe_cluster_silence(cluster, now) or f"answered {age} ago",
    )


def why_cluster_gets_nothing(cluster: str, published_files: PublishedFilesSnapshot, now: datetime) -> str:
    """Return the first reason of: drained, silent, failing jobs; empty if the cluster gets jobs and tasks."""
    return (
        describe_cluster_drain(cluster, published_files, now)
        or describe_cluster_silence(published_files.clusters.get(cluster), now)
        or why_breaker_closed_queues(cluster, published_files, now)
    )


def describe_cluster_drain(cluster: str, published_files: PublishedFilesSnapshot, now: datetime) -> str:
    drain = published_files.drained.get(cluster)
    return f"drained by {drain.by} {format_duration(now - drain.at)} ago: {drain.reason}" if drain else ""


def why_breaker_closed_queues(cluster: str, published_files: PublishedFilesSnapshot, now: datetime) -> str:
    breaker = published_files.breakers.get(cluster)
    if breaker is None or breaker.until is None:
        return ""
    jobs = f"{reports.number_with_noun(breaker.failures, 'job')} in a row failed at {cluster}"
    next_ = f"the next job in {format_duration(breaker.until - now)}" if now < breaker.until else "one job"
    return f"{jobs}: {describe_failure_cause(breaker.cause, cluster)}. The queues let in {next_}."


def describe_cluster_silence(cluster: reports.PublishedClusterAnswer | None, now: datetime) -> str:
    if cluster is None:
        return "not queried yet"
    if not cluster.trouble:
        return ""
    since = f"for {format_duration(now - cluster.taken_at)}" if cluster.taken_at else "yet"
    return f"has not answered {since}: {cluster.trouble}"


def report_transfer_queue_status(
    route: reports.PublishedTransferQueue, published_files: PublishedFilesSnapshot, now: datetime
) -> reports.TransferQueueReport:
    home = published_files.clusters.get(published_files.service.cluster) if published_files.service else None
    queues = home.queues if home else ()
    mine = tuple(queue for queue in queues if queue.name.partition("@")[0] == route.queue)
    why = _why_queue_is_closed(route, mine, published_files, now)
    return reports.TransferQueueReport(
        queue=route.queue,
        cluster=route.cluster,
        is_open=not why,
        used=sum(queue.used for queue in mine),
        total=sum(queue.total for queue in mine),
        why=why,
    )


def _why_queue_is_closed(
    route: reports.PublishedTransferQueue,
    instances: tuple[reports.PublishedQueueOnHost, ...],
    published_files: PublishedFilesSnapshot,
    now: datetime,
) -> str:
    if not instances:
        return "the home cluster does not list this queue"
    if why := _why_load_values_close_queue(route, published_files, now):
        return why
    if any(not queue.queue_instance_state.facts and queue.used < queue.total for queue in instances):
        return ""
    facts = {fact for queue in instances for fact in queue.queue_instance_state.facts}
    return next((words for fact, words in CLOSED_QUEUE_REASONS if fact in facts), "every slot is used")


def _why_load_values_close_queue(
    route: reports.PublishedTransferQueue, published_files: PublishedFilesSnapshot, now: datetime
) -> str:
    load = published_files.load
    if load is None or not are_load_values_fresh((now - load.taken_at).total_seconds(), load.stale.total_seconds()):
        return "the load values are too old"
    if published_files.service and published_files.service.full:
        return published_files.service.full
    if why := describe_cluster_drain(route.cluster, published_files, now):
        return why
    closed_by = load_value_closing_queue(load.values, route.cluster, route.pending_limit)
    if closed_by == UP:
        quiet = describe_cluster_silence(published_files.clusters.get(route.cluster), now)
        failed = "" if quiet else why_breaker_closed_queues(route.cluster, published_files, now)
        return failed or f"{route.cluster} {quiet or 'is silent'}"
    if closed_by == PENDING:
        pending = load.values[load_value_complex_attribute(route.cluster, PENDING)]
        waiting = reports.number_with_noun(int(pending), "job waits", "jobs wait")
        return f"{waiting} at {route.cluster}; the limit is {route.pending_limit}"
    return ""


def describe_unconfigured_cluster(cluster: str) -> str:
    return f"{CONFIG} has no [cluster.{cluster}], so nobody queries the job's state"


def unconfigured_cluster_findings(
    transfers: Iterable[PublishedTransfer], clusters: Collection[str]
) -> Iterator[CheckFinding]:
    counts = Counter(transfer.remote for transfer in transfers if transfer.remote not in clusters)
    for cluster, count in sorted(counts.items()):
        yield CheckFinding.warning_finding(
            f"{cluster}: open transfers",
            f"{count} transfers, and no [cluster.{cluster}] in {CONFIG}",
            f"no open transfer, or a [cluster.{cluster}]",
            hint=f"put [cluster.{cluster}] back until the transfers have ended;"
            f" without a [queue.NAME] the cluster gets no new job",
        )


SUSPENSION_REASONS = (  # the text of the first matching fact is shown
    (JobStateFact.BY_HAND, "by hand"),
    (JobStateFact.BY_QUEUE, "with its queue"),
    (JobStateFact.BY_THRESHOLD, "by its queue's suspend threshold"),
)


def explain_transfer_attempt(
    history: reports.PublishedTransferHistory, published_files: PublishedFilesSnapshot, now: datetime
) -> reports.TransferAttemptExplanation:
    transfer = history.transfer
    return reports.TransferAttemptExplanation(
        transfer=transfer,
        where=describe_job_location(transfer),
        here=_describe_local_job_state(transfer, now),
        there=_describe_remote_job_state(transfer, now),
        waits_for=explain_transfer_wait(transfer, published_files, now),
        events=history.events,
        left_out=history.left_out,
    )


def describe_job_location(transfer: PublishedTransfer) -> str:
    job = f"job {parse_transfer_name(transfer.transfer).local_job_or_task_id} of {transfer.owner}"
    if transfer.closed_at:
        as_job = f" as job {transfer.remote_id}" if transfer.remote_id else ""
        return f"{job} was sent to {transfer.remote}{as_job}; the transfer has ended"
    if not transfer.remote_id:
        return f"{job} is being sent to {transfer.remote} and has no remote id yet"
    return f"{job} is at {transfer.remote} as job {transfer.remote_id}"


def _describe_local_job_state(transfer: PublishedTransfer, now: datetime) -> str:
    if transfer.closed_at:
        return transfer.reason
    state = transfer.local_state or ("ending" if transfer.outcome else "not listed")
    since = f" for {format_duration(now - transfer.local_since)}" if transfer.local_since else ""
    return f"{state} in {transfer.queue}{since}"


def _describe_remote_job_state(transfer: PublishedTransfer, now: datetime) -> str:
    if transfer.outcome:
        return transfer.outcome
    if transfer.closed_at or not transfer.remote_state:
        return "not seen yet" if transfer.remote_id and not transfer.closed_at else ""
    host = f" on {transfer.remote_host}" if transfer.remote_host else ""
    since = f" for {format_duration(now - transfer.since)}" if transfer.since else ""
    return f"{transfer.remote_state}{host}{since}"


def transfer_state_word(transfer: PublishedTransfer) -> str:
    if transfer.remote_job_state.is_listed:
        return transfer.remote_job_state.most_important_fact
    return UNLISTED if transfer.phase == StarterPhase.RELEASED else SENDING


def explain_transfer_wait(transfer: PublishedTransfer, published_files: PublishedFilesSnapshot, now: datetime) -> str:
    if transfer.closed_at:
        return ""
    if transfer.outcome:
        return f"the starter, to report the job's end at home ({transfer.outcome})"
    if transfer.cause == TransferFailureCause.DROPPED:
        until = f"until then nobody queries {transfer.remote}, and the job counts as alive"
        return f"[cluster.{transfer.remote}] to be in {CONFIG} again: {until}"
    return _explain_wait_for_remote_cluster(transfer, published_files, now)


def _explain_wait_for_remote_cluster(
    transfer: PublishedTransfer, published_files: PublishedFilesSnapshot, now: datetime
) -> str:
    if transfer.desired == DesiredLocalJobState.DEAD:
        return f"{transfer.remote} to delete the remote job, because the local job was deleted"
    if quiet := describe_cluster_silence(published_files.clusters.get(transfer.remote), now):
        return f"{transfer.remote}, which {quiet}; until the cluster answers, the job counts as alive"
    tried = f"; {transfer.reason}" if transfer.cause else ""
    if transfer.phase == StarterPhase.SUBMITTING:
        return f"the starter, to submit the job to {transfer.remote}{tried}"
    if transfer.missing_since:
        job, missing_for = f"job {transfer.remote_id}", format_duration(now - transfer.missing_since)
        return f"the accounting record of {job}; {transfer.remote} has not listed the job for {missing_for}"
    if transfer.phase == StarterPhase.HELD and transfer.desired != DesiredLocalJobState.SUSPENDED:
        return f"the starter, to release the job at {transfer.remote}{tried}"
    return _explain_wait_for_remote_job(transfer, published_files)


def _explain_wait_for_remote_job(transfer: PublishedTransfer, published_files: PublishedFilesSnapshot) -> str:
    if transfer.desired == DesiredLocalJobState.SUSPENDED and not transfer.remote_job_state.is_suspended:
        return f"{_resume_command_words(transfer)}: your suspend holds the job at {transfer.remote}"
    if not transfer.remote_state:
        return f"the next answer of {transfer.remote}"
    if _is_remote_host_unreachable(transfer, published_files):
        return f"news of host {transfer.remote_host}, which does not report to {transfer.remote}"
    if (
        transfer.remote_job_state.most_important_fact == JobStateFact.SUSPENDED
        and transfer.desired == DesiredLocalJobState.SUSPENDED
    ):
        return f"{_resume_command_words(transfer)}: your suspend also suspended the job at {transfer.remote}"
    if transfer.remote_job_state.most_important_fact == JobStateFact.SUSPENDED:
        suspender = next(
            (f" {words}" for fact, words in SUSPENSION_REASONS if fact in transfer.remote_job_state.facts), ""
        )
        return f"a resume: the job is suspended at {transfer.remote}{suspender}"
    return WAIT_TEXT_BY_REMOTE_STATE[transfer.remote_job_state.most_important_fact](transfer, published_files)


def _resume_command_words(transfer: PublishedTransfer) -> str:
    return f"a resume (qmod -usj {parse_transfer_name(transfer.transfer).local_job_or_task_id})"


def _is_remote_host_unreachable(transfer: PublishedTransfer, published_files: PublishedFilesSnapshot) -> bool:
    cluster = published_files.clusters.get(transfer.remote)
    queues = cluster.queues if cluster else ()
    return any(
        queue.host_name == transfer.remote_host and QueueStartBlocker.UNREACHABLE in queue.facts for queue in queues
    )


def _describe_wait_for_slot(transfer: PublishedTransfer, published_files: PublishedFilesSnapshot) -> str:
    cluster = published_files.clusters.get(transfer.remote)
    if cluster is None or cluster.pending is None:
        return "a free slot"
    return f"a free slot ({cluster.pending} waiting, {cluster.free_slots} free)"


WAIT_TEXT_BY_REMOTE_STATE: Mapping[str, Callable[[PublishedTransfer, PublishedFilesSnapshot], str]] = {
    JobStateFact.WAITING: _describe_wait_for_slot,
    JobStateFact.HELD: lambda transfer, _: f"a release of the remote job's hold at {transfer.remote}",
    JobStateFact.RUNNING: lambda _, __: "its end",
    JobStateFact.DELETING: lambda transfer, _: f"{transfer.remote} to delete the remote job",
    JobStateFact.ERROR: lambda transfer, _: (
        f"the service, to bring the task home: {transfer.remote} put the job into the error state"
    ),
    JobStateFact.FINISHED: lambda transfer, _: f"the accounting record of {transfer.remote}",
    JobStateFact.UNKNOWN: lambda transfer, _: (
        f"the job's end; {transfer.remote} reports the unknown state {transfer.remote_state}"
    ),
}
