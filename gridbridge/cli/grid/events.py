"""How events are written: a table, and what the first task of one was about."""

from datetime import datetime

from gridbridge.cli import output
from gridbridge.model.campaigns.events import Code, Event
from gridbridge.services.tools import campaign_events
from gridbridge.state.shown import plain

HEAD = ("Event", "S", "Class", "Code", "Campaign", "Cluster", "Since", "What")
MOMENT = "%Y-%m-%d %H-%M-%S"  # as in gridstat


def show(events: tuple[Event, ...], is_json: bool, is_one: bool = False) -> None:
    """Print events; of a single one its owner sees what it was about."""
    if is_json:
        output.as_json(plain(events))
        return
    output.table(HEAD, [_row(one) for one in events], numbers=("Event", "Campaign"))
    for one in events if is_one else ():
        parameters, words = campaign_events.first_task(one)
        if parameters:
            output.line(f"first task {one.campaign}.{one.first_task}: {parameters}")
        for word in words:
            output.line(f"  {word}")


def _row(one: Event) -> tuple[str, ...]:
    is_tried = one.until and one.code not in (Code.DROPPED, Code.DISPUTED)
    again = f"; it is tried again at {_moment(one.until)}" if one.until and is_tried else ""
    state = "closed" if one.closed_at else "open"
    campaign = str(one.campaign or "-")
    return (
        *(str(one.number), state, one.kind.value, one.code.value, campaign, one.cluster or "-"),
        *(_moment(one.opened_at), f"{campaign_events.words(one)}{'' if one.closed_at else again}"),
    )


def _moment(at: datetime) -> str:
    return at.astimezone().strftime(MOMENT)
