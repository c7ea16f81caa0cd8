"""What keeps arrays from being sent or deleted: an event for each campaign and cluster."""

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

MOST_WORDS = 200  # letters, of why
WHO = re.compile(r"gridbridge-as-user: (c\.\d+: )?")  # who says it; the event tells of what


class SubmitFailures:
    """What notes them."""

    def __init__(self, events: CampaignEvents, clock: Clock, failures: Failures) -> None:
        self._events = events
        self._clock = clock
        self._failures = failures

    def note(self, array: Array, code: EventCode, error: GridbridgeError) -> None:
        """Note what happened to an array at its cluster, and why: the next try comes later."""
        pair = array.campaign, array.cluster
        event = happened(
            self._open_event(array, code), code, pair, self._clock.now(), self._failures
        )
        tasks = event.tasks + array.size
        self._events.put([replace(event, tasks=tasks, why=in_short(error))])

    def note_undeleted(self, array: Array, error: GridbridgeError) -> None:
        """Note once what root has to mend; what else it may be the cluster is known for."""
        code = code_of(error)
        if code in ROOTS and not self._open_event(array, code):
            self.note(array, code, error)

    def close(self, codes: Iterable[EventCode], array: Array) -> None:
        """Note that these are over."""
        for code in codes:
            if event := self._open_event(array, code):
                self._events.put([replace(event, closed_at=self._clock.now())])

    def _open_event(self, array: Array, code: EventCode) -> CampaignEvent | None:
        return self._events.find_open(code, array.campaign, array.cluster)


def in_short(error: GridbridgeError | str) -> str:
    """Return what an error says in one line that everybody may see."""
    line = printable(WHO.sub("", " ".join(str(error).split())))
    return line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 3]}..."


def code_of(error: GridbridgeError) -> EventCode:
    """Return what keeps an array from being sent or deleted."""
    match error:
        case LedgerLost():
            return EventCode.NO_LEDGER
        case OwnerUnknown():
            return EventCode.OWNER_UNKNOWN
        case NotRead():
            return EventCode.NO_FILE
    return EventCode.SUBMIT_JOB
