"""gridsub: submits a campaign, a bag of tasks for many clusters."""

import sys
from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any

import click
from click.core import ParameterSource

from gridbridge.campaigns.cli import (
    REFUSED,
    UNREACHABLE,
    command_relay_and_runner_wait,
    gridsub_campaign_source,
    gridwait,
)
from gridbridge.campaigns.cli.gridsub_campaign_source import CampaignSourceOptions
from gridbridge.campaigns.store import campaign_client, campaign_files_of_owners
from gridbridge.campaigns.store.campaign_client import (
    CampaignSubmissionRefusal,
    NoRunnerForRequest,
    RunnerAnswerTimeout,
)
from gridbridge.campaigns.store.campaign_files_of_owners import ForeignOrMissingCampaignFile
from gridbridge.campaigns.submission import qsub_directive_parser, site_admission_rules
from gridbridge.campaigns.submission.campaigns_without_jdl import CampaignWithoutJdlOptions
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FIXED_PATHS, VERSION
from gridbridge.errors import CommandLineMistake, ConfigError, GridbridgeError, StateError
from gridbridge.model.campaigns.campaign_predecessors import PredecessorFailureAction
from gridbridge.model.campaigns.jdl import CampaignType, Jdl
from gridbridge.model.campaigns.task_input_files import TaskInputFile
from gridbridge.model.fixed_paths import FixedPaths

TYPES = [campaign_type.value for campaign_type in CampaignType]
KINDS = ["best-effort", "normal", "nightly", "semi-best-effort"]


