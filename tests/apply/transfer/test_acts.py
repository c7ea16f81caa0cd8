"""Which acts are done by whom: each that needs a cluster has its method."""

from gridbridge.apply.transfer.acts import TransferActs
from gridbridge.model.policy import Policy
from gridbridge.model.site.sections import Site
from gridbridge.model.transfer.plan import TransferAct

AT_ONCE = {TransferAct.CLOSE, TransferAct.PUBLISH}  # by services.transfer.round.actions


def test_every_act_that_is_not_done_at_once_has_its_method() -> None:
    acts = TransferActs(Policy(site=Site(cluster="alpha"), clusters={}, queues={}))

    assert set(acts._far) == set(TransferAct) - AT_ONCE
