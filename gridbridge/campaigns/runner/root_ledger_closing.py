"""Mark ended campaigns as closed in root's ledger.

Root submits no further tasks of a closed campaign.
"""

import logging
from collections.abc import Callable, Iterable

from gridbridge.campaigns.runner.array_submitter import CampaignArrayCommands
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.decisions.campaigns.ledger_recovery_rules import is_ledger_ahead_of_state_file
from gridbridge.errors import CampaignFileUnreadable, GridbridgeError, RootLedgerUnreadable
from gridbridge.model.campaigns.campaign import Campaign, CampaignState, RootLedgerArray
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventCode

AT_ONCE = 20  # most campaigns closed in one cycle: each needs a call to root's helper
_log = logging.getLogger(__name__)


class RootLedgerCampaignCloser:
    """Closes ended campaigns in root's ledger."""

    def __init__(self, campaigns: CampaignRows, acts: CampaignArrayCommands) -> None:
        self._campaigns = campaigns
        self._acts = acts
        self._last = 0  # last closed campaign, after which the next cycle continues

    def close_ended(self) -> None:
        """Close some ended campaigns; the next cycle closes the rest and retries failures.

        A campaign whose file cannot be read does not delay other campaigns.
        """
        campaigns = self._campaigns.unnoted(self._last, AT_ONCE)
        for campaign in campaigns:
            try:
                self._acts.end(campaign)
            except RootLedgerUnreadable:
                pass  # without a ledger root submits no task
            except GridbridgeError as error:
                _log.warning("event=end_not_noted campaign=%d why=%r", campaign, str(error))
                if isinstance(error, CampaignFileUnreadable):
                    continue
                return
            self._campaigns.end_is_noted(campaign)
        self._last = campaigns[-1] if len(campaigns) == AT_ONCE else 0


class RootLedgerStateComparison:
    """Compares root's ledger with the state file, once per campaign and cycle."""

    def __init__(self, campaigns: CampaignRows, ledger_arrays: Callable[[int], tuple[RootLedgerArray, ...]]) -> None:
        """Keep the function that reads root's ledger of a campaign."""
        self._campaigns = campaigns
        self._ledger_arrays = ledger_arrays
        self._waits: dict[int, bool] = {}  # whether ends of a campaign's tasks must wait
        self.behind: list[int] = []  # campaigns whose state is older than the ledger

    def begin(self) -> None:
        """Start a new cycle: forget the previous comparisons."""
        self._waits, self.behind = {}, []

    def may_count(self, campaign: int) -> bool:
        """Return whether ends of a campaign's tasks may be recorded.

        Ends may be recorded if the ledger is lost, but not while the ledger is unreadable. The
        ledger is read once per campaign and cycle.
        """
        if campaign not in self._waits:
            self._waits[campaign] = self._must_wait(campaign)
        return not self._waits[campaign]

    def behind_campaigns(self, campaigns: Iterable[Campaign], events: Iterable[CampaignEvent]) -> tuple[int, ...]:
        """Return the campaigns whose ledger lists arrays that the state file lacks.

        This includes restored campaigns without any array in the state file. A paused campaign is
        compared after its owner resumes it, because it submits no task before.
        """
        restored = {event.campaign for event in events if event.code is CampaignEventCode.RESTORED}
        for campaign in campaigns:
            is_sending = campaign.number in restored and campaign.state is CampaignState.IN_TREATMENT
            if is_sending and not self._campaigns.arrays_of(campaign.number):
                self.may_count(campaign.number)
        return tuple(self.behind)

    def _must_wait(self, campaign: int) -> bool:
        try:
            ledger_arrays = self._ledger_arrays(campaign)
        except RootLedgerUnreadable:
            return False
        except GridbridgeError as error:
            _log.warning("event=ledger_unread campaign=%d why=%r", campaign, str(error))
            return True
        if is_behind := is_ledger_ahead_of_state_file(self._campaigns.arrays_of(campaign), ledger_arrays):
            self.behind.append(campaign)
        return is_behind
