"""A batch system's answer to a submission; hot programs load this module."""

from gridbridge.errors import CommandFailed, HostNotReached, SshAccessRejected, SshLoginRefused

NOT_INTERACTIVE = "an interactive job can't run on another cluster; ask for -l remote=false"
ONE_HOP = "this job was sent here, and no job is sent on"


class Result:
    """The result of a submission."""

    ACCEPTED = "accepted"
    REFUSED = "refused"  # for good: the same request will never be taken
    DENIED = "denied"  # for good, and whatever is asked for: nobody may submit from here
    LATER = "later"  # nothing was submitted; the same request may be taken later
    BARRED = "barred"  # the same, because of the person: a login, or a limit of theirs
    UNSURE = "unsure"  # the job may exist: look it up by name


class Submission:
    """The answer to `submit`: the remote id if accepted, else the reason in one line."""

    __slots__ = ("reason", "remote_id", "result")

    def __init__(self, result: str, remote_id: str = "", reason: str = "") -> None:
        self.result = result
        self.remote_id = remote_id
        self.reason = reason


def unanswered(error: CommandFailed) -> Submission:
    """Return what is known when the program said nothing; one of status 127 never started."""
    if isinstance(error, SshLoginRefused):
        raise error  # the sender counts them
    if isinstance(error, SshAccessRejected):
        return Submission(Result.BARRED, reason=error.reason)
    never_began = error.status == 127 or isinstance(error, HostNotReached)
    result = Result.LATER if never_began else Result.UNSURE
    return Submission(result, reason=error.reason)
