"""Has gridbridge-as-user submit, release, find and delete array jobs under the owners' accounts."""

import json
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from gridbridge import errors
from gridbridge.batch import privileged_helper_calls
from gridbridge.campaigns.store.root_ledger import ADDED, GROUP, group_of_jobs
from gridbridge.model import fixed_paths
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionResult,
    CampaignArray,
    RootLedgerArray,
    TaskAttempt,
    TaskGroupSize,
)
from gridbridge.model.campaigns.campaign_cycle_plan import TimedInputCarry
from gridbridge.model.campaigns.campaign_file_and_array_names import CampaignArrayId, released_array_name
from gridbridge.model.campaigns.checkpoint_statistics import AttemptCheckpoints, CheckpointTimes
from gridbridge.model.campaigns.grouped_tasks import JobRecord, parse_job_record
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    Attempts,
    format_array_index_ranges,
    format_attempt_ranges,
    parse_array_index_ranges,
    parse_attempt_ranges,
)
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.site_configuration import Policy
from gridbridge.program import jobs_of_removed_accounts
from gridbridge.shell.program_runs import BackgroundProgram, CompletedProgram

Value = TypeVar("Value")
# an owner's program may answer anything
INVALID_ANSWER = (ValueError, KeyError, AttributeError, TypeError, RecursionError, OverflowError)
MOST_CHECKPOINTS = 10**6  # largest accepted number of checkpoints of an attempt
MOST_CHECKPOINT_BYTES = 10**15
MOST_USAGE_KB = 10**12  # largest accepted usage of an attempt, in kB
MOST_AMOUNT = 1e18  # largest number of bytes or seconds in an owner's answer
# exit statuses after which a later cycle repeats the command
LATER = (fixed_paths.NO_OWNER, fixed_paths.NO_LEDGER)


class RootCampaignRefusal(errors.GridbridgeError):
    """Root refuses to submit any task of this campaign at any cluster."""


class EndedCampaignRefusal(errors.GridbridgeError):
    """Root submits no more tasks of this campaign, because the campaign has ended in root's ledger."""


class PermanentArrayRefusal(errors.GridbridgeError):
    """The cluster will never accept this array."""


class TemporaryArrayRefusal(errors.GridbridgeError):
    """The cluster accepts no array of this owner now; the array was not submitted."""


ERRORS: dict[int, type[errors.GridbridgeError]] = {
    2: RootCampaignRefusal,
    fixed_paths.HAS_ENDED: EndedCampaignRefusal,
    fixed_paths.REFUSED_THERE: PermanentArrayRefusal,
    fixed_paths.SUBMITTED_BEFORE: errors.ArrayTasksAlreadyInLedger,
    fixed_paths.NOT_NOW: TemporaryArrayRefusal,
    fixed_paths.NO_OWNER: errors.OwnerAccountGone,
    fixed_paths.NO_LEDGER: errors.RootLedgerUnreadable,
    fixed_paths.NO_FILE: errors.CampaignFileUnreadable,
}

INTERVAL = "checkpoint="


def submit_arrays(
    arrays: tuple[tuple[CampaignArray, tuple[TaskAttempt, ...]], ...],
) -> tuple[ArraySubmissionResult, ...]:
    """Submit arrays of one campaign to one cluster, and release the arrays' tasks.

    Each array whose submission started has a result: a job id or an error. After an error outside ERRORS the
    cluster may have accepted the array. The same call may be repeated.
    """
    first = arrays[0][0]
    interval_s = max(array.checkpoint_s for array, _ in arrays)
    words = ["ordinary"] if first.is_ordinary else []
    words += [f"{INTERVAL}{interval_s}"] if interval_s else []
    group = (first.group_tasks, first.group_s, first.group_wait_s)
    words += [GROUP + ",".join(map(str, group if first.group_wait_s else group[:2]))] if first.group_tasks > 1 else []
    for array, attempts in arrays:
        tasks = format_attempt_ranges(tuple((attempt.task, attempt.attempt) for attempt in attempts))
        words += [str(array.number), tasks]
    verb = "send-copies" if first.is_of_copies else "send-arrays"
    answer = _run_gridbridge_as_user(ERRORS, verb, f"c.{first.campaign}", first.cluster, *words)
    return tuple(map(_parse_submission_result, answer.decode("utf-8", "replace").splitlines()))


def _parse_submission_result(line: str) -> ArraySubmissionResult:
    try:
        status, job, why = line.split(" ", 2)
        error = ERRORS.get(int(status), errors.GridbridgeError)(why) if int(status) else None
        return ArraySubmissionResult(job_id=int(job), error=error)
    except ValueError as error:
        raise errors.ParseError(f"send-arrays: {line[:80]!r}") from error


