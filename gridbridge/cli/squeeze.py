"""gridbridge squeeze: which nodes may rest, and which have to work again."""

import click

from gridbridge.cli import output
from gridbridge.services.elastic import squeezing as service

DEFAULT_FACTOR = 2.0  # hsqueeze's, for both reserves
ON_SCREEN = "-"


@click.command()
@click.option("--model", metavar="FILE", required=True, help="Decide about this Ganeti text file.")
@click.option(
    "--minimal-resources",
    "minimal",
    metavar="FACTOR",
    type=float,
    help="The reserve that each node has to have, in standard instances.",
)
@click.option(
    "--target-resources",
    "target",
    metavar="FACTOR",
    type=float,
    help="The reserve that each node keeps when others are switched off.",
)
@click.option("-v", "--verbose", is_flag=True, help="Tell the candidates too.")
@click.option(
    *("-C", "--print-commands", "commands"),
    metavar="[FILE]",
    is_flag=False,
    flag_value=ON_SCREEN,
    help="Print the commands that do it, or write them to FILE (-CFILE).",
)
@click.option(
    *("-S", "--save", "prefix"),
    metavar="FILE",
    default="",
    help="Save the cluster before and after as FILE.original and FILE.squeezed.",
)
@click.option("--no-headers", is_flag=True, help="Print the names alone.")
def squeeze(
    model: str,
    minimal: float | None,
    target: float | None,
    verbose: bool,
    commands: str | None,
    prefix: str,
    no_headers: bool,
) -> None:
    """Say which nodes can be switched off, or have to be switched on, as Ganeti's hsqueeze does.

    FILE is what `hscan` and `gnt-cluster` users keep of a cluster (htools(1), -t): groups, nodes,
    instances, tags and policies. When a node lacks the minimal reserve, nodes with a tag
    htools:standby: are named to be switched on, as few as give it; else those that can be switched
    off while every node keeps the target reserve. All instances are moved in a simulation that
    balances as hbal does. Nothing is changed. Both reserves are 2.0 standard instances by default.
    Exit status: 0 also when nothing is to be done; 2 for a wrong file or a wrong option.

    \b
    Example:
      gridbridge squeeze --model cluster.data --target-resources 3 -v -C
    """
    told = service.squeeze_model(
        model,
        DEFAULT_FACTOR if minimal is None else minimal,
        DEFAULT_FACTOR if target is None else target,
    )
    if prefix:
        _save(told.original, f"{prefix}.original")
    if verbose:
        output.line(f"Offline candidates: {','.join(told.offline_candidates)}")
        output.line(f"Online candidates: {','.join(told.online_candidates)}")
    if not no_headers:
        output.line(f"'{told.way.value}'")
    for name in told.nodes:
        output.line(name)
    if verbose and not told.is_enough:
        output.line("Onlining all nodes will not yield enough capacity")
    if commands is not None:
        _tell_commands(told, commands)
    if prefix:
        _save(told.squeezed, f"{prefix}.squeezed")


def _tell_commands(told: service.Told, path: str) -> None:
    if path == ON_SCREEN:
        output.line("")
        output.line("Commands to run:")
        for line in told.shown:
            output.line(f"  {line}")
        return
    service.save(f"{service.BEGIN}{told.script}", path)
    output.line(f"The commands have been written to file '{path}'")


def _save(text: str, path: str) -> None:
    service.save(text, path)
    output.complain(f"gridbridge: {path} is written")
