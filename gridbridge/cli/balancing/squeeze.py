"""gridbridge squeeze: which nodes may rest, and which have to work again."""

from datetime import UTC, datetime

import click

from gridbridge.cli import output
from gridbridge.cli.options import CONFIG_FILE, FROM, JSON, Finite, not_empty, or_later
from gridbridge.services.elastic import squeezing as service
from gridbridge.services.tools import squeeze as site

DEFAULT_FACTOR = 2.0  # hsqueeze's, for both reserves
MOST_FACTOR = 1e6  # no cluster has so much free; more could not be reckoned with
ON_SCREEN = "-"


@click.command()
@click.option(
    "--model",
    metavar="FILE",
    default="",
    callback=not_empty,
    help="Decide about this Ganeti text file.",
)
@FROM
@click.option(
    "--minimal-resources",
    "minimal",
    metavar="FACTOR",
    type=Finite(-MOST_FACTOR, MOST_FACTOR),
    help="The reserve that each node has to have, in standard instances.",
)
@click.option(
    "--target-resources",
    "target",
    metavar="FACTOR",
    type=Finite(-MOST_FACTOR, MOST_FACTOR),
    help="The reserve that each node keeps when others are switched off.",
)
@click.option("-v", "--verbose", is_flag=True, help="Tell the candidates too.")
@click.option(
    *("-C", "--print-commands", "commands"),
    metavar="[FILE]",
    is_flag=False,
    flag_value=ON_SCREEN,
    callback=not_empty,
    help="Print the commands that do it, or write them to FILE (-CFILE).",
)
@click.option(
    *("-S", "--save", "prefix"),
    metavar="FILE",
    default="",
    callback=not_empty,
    help="Save the cluster before and after as FILE.original and FILE.squeezed.",
)
@click.option("--no-headers", is_flag=True, help="Print the names alone.")
@CONFIG_FILE
@JSON
def squeeze(
    model: str,
    folder: str,
    minimal: float | None,
    target: float | None,
    verbose: bool,
    commands: str | None,
    prefix: str,
    no_headers: bool,
    path: str,
    is_json: bool,
) -> None:
    """Say which hosts can be switched off, or have to be switched on, and do nothing.

    Without --model it is the site's own cluster, or what `gridbridge balance snapshot` saved in
    FOLDER, by [balance], [demand] and [squeeze] of gridbridge.toml: the policy decides whether,
    squeeze which and how far. Both factors come before minimal_reserve and target_reserve; a
    minimum above the target is refused.

    With --model it answers as Ganeti's hsqueeze does about FILE, a cluster as htools(1) saves it
    (-t): groups, nodes, instances, tags and policies. When a node lacks the minimal reserve, nodes
    with a tag htools:standby: are named to be switched on, as few as give it; else those that can
    be switched off while each node keeps the target reserve. Instances move in a simulation that
    balances as hbal does. Both reserves are 2.0 standard instances by default.
    -v, -C, -S and --no-headers are about a model alone, --from about the site's own cluster. With
    --json all is told that -v and -C show.
    Exit status: 0 also when nothing is to be done; 2 for a wrong file or a wrong option; 75 the
    cell gave no whole answer.

    \b
    Example:
      gridbridge squeeze
      gridbridge squeeze --model cluster.data --target-resources 3 -v -C
    """
    shown = {"-v": verbose, "-C": commands == ON_SCREEN, "--no-headers": no_headers}
    _refuse_nonsense(
        is_model=bool(model),
        is_folder=bool(folder),
        is_json=is_json,
        shown=[word for word, is_given in shown.items() if is_given],
        saved=[w for w, to in (("-C", commands), ("-S", prefix)) if to and to != ON_SCREEN],
    )
    if not model:
        _tell_site(
            or_later(
                lambda: site.plan(
                    datetime.now(UTC), folder=folder, path=path, minimal=minimal, target=target
                )
            ),
            is_json=is_json,
        )
        return
    told = service.squeeze_model(
        model,
        DEFAULT_FACTOR if minimal is None else minimal,
        DEFAULT_FACTOR if target is None else target,
    )
    if prefix:
        _save(told.original, f"{prefix}.original")
    if is_json:
        _tell_model_as_json(told)
    else:
        _tell_model(told, is_verbose=verbose, has_headers=not no_headers)
    if commands is not None:
        _tell_commands(told, commands, is_json=is_json)
    if prefix:
        _save(told.squeezed, f"{prefix}.squeezed")


def _refuse_nonsense(
    *, is_model: bool, is_folder: bool, is_json: bool, shown: list[str], saved: list[str]
) -> None:
    """Refuse words that mean nothing together."""
    if is_model and is_folder:
        raise click.UsageError("--model and --from: only one of them can be decided about")
    if not is_model and (words := shown + saved):
        raise click.UsageError(f"{words[0]} needs --model: it is about a Ganeti cluster")
    if is_json and shown:
        raise click.UsageError(f"{shown[0]} and --json: that tells it all")


def _tell_model_as_json(told: service.ToldModel) -> None:
    output.as_json(
        {
            "answer": told.way.value,
            "nodes": list(told.nodes),
            "is_enough": told.is_enough,
            "offline_candidates": list(told.offline_candidates),
            "online_candidates": list(told.online_candidates),
            "commands": [line.strip() for line in told.shown if line],
        }
    )


def _tell_model(told: service.ToldModel, *, is_verbose: bool, has_headers: bool) -> None:
    if is_verbose:
        output.line(f"Offline candidates: {','.join(told.offline_candidates)}")
        output.line(f"Online candidates: {','.join(told.online_candidates)}")
    if has_headers:
        output.line(f"'{told.way.value}'")
    for name in told.nodes:
        output.line(name)
    if is_verbose and not told.is_enough:
        output.line("Onlining all nodes will not yield enough capacity")


def _tell_site(told: site.ToldSite, *, is_json: bool) -> None:
    for host, why in told.untold:
        left = f"{host} does not tell whether it has power, and is left as it is"
        output.complain(f"gridbridge: {left}: {why}")
    if is_json:
        deeds = [
            {"host": one.host, "do": one.doing.value, **({"tag": one.tag} if one.tag else {})}
            for one in told.deeds
        ]
        output.as_json(
            {
                "off": list(told.off),
                "on": list(told.on),
                "sentence": told.sentence,
                "deeds": deeds,
            }
        )
        return
    output.line(told.sentence)
    for one in told.deeds:
        output.line(f"  {one.host}: {one.doing.value}{one.tag and f' {one.tag}'}")


def _tell_commands(told: service.ToldModel, path: str, *, is_json: bool) -> None:
    if path == ON_SCREEN:
        output.line("")
        output.line("Commands to run:")
        for line in told.shown:
            output.line(f"  {line}")
        return
    service.save(f"{service.BEGIN}{told.script}", path)
    tell = output.complain if is_json else output.line
    tell(f"The commands have been written to file '{path}'")


def _save(text: str, path: str) -> None:
    service.save(text, path)
    output.complain(f"gridbridge: {path} is written")
