"""Submits, releases, finds and deletes array jobs under the owners' accounts, by gridbridge-as-user."""

from collections.abc import Iterable
from dataclasses import replace

from gridbridge.batch import privileged_helper_calls
from gridbridge.errors import (
    ArrayTasksAlreadyInLedger,
    CampaignFileUnreadable,
    GridbridgeError,
    OwnerAccountGone,
    ParseError,
    RootLedgerUnreadable,
)
from gridbridge.model.campaigns.campaign import ArraySubmissionResult, CampaignArray, RootLedgerArray, TaskAttempt
from gridbridge.model.campaigns.campaign_names import CampaignArrayId, released_array_name
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    format_array_index_ranges,
    format_attempt_ranges,
    parse_array_index_ranges,
    parse_attempt_ranges,
)
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.fixed_paths import (
    HAS_ENDED,
    NO_FILE,
    NO_LEDGER,
    NO_OWNER,
    NOT_NOW,
    REFUSED_THERE,
    SUBMITTED_BEFORE,
)
from gridbridge.model.site_configuration import Policy
from gridbridge.program import jobs_of_removed_accounts
from gridbridge.shell.program_runs import CompletedProgram

REFUSED = 2
LATER = (NO_OWNER, NO_LEDGER)  # a release or deletion with these exit statuses is tried again later


class RootCampaignRefusal(GridbridgeError):
    """Root refuses to submit any task of this campaign at any cluster."""


class EndedCampaignRefusal(GridbridgeError):
    """Root submits no more tasks of this campaign, because root's ledger of submitted tasks has the campaign's end."""


class PermanentArrayRefusal(GridbridgeError):
    """The cluster will never accept this array."""


class TemporaryArrayRefusal(GridbridgeError):
    """The cluster accepts no array of this owner now; nothing was submitted."""


ERRORS: dict[int, type[GridbridgeError]] = {
    REFUSED: RootCampaignRefusal,
    HAS_ENDED: EndedCampaignRefusal,
    REFUSED_THERE: PermanentArrayRefusal,
    SUBMITTED_BEFORE: ArrayTasksAlreadyInLedger,
    NOT_NOW: TemporaryArrayRefusal,
    NO_OWNER: OwnerAccountGone,
    NO_LEDGER: RootLedgerUnreadable,
    NO_FILE: CampaignFileUnreadable,
}


def send(arrays: tuple[tuple[CampaignArray, tuple[TaskAttempt, ...]], ...]) -> tuple[ArraySubmissionResult, ...]:
    """Submit arrays of one campaign to one cluster, and release the arrays' tasks.

    Each result has a job id or an error. An error that is not in ERRORS leaves open whether the array was submitted, so
    the same call may be repeated. Arrays whose submission did not start have no result. An error that concerns all
    arrays is raised.
    """
    first = arrays[0][0]
    words = (word for array, attempts in arrays for word in (str(array.number), _attempts_text(attempts)))
    verb = "send-copies" if first.is_of_copies else "send-arrays"
    result = privileged_helper_calls.run_gridbridge_as_user(verb, f"c.{first.campaign}", first.cluster, *words)
    if result.status in ERRORS:
        raise ERRORS[result.status](privileged_helper_calls.gridbridge_as_user_refusal(result))
    lines = result.checked().stdout.decode("utf-8", "replace").splitlines()
    return tuple(map(_sent, lines))


def _attempts_text(attempts: tuple[TaskAttempt, ...]) -> str:
    return format_attempt_ranges(tuple((attempt.task, attempt.attempt) for attempt in attempts))


def _sent(line: str) -> ArraySubmissionResult:
    try:
        status, job, why = line.split(" ", 2)
        error = ERRORS.get(int(status), GridbridgeError)(why) if int(status) else None
        return ArraySubmissionResult(job_id=int(job), error=error)
    except ValueError as error:
        raise ParseError(f"send-arrays: {line[:80]!r}") from error


def release(array: CampaignArray) -> None:
    """Release the tasks of a submitted array; repeatable."""
    _call("release-array", array)


def delete(array: CampaignArray) -> int:
    """Delete all tasks of an array; repeatable.

    Returns the array's job id from root's ledger of submitted tasks, even if the answer to the submission was lost; 0
    if the array was never submitted.
    """
    return _delete(array)


