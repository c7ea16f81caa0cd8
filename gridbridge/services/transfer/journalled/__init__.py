"""The decisions about transfers that are kept; each module makes its own again."""

from gridbridge.services.journal import JournalledDecision
from gridbridge.services.transfer.journalled import plans, recalls, refusals

JOURNALLED: tuple[JournalledDecision, ...] = (plans, recalls, refusals)
