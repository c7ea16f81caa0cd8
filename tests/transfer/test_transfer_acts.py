"""Which acts are done by whom: each that needs a cluster has its method."""

from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import TransferActKind
from gridbridge.transfer.poller.transfer_acts import TransferActRunner

AT_ONCE = {TransferActKind.CLOSE, TransferActKind.PUBLISH}  # by services.transfer.round.actions


def test_every_act_that_needs_a_cluster_has_a_method() -> None:
    acts = TransferActRunner(Policy(site=SiteSection(cluster="alpha"), clusters={}, queues={}))

    assert set(acts._cluster_acts) == set(TransferActKind) - AT_ONCE
