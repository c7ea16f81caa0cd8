"""The poller starts acts, and retries a failed act after growing pauses."""

from types import SimpleNamespace
from unittest.mock import Mock

from gridbridge.errors import GridbridgeError, RemoteJobNotOurs
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import TransferAction, TransferActKind
from gridbridge.program.jobs_of_removed_accounts import OwnerlessJobNotDeleted
from gridbridge.transfer.poller.transfer_acts import TransferActDispatcher, TransferActRunner
from tests.decisions.transfer.test_transfer_policy import a_transfer
from tests.transfer.poller.messages import CallsAtOnce

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
        for second in range(int(self.now_s), until_s):
            self.now_s = float(second)
            if self.dispatcher.may_begin_act(DELETION):
                begun.append(second)
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
