"""The abilities of batch systems, as Protocols that the adapters' modules fulfil.

An adapter is two modules, `submit` with what the hot programs call and `status` with what the
service asks, and a module may fulfil a Protocol (PEP 544). What only some systems can do is a
Protocol of its own; apply/adapters says who can. Here are annotations alone: mypy reads them.
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

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from gridbridge.batch.submission import Submission
from gridbridge.model.accounting import AccountingRecord, RemoteRecord
from gridbridge.model.ids import TransferId
from gridbridge.model.job import JobDetail, JobEnd, QueueLimits, SubmittedJob
from gridbridge.model.request import JobSpec, Pairs, Request, Way
from gridbridge.model.site.host import CellFacts
from gridbridge.model.site.setup import CellSetup, Settings
from gridbridge.model.snapshot import ClusterSnapshot, QueueStatus
from gridbridge.model.states import JobState
from gridbridge.model.vocabulary import Vocabulary

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
        """Return the id of the owner's oldest array under the name, or nothing."""
        ...

    def owner_and_account(self, where: Where, job: str, /) -> tuple[str, str]:
        """Return whose array it is and its account, both empty when it is not known."""
        ...

    def release_array(self, where: Where, array: str, name: str, /) -> None:
        """Let the tasks start, under their real name where the system can give one."""
        ...

    def delete_array(self, where: Where, array: str, /) -> None:
        """End all tasks in whatever state they are; those that are gone are deleted."""
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

    def defer(self, where: Where, job: str, request: Request, /) -> None:
        """Keep a running job from being started again, without a letter that shows it."""
        ...

    def undefer(self, where: Where, job: str, /) -> str | None:
        """Let it start again when it asked to; return what stood there instead of a time."""
        ...

    def state(self, where: Where, job: str, /) -> JobState:
        """Return what a task is, UNSEEN when it is not listed."""
        ...

    def request_of(self, where: Where, job: str, /) -> Request:
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
        wanted: Container[int],
        transfer_queues: Container[str] = (),
        /,
    ) -> tuple[ClusterSnapshot, float]:
        """Return the cluster with the jobs of these ids, and how many seconds that took."""
        ...

    def end(self, where: Where, job_id: int, account: str, /) -> JobEnd | None:
        """Return how the job of this id and account ended for good; None while nobody tells."""
        ...

    def vocabulary(self, where: Where, /) -> Vocabulary | None:
        """Return the words that a job may use there; None where they are not checked."""
        ...

    def details(self, where: Where, job_id: int, /) -> tuple[JobDetail, ...]:
        """Return what is known of a listed job, nothing when it is not listed."""
        ...


class TellsArrayEnds(Protocol[Where]):
    """How the tasks of a campaign's arrays ended."""

    def array_ends(self, where: Where, array: int, account: str, /) -> dict[int, JobEnd]:
        """Return how the tasks of an array ended that did, by their places from 1."""
        ...


class MarksRefused(Protocol[Where]):
    """A home that can mark a job which no other cluster takes."""

    REFUSED: str  # in a job's context: why it came home

    def keep(
        self, where: Where, job: str, own: Request, ways: Iterable[Way], reason: str, /
    ) -> bool:
        """Let a job start in no transfer queue, in the first of these ways in which it could run.

        `own` is what it asks for. False when it could run in none; nothing is changed then.
        """
        ...


class GuardsTasks(Protocol[Where]):
    """What the service does at home to a task whose job is away, or was.

    Every act may be repeated, and raises CommandFailed when it is not done.
    """

    def release(self, where: Where, local: TransferId, guard: str, /) -> None:
        """Let a task start again that has this guard (model.transfer.guard)."""
        ...

    def adopt(self, where: Where, local: TransferId, queue: str, guard: str, /) -> None:
        """Let a task start again in the queue where its remote copy is known, and there only."""
        ...

    def guard(self, where: Where, local: TransferId, guard: str, /) -> None:
        """Keep a task from starting again in this way."""
        ...

    def requests_of(self, where: Where, jobs: tuple[int, ...], /) -> dict[int, Request]:
        """Return what jobs ask for now, without those that are gone and whose guards all show."""
        ...

    def deferred(self, where: Where, /) -> frozenset[int]:
        """Return the jobs that wait for their start time, of whatever owner."""
        ...

    def unpin(self, where: Where, local: TransferId, /) -> None:
        """Let a job start in all the queues that it asked for."""
        ...

    def check(
        self, where: Where, local: TransferId, ways: Callable[[Request], Iterable[Way]], /
    ) -> None:
        """Raise GridbridgeError when it could run a job in none of these ways of its request."""
        ...

    def rerun(
        self,
        where: Where,
        local: TransferId,
        transfer_queues: Collection[str],
        of_queues: Callable[[Request, Mapping[str, str]], str],
        /,
    ) -> str:
        """Say `yes` or `no`: whether a job without `-r` runs again after its host was lost.

        `of_queues` says so by the request, and by what each queue of home's own has for `rerun`.
        """
        ...


