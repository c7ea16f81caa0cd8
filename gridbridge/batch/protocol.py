"""The abilities of batch systems, as Protocols that the adapters' modules fulfil.

An adapter is two modules, `submit` with what the hot programs call and `status` with what the
service asks, and a module may fulfil a Protocol (PEP 544). Here is what every system does, and
what hot programs ask of some; what else some systems do is in abilities.py. Here are annotations
alone: mypy reads them.
`Where` is how an adapter reaches a cluster: a Cell for Grid Engine, an OarServer for OAR, a Folder
for an embedded cluster. Where that has a `login`, the clients run there by ssh as another account,
and a job's owner is that account: nothing else differs (shell/ssh.py).

What differs between the systems and is not promised:

* whether a job's name can be changed. OAR's can't: a job keeps the transfer's name, which is
  its account as well; it is found by it until it is released;
* whether a running job can be held. OAR's `oarhold` takes waiting ones only, and gives
  the resources of one that it suspends (`-r`) to others: that is why suspend_any is one call;
* whether a job that was deleted before it started is accounted for (by Grid Engine and OAR not);
* whether usage is accounted for (by OAR not, but for how long a job ran);
* whether a job that can't be started waits in error state. OAR has none: it ends, and tells why.
"""

from collections.abc import Collection, Container, Iterable
from typing import Protocol, TypeVar

from gridbridge.batch.submission_result import Submission
from gridbridge.model.job import JobDetail, JobEnd
from gridbridge.model.request import JobRequest, JobSpec, Variant
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.states import JobState
from gridbridge.model.vocabulary import ClusterVocabulary

Where = TypeVar("Where", contravariant=True)


class Submit(Protocol[Where]):
    """The hot half: each call is one request as the caller, who owns the job.

    All but `submit` raise CommandFailed or ParseError when the cluster did not do or say it.
    """

    HAS_QSTAT: bool  # a job there may ask Grid Engine's commands about itself, by its number

    def submit(self, where: Where, spec: JobSpec, /) -> Submission:
        """Submit a held job under the transfer's name and account; never raises.

        What it asks for is in the words of that cluster already, its slots are those granted.
        """
        ...

    def find_held(self, where: Where, transfer: str, owner: str, /) -> str:
        """Return the id of the owner's oldest job under the transfer's name, or nothing."""
        ...

    def owner_and_account(self, where: Where, job: str, /) -> tuple[str, str]:
        """Return whose job it is and its account, both empty when it is not known."""
        ...

    def state(self, where: Where, job: str, /) -> JobState:
        """Return what a job is, UNSEEN when it is not listed."""
        ...

    def release_as(self, where: Where, job: str, name: str, /) -> None:
        """Give a held job its real name, where the system can, and let it start."""
        ...

    def hold(self, where: Where, job: str, /) -> None:
        """Keep a waiting job from starting."""
        ...

    def release(self, where: Where, job: str, /) -> None:
        """Let it start again."""
        ...

    def suspend_any(self, where: Where, job: str, /) -> None:
        """Stop a running job, keep a waiting one from starting; a gone one is left alone."""
        ...

    def resume_any(self, where: Where, job: str, /) -> None:
        """Take back what suspend_any did, whichever it was."""
        ...

    def delete(self, where: Where, job: str, /) -> None:
        """End a job in whatever state it is; one that is gone is deleted."""
        ...


