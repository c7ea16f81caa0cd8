"""gridevents: what went wrong with campaigns and clusters, and closing it."""

from datetime import datetime

import click

from gridbridge.cli import output
from gridbridge.cli.grid import REFUSED, UNREACHABLE, onward
from gridbridge.cli.options import FOLDER
from gridbridge.model.campaigns.events import Code, Event
from gridbridge.model.campaigns.request import Answer, Verb
from gridbridge.services.tools import campaign_events, campaigns
from gridbridge.services.tools.campaigns import Unreachable
from gridbridge.state.shown import plain

HEAD = ("Event", "S", "Class", "Code", "Campaign", "Cluster", "Since", "What")
MOMENT = "%Y-%m-%d %H-%M-%S"  # as in gridstat
NOT_DONE = {
    Answer.UNKNOWN: "there is none of that id",
    Answer.NOT_THEIRS: "it is another's",
    Answer.CLOSED: "it is closed",
    Answer.CANCELLED: "its campaign is cancelled",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("campaign_id", metavar="[ID]", type=int, required=False)
@click.option("-c", "--campaign", metavar="ID", type=int, help="Of this campaign; as ID.")
@click.option("-g", "--global", "is_global", is_flag=True, help="Of clusters.")
@click.option("-e", "--event", "number", metavar="ID", type=int, help="This event alone.")
@click.option("-f", "--fix", "is_fix", is_flag=True, help="Close them: they are put right.")
@click.option("-r", "--resubmit", "is_again", is_flag=True, help="The same; their tasks run again.")
@click.option("-a", "--all", "is_all", is_flag=True, help="Also those that are closed.")
@click.option("--json", "is_json", is_flag=True, help="As JSON.")
@FOLDER
def gridevents(
    campaign_id: int | None,
    campaign: int | None,
    is_global: bool,
    number: int | None,
    is_fix: bool,
    is_again: bool,
    is_all: bool,
    is_json: bool,
    folder: str,
) -> int:
    """Show what went wrong, or close it: then a cluster gets tasks of the campaign again.

    Everybody sees events, owners close those of their campaigns, and root all. With -e an owner
    sees what the first task was about, and its last words where its output is here. Exit status:
    0; 1 there is no such campaign or event, or one can't be closed; 2 usage; 75 nobody takes
    requests now.

    \b
    Example:
      gridevents 12
      gridevents -c 12 -f -r
    """
    campaign = campaign if campaign is not None else campaign_id
    if campaign is None and number is None and not is_global:
        raise click.UsageError("one of -c ID, -e ID and -g")
    found = campaign_events.chosen(
        campaign_events.seen(folder), campaign, number, is_global=is_global, is_all=is_all
    )
    if problem := _missing(found, campaign, number, folder):
        output.complain(f"gridevents: {problem}")
        return REFUSED
    if is_fix or is_again:
        return _close(found, Verb.RESUBMIT if is_again else Verb.FIX)
    _show(found, is_json, is_one=number is not None)
    return 0


def _missing(
    found: tuple[Event, ...], campaign: int | None, number: int | None, folder: str
) -> str:
    if number is not None and not found:
        return f"no event {number}"
    known = {one.number for one in campaigns.seen(folder)}
    return "" if campaign is None or campaign in known else f"no campaign {campaign}"


def _close(events: tuple[Event, ...], verb: Verb) -> int:
    """Ask that events are closed; say of each what became of that."""
    numbers = tuple(one.number for one in events)
    if not numbers:
        return 0
    try:
        answers = campaigns.ask(verb, numbers)
    except Unreachable as error:
        output.complain(f"gridevents: {error}")
        return UNREACHABLE
    for number, told in answers.items():
        if told is Answer.DONE:
            output.line(f"Event {number} closed")
        else:
            output.complain(f"gridevents: event {number}: {NOT_DONE[told]}")
    return 0 if {*answers.values()} <= {Answer.DONE} else REFUSED


def _show(events: tuple[Event, ...], is_json: bool, is_one: bool) -> None:
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


def main() -> None:
    """Run it."""
    onward.run(gridevents, "gridevents", UNREACHABLE)
