"""Record failed submissions and deletions as events of a campaign and cluster."""

import re
from collections.abc import Iterable
from dataclasses import replace

from gridbridge.campaigns.store.campaign_event_rows import CampaignEvents
from gridbridge.decisions.campaigns.failures.blacklist import happened
from gridbridge.errors import GridbridgeError, LedgerLost, NotRead, OwnerUnknown
from gridbridge.model.campaigns.campaign import Array
from gridbridge.model.campaigns.campaign_events import ROOTS, CampaignEvent, EventCode
from gridbridge.model.campaigns.campaign_sections import Failures
from gridbridge.model.status_report import printable
from gridbridge.shell.clock import Clock

MOST_WORDS = 200  # characters of an error message
WHO = re.compile(r"gridbridge-as-user: (c\.\d+: )?")  # prefix that the event's columns repeat


class SubmitFailures:
    """Records submission and deletion failures as campaign events."""

    def __init__(self, events: CampaignEvents, clock: Clock, failures: Failures) -> None:
        self._events = events
        self._clock = clock
        self._failures = failures

    def note(self, array: Array, code: EventCode, error: GridbridgeError) -> None:
        """Record a failure of an array at its cluster; the event delays the next attempt."""
        pair = array.campaign, array.cluster
        event = happened(
            self._open_event(array, code), code, pair, self._clock.now(), self._failures
        )
        tasks = event.tasks + array.size
        self._events.put([replace(event, tasks=tasks, why=in_short(error))])

    def note_undeleted(self, array: Array, error: GridbridgeError) -> None:
        """Record a failed deletion once, if root has to repair its cause.

        Other failures already count for the cluster elsewhere.
        """
        code = code_of(error)
        if code in ROOTS and not self._open_event(array, code):
            self.note(array, code, error)

    def close(self, codes: Iterable[EventCode], array: Array) -> None:
        """Close the open events with these codes for an array's campaign and cluster."""
        for code in codes:
            if event := self._open_event(array, code):
                self._events.put([replace(event, closed_at=self._clock.now())])

    def _open_event(self, array: Array, code: EventCode) -> CampaignEvent | None:
        return self._events.find_open(code, array.campaign, array.cluster)


def in_short(error: GridbridgeError | str) -> str:
    """Return an error message as one short printable line."""
    line = printable(WHO.sub("", " ".join(str(error).split())))
    return line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 3]}..."


def code_of(error: GridbridgeError) -> EventCode:
    """Return the event code for an error of a submission or deletion."""
    match error:
        case LedgerLost():
            return EventCode.NO_LEDGER
        case OwnerUnknown():
            return EventCode.OWNER_UNKNOWN
        case NotRead():
            return EventCode.NO_FILE
    return EventCode.SUBMIT_JOB