class Answers(Protocol[Where]):
    """What `gridbridge check` asks of a cluster."""

    def facts(self, where: Where, now: float, /) -> CellFacts:
        """Return its version, clock and slots, or why it gave no answer; never raises."""
        ...


class Explains(Protocol[Where]):
    """It can say how a job would be submitted; the cluster is not asked."""

    def refusal(self, request: Request, /) -> str:
        """Return why it can't give what a job asks for; empty when it can, as far as we know."""
        ...

    def submission(self, where: Where, spec: JobSpec, /) -> tuple[str, ...]:
        """Return the command line of its client program."""
        ...


class SetsUp(Protocol[Where]):
    """It can be set up as the cluster to which a transfer queue leads."""

    HAS_OPERATORS: bool  # the service may act there for others
    HAS_ENVIRONMENTS: bool  # parallel ones, which a mapping may rename

    def slots(self, where: Where, /) -> int:
        """Return how many batch slots it has for jobs from elsewhere."""
        ...

    def remote_setup(self, where: Where, of_host: str, home: CellSetup, /) -> CellSetup:
        """Return what a transfer from that host touches there."""
        ...


class Watches(Protocol[Where]):
    """Ends are pushed by a program that runs here for as long as they are wanted."""

    def watch_ends(self, where: Where, /) -> tuple[str, ...]:
        """Return its command line."""
        ...


class Listens(Protocol[Where]):
    """Ends are pushed over the connection by which the cluster is asked."""

    def listen(self, where: Where, /) -> Iterator[list[int]]:
        """Give the ids of jobs that ended, as they end; none about once a second."""
        ...


class Recalls(Protocol[Where]):
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


class TellsAccounts(Protocol[Where]):
    """It tells the accounts of many jobs at once: its numbers come again."""

    def accounts_of(self, where: Where, jobs: tuple[int, ...], /) -> dict[int, str]:
        """Return the accounts of these jobs; those that are gone are left out."""
        ...


class Accounts(Protocol[Where]):
    """It accounts for each job by a record, and has them all in a file."""

    def records(self, where: Where, job_id: int, /) -> tuple[AccountingRecord, ...]:
        """Return the records of a job, of all its tasks and runs."""
        ...

    def read_lines(
        self, data: bytes, prefix: str, /
    ) -> tuple[tuple[tuple[str, AccountingRecord], ...], int]:
        """Read whole lines of the file whose account begins with `prefix`.

        Returns each with its line, and how many of them could not be read.
        """
        ...

    def settled(
        self, records: Sequence[AccountingRecord | RemoteRecord], now: datetime, /
    ) -> tuple[JobEnd | None, bool]:
        """Return the end that a job's records tell, and whether they contradict each other."""
        ...


class ShowsRequests(Protocol[Where]):
    """It shows people what their job asks for, also before they submit it."""

    def submitted(self, where: Where, job: int, task: int = 0, /) -> SubmittedJob:
        """Return a listed job; ParseError for one, or a task, that is not there."""
        ...

    def limits(self, where: Where, queue: str, /) -> QueueLimits:
        """Return whose jobs a queue takes and what kinds."""
        ...

    def would_submit(self, where: Where, words: tuple[str, ...], person: str, /) -> SubmittedJob:
        """Return the job that its client would submit with these words; ParseError for none."""
        ...


class Alters(Protocol[Where]):
    """People can change jobs that wait there."""

    def resource_options(self, hard: Pairs, soft: Pairs, stays: bool, /) -> tuple[str, ...]:
        """Return the options that replace a job's resources."""
        ...

    def alteration(self, where: Where, job: str, options: tuple[str, ...], /) -> tuple[str, ...]:
        """Return the command line that changes a job."""
        ...

    def alter(self, where: Where, job: str, options: tuple[str, ...], /) -> None:
        """Change a job."""
        ...


class MakesQueues(Protocol[Where]):
    """Set-up makes transfer queues in it by editing its objects."""

    def home_setup(self, where: Where, of_host: str, /) -> CellSetup:
        """Return what a transfer queue on that host touches."""
        ...

    def slots_on(self, where: Where, host: str, /) -> Mapping[str, int]:
        """Return the slots of every queue on a host."""
        ...

    def queue_instances(self, where: Where, cluster: str, /) -> tuple[QueueStatus, ...]:
        """Return every queue on every host with its letters and slots."""
        ...

    def queues(self, where: Where, /) -> Mapping[str, Settings]:
        """Return the configuration of every queue."""
        ...

    def environment(self, where: Where, /) -> str:
        """Return the line that points a shell at the cluster."""
        ...


class ListsQueues(Protocol[Where]):
    """Its one person makes transfer queues in it, and it lists them."""

    def transfer_queues(self, where: Where, /) -> dict[str, int]:
        """Return the slots of its transfer queues, by name."""
        ...
