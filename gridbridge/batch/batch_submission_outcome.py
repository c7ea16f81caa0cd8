"""The outcome of a submission to a batch system."""

from gridbridge.errors import CommandFailed, HostNotReached, SshAccessRejected, SshLoginRefused

NOT_INTERACTIVE = "an interactive job can't run on another cluster; ask for -l remote=false"
ONE_HOP = "this job came from another cluster, and no job is transferred twice"


class JobSubmissionOutcome:
    ACCEPTED = "accepted"
    REFUSED = "refused"  # the remote cluster will never accept this request
    DENIED = "denied"  # the remote cluster accepts no submission from this host
    LATER = "later"  # no job was submitted; a retry may succeed
    BARRED = "barred"  # no job was submitted: the user's ssh login or job limit forbids submissions
    UNSURE = "unsure"  # the job may exist, and the caller has to search for the job by name


class JobSubmissionResult:
    """What became of a submission: the remote job id, or the reason in one line."""

    __slots__ = ("reason", "remote_id", "result")

    def __init__(self, result: str, remote_id: str = "", reason: str = "") -> None:
        self.result = result
        self.remote_id = remote_id
        self.reason = reason


def failed_submission_result(error: CommandFailed) -> JobSubmissionResult:
    """Return the outcome of a failed submission; raise SshLoginRefused again, so that the caller counts it.

    The job may exist, unless the program is missing (status 127) or the host is unreachable.
    """
    if isinstance(error, SshLoginRefused):
        raise error
    if isinstance(error, SshAccessRejected):
        return JobSubmissionResult(JobSubmissionOutcome.BARRED, reason=error.program_and_failure)
    never_began = error.status == 127 or isinstance(error, HostNotReached)
    result = JobSubmissionOutcome.LATER if never_began else JobSubmissionOutcome.UNSURE
    return JobSubmissionResult(result, reason=error.program_and_failure)
