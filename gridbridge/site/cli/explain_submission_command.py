"""gridbridge explain: prints how a job would be submitted to another cluster, or why the job can't be sent."""

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import JSON
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.site.submission_explanation import clusters_with_transfer_queues, explain_submission
from gridbridge.state.published_json import to_json_types

REFUSED = 1


class QsubOptionsCommand(click.Command):
    """A command with qsub's options: -h holds the job; if -h is the only argument, the help is printed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--help"] if args == ["-h"] else args)


@click.command(
    cls=QsubOptionsCommand, context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]}
)
@click.argument("words", metavar="JOB[.TASK]|[QSUB OPTIONS] SCRIPT", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--to", metavar="CLUSTER|QUEUE", help="The remote cluster, or one of several transfer queues to the cluster."
)
@click.option("--config", "path", metavar="FILE", default=CONFIG, show_default=True, help="Configuration file.")
@JSON
def explain(words: tuple[str, ...], to: str | None, path: str, is_json: bool) -> None:
    """Print how a job would be submitted to another cluster, without submitting the job.

    JOB is a job that qstat lists, or a task of an array. Other arguments go to `qsub -verify`: a script, with options
    before the script and arguments behind the script. Put `--` first if an option is also an option of this command.
    The options -clear and -@ are refused, because with them qsub could submit the job after all.

    The command translates the job's request by [map.CLUSTER.KIND.NAME] and `asks` of [queue.NAME] in the present
    gridbridge.toml. The command also says why the transfer queue would not take the job: by [cluster.CLUSTER.users], by
    the queue's user_lists, pe_list and slots, or by the job's own options (-q, -l remote=false). Of a range of slots
    the largest number is shown; a parallel environment with a wildcard is shown unchanged. Exit status: 0 done; 1 the
    job can't be transferred, with the reason; 2 an error.

    \b
    Example:
      gridbridge explain 12 --to beta
      gridbridge explain --to beta -l h_rt=1:0:0 -pe smp 4 job.sh
    """
    if to is None:
        clusters = " or ".join(clusters_with_transfer_queues(path))
        right = f"expected --to with {clusters}" if clusters else "no transfer queue of this site leads to a cluster"
        raise click.UsageError(f"no --to; {right}")
    explanation = explain_submission(words, to, path)
    if is_json:
        output_and_errors.print_json(to_json_types(explanation))
    elif not explanation.refused:
        output_and_errors.print_line(explanation.command)
        for note in explanation.notes:
            output_and_errors.print_line(f"# {note}")
    if explanation.refused:
        job = f"job {explanation.job}" if explanation.job else "this job"
        output_and_errors.print_error(f"gridbridge: {job} can't go to {explanation.cluster}: {explanation.refused}")
        raise SystemExit(REFUSED)