def add_tasks_to_jobs(array: CampaignArray, attempts: tuple[TaskAttempt, ...]) -> None:
    """Give further first attempts to running jobs of an array; must not be repeated."""
    of_job: dict[int, list[tuple[int, int]]] = {}
    for attempt in attempts:
        of_job.setdefault(attempt.place, []).append((attempt.task, attempt.attempt))
    words = [word for index, tasks in of_job.items() for word in (str(index), format_attempt_ranges(tuple(tasks)))]
    _run_array_command("add-tasks", array, *words)


def release_array(array: CampaignArray) -> None:
    """Release the tasks of a submitted array; may be repeated."""
    _run_array_command("release-array", array)


def delete_array(array: CampaignArray, *indices: str) -> int:
    """Delete an array, or the tasks with these indices; return the array's job id, 0 if it was never submitted."""
    answer = _run_array_deletion_command("delete-array", array, *indices)
    return int(answer[0]) if answer else 0


def delete_array_without_owner(policy: Policy, owner: str, array: CampaignArray) -> int:
    """Delete an array whose owner no longer exists; raise OwnerlessJobNotDeleted if a job remains."""
    ids = [entry.job_id for entry in list_root_ledger_arrays(array.campaign) if entry.number == array.number]
    return jobs_of_removed_accounts.delete_array_of_removed_account(
        policy, array.cluster, owner, array_job_name(policy, array), (*ids, array.job_id)
    )


def delete_array_tasks(array: CampaignArray, indices: tuple[range, ...]) -> None:
    """Delete the array tasks with these indices; may be repeated."""
    delete_array(array, format_array_index_ranges(indices))


def delete_waiting_array_tasks(array: CampaignArray, indices: tuple[range, ...]) -> tuple[range, ...]:
    """Delete tasks that have not started; return the array indices of started tasks. May be repeated."""
    answer = _run_array_deletion_command("delete-waiting", array, format_array_index_ranges(indices))
    return parse_array_index_ranges(answer[1]) if answer[1:] else ()


def list_root_ledger_arrays(campaign: int) -> tuple[RootLedgerArray, ...]:
    """Return a campaign's arrays in root's ledger; raise RootLedgerUnreadable or ParseError."""
    arrays = list[RootLedgerArray]()
    for line in _run_gridbridge_as_user(ERRORS, "list-arrays", f"c.{campaign}").decode("ascii").splitlines():
        try:
            number, cluster, tasks, job, *words = line.split(" ")
            group_tasks, begin_s, wait_s = group_of_jobs(words)
            entry = RootLedgerArray(
                number=int(number),
                cluster=cluster,
                tasks=parse_attempt_ranges(tasks),
                job_id=int(job or 0),
                is_of_copies="copies" in words,
                is_ordinary="ordinary" in words,
                checkpoint_s=max((int(word.removeprefix(INTERVAL)) for word in words if INTERVAL in word), default=0),
                group=TaskGroupSize(tasks=group_tasks, begin_s=begin_s, wait_s=wait_s),
                added=tuple(_parse_added_tasks(word) for word in words if word.startswith(ADDED)),
            )
            arrays.append(entry)
        except ValueError as error:
            raise errors.ParseError(f"list-arrays: {line[:80]!r}") from error
    return tuple(arrays)


def _parse_added_tasks(word: str) -> tuple[int, Attempts]:
    index, _, tasks = word.removeprefix(ADDED).partition("=")
    return int(index), parse_attempt_ranges(tasks)


def close_campaign_in_root_ledger(campaign: int) -> None:
    """Have root record that a campaign has ended; may be repeated."""
    _run_gridbridge_as_user(ERRORS, "end-campaign", f"c.{campaign}")


def reopen_campaign_in_root_ledger(campaign: int, request: str) -> None:
    """Have root reopen an ended campaign; raise RootCampaignRefusal if the owner did not request it."""
    _run_gridbridge_as_user(ERRORS, "take-up", f"c.{campaign}", request)


def start_input_carry(
    array: CampaignArray, attempts: tuple[TaskAttempt, ...], at_cluster: tuple[TaskAttempt, ...] = ()
) -> BackgroundProgram:
    """Start to carry the input files of an array's tasks to its cluster; may be repeated.

    The tasks in `at_cluster` read predecessors' outputs that are still at this cluster.
    """
    tasks = [
        format_attempt_ranges(tuple((attempt.task, attempt.attempt) for attempt in some))
        for some in (attempts, at_cluster)
        if some
    ]
    return privileged_helper_calls.start_gridbridge_as_user(
        "carry-inputs", f"c.{array.campaign}", array.cluster, *tasks
    )


