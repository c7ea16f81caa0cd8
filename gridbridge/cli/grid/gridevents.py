"""gridevents: what went wrong with campaigns and clusters, and closing it."""

import click

from gridbridge.cli import output
from gridbridge.cli.grid import REFUSED, UNREACHABLE, events, onward
from gridbridge.cli.options import FOLDER
from gridbridge.model.campaigns.events import Event
from gridbridge.model.campaigns.request import Answer, Verb
from gridbridge.services.tools import campaign_events, campaigns
from gridbridge.services.tools.campaigns import Unreachable

NOT_DONE = {
    Answer.UNKNOWN: "there is none of that id",
    Answer.NOT_THEIRS: "it is another's",
    Answer.CLOSED: "it is closed",
    Answer.CANCELLED: "its campaign is cancelled",
    Answer.NOT_TAKEN_UP: "root does not let its campaign go on; the runner's log says why",
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
    if None not in (campaign, campaign_id) and campaign != campaign_id:
        raise click.UsageError("one campaign: -c ID or ID")
    campaign = campaign if campaign is not None else campaign_id
    if campaign is None and number is None and not is_global:
        raise click.UsageError("one of -c ID, -e ID and -g")
    campaigns.require_published(folder)
    found = campaign_events.chosen(
        campaign_events.seen(folder), campaign, number, is_global=is_global, is_all=is_all
    )
    if problem := _missing(found, campaign, number, folder):
        output.complain(f"gridevents: {problem}")
        return REFUSED
    if is_fix or is_again:
        return _close(found, Verb.RESUBMIT if is_again else Verb.FIX)
    events.show(found, is_json, is_one=number is not None)
    return 0


def _missing(
    found: tuple[Event, ...], campaign: int | None, number: int | None, folder: str
) -> str:
    if number is not None and not found:
        return f"no event {number}"
    known = {one.number for one in campaigns.seen(folder)}
    return "" if campaign is None or campaign in known else f"no campaign {campaign}"


def _close(found: tuple[Event, ...], verb: Verb) -> int:
    """Ask that events are closed; say of each what became of that."""
    numbers = tuple(one.number for one in found)
    if not numbers:
        output.line("no event is open; nothing is changed")
        return 0
    try:
        answers = campaigns.ask(verb, numbers, of=tuple({one.campaign for one in found}))
    except Unreachable as error:
        output.complain(f"gridevents: {error}")
        return UNREACHABLE
    for number, told in answers.items():
        if told is Answer.DONE:
            output.line(f"Event {number} closed")
        else:
            output.complain(f"gridevents: event {number}: {NOT_DONE[told]}")
    return 0 if {*answers.values()} <= {Answer.DONE} else REFUSED


def main() -> None:
    """Run it."""
    onward.run(gridevents, "gridevents", UNREACHABLE)