def delete_array_without_owner(policy: Policy, owner: str, array: CampaignArray) -> int:
    """Delete an array as the service account, because the owner's account no longer exists.

    Raises OwnerlessJobNotDeleted if a job of the array could not be deleted.
    """
    name = str(CampaignArrayId(policy.site.cluster, array.campaign, array.number))
    ids = [entry.job_id for entry in ledger_arrays(array.campaign) if entry.number == array.number]
    return jobs_of_removed_accounts.delete_array_of_removed_account(
        policy, array.cluster, owner, name, (*ids, array.job_id)
    )


def delete_places(array: CampaignArray, indices: tuple[range, ...]) -> None:
    """Delete the tasks with these array indices; repeatable."""
    _delete(array, format_array_index_ranges(indices))


def delete_waiting(array: CampaignArray, indices: tuple[range, ...]) -> tuple[range, ...]:
    """Delete those tasks of an array that have not started; return the indices of started tasks.

    `indices` has the array indices to delete. Repeatable. Raises RootLedgerUnreadable if root's ledger lacks the array.
    """
    result = _call("delete-waiting", array, format_array_index_ranges(indices))
    answer = result.stdout.decode("ascii", "replace").split()
    if array.job_id and not answer:
        raise RootLedgerUnreadable(f"root's ledger lacks array {array.number}")
    return parse_array_index_ranges(answer[1]) if answer[1:] else ()


def _delete(array: CampaignArray, *indices: str) -> int:
    result = _call("delete-array", array, *indices)
    answer = result.stdout.split()
    if array.job_id and not answer:
        raise RootLedgerUnreadable(f"root's ledger lacks array {array.number}")
    return int(answer[0]) if answer else 0


def ledger_arrays(campaign: int) -> tuple[RootLedgerArray, ...]:
    """Return a campaign's arrays in root's ledger of submitted tasks.

    Raises ParseError for an unreadable line, and RootLedgerUnreadable if no ledger can be read.
    """
    result = privileged_helper_calls.run_gridbridge_as_user("list-arrays", f"c.{campaign}")
    _checked(result)
    text = result.stdout.decode("ascii")
    return tuple(_ledger_line(line) for line in text.splitlines())


def end(campaign: int) -> None:
    """Have root record that a campaign has ended; repeatable."""
    _checked(privileged_helper_calls.run_gridbridge_as_user("end-campaign", f"c.{campaign}"))


def reopen_campaign_in_root_ledger(campaign: int, request: str) -> None:
    """Have root reopen an ended campaign at the owner's request; repeatable.

    Raises RootCampaignRefusal if root does not find the owner's request.
    """
    _checked(privileged_helper_calls.run_gridbridge_as_user("take-up", f"c.{campaign}", request))


def _checked(result: CompletedProgram) -> None:
    if result.status in ERRORS:
        raise ERRORS[result.status](privileged_helper_calls.gridbridge_as_user_refusal(result))
    result.checked()


def _ledger_line(line: str) -> RootLedgerArray:
    try:
        number, cluster, tasks, *job = line.split(" ")
        return RootLedgerArray(
            number=int(number),
            cluster=cluster,
            tasks=parse_attempt_ranges(tasks),
            job_id=int("".join(job[:1]) or 0),
            is_of_copies=job[1:] == ["copies"],
        )
    except ValueError as error:
        raise ParseError(f"list-arrays: {line[:80]!r}") from error


def _call(verb: str, array: CampaignArray, *tasks: str) -> CompletedProgram:
    result = privileged_helper_calls.run_gridbridge_as_user(
        verb, f"c.{array.campaign}", array.cluster, str(array.number), *tasks
    )
    if result.status in LATER:
        raise ERRORS[result.status](privileged_helper_calls.gridbridge_as_user_refusal(result))
    return result.checked()


def snapshot_without_foreign_jobs(
    policy: Policy, snapshot: ClusterSnapshot, arrays: Iterable[CampaignArray]
) -> ClusterSnapshot:
    """Remove from a snapshot each foreign job that has the job id of a campaign's array.

    A reinstalled Grid Engine cell counts its jobs from 1 again, so a job id alone does not identify an array.
    """
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
    """Return the job name of an array at clusters and in accounting records."""
    return str(CampaignArrayId(policy.site.cluster, array.campaign, array.number))
