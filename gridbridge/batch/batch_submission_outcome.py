"""The outcome of a submission to a batch system; hot programs load this module."""

from gridbridge.errors import CommandFailed, HostNotReached, SshAccessRejected, SshLoginRefused

NOT_INTERACTIVE = "an interactive job can't run on another cluster; ask for -l remote=false"
ONE_HOP = "this job was sent here, and no job is sent on"


class JobSubmissionOutcome:
    """The outcome of a submission: accepted, permanently refused, to be retried, or unknown."""

    ACCEPTED = "accepted"
    REFUSED = "refused"  # permanent: this request will never be accepted
    DENIED = "denied"  # permanent for all requests: nobody may submit from this host
    LATER = "later"  # nothing was submitted; a retry may succeed
    BARRED = "barred"  # nothing was submitted, because of this person's login or limit
    UNSURE = "unsure"  # the job may exist: look it up by name


class JobSubmissionResult:
    """The outcome of a submission: the remote id if accepted, else the reason in one line."""

    __slots__ = ("reason", "remote_id", "result")

    def __init__(self, result: str, remote_id: str = "", reason: str = "") -> None:
        self.result = result
        self.remote_id = remote_id
        self.reason = reason


def failed_submission_result(error: CommandFailed) -> JobSubmissionResult:
    """Return the outcome of a failed client; with exit status 127 the client never started."""
    if isinstance(error, SshLoginRefused):
        raise error  # the sender counts refused logins
    if isinstance(error, SshAccessRejected):
        return JobSubmissionResult(JobSubmissionOutcome.BARRED, reason=error.reason)
    never_began = error.status == 127 or isinstance(error, HostNotReached)
    result = JobSubmissionOutcome.LATER if never_began else JobSubmissionOutcome.UNSURE
    return JobSubmissionResult(result, reason=error.reason)
