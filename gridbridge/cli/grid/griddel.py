"""griddel: cancel campaigns, pause them, or let them go on."""

import click

from gridbridge.cli import output, program
from gridbridge.cli.grid import REFUSED, UNREACHABLE
from gridbridge.services.tools import campaigns
from gridbridge.services.tools.campaigns import Unreachable
from gridbridge.state.campaign_files import Answer, Verb

SAID = {
    Verb.CANCEL: "cancelled",
    Verb.PAUSE: "paused",
    Verb.RESUME: "resumed",
}

NOT_DONE = {
    Answer.UNKNOWN: "there is none of that id",
    Answer.NOT_THEIRS: "it is another's",
    Answer.NOT_PAUSED: "it is not paused",
    Answer.PAUSED: "it is paused",
    Answer.TERMINATED: "it has ended",
    Answer.CANCELLED: "it is cancelled",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("numbers", metavar="ID...", nargs=-1)
@click.option("-c", "listed", metavar="ID,ID", help="The same, with commas between.")
@click.option("-p", "is_pause", is_flag=True, help="Send no more tasks for now.")
@click.option("-r", "is_resume", is_flag=True, help="Let paused campaigns go on.")
def griddel(numbers: tuple[str, ...], listed: str | None, is_pause: bool, is_resume: bool) -> int:
    """Cancel campaigns of yours: nothing more is sent, and what waits or runs is ended.

    Exit status: 0; 1 when a campaign is not there, another's, or in another state, which is told;
    2 usage; 75 nobody takes requests now, and nothing is changed.

    \b
    Example:
      griddel 12
      griddel -p -c 12,13
    """
    wanted = _numbers([*numbers, *(listed.split(",") if listed else [])])
    if is_pause and is_resume:
        raise click.UsageError("-p or -r")
    verb = Verb.PAUSE if is_pause else Verb.RESUME if is_resume else Verb.CANCEL
    try:
        answers = campaigns.ask(verb, wanted)
    except Unreachable as error:
        output.complain(f"griddel: {error}")
        return UNREACHABLE
    for number, told in answers.items():
        if told is Answer.DONE:
            output.line(f"Campaign {number} {SAID[verb]}")
        else:
            output.complain(f"griddel: campaign {number}: {NOT_DONE[told]}")
    return 0 if {*answers.values()} <= {Answer.DONE} else REFUSED


def _numbers(words: list[str]) -> tuple[int, ...]:
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise click.UsageError("the ids of campaigns, as gridstat shows them")
    return tuple(dict.fromkeys(map(int, words)))


def main() -> None:
    """Run it."""
    program.run(griddel, "griddel")
