"""How events are written: a table, and what the first task of one was about."""

from collections.abc import Mapping
from datetime import datetime

from gridbridge.campaigns.cli.campaign_table import MOMENT
from gridbridge.campaigns.tools import event_commands
from gridbridge.cli import output
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import (
    BARRING,
    HEALING,
    CampaignEvent,
    EventCode,
    EventKind,
)
from gridbridge.state.published_json import plain

HEAD = ("Event", "S", "Class", "Code", "Campaign", "Cluster", "Since", "What")


def show(
    events: tuple[CampaignEvent, ...],
    states: Mapping[int, CampaignState],
    is_json: bool,
    is_one: bool = False,
) -> None:
    """Print events, as their campaigns are; of a single one its owner sees what it was about."""
    if is_json:
        output.as_json(plain(events))
        return
    output.table(HEAD, [_row(event, states) for event in events], numbers=("Event", "Campaign"))
    for event in events if is_one else ():
        parameters, words = event_commands.first_task(event)
        if parameters:
            output.line(f"first task {event.campaign}.{event.first_task}: {parameters}")
        for word in words:
            output.line(f"  {word}")
        if folder := event_commands.directory(event):
            output.line(f"its exec_directory at {event.cluster}: {folder}")
        if not event.closed_at and (cure := _cure(event)):
            output.line(cure)


def _cure(event: CampaignEvent) -> str:
    """Say what its owner may do."""
    if event.kind is EventKind.TASK:
        return (
            f"when it is put right: gridevents -c {event.campaign} -r has the failed tasks tried"
            f" again, gridevents -e {event.number} -f only closes it"
        )
    if event.code in HEALING:
        return f"it is over once that works; gridevents -e {event.number} -f has it tried at once"
    if event.code in BARRING:
        return (
            f"when it is put right: gridevents -e {event.number} -f opens {event.cluster}"
            " to it again"
        )
    return ""


def _row(event: CampaignEvent, states: Mapping[int, CampaignState]) -> tuple[str, ...]:
    is_tried = event.until and event.code not in (EventCode.DROPPED, EventCode.DISPUTED)
    again = f"; it is tried again at {_moment(event.until)}" if event.until and is_tried else ""
    state = "closed" if event.closed_at else "open"
    campaign = str(event.campaign or "-")
    return (
        *(
            str(event.number),
            state,
            event.kind.value,
            event.code.value,
            campaign,
            event.cluster or "-",
        ),
        _moment(event.opened_at),
        f"{event_commands.words(event, states)}{'' if event.closed_at else again}",
    )


def _moment(at: datetime) -> str:
    return at.astimezone().strftime(MOMENT)