def _require_campaign_type(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Return a campaign's type; refuse a number, because -t of qsub takes task numbers."""
    if word is None:
        return None
    if word[:1].isdigit() or word == "c":
        raise click.BadParameter(
            "-t is the campaign's type, not its task numbers; expected a line #$ -t N-M in the script, or"
            " gridsub --array N-M -- ./SCRIPT {}"
        )
    if word not in TYPES:
        raise click.BadParameter(f"{word!r} is not one of {', '.join(TYPES)}")
    return word


def _require_named_cluster(context: click.Context, _: click.Parameter, clusters: str) -> str:
    is_said = context.get_parameter_source("clusters") is ParameterSource.COMMANDLINE
    if is_said and not clusters.strip(" ,"):
        raise click.UsageError(f"--clusters {clusters!r}: no cluster named; expected e.g. --clusters a,b")
    return clusters


class _GridsubCommand(click.Command):
    """The command gridsub, which tells users to write options of qsub into the job script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        typed = args[: args.index("--")] if "--" in args else list(args)
        ours = {word for parameter in self.get_params(ctx) for word in parameter.opts}
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            misplaced = [word for word in typed if word in qsub_directive_parser.OF_SCRIPTS and word not in ours]
            if not misplaced or not _may_qsub_option_cause_usage_error(error):
                raise
            line = f"write the option into the script as a line #$ {misplaced[0]}"
            message = f"{misplaced[0]} is an option of qsub, not of gridsub: {line}"
            raise click.UsageError(message, ctx) from error


def _may_qsub_option_cause_usage_error(error: click.UsageError) -> bool:
    """Say whether an option of qsub may be the cause of a usage error: click reads -cwd as -c wd."""
    if isinstance(error, click.NoSuchOption):
        return not error.option_name.startswith("--")
    return isinstance(error, click.BadParameter) and "'wd'" in error.message


@click.command(
    cls=_GridsubCommand,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "allow_interspersed_args": False,  # words after a job script are the script's arguments
    },
)
@click.option("-f", "--file", "path", metavar="FILE", help="Submit this JDL file in JSON or TOML; - is standard input.")
@click.option("-j", "--json", "text", metavar="JSON", help="Submit this JDL.")
@click.option("-c", "--campaign", "added_to", metavar="ID", type=int, help="Add tasks to this campaign.")
@click.option(
    *("-F", "--jobfile", "added_file"),
    metavar="FILE",
    help="With -c: a file with one task on each line, or a JSON list; - is standard input.",
)
@click.option("-J", "--jsonjob", "added_text", metavar="JSON", help='With -c: the tasks as JSON: ["FIRST TASK", ...].')
@click.option("--array", "numbers", metavar="N-M[:STEP]", help="Run a command for each number.")
@click.option("--each-line", "lines", metavar="FILE", help="Run a command for each non-blank line of a file.")
@click.option("--retry-failed", "retried", metavar="ID", type=int, help="Submit the failed tasks of a campaign again.")
@click.option(
    "--clusters", metavar="A,B", default="", callback=_require_named_cluster, help="Without a JDL: clusters for tasks."
)
@click.option(
    "-l",
    "resources",
    metavar="WHAT",
    multiple=True,
    help="Without a JDL: resources of a task, such as /core=4,walltime=1:0:0 or h_rt=600.",
)
@click.option("-N", "name", metavar="NAME", default="", help="Without a JDL: the campaign's name.")
@click.option(
    "-t",
    "type_",
    metavar="|".join(TYPES),
    callback=_require_campaign_type,
    help="The campaign's type: test sends one task to each cluster.",
)
@click.option(
    "--idempotent", "is_idempotent", is_flag=True, help="Without a JDL: a task may run twice at the same time."
)
@click.option(
    "--type",
    "kind",
    type=click.Choice(KINDS),
    default=KINDS[0],
    help="Without a JDL: best-effort tasks may be preempted; normal tasks may not; nightly tasks run at night.",
)
@click.option(
    "--input",
    "inputs",
    metavar="FILES",
    multiple=True,
    help="Without a JDL: input files of a task, which are carried to its cluster; {} as in the command.",
)
@click.option(
    "--output",
    "outputs",
    metavar="FILE",
    multiple=True,
    help="Without a JDL: an output file of a task, which is brought to this folder; {} as in the command.",
)
@click.option(
    "--after",
    metavar="ID|NAME[:ok|:ended|:same]",
    multiple=True,
    help="Without a JDL: wait until all tasks of your campaign ID or NAME have succeeded (ok), until it has ended"
    " (ended), or task by task (same).",
)
@click.option(
    "--on-failure",
    type=click.Choice([*PredecessorFailureAction]),
    help="With --after, if tasks of the earlier campaign fail: wait for their retry, or cancel this campaign.",
)
@click.option("--check", "is_check", is_flag=True, help="Show the tasks for each cluster; submit nothing.")
@click.option("--wait", "is_wait", is_flag=True, help="Wait for the campaign's end; exit with 0 if all tasks succeed.")
# a login node adds this option when it relays gridsub
@click.option("--ready", "is_ready", is_flag=True, hidden=True)
@click.option("-d", "--details", "is_details", is_flag=True, help="Print the stored campaign as JSON.")
@click.option("--debug", "is_debug", is_flag=True, help="Print the traceback of an error.")
@VERSION
@click.argument("words", metavar="[-|SCRIPT [WORD...]|-- CMD [WORD...]]", nargs=-1)
@FIXED_PATHS
def gridsub(
    paths: FixedPaths,
    /,
    added_to: int | None,
    added_file: str | None,
    added_text: str | None,
    clusters: str,
    resources: tuple[str, ...],
    name: str,
    type_: str | None,
    is_idempotent: bool,
    kind: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    after: tuple[str, ...],
    on_failure: str | None,
    is_check: bool,
    is_wait: bool,
    is_ready: bool,
    is_details: bool,
    is_debug: bool,
    **source: Any,  # options that say where the campaign comes from
) -> int:
    """Submit a campaign, whose tasks differ only in their parameters and run on free slots of clusters.

    The campaign is a JDL, a command for each number or line, or a job script with #$ lines of qsub, whose -t gives the
    tasks' numbers. In a command {} stands for the number or line; without {} the number or line is the last word. A
    line is never executed. With -c the tasks are added to a campaign of yours that has not ended.

    Exit status: 0; 1 a JDL, a script, the tasks of a file or the campaign is refused, and every mistake is reported, or
    with --wait not all tasks succeeded; 2 an option is wrong, or a file can't be read; 75 no runner accepts campaigns
    now, and nothing is stored; 76 the campaign was handed over and no answer came, or the campaign is stored and its id
    could not be printed: look at gridstat before you repeat the command.

    \b
    Example:
      gridsub -f sweep.json
      gridsub -j '{"name": "a", "nb_jobs": 9, "exec_file": "echo", "clusters": {"beta": {}}}'
      gridsub --array 1-1000 -l h_rt=0:10:0 -- ./simulate --seed {}
      gridsub --each-line images.txt --clusters beta,gamma -- convert {} {}.png
      gridsub --array 1-9 --input 'reads/{}.fq' --output '{}.bam' -- align reads/{}.fq {}.bam
      gridsub --type normal --array 1-9 -- ./no_interruption {}
      gridsub --wait job.sh
      gridsub --after reads --array 1-9 -- ./summarize {}
      gridsub --check -f sweep.json
      gridsub --retry-failed 12
      gridsub -c 12 -F more.txt
    """
    requested = CampaignWithoutJdlOptions(
        clusters=tuple(dict.fromkeys(filter(None, map(str.strip, clusters.split(","))))),
        resources=resources,
        name=name,
        type_=CampaignType(type_ or CampaignType.DEFAULT),
        is_idempotent=is_idempotent,
        kind="" if kind == KINDS[0] else kind,
        inputs=inputs,
        outputs=outputs,
        after=after,
        on_failure=on_failure,
    )
    typed = CampaignSourceOptions(**source, wishes=requested, type_=type_, paths=paths)
    flags = {"--check": is_check, "--wait": is_wait, "--details": is_details, "--debug": is_debug}
    options = [option for option, is_set in flags.items() if is_set]
    try:
        with output_and_errors.print_traceback_if_debug(is_debug):
            if added_to is not None:
                return _add_tasks_to_campaign(typed, added_to, added_file, added_text, options)
            if (added_file, added_text) != (None, None):
                raise click.UsageError(gridsub_campaign_source.USAGE)
            return _submit_or_check_campaign(typed, options, is_ready=is_ready)
    except (ConfigError, ForeignOrMissingCampaignFile, CampaignSubmissionRefusal) as error:
        for line in str(error).splitlines():
            output_and_errors.print_error(f"gridsub: {line}")
        return output_and_errors.ERROR if isinstance(error, CommandLineMistake) else REFUSED
    except (RunnerAnswerTimeout, NoRunnerForRequest) as error:
        return command_relay_and_runner_wait.report_missing_runner_answer("gridsub", error)


def _submit_or_check_campaign(typed: CampaignSourceOptions, options: list[str], *, is_ready: bool) -> int:
    if (again := typed.retry_options_to_relay()) and (transfer_host := _transfer_host_to_relay_to(typed.paths)):
        return _relay_gridsub(transfer_host, again, options, None)
    data = sys.stdin.buffer.read() if is_ready else b""
    parsed = gridsub_campaign_source.decode_jdl_from_login_node(data) if is_ready else typed.read_campaign()
    for warning in parsed.warnings:
        output_and_errors.print_error(f"gridsub: {warning}")
    if transfer_host := _transfer_host_to_relay_to(typed.paths):
        encoded = campaign_files_of_owners.encode_campaign_file(asdict(parsed.jdl), parsed.parameters)
        return _relay_gridsub(transfer_host, ["--ready"], options, encoded)
    if "--check" in options:
        # imported late, because modules of decisions are slow to load
        from gridbridge.campaigns.cli import gridsub_check_preview

        if files := gridsub_campaign_source.check_task_files(parsed.jdl, parsed.parameters):
            output_and_errors.print_line(files.summary)
            _print_inputs_at_clusters(files.distinct_files, parsed.jdl, typed.paths)
        return gridsub_check_preview.print_submission_check(parsed, typed.paths)
    admitted = site_admission_rules.admit_campaign_by_site_rules(parsed, typed.paths)
    number = _send_campaign_to_runner(admitted, typed.paths)
    more = [command_relay_and_runner_wait.stored_campaign_json(number, admitted)] if "--details" in options else []
    lines = ("Campaign successfully submitted", *more, f"CAMPAIGN_ID={number}")
    status = command_relay_and_runner_wait.print_stored_submission("gridsub", lines, f"campaign {number} is stored")
    return status or _wait_for_campaign_if_asked(number, "--wait" in options, typed.paths)


def _print_inputs_at_clusters(files: Collection[TaskInputFile], jdl: Jdl, paths: FixedPaths) -> None:
    # imported late, because few campaigns have inputs
    from gridbridge.program import configuration_in_force
    from gridbridge.rebalance.replicas import carried_input_preview

    policy, _ = configuration_in_force.load_config_or_one_in_force(paths.configuration)
    rates = {at.name: at.carry_rates for at in campaign_client.published_campaign_clusters(paths.published)}
    for line in carried_input_preview.describe_inputs_at_clusters(files, jdl.clusters, policy, rates):
        output_and_errors.print_line(line)


def _send_campaign_to_runner(admitted: ParsedJdl, paths: FixedPaths) -> int:
    if admitted.jdl.datasets:
        # imported late, because few campaigns have datasets
        from gridbridge.rebalance.replicas import delegated_datasets

        try:
            delegated_datasets.add_campaign_datasets(admitted.jdl.datasets, paths)
        except (ConfigError, StateError) as error:
            raise NoRunnerForRequest(str(error)) from error
        except GridbridgeError as error:
            raise CampaignSubmissionRefusal(str(error)) from error
    if files := gridsub_campaign_source.check_task_files(admitted.jdl, admitted.parameters):
        admitted = replace(admitted, parameters=tuple(files.lines), input_groups=files.shared_input_groups)
    gridsub_campaign_source.make_folder_of_outputs(admitted.jdl)
    with command_relay_and_runner_wait.report_late_runner_answer("gridsub"):
        return campaign_client.submit_campaign(admitted, paths)


def _transfer_host_to_relay_to(paths: FixedPaths) -> str:
    return command_relay_and_runner_wait.transfer_host_to_relay_to(paths.campaigns, paths.configuration)


def _add_tasks_to_campaign(
    typed: CampaignSourceOptions, number: int, file: str | None, text: str | None, options: list[str]
) -> int:
    if not typed.has_no_campaign_options or (file is None) == (text is None):
        raise click.UsageError(gridsub_campaign_source.USAGE)
    if transfer_host := _transfer_host_to_relay_to(typed.paths):
        words = ["-c", str(number), *(("-F", "-") if file is not None else ("-J", str(text)))]
        lines = "" if file is None else gridsub_campaign_source.read_jdl_or_script(file)
        data = None if file is None else lines.encode("utf-8", "surrogateescape")
        return _relay_gridsub(transfer_host, words, options, data)
    is_check = "--check" in options
    status = gridsub_campaign_source.add_campaign_tasks(
        number, file, text, typed.paths, is_check=is_check, is_details="--details" in options
    )
    return status or _wait_for_campaign_if_asked(number, "--wait" in options and not is_check, typed.paths)


def _wait_for_campaign_if_asked(number: int, is_wait: bool, paths: FixedPaths) -> int:
    return gridwait.wait_for_campaign_end("gridsub", number, paths.published) if is_wait else 0


def _relay_gridsub(transfer_host: str, words: list[str], options: list[str], stdin: bytes | None) -> int:
    return command_relay_and_runner_wait.run_on_transfer_host(
        transfer_host, "gridsub", words + options, UNREACHABLE, stdin, changes="--check" not in options
    )


def main() -> None:
    output_and_errors.run_command_reporting_errors(gridsub, "gridsub")