def start_input_removal(campaign: int, cluster: str) -> BackgroundProgram:
    """Start to remove an ended campaign's input files from a cluster; may be repeated."""
    return privileged_helper_calls.start_gridbridge_as_user("drop-inputs", f"c.{campaign}", cluster)


def start_output_carry(campaign: int, cluster: str, attempts: Iterable[tuple[int, int]]) -> BackgroundProgram:
    """Start to bring the outputs of (task, attempt) pairs from a cluster to the owner's folder; may be repeated."""
    tasks = format_attempt_ranges(tuple(attempts))
    return privileged_helper_calls.start_gridbridge_as_user("bring-outputs", f"c.{campaign}", cluster, tasks)


def start_record_reading(campaign: int, cluster: str, attempts: Iterable[tuple[int, int]]) -> BackgroundProgram:
    """Start to read checkpoints and usage of (task, attempt) pairs from files at a cluster; may be repeated."""
    tasks = format_attempt_ranges(tuple(attempts))
    return privileged_helper_calls.start_gridbridge_as_user("read-records", f"c.{campaign}", cluster, tasks)


def start_checkpoint_carry(
    campaign: int, source: str, cluster: str, attempts: Iterable[tuple[int, int]]
) -> BackgroundProgram:
    """Start to copy the checkpoints of (task, attempt) pairs from a cluster to another cluster; may be repeated."""
    tasks = format_attempt_ranges(tuple(attempts))
    return privileged_helper_calls.start_gridbridge_as_user(
        "carry-checkpoints", f"c.{campaign}", cluster, tasks, source
    )


def start_checkpoint_removal(campaign: int, cluster: str, attempts: Iterable[tuple[int, int]]) -> BackgroundProgram:
    """Start to remove the checkpoints of (task, attempt) pairs at a cluster; may be repeated."""
    tasks = format_attempt_ranges(tuple(attempts))
    return privileged_helper_calls.start_gridbridge_as_user("drop-checkpoints", f"c.{campaign}", cluster, tasks)


def checkpoints_of_attempts(answer: CompletedProgram) -> dict[tuple[int, int], AttemptCheckpoints]:
    """Return the checkpoints by (task, attempt); raise GridbridgeError after a failure or a wrong answer."""
    _require_owner_program_success(answer)
    return _parse_owner_answer(
        answer,
        "read-records",
        lambda values: {
            (int(task), int(attempt)): _parse_checkpoints(*amounts) for task, attempt, *amounts in values["checkpoints"]
        },
    )


def start_job_record_reading(campaign: int, cluster: str, jobs: Iterable[tuple[int, int]]) -> BackgroundProgram:
    """Start to read the records of jobs, pairs (array index, array number), at a cluster; may be repeated."""
    text = format_attempt_ranges(tuple(jobs))
    return privileged_helper_calls.start_gridbridge_as_user("read-jobs", f"c.{campaign}", cluster, text)


def records_of_jobs(answer: CompletedProgram) -> dict[tuple[int, int], JobRecord]:
    """Return the records by (array index, array number); raise GridbridgeError after a failure or a wrong answer."""
    _require_owner_program_success(answer)
    return _parse_owner_answer(
        answer,
        "read-jobs",
        lambda values: {(int(index), int(array)): parse_job_record(str(text)) for index, array, text in values["jobs"]},
    )


def _parse_checkpoints(completed: int, timed: int, total_s: float, size_bytes: int | None) -> AttemptCheckpoints:
    is_possible = 0 <= timed <= completed <= MOST_CHECKPOINTS and 0 <= total_s <= MOST_AMOUNT
    if not (is_possible and 0 <= (size_bytes or 0) <= MOST_CHECKPOINT_BYTES):
        raise ValueError("out of range")
    times = CheckpointTimes(timed=int(timed), total_s=float(total_s) if timed else 0.0)
    size = None if size_bytes is None else int(size_bytes)
    return AttemptCheckpoints(completed=int(completed), times=times, size_bytes=size)


def usage_of_attempts(answer: CompletedProgram) -> dict[tuple[int, int], tuple[int, int]]:
    """Return (kB of memory, written kB) by (task, attempt); raise GridbridgeError after a failure or a wrong answer."""
    _require_owner_program_success(answer)
    return _parse_owner_answer(
        answer,
        "read-records",
        lambda values: {
            (task, attempt): (min(rss_kb, MOST_USAGE_KB), min(written_kb, MOST_USAGE_KB))
            for task, attempt, rss_kb, written_kb in (map(int, row) for row in values["usage"])
            if rss_kb >= 0 and written_kb >= 0
        },
    )


