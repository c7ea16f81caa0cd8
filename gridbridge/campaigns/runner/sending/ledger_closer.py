"""Mark ended campaigns as closed in root's ledger.

Root submits no further tasks of a closed campaign.
"""

import logging

from gridbridge.campaigns.runner.array_commands import ArrayCommands
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.errors import GridbridgeError, LedgerLost, NotRead

AT_ONCE = 20  # campaigns in one cycle: each needs a call to root's helper

_log = logging.getLogger(__name__)


class LedgerCloser:
    """Closes ended campaigns in root's ledger."""

    def __init__(self, campaigns: CampaignRows, acts: ArrayCommands) -> None:
        self._campaigns = campaigns
        self._acts = acts
        self._last = 0  # campaign that was closed last; the next cycle continues after it

    def close_ended(self) -> None:
        """Close some ended campaigns; the next cycle closes the rest and retries failures.

        A campaign whose file cannot be read does not delay other campaigns.
        """
        campaigns = self._campaigns.unnoted(self._last, AT_ONCE)
        for campaign in campaigns:
            try:
                self._acts.end(campaign)
            except LedgerLost:
                pass  # without a ledger root submits nothing
            except GridbridgeError as error:
                _log.warning("event=end_not_noted campaign=%d why=%r", campaign, str(error))
                if isinstance(error, NotRead):
                    continue
                return
            self._campaigns.end_is_noted(campaign)
        self._last = campaigns[-1] if len(campaigns) == AT_ONCE else 0