class SubmitsArrays(Protocol[Where]):
    """What a campaign asks besides: an array is submitted by `submit`, and found by its name."""

    def submit(self, where: Where, spec: JobSpec, /) -> Submission:
        """Submit a held array of `spec.tasks` tasks, as one job; never raises."""
        ...

    def find_held(self, where: Where, transfer: str, owner: str, /) -> str:
        """Return the id of the owner's oldest array under the name, or nothing.

        The name is that of the submission: an array that somebody renamed is found all the same.
        """
        ...

    def find_others(self, where: Where, transfer: str, owner: str, array: str, /) -> list[str]:
        """Return the ids of the owner's held arrays under the name, but for that one."""
        ...

    def owner_and_account(self, where: Where, job: str, /) -> tuple[str, str]:
        """Return whose array it is and its account, both empty when it is not known."""
        ...

    def living(self, where: Where, arrays: dict[str, str], /) -> dict[str, tuple[range, ...]]:
        """Return the places at which tasks of the caller's arrays wait or run, in any order.

        `arrays` maps the ids of arrays to the names of their submission. A name counts only where
        nobody but the owner can alter it. One question is enough for all arrays.
        """
        ...

    def release_arrays(self, where: Where, arrays: tuple[str, ...], name: str, /) -> None:
        """Let the tasks start, under their real name where the system can give one."""
        ...

    def delete_array(self, where: Where, array: str, /) -> None:
        """End all tasks in whatever state they are; those that are gone are deleted."""
        ...

    def delete_places(self, where: Where, array: str, name: str, indices: str, /) -> None:
        """End the tasks at some places, `1-5,9`, of the array of that name, whatever they do."""
        ...

    def hold_places(
        self, where: Where, array: str, name: str, indices: tuple[range, ...], /
    ) -> tuple[range, ...]:
        """Hold tasks at some places of an array; return the places of tasks that are held now.

        `name` is the name of the array's submission. Tasks that have begun go on.
        """
        ...

    def release_places(self, where: Where, array: str, indices: tuple[range, ...], /) -> None:
        """Let them start again; those that run or are gone are left as they are."""
        ...


class AtHome(Protocol[Where]):
    """What a starter asks of the cluster that has its queue: of the same module as Submit.

    A job is a task here as well, `12.3`. Of all systems only these can have a transfer queue.
    """

    HAS_START_TIMES: bool  # one in the future keeps a job from starting again, as `defer` does

    def hold(self, where: Where, job: str, /) -> None:
        """Keep a running task from being started again, until it is released."""
        ...

    def release(self, where: Where, job: str, /) -> None:
        """Let it start again."""
        ...

    def defer(self, where: Where, job: str, request: JobRequest, /) -> None:
        """Keep a running job from being started again, without a letter that shows it."""
        ...

    def undefer(self, where: Where, job: str, /) -> str | None:
        """Let it start again when it asked to; return what stood there instead of a time."""
        ...

    def state(self, where: Where, job: str, /) -> JobState:
        """Return what a task is, UNSEEN when it is not listed."""
        ...

    def request_of(self, where: Where, job: str, /) -> JobRequest:
        """Return what a job asked for, and when if its number may be given anew."""
        ...

    def queue_value(self, where: Where, queue: str, name: str, host: str, /) -> str:
        """Return a limit of a queue on a host (queue_conf(5))."""
        ...


class Status(Protocol[Where]):
    """The cold half; raises CommandFailed or ParseError for anything but a whole answer."""

    def snapshot(
        self,
        where: Where,
        cluster: str,
        job_ids: Collection[int],
        transfer_queues: Container[str] = (),
        uncounted: Collection[int] = (),
        /,
    ) -> tuple[ClusterSnapshot, float]:
        """Return the cluster with the jobs of these ids, and how many seconds that took.

        Jobs and arrays of the ids in `uncounted` are of campaigns: they are not pending.
        """
        ...

    def end(self, where: Where, job_id: int, account: str, /) -> JobEnd | None:
        """Return how the job of this id and account ended for good; None while nobody tells."""
        ...

    def vocabulary(self, where: Where, /) -> ClusterVocabulary | None:
        """Return the words that a job may use there; None where they are not checked."""
        ...

    def details(self, where: Where, job_id: int, /) -> tuple[JobDetail, ...]:
        """Return what is known of a listed job, nothing when it is not listed."""
        ...


class MarksRefused(Protocol[Where]):
    """A home that can mark a job which no other cluster takes."""

    REFUSED: str  # in a job's context: why it came home

    def keep(
        self, where: Where, job: str, own: JobRequest, variants: Iterable[Variant], reason: str, /
    ) -> bool:
        """Let a job start in no transfer queue, in the first variant that could run.

        `own` is what it asks for. False when it could run in none; nothing is changed then.
        """
        ...


class RecallsJobs(Protocol[Where]):
    """A deletion tells whether the job had started: a recall without a claim depends on it."""

    def hold(self, where: Where, job: str, gone_is_fine: bool = False) -> None:
        """Keep a waiting job from starting."""
        ...

    def release(self, where: Where, job: str, gone_is_fine: bool = False) -> None:
        """Let it start again."""
        ...

    def state(self, where: Where, job: str, /) -> JobState:
        """Return what a job is."""
        ...

    def delete_waiting(self, where: Where, job: str, /) -> bool | None:
        """Delete a job; say whether it waited until then, None when it was not there."""
        ...
