"""Tells root which campaigns have ended: from then on nothing more of them can be sent."""

import logging

from gridbridge.campaigns.runner.array_commands import ArrayCommands
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.errors import GridbridgeError, LedgerLost, NotRead

AT_ONCE = 20  # campaigns of a cycle: each is a call

_log = logging.getLogger(__name__)


class LedgerCloser:
    """What tells it."""

    def __init__(self, campaigns: CampaignRows, acts: ArrayCommands) -> None:
        self._campaigns = campaigns
        self._acts = acts
        self._last = 0  # campaign that was told of; the next cycle goes on behind it

    def close_ended(self) -> None:
        """Tell it of some; of the others, and after a failure of all, in the next cycle.

        One whose file can't be read now keeps no other from being told of.
        """
        campaigns = self._campaigns.unnoted(self._last, AT_ONCE)
        for campaign in campaigns:
            try:
                self._acts.end(campaign)
            except LedgerLost:
                pass  # without it nothing is sent either
            except GridbridgeError as error:
                _log.warning("event=end_not_noted campaign=%d why=%r", campaign, str(error))
                if isinstance(error, NotRead):
                    continue
                return
            self._campaigns.end_is_noted(campaign)
        self._last = campaigns[-1] if len(campaigns) == AT_ONCE else 0
