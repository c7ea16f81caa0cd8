"""gridbridge rebalance: which copies of tasks should be on other hosts."""

import click

from gridbridge.cli import output
from gridbridge.cli.options import JSON
from gridbridge.model.rebalance.moves import Advice, Move
from gridbridge.services.rebalance import offline

MOST_SHOWN = 20


@click.group()
def rebalance() -> None:
    """Say which waiting tasks and staged data should be on other hosts.

    \b
    Example:
      gridbridge rebalance plan --from hosts.json
    """


@rebalance.command()
@click.argument("what", required=False, type=click.Choice(offline.WHAT))
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--from", "path", required=True, metavar="FILE", help="Decide about this file.")
@click.option("--plot", "picture", metavar="FILE", help="Draw the hosts before and after: .png ...")
@JSON
def plan(what: str | None, name: str | None, path: str, picture: str | None, is_json: bool) -> None:
    """Say what would be moved, and what not, and why; nothing is done.

    Without a word it is what a round does by itself: what failed first, then the lightest and the
    heaviest host, then a job. `host NAME` evens one host out; `job NAME` repairs a job, and only a
    whole one is spread evenly; `fail NAME` takes everything from a host.
    The file is described on the page about rebalancing. --plot draws the disk and the load of
    every host as they are, and as they would be.
    Exit status: 0 also when nothing is to be moved, 2 for a wrong option or file.

    \b
    Example:
      gridbridge rebalance plan --from hosts.json
      gridbridge rebalance plan host h17 --from hosts.json --json
      gridbridge rebalance plan fail h17 --from hosts.json --plot h17.png
    """
    if what and not name:
        raise click.UsageError(f"{what}: which one? give its name")
    planned = offline.plan(path, what or "", name or "")
    advice = planned.advice
    if picture:
        from gridbridge.cli.plots import rebalance as plots  # half a second

        plots.draw(planned.loads, advice.sentence, picture)
    if is_json:
        output.as_json(plain(advice))
        return
    output.line(advice.sentence)
    for move in advice.moves:
        output.line(f"  {_told(move)}")
    for one in advice.rejected[:MOST_SHOWN]:
        where = f" to {one.target}" if one.target else ""
        output.line(f"  not {one.job} {one.number}{where}: {one.reason}")
    if (more := len(advice.rejected) - MOST_SHOWN) > 0:
        output.line(f"  and {more} more that are not moved; --json has all")


def plain(advice: Advice) -> dict[str, object]:
    """Return it as JSON has it."""
    return {
        "moves": [
            {
                "kind": move.kind.value,
                "job": move.job,
                "number": move.number,
                "from": move.source or None,
                "to": move.target or None,
            }
            for move in advice.moves
        ],
        "rejected": [
            {
                "job": one.job,
                "number": one.number,
                "to": one.target or None,
                "reason": one.reason,
            }
            for one in advice.rejected
        ],
        "sentence": advice.sentence,
    }


def _told(move: Move) -> str:
    where = f"from {move.source}" if move.source else ""
    to = f"to {move.target}" if move.target else "removed"
    return " ".join(filter(None, (move.job, str(move.number), f"({move.kind.value})", where, to)))
