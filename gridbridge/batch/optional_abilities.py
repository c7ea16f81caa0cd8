"""What only some batch systems can do, a Protocol for each; batch/adapters says who can.

Each is fulfilled by a module of the adapter. `Where` is how it reaches the cluster, as in
protocol.py. Here are annotations alone: mypy reads them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from gridbridge.model.accounting import AccountingRecord, RemoteRecord
from gridbridge.model.campaigns.preemption import CrowdedCell, WaitingLocalRequest
from gridbridge.model.elastic.balance_plan import SavedProgramOutputs
from gridbridge.model.ids import TransferId
from gridbridge.model.job import (
    ArrayEndQuery,
    ArrayLimits,
    FutureJobEnd,
    JobEnd,
    QueueAdmission,
    SubmittedJob,
)
from gridbridge.model.qconf_attributes import QconfSettings
from gridbridge.model.request import JobRequest, JobSpec, Pairs, Variant
from gridbridge.model.site.host_facts import ClusterFacts
from gridbridge.model.site.setup_findings import BestEffortCell, CellSetup
from gridbridge.model.snapshot import JobStanding, QueueStatus

Where = TypeVar("Where", contravariant=True)


class TellsArrayEnds(Protocol[Where]):
    """How the tasks of a campaign's arrays ended."""

    def ends_of(
        self, where: Where, arrays: Sequence[ArrayEndQuery], /
    ) -> Mapping[str, Mapping[int, JobEnd | FutureJobEnd | None]]:
        """Return how tasks of arrays ended that did, by the arrays' accounts and places from 1.

        None: what is told of it contradicts itself. Other tasks than those asked about may be told.
        """
        ...

    def living_of(self, where: Where, arrays: Mapping[int, str], /) -> dict[int, frozenset[int]]:
        """Return the places of tasks that surely live, by a question about these arrays alone.

        The arrays' accounts are given by their ids, as the places are. They are at least those that
        have begun. An array is left out if there is none of that account, or none of it lives.
        """
        ...

    def array_limits(self, where: Where, /) -> ArrayLimits:
        """Return what arrays may be there."""
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

    def requests_of(self, where: Where, jobs: tuple[int, ...], /) -> dict[int, JobRequest]:
        """Return what jobs ask for now, without those that are gone and whose guards all show."""
        ...

    def deferred(self, where: Where, /) -> frozenset[int]:
        """Return the jobs that wait for their start time, of whatever owner."""
        ...

    def keep_off(
        self, where: Where, local: TransferId, other_queues: Callable[[str], str], /
    ) -> None:
        """Keep a job from some queues until `unpin`; `other_queues` makes the list from its own.

        Raises GridbridgeError when none of the others could run it.
        """
        ...

    def unpin(self, where: Where, local: TransferId, /) -> None:
        """Let a job start in all the queues that it asked for."""
        ...

    def check(
        self,
        where: Where,
        local: TransferId,
        variants: Callable[[JobRequest], Iterable[Variant]],
        /,
    ) -> None:
        """Raise GridbridgeError when it could run no variant of a job's request."""
        ...

    def rerun(
        self,
        where: Where,
        local: TransferId,
        transfer_queues: Collection[str],
        of_queues: Callable[[JobRequest, Mapping[str, str]], str],
        /,
    ) -> str:
        """Say `yes` or `no`: whether a job without `-r` runs again after its host was lost.

        `of_queues` says so by the request, and by what each queue of home's own has for `rerun`.
        """
        ...


class AnswersCheck(Protocol[Where]):
    """What `gridbridge check` asks of a cluster."""

    def facts(self, where: Where, now: float, /) -> ClusterFacts:
        """Return its version, clock and slots, or why it gave no answer; never raises."""
        ...


class SubmissionExplainer(Protocol[Where]):
    """It can say how a job would be submitted; the cluster is not asked."""

    def refusal(self, request: JobRequest, /) -> str:
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


class KeepsTags(Protocol[Where]):
    """It keeps tags of its hosts, for those that rest and are woken."""

    def tags(self, where: Where, /) -> Mapping[str, tuple[str, ...]]:
        """Return the tags of all hosts that have some."""
        ...

    def hosts(self, where: Where, /) -> tuple[str, ...]:
        """Return all of its hosts, which may have tags."""
        ...

    def set_tags(self, where: Where, host: str, host_tags: tuple[str, ...], /) -> None:
        """Give a host exactly these tags."""
        ...


class ShowsDemand(Protocol[Where]):
    """It tells what it has and what waits there, for nodes that come and go."""

    def printed(self, where: Where, /) -> tuple[SavedProgramOutputs, str]:
        """Return what its programs print now, in UTC, and its master's host."""
        ...


class ShowsCrowd(Protocol[Where]):
    """Jobs wait there for what tasks hold that make way for others, and are not started."""

    def crowded(self, where: Where, /) -> CrowdedCell:
        """Return who waits and runs there, and what is free."""
        ...

    def could_start(self, where: Where, shortage: WaitingLocalRequest, /) -> frozenset[str]:
        """Return the places that a job may have, were there enough of all consumables."""
        ...


class EndWatcher(Protocol[Where]):
    """Ends are pushed by a program that runs here for as long as they are wanted."""

    def watch_ends(self, where: Where, /) -> tuple[str, ...]:
        """Return its command line."""
        ...


class EndStream(Protocol[Where]):
    """Ends are pushed over the connection by which the cluster is asked."""

    def listen(self, where: Where, /) -> Iterator[list[int]]:
        """Give the ids of jobs that ended, as they end; none about once a second."""
        ...


class TellsAccounts(Protocol[Where]):
    """It tells the accounts of many jobs at once: its numbers come again."""

    def accounts_of(self, where: Where, jobs: tuple[int, ...], /) -> dict[int, str]:
        """Return the accounts of these jobs; those that are gone are left out."""
        ...


class AccountingSource(Protocol[Where]):
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

    def standing(self, where: Where, job: int, /) -> JobStanding | None:
        """Return how a listed job stands; None for a job that is not listed."""
        ...

    def limits(self, where: Where, queue: str, /) -> QueueAdmission:
        """Return whose jobs a queue takes and what kinds."""
        ...

    def would_submit(self, where: Where, words: tuple[str, ...], person: str, /) -> SubmittedJob:
        """Return the job that its client would submit with these words; ParseError for none."""
        ...


class JobAlterer(Protocol[Where]):
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

    def queues(self, where: Where, /) -> Mapping[str, QconfSettings]:
        """Return the configuration of every queue."""
        ...

    def besteffort_cell(self, where: Where, /) -> BestEffortCell:
        """Return what best-effort queues touch."""
        ...

    def environment(self, where: Where, /) -> str:
        """Return the line that points a shell at the cluster."""
        ...


class ListsQueues(Protocol[Where]):
    """Its one person makes transfer queues in it, and it lists them."""

    def transfer_queues(self, where: Where, /) -> dict[str, int]:
        """Return the slots of its transfer queues, by name."""
        ...
