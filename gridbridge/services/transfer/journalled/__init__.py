"""The decisions about transfers that are kept; each module makes its own again."""

from gridbridge.services.journal import Journalled
from gridbridge.services.transfer.journalled import plans, recalls, refusals

JOURNALLED: tuple[Journalled, ...] = (plans, recalls, refusals)
