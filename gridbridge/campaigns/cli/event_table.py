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
    output.table(HEAD, [_row(one, states) for one in events], numbers=("Event", "Campaign"))
    for one in events if is_one else ():
        parameters, words = event_commands.first_task(one)
        if parameters:
            output.line(f"first task {one.campaign}.{one.first_task}: {parameters}")
        for word in words:
            output.line(f"  {word}")
        if folder := event_commands.directory(one):
            output.line(f"its exec_directory at {one.cluster}: {folder}")
        if not one.closed_at and (cure := _cure(one)):
            output.line(cure)


def _cure(one: CampaignEvent) -> str:
    """Say what its owner may do."""
    if one.kind is EventKind.TASK:
        return (
            f"when it is put right: gridevents -c {one.campaign} -r has the failed tasks tried"
            f" again, gridevents -e {one.number} -f only closes it"
        )
    if one.code in HEALING:
        return f"it is over once that works; gridevents -e {one.number} -f has it tried at once"
    if one.code in BARRING:
        return (
            f"when it is put right: gridevents -e {one.number} -f opens {one.cluster} to it again"
        )
    return ""


def _row(one: CampaignEvent, states: Mapping[int, CampaignState]) -> tuple[str, ...]:
    is_tried = one.until and one.code not in (EventCode.DROPPED, EventCode.DISPUTED)
    again = f"; it is tried again at {_moment(one.until)}" if one.until and is_tried else ""
    state = "closed" if one.closed_at else "open"
    campaign = str(one.campaign or "-")
    return (
        *(str(one.number), state, one.kind.value, one.code.value, campaign, one.cluster or "-"),
        _moment(one.opened_at),
        f"{event_commands.words(one, states)}{'' if one.closed_at else again}",
    )


def _moment(at: datetime) -> str:
    return at.astimezone().strftime(MOMENT)
