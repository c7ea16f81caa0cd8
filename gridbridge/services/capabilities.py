"""The capabilities whose decisions are kept and made again: a new one has its line here."""

from gridbridge.services.campaigns import journalled as campaigns
from gridbridge.services.campaigns.nikita import journalled as nikita
from gridbridge.services.elastic import journalled as elastic
from gridbridge.services.journal import JournalledDecision
from gridbridge.services.rebalance import journalled as rebalance
from gridbridge.services.transfer import journalled as transfer

JOURNALLED: tuple[JournalledDecision, ...] = (
    *transfer.JOURNALLED,
    campaigns,
    nikita,
    elastic,
    rebalance,
)
