"""The breaker counts failures of proved owners; a failed act is retried after growing pauses."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from gridbridge.errors import GridbridgeError, RemoteJobNotOurs
from gridbridge.model.published_status_and_reports import PublishedBreakersOfClusters, PublishedClusterBreaker
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfer_config_sections import BreakerSection
from gridbridge.model.transfer.transfers_and_actions import (
    OwnerSeenInHomeJobList,
    Transfer,
    TransferAction,
    TransferActKind,
)
from gridbridge.model.transfer_messages_in_spool import StarterPhase, TransferFailureCause
from gridbridge.program.jobs_of_removed_accounts import OwnerlessJobNotDeleted
from gridbridge.shell.clock import Clock
from gridbridge.transfer.poller.cluster_failure_breakers import ClusterFailureBreakers
from gridbridge.transfer.poller.transfer_acts import TransferActDispatcher, TransferActRunner
from tests.decisions.transfer.test_transfer_policy import a_row, a_snapshot, a_transfer, second
from tests.states import job_state
from tests.transfer.poller.messages import CallsAtOnce

JOBS = (7, 8, 9)
PROVED = {"local_state": job_state(""), "listed": OwnerSeenInHomeJobList.YES}  # it may be over by now
UNPROVED = {"local_state": job_state("r"), "listed": ""}  # it may be another task's row
QUEUE = "transfer-beta@alpha-master"


class Told:
    def __init__(self) -> None:
        self.shown: dict[str, PublishedClusterBreaker] = {}
        views = SimpleNamespace(read_published_breakers=tuple, publish_breakers=self._show)
        self.breakers = ClusterFailureBreakers(BreakerSection(failures=len(JOBS)), views, Clock())  # type: ignore[arg-type]  # what it needs of them

    def fails(self, job: int, **values: object) -> None:
        before = self._waits(job, **values)
        self.breakers.count_transfer_change(before, before.with_changes(cause=TransferFailureCause.UNREACHED), [before])

    def is_taken(self, job: int, **values: object) -> None:
        before = self._waits(job, **values)
        self.breakers.count_transfer_change(
            before, before.with_changes(phase=StarterPhase.HELD, remote_id=40), [before]
        )

    def runs(self, job: int, **values: object) -> None:
        before = a_transfer(name=f"gb.alpha.{job}.0.1", remote_state=job_state("qw"), **values)
        self.breakers.count_transfer_change(before, before.with_changes(remote_state=job_state("r")), [before])

    def proves(self, *rows: tuple[int, str], at_s: float = 9) -> None:
        """Let home list jobs with these owners."""
        listed = (a_row(job, "r", owner=owner, queue=QUEUE) for job, owner in rows)
        self.breakers.count_proved_job_results(a_snapshot("alpha", at_s, *listed), ())

    def counted(self) -> list[int]:
        """Return the jobs whose failures have been counted since the queues last closed."""
        return [one.job for one in self.shown["beta"].failed] if self.shown else []

    def is_closed(self) -> bool:
        return self.breakers.clusters_with_closed_queues(()) == {"beta"}

    def _waits(self, job: int, **values: object) -> Transfer:
        known: dict[str, object] = {"phase": StarterPhase.SUBMITTING, "remote_id": 0, "remote_state": job_state("")}
        one = a_transfer(name=f"gb.alpha.{job}.0.1", **(known | values))
        if one.listed == OwnerSeenInHomeJobList.YES:
            row = a_row(job, "r", owner=one.owner, queue=QUEUE)
            self.breakers.count_proved_job_results(a_snapshot("alpha", -1, row), [one])
        return one

    def _show(self, all_: PublishedBreakersOfClusters) -> None:
        self.shown = {one.cluster: one for one in all_.breakers}


@pytest.fixture
def told() -> Told:
    return Told()


def test_failures_of_a_proved_owner_count_at_once(told: Told) -> None:
    for job in JOBS:
        told.fails(job, **PROVED)

    assert (told.is_closed(), told.breakers.local_jobs_without_proved_owner()) == (True, set())


def test_failures_of_an_unproved_owner_count_once_the_home_job_list_proves_the_owner(told: Told) -> None:
    for job in JOBS:
        told.fails(job, **UNPROVED)
    before = (told.is_closed(), told.counted(), told.breakers.local_jobs_without_proved_owner())
    told.proves(*((job, "alice") for job in JOBS))

    assert before == (False, [], set(JOBS))
    assert (told.is_closed(), told.breakers.local_jobs_without_proved_owner()) == (True, set())


@pytest.mark.parametrize("owner", ["", "bob"], ids=["nobody's", "another's"])
def test_failures_of_a_refuted_owner_never_count(told: Told, owner: str) -> None:
    for job in JOBS:
        told.fails(job, **UNPROVED)
    told.proves(*((job, owner) for job in JOBS if owner))
    late = told.breakers.local_jobs_without_proved_owner()
    told.proves(*((job, "alice") for job in JOBS))

    assert (told.is_closed(), told.counted(), late) == (False, [], set())


def test_a_home_job_list_from_before_the_failure_proves_and_refutes_nothing(told: Told) -> None:
    told.fails(7, **UNPROVED, updated_at=second(5))
    told.proves(at_s=5)
    waiting = told.breakers.local_jobs_without_proved_owner()
    told.proves((7, "alice"), at_s=6)

    assert (waiting, told.counted()) == ({7}, [7])


def test_each_job_is_proved_or_refuted_by_its_own_row_in_the_home_job_list(told: Told) -> None:
    for job in JOBS:
        told.fails(job, **UNPROVED)
    told.proves((7, "alice"), (8, "bob"))

    assert told.counted() == [7]


def test_each_owner_has_at_most_as_many_unproved_failures_as_close_the_queues(told: Told) -> None:
    for job in range(7, 7 + 2 * len(JOBS)):
        told.fails(job, **UNPROVED)
    told.fails(50, **UNPROVED, owner="bob")

    assert told.breakers.local_jobs_without_proved_owner() == {*JOBS, 50}


def test_the_newest_unproved_evidence_of_a_job_replaces_earlier_evidence(told: Told) -> None:
    told.fails(7, **UNPROVED)
    told.is_taken(7, **UNPROVED)
    told.proves((7, "alice"))

    assert told.counted() == []


def test_an_unproved_job_that_ran_opens_the_queues_once_its_owner_is_proved(told: Told) -> None:
    for job in JOBS:
        told.fails(job, **PROVED)
    told.runs(10, **UNPROVED)
    before = told.is_closed()
    told.proves((10, "alice"))

    assert (before, told.is_closed()) == (True, False)


def test_after_a_clock_change_unproved_failures_are_forgotten(told: Told) -> None:
    told.fails(7, **UNPROVED)
    told.breakers.drop_unproved_evidence()
    told.proves((7, "alice"))

    assert (told.breakers.local_jobs_without_proved_owner(), told.counted()) == (set(), [])


@pytest.mark.parametrize(("letters", "queue"), [("hqw", ""), ("r", "all.q@alpha-n1")])
def test_failures_of_jobs_outside_the_transfer_queue_never_count(told: Told, letters: str, queue: str) -> None:
    """Otherwise a person without access to a queue could close the queue."""
    for job in JOBS:
        one = told._waits(job, **UNPROVED)
        home = a_snapshot("alpha", 9, a_row(job, letters, queue=queue))
        told.breakers.count_proved_job_results(home, [one])
        told.breakers.count_transfer_change(
            one, one.with_changes(listed=OwnerSeenInHomeJobList.YES, cause=TransferFailureCause.UNREACHED), [one]
        )
        told.breakers.count_proved_job_results(home, [one])

    assert (told.is_closed(), told.counted()) == (False, [])


DELETION = TransferAction(act=TransferActKind.DELETE_REMOTE, transfer=a_transfer(), why="")


class Failing:
    """A cluster at which all acts fail, or none."""

    def __init__(self, error: GridbridgeError | None = None) -> None:
        self.now_s = 0.0
        self.act = Mock(side_effect=error or GridbridgeError("no answer"), return_value=None)
        far = SimpleNamespace(run_cluster_act=self.act)
        self.dispatcher = TransferActDispatcher(far, CallsAtOnce(), None, lambda: self.now_s)  # type: ignore[arg-type]  # what it needs of them

    def tries(self, until_s: int) -> list[int]:
        """Begin the deletion whenever it may begin; return the seconds of all tries."""
        begun = []
        for now_s in range(int(self.now_s), until_s):
            self.now_s = float(now_s)
            if self.dispatcher.may_begin_act(DELETION):
                begun.append(now_s)
                self.dispatcher.begin_act(DELETION)
                list(self.dispatcher.take_finished_acts())
        return begun


def test_a_failing_act_is_retried_after_growing_pauses() -> None:
    """Otherwise records of one person could make the poller repeat an act forever."""
    assert Failing().tries(200) == [0, 2, 6, 14, 30, 62, 122, 182]


def test_an_answer_of_the_cluster_ends_the_retry_pause() -> None:
    failing = Failing()
    failing.tries(100)
    failing.dispatcher.forget_all_pauses()
    failing.act.side_effect = None

    assert failing.tries(103) == [99, 100, 101, 102]


def test_a_deletion_of_a_reused_id_or_of_a_removed_account_is_reported_and_retried() -> None:
    reused = Failing(RemoteJobNotOurs("job 40: owned by alice, account 'sge'; expected gb.alpha.7.0.1"))
    removed = Failing(OwnerlessJobNotDeleted("the account of alice is gone"))
    tries = [failing.tries(7) for failing in (reused, removed)]

    assert tries == [[0, 2, 6]] * 2
    assert reused.dispatcher.not_ours == [DELETION.transfer] * 3
    assert removed.dispatcher.not_deleted == [(DELETION.transfer, "the account of alice is gone")] * 3


AT_ONCE = {TransferActKind.CLOSE, TransferActKind.PUBLISH}  # by services.transfer.round.actions


def test_every_act_that_needs_a_cluster_has_a_method() -> None:
    acts = TransferActRunner(Policy(site=SiteSection(cluster="alpha"), clusters={}, queues={}))

    assert set(acts._cluster_acts) == set(TransferActKind) - AT_ONCE
