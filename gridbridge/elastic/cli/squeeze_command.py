"""The command `gridbridge squeeze`, which decides which hosts to switch off or on."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from gridbridge.cli import command_groups_and_options, output_and_errors

if TYPE_CHECKING:  # a call needs only one of these modules, which take half a second to load
    from gridbridge.elastic.balancer.ganeti_squeeze import GanetiSqueezeDecisionAndScript
    from gridbridge.elastic.balancer.squeeze_preview import SqueezePreview

DEFAULT_FACTOR = 2.0  # default of hsqueeze for both reserves
MOST_FACTOR = 1e6  # larger reserves would overflow
ON_SCREEN = "-"

ABOUT_A_MODEL = (
    click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Print the candidates, too."),
    click.option(
        *("-C", "--print-commands", "commands"),
        metavar="[FILE]",
        is_flag=False,
        flag_value=ON_SCREEN,
        callback=command_groups_and_options.refuse_empty_option_value,
        help="Print the commands for the changes; -CFILE writes the commands to FILE.",
    ),
    click.option(
        *("-S", "--save", "prefix"),
        metavar="FILE",
        default="",
        callback=command_groups_and_options.refuse_empty_option_value,
        help="Save the cluster before the changes as FILE.original, and after the changes as FILE.squeezed.",
    ),
    click.option("--no-headers", "is_bare", is_flag=True, help="Print only names."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiSqueezeOutputOptions:
    is_verbose: bool
    commands: str | None  # a file for the commands, or ON_SCREEN; None: no commands
    prefix: str  # prefix of saved files' names; empty: no file is saved
    is_bare: bool

    @property
    def print_options_given(self) -> list[str]:
        options = (("-v", self.is_verbose), ("-C", self.commands == ON_SCREEN), ("--no-headers", self.is_bare))
        return [word for word, is_given in options if is_given]

    @property
    def file_options_given(self) -> list[str]:
        files = {"-C": self.commands, "-S": self.prefix}
        return [word for word, file in files.items() if file and file != ON_SCREEN]


@click.command()
@click.option(
    "--model",
    metavar="FILE",
    default="",
    callback=command_groups_and_options.refuse_empty_option_value,
    help="Decide for the Ganeti cluster in this text file.",
)
@command_groups_and_options.FROM
@click.option(
    "--minimal-resources",
    "minimal",
    metavar="FACTOR",
    type=command_groups_and_options.FiniteNumberRange(-MOST_FACTOR, MOST_FACTOR),
    help="The reserve that each node must have, in standard instances.",
)
@click.option(
    "--target-resources",
    "target",
    metavar="FACTOR",
    type=command_groups_and_options.FiniteNumberRange(-MOST_FACTOR, MOST_FACTOR),
    help="The reserve that each node keeps when other nodes are switched off.",
)
@command_groups_and_options.add_options_to_command(ABOUT_A_MODEL)
@command_groups_and_options.CONFIG_FILE
@command_groups_and_options.JSON
def squeeze(
    model: str, folder: str, minimal: float | None, target: float | None, path: str, is_json: bool, **options: Any
) -> None:
    """Show which hosts can be switched off or must be switched on, without switching any host.

    Without --model the command decides about the home cluster, or about a situation that
    `gridbridge balance snapshot` saved in FOLDER, by [balance], [demand] and [squeeze] of
    gridbridge.toml. The policy decides whether hosts may be switched off; [squeeze] chooses the
    hosts. With FOLDER a configuration is read only if --config names a file; missing keys have
    their defaults. --minimal-resources and --target-resources replace minimal_reserve and
    target_reserve; a minimum above the target is refused.

    With --model the command answers like Ganeti's hsqueeze about FILE, a cluster that htools(1) has
    saved (-t): groups, nodes, instances, tags and policies. If a node lacks the minimal reserve,
    the answer is the fewest nodes with a tag htools:standby: that must be switched on. Else the
    answer is the nodes that can be switched off while each other node keeps the target reserve.
    Instances move in a simulation that balances like hbal. Both reserves default to 2.0 standard
    instances. -v, -C, -S and --no-headers need --model; --from excludes --model. --json contains
    the output of -v and -C.
    Exit status: 0 also without a change; 2 a wrong file or option; 75 the cell gave no complete
    answer.

    \b
    Example:
      gridbridge squeeze
      gridbridge squeeze --model cluster.data --target-resources 3 -v -C
    """
    answering = GanetiSqueezeOutputOptions(**options)
    _refuse_contradicting_squeeze_options(answering, is_model=bool(model), is_folder=bool(folder), is_json=is_json)
    if model:
        from gridbridge.elastic.balancer import ganeti_squeeze

        factors = (DEFAULT_FACTOR if factor is None else factor for factor in (minimal, target))
        _report_ganeti_squeeze(
            ganeti_squeeze.decide_squeeze_of_ganeti_file(model, *factors), answering, is_json=is_json
        )
        return
    from gridbridge.elastic.balancer import squeeze_preview

    now, path = datetime.now(UTC), command_groups_and_options.config_path_unless_from_folder(folder, path)
    decision = command_groups_and_options.exit_75_without_cluster_answer(
        lambda: squeeze_preview.preview_squeeze(now, folder=folder, path=path, minimal=minimal, target=target)
    )
    _print_home_cluster_squeeze(decision, is_json=is_json)


def _report_ganeti_squeeze(
    model: "GanetiSqueezeDecisionAndScript", answering: GanetiSqueezeOutputOptions, *, is_json: bool
) -> None:
    if answering.prefix:
        _write_ganeti_cluster_file(model.original, f"{answering.prefix}.original")
    if model.warnings:
        output_and_errors.print_error("Warning: cluster has inconsistent data:")
        for warning in model.warnings:
            output_and_errors.print_error(f"  - {warning}")
    if is_json:
        _print_ganeti_squeeze_as_json(model)
    else:
        _print_ganeti_squeeze_as_text(model, answering)
    if answering.commands is not None:
        _print_or_write_ganeti_commands(model, answering.commands, is_json=is_json)
    if answering.prefix:
        _write_ganeti_cluster_file(model.squeezed, f"{answering.prefix}.squeezed")


def _refuse_contradicting_squeeze_options(
    answering: GanetiSqueezeOutputOptions, *, is_model: bool, is_folder: bool, is_json: bool
) -> None:
    if is_model and is_folder:
        raise click.UsageError("--model and --from exclude each other; expected one of them")
    if not is_model and (words := answering.print_options_given + answering.file_options_given):
        raise click.UsageError(f"{words[0]}: only for a Ganeti cluster; expected --model")
    if is_json and (words := answering.print_options_given):
        raise click.UsageError(f"{words[0]} and --json exclude each other")


def _print_ganeti_squeeze_as_json(model: "GanetiSqueezeDecisionAndScript") -> None:
    output_and_errors.print_json(
        {
            "answer": model.way.value,
            "nodes": list(model.nodes),
            "is_enough": model.is_enough,
            "offline_candidates": list(model.offline_candidates),
            "online_candidates": list(model.online_candidates),
            "commands": [line.strip() for line in model.printed_script_lines if line],
        }
    )


def _print_ganeti_squeeze_as_text(
    model: "GanetiSqueezeDecisionAndScript", answering: GanetiSqueezeOutputOptions
) -> None:
    if answering.is_verbose:
        output_and_errors.print_line(f"Offline candidates: {','.join(model.offline_candidates)}")
        output_and_errors.print_line(f"Online candidates: {','.join(model.online_candidates)}")
    if not answering.is_bare:
        output_and_errors.print_line(f"'{model.way.value}'")
    for name in model.nodes:
        output_and_errors.print_line(name)
    if answering.is_verbose and not model.is_enough:
        output_and_errors.print_line("Onlining all nodes will not yield enough capacity")


def _print_home_cluster_squeeze(decision: "SqueezePreview", *, is_json: bool) -> None:
    for lack in decision.lacking:
        output_and_errors.print_error(f"gridbridge: {lack}")
    for host, why in decision.untold:
        output_and_errors.print_error(f"gridbridge: {host}: power state unknown, so the host is left alone: {why}")
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


def _print_or_write_ganeti_commands(model: "GanetiSqueezeDecisionAndScript", path: str, *, is_json: bool) -> None:
    if path == ON_SCREEN:
        output_and_errors.print_line("")
        output_and_errors.print_line("Commands to run:")
        for line in model.printed_script_lines:
            output_and_errors.print_line(f"  {line}")
        return
    from gridbridge.elastic.balancer import ganeti_squeeze

    ganeti_squeeze.write_text_file(f"{ganeti_squeeze.BEGIN}{model.script}", path)
    write = output_and_errors.print_error if is_json else output_and_errors.print_line
    write(f"The commands have been written to file '{path}'")


def _write_ganeti_cluster_file(text: str, path: str) -> None:
    from gridbridge.elastic.balancer import ganeti_squeeze

    ganeti_squeeze.write_text_file(text, path)
    output_and_errors.print_error(f"gridbridge: {path} is written")
