"""Finds campaigns of which root's ledger knows more than the state file, which was restored.

Such a file lacks what was moved or wiped since, and would take it for deleted by somebody.
"""

import logging
from collections.abc import Callable, Iterable

from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.decisions.campaigns.ledger_recovery_rules import lacking
from gridbridge.errors import GridbridgeError, LedgerLost
from gridbridge.model.campaigns.campaign import Campaign, CampaignState, LedgerArray
from gridbridge.model.campaigns.campaign_events import CampaignEvent, EventCode

_log = logging.getLogger(__name__)


class LedgerRecovery:
    """What is found in one look."""

    def __init__(
        self, campaigns: CampaignRows, ledger_arrays: Callable[[int], tuple[LedgerArray, ...]]
    ) -> None:
        """Know who tells what root's ledger has of a campaign."""
        self._campaigns = campaigns
        self._ledger_arrays = ledger_arrays
        self._waits: dict[int, bool] = {}  # whether ends of a campaign don't count yet
        self.behind: list[int] = []  # campaigns

    def begin(self) -> None:
        """Begin a look."""
        self._waits, self.behind = {}, []

    def may_count(self, campaign: int) -> bool:
        """Say whether the ends of a campaign's tasks count; each campaign is asked about once.

        They do where the ledger is lost, and not while it can't be read.
        """
        if campaign not in self._waits:
            self._waits[campaign] = self._must_wait(campaign)
        return not self._waits[campaign]

    def behind_campaigns(
        self, campaigns: Iterable[Campaign], events: Iterable[CampaignEvent]
    ) -> tuple[int, ...]:
        """Return those of which the ledger knows more, also those restored without an array.

        A paused campaign is looked for once it goes on: before, nothing of it is sent.
        """
        restored = {event.campaign for event in events if event.code is EventCode.RESTORED}
        for campaign in campaigns:
            is_sending = (
                campaign.number in restored and campaign.state is CampaignState.IN_TREATMENT
            )
            if is_sending and not self._campaigns.arrays_of(campaign.number):
                self.may_count(campaign.number)
        return tuple(self.behind)

    def _must_wait(self, campaign: int) -> bool:
        try:
            ledger_arrays = self._ledger_arrays(campaign)
        except LedgerLost:
            return False
        except GridbridgeError as error:
            _log.warning("event=ledger_unread campaign=%d why=%r", campaign, str(error))
            return True
        if is_behind := lacking(self._campaigns.arrays_of(campaign), ledger_arrays):
            self.behind.append(campaign)
        return is_behind