def tasks_without_outputs(answer: CompletedProgram) -> tuple[dict[int, str], frozenset[int]] | None:
    """Return the tasks whose outputs can't be brought, with the reasons, and those without outputs at the cluster.

    None means that the carry must be repeated.
    """
    return _parse_carry_answer(
        answer,
        "bring-outputs",
        lambda values: (_parse_tasks_without_files(values), frozenset(map(int, values["absent"]))),
    )


def _parse_tasks_without_files(values: dict[str, Any]) -> dict[int, str]:
    return {int(task): str(why) for task, why in values["missing"].items()}


def _parse_carry_answer(answer: CompletedProgram, source: str, parse: Callable[[Any], Value]) -> Value | None:
    """Parse the answer of a carry; raise GridbridgeError after a failure or a wrong answer."""
    if answer.status == fixed_paths.NOT_NOW:
        return None
    _require_owner_program_success(answer)
    return _parse_owner_answer(answer, source, parse)


def _parse_owner_answer(answer: CompletedProgram, source: str, parse: Callable[[Any], Value]) -> Value:
    """Parse the JSON of an owner's program; raise ParseError for an answer that `parse` can't use."""
    try:
        return parse(json.loads(answer.stdout))
    except INVALID_ANSWER as error:
        raise errors.ParseError(f"{source}: {answer.stdout[:80]!r}") from error


def _require_owner_program_success(answer: CompletedProgram) -> None:
    if answer.status:
        why = privileged_helper_calls.gridbridge_as_user_error_text(answer)
        raise errors.GridbridgeError(why or f"the program ended with status {answer.status}")


def timed_input_carry(answer: CompletedProgram) -> TimedInputCarry | None:
    """Return what a carry of input files or checkpoints has shown; None if the carry must be repeated."""
    return _parse_carry_answer(answer, "carry of files", _parse_timed_carry)


def _parse_timed_carry(values: dict[str, Any]) -> TimedInputCarry:
    amounts = [float(values.get(key, 0)) for key in ("copied_bytes", "took_s", "next_task_bytes")]
    if not all(0 <= amount <= MOST_AMOUNT for amount in amounts):
        raise ValueError("out of range")
    copied_bytes, took_s, next_task_bytes = amounts
    return TimedInputCarry(
        copied_bytes=int(copied_bytes),
        took_s=took_s,
        next_task_bytes=next_task_bytes,
        missing=_parse_tasks_without_files(values),
    )


def _run_array_deletion_command(verb: str, array: CampaignArray, *indices: str) -> list[str]:
    """Run a deletion; return the printed words, or raise RootLedgerUnreadable if the array is unknown."""
    answer = _run_array_command(verb, array, *indices).decode("ascii", "replace").split()
    if array.job_id and not answer:
        raise errors.RootLedgerUnreadable(f"root's ledger lacks array {array.number}")
    return answer


def _run_array_command(verb: str, array: CampaignArray, *tasks: str) -> bytes:
    return _run_gridbridge_as_user(LATER, verb, f"c.{array.campaign}", array.cluster, str(array.number), *tasks)


def _run_gridbridge_as_user(refusals: Container[int], *words: str) -> bytes:
    """Run gridbridge-as-user; an exit status in `refusals` raises its error from ERRORS."""
    result = privileged_helper_calls.run_gridbridge_as_user(*words)
    if result.status in refusals:
        raise ERRORS[result.status](privileged_helper_calls.gridbridge_as_user_error_text(result))
    return result.require_success().stdout


def snapshot_without_foreign_jobs(
    policy: Policy, snapshot: ClusterSnapshot, arrays: Iterable[CampaignArray]
) -> ClusterSnapshot:
    """Leave out other users' jobs with an array's job id: after a reinstallation, a cell's job ids restart at 1."""
    names = {
        array.job_id: (array_job_name(policy, array), released_array_name(array.campaign))
        for array in arrays
        if array.cluster == snapshot.cluster
    }
    jobs = {
        number: ours
        for number, rows in snapshot.jobs.items()
        if (ours := tuple(row for row in rows if row.name in names.get(number, (row.name,))))
    }
    return replace(snapshot, jobs=jobs)


def array_job_name(policy: Policy, array: CampaignArray) -> str:
    return str(CampaignArrayId(policy.site.cluster, array.campaign, array.number))
