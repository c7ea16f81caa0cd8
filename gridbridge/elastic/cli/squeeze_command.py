"""The command `gridbridge squeeze`, which decides which hosts to switch off or on."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import (
    CONFIG_FILE,
    FROM,
    JSON,
    FiniteNumberRange,
    add_options,
    config_path_unless_from_folder,
    exit_75_without_cluster_answer,
    refuse_empty_option_value,
)

if TYPE_CHECKING:  # each call needs only one module; loading takes half a second
    from gridbridge.elastic.balancer.ganeti_squeeze import GanetiSqueezeResult
    from gridbridge.elastic.balancer.squeeze_preview import SqueezePreview

DEFAULT_FACTOR = 2.0  # default of hsqueeze for both reserves
MOST_FACTOR = 1e6  # larger reserves would overflow
ON_SCREEN = "-"

ABOUT_A_MODEL = (
    click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Tell the candidates too."),
    click.option(
        *("-C", "--print-commands", "commands"),
        metavar="[FILE]",
        is_flag=False,
        flag_value=ON_SCREEN,
        callback=refuse_empty_option_value,
        help="Print the commands that do it, or write them to FILE (-CFILE).",
    ),
    click.option(
        *("-S", "--save", "prefix"),
        metavar="FILE",
        default="",
        callback=refuse_empty_option_value,
        help="Save the cluster before and after as FILE.original and FILE.squeezed.",
    ),
    click.option("--no-headers", "is_bare", is_flag=True, help="Print the names alone."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiSqueezeOutputOptions:
    """Options for the output about a Ganeti cluster."""

    is_verbose: bool
    commands: str | None  # a file for the commands, or ON_SCREEN; None: no commands
    prefix: str  # prefix of saved files' names; empty: no file is saved
    is_bare: bool

    @property
    def shown(self) -> list[str]:
        """The given options that change the printed text."""
        options = (("-v", self.is_verbose), ("-C", self.commands == ON_SCREEN), ("--no-headers", self.is_bare))
        return [word for word, is_given in options if is_given]

    @property
    def saved(self) -> list[str]:
        """The given options that write files."""
        files = {"-C": self.commands, "-S": self.prefix}
        return [word for word, file in files.items() if file and file != ON_SCREEN]


@click.command()
@click.option(
    "--model",
    metavar="FILE",
    default="",
    callback=refuse_empty_option_value,
    help="Decide about this Ganeti text file.",
)
@FROM
@click.option(
    "--minimal-resources",
    "minimal",
    metavar="FACTOR",
    type=FiniteNumberRange(-MOST_FACTOR, MOST_FACTOR),
    help="The reserve that each node has to have, in standard instances.",
)
@click.option(
    "--target-resources",
    "target",
    metavar="FACTOR",
    type=FiniteNumberRange(-MOST_FACTOR, MOST_FACTOR),
    help="The reserve that each node keeps when others are switched off.",
)
@add_options(ABOUT_A_MODEL)
@CONFIG_FILE
@JSON
def squeeze(
    model: str, folder: str, minimal: float | None, target: float | None, path: str, is_json: bool, **options: Any
) -> None:
    """Say which hosts can be switched off, or have to be switched on, and do nothing.

    Without --model the command looks at the site's own cluster, or at what `gridbridge balance
    snapshot` saved in FOLDER. It decides by [balance], [demand] and [squeeze] of gridbridge.toml:
    the policy says whether hosts may rest, [squeeze] which and how many. With FOLDER it reads that
    file only if --config names it, and missing keys have their defaults. Both factors replace
    minimal_reserve and target_reserve; a minimum above the target is refused.

    With --model it answers as Ganeti's hsqueeze does about FILE, a cluster as htools(1) saves it
    (-t): groups, nodes, instances, tags and policies. When a node lacks the minimal reserve, nodes
    with a tag htools:standby: are named to be switched on, as few as give it; else those that can
    be switched off while each node keeps the target reserve. Instances move in a simulation that
    balances as hbal does. Both reserves are 2.0 standard instances by default.
    -v, -C, -S and --no-headers are for a model alone, --from for the site's own cluster. --json
    contains all that -v and -C show.
    Exit status: 0 also when nothing is to be done; 2 for a wrong file or a wrong option; 75 the
    cell gave no whole answer.

    \b
    Example:
      gridbridge squeeze
      gridbridge squeeze --model cluster.data --target-resources 3 -v -C
    """
    answering = GanetiSqueezeOutputOptions(**options)
    _refuse_nonsense(answering, is_model=bool(model), is_folder=bool(folder), is_json=is_json)
    if model:
        from gridbridge.elastic.balancer import ganeti_squeeze

        factors = (DEFAULT_FACTOR if factor is None else factor for factor in (minimal, target))
        _answer(ganeti_squeeze.decide_squeeze_of_ganeti_file(model, *factors), answering, is_json=is_json)
        return
    from gridbridge.elastic.balancer import squeeze_preview

    now, path = datetime.now(UTC), config_path_unless_from_folder(folder, path)
    decision = exit_75_without_cluster_answer(
        lambda: squeeze_preview.preview_squeeze(now, folder=folder, path=path, minimal=minimal, target=target)
    )
    _tell_site(decision, is_json=is_json)


def _answer(model: "GanetiSqueezeResult", answering: GanetiSqueezeOutputOptions, *, is_json: bool) -> None:
    if answering.prefix:
        _save(model.original, f"{answering.prefix}.original")
    if model.warnings:
        output_and_errors.print_error("Warning: cluster has inconsistent data:")
        for warning in model.warnings:
            output_and_errors.print_error(f"  - {warning}")
    if is_json:
        _tell_model_as_json(model)
    else:
        _tell_model(model, answering)
    if answering.commands is not None:
        _tell_commands(model, answering.commands, is_json=is_json)
    if answering.prefix:
        _save(model.squeezed, f"{answering.prefix}.squeezed")


def _refuse_nonsense(answering: GanetiSqueezeOutputOptions, *, is_model: bool, is_folder: bool, is_json: bool) -> None:
    if is_model and is_folder:
        raise click.UsageError("--model and --from exclude each other; expected one of them")
    if not is_model and (words := answering.shown + answering.saved):
        raise click.UsageError(f"{words[0]} needs --model: it is about a Ganeti cluster")
    if is_json and (words := answering.shown):
        raise click.UsageError(f"{words[0]} and --json exclude each other")


def _tell_model_as_json(model: "GanetiSqueezeResult") -> None:
    output_and_errors.print_json(
        {
            "answer": model.way.value,
            "nodes": list(model.nodes),
            "is_enough": model.is_enough,
            "offline_candidates": list(model.offline_candidates),
            "online_candidates": list(model.online_candidates),
            "commands": [line.strip() for line in model.shown if line],
        }
    )


def _tell_model(model: "GanetiSqueezeResult", answering: GanetiSqueezeOutputOptions) -> None:
    if answering.is_verbose:
        output_and_errors.print_line(f"Offline candidates: {','.join(model.offline_candidates)}")
        output_and_errors.print_line(f"Online candidates: {','.join(model.online_candidates)}")
    if not answering.is_bare:
        output_and_errors.print_line(f"'{model.way.value}'")
    for name in model.nodes:
        output_and_errors.print_line(name)
    if answering.is_verbose and not model.is_enough:
        output_and_errors.print_line("Onlining all nodes will not yield enough capacity")


def _tell_site(decision: "SqueezePreview", *, is_json: bool) -> None:
    for lack in decision.lacking:
        output_and_errors.print_error(f"gridbridge: {lack}")
    for host, why in decision.untold:
        note = f"{host} does not tell whether it has power, and is left as it is"
        output_and_errors.print_error(f"gridbridge: {note}: {why}")
    if is_json:
        deeds = [
            {"host": deed.host, "do": deed.doing.value, **({"tag": deed.tag} if deed.tag else {})}
            for deed in decision.deeds
        ]
        output_and_errors.print_json(
            {"off": list(decision.off), "on": list(decision.on), "sentence": decision.sentence, "deeds": deeds}
        )
        return
    output_and_errors.print_line(decision.sentence)
    for deed in decision.deeds:
        output_and_errors.print_line(f"  {deed.host}: {deed.doing.value}{deed.tag and f' {deed.tag}'}")


def _tell_commands(model: "GanetiSqueezeResult", path: str, *, is_json: bool) -> None:
    if path == ON_SCREEN:
        output_and_errors.print_line("")
        output_and_errors.print_line("Commands to run:")
        for line in model.shown:
            output_and_errors.print_line(f"  {line}")
        return
    from gridbridge.elastic.balancer import ganeti_squeeze

    ganeti_squeeze.write_text_file(f"{ganeti_squeeze.BEGIN}{model.script}", path)
    write = output_and_errors.print_error if is_json else output_and_errors.print_line
    write(f"The commands have been written to file '{path}'")


def _save(text: str, path: str) -> None:
    from gridbridge.elastic.balancer import ganeti_squeeze

    ganeti_squeeze.write_text_file(text, path)
    output_and_errors.print_error(f"gridbridge: {path} is written")
