"""The capabilities whose decisions are kept and made again: a new one has its line here."""

from gridbridge.campaigns.nikita import nikita_journal as nikita
from gridbridge.campaigns.runner import campaign_journal as campaigns
from gridbridge.elastic.balancer import balance_journal as elastic
from gridbridge.program.journal import JournalledDecision
from gridbridge.rebalance.mover import rebalance_journal as rebalance
from gridbridge.transfer.poller import journals as transfer

JOURNALLED: tuple[JournalledDecision, ...] = (
    *transfer.JOURNALLED,
    campaigns,
    nikita,
    elastic,
    rebalance,
)
