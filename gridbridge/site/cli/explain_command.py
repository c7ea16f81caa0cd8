"""gridbridge explain: prints how a job would be submitted to another cluster, or why not."""

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import JSON
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.site.submission_explanation import clusters_with_transfer_queues, explain_submission
from gridbridge.state.published_json import to_json_types

REFUSED = 1


class QsubWordsCommand(click.Command):
    """A command with qsub's options: -h holds the job, and only a single -h prints the help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a single -h asks for the help."""
        return super().parse_args(ctx, ["--help"] if args == ["-h"] else args)


@click.command(cls=QsubWordsCommand, context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("words", metavar="JOB[.TASK]|[QSUB OPTIONS] SCRIPT", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--to", metavar="CLUSTER|QUEUE", help="The remote cluster, or a transfer queue where several lead to it.")
@click.option("--config", "path", metavar="FILE", default=CONFIG, show_default=True, help="Read this file.")
@JSON
def explain(words: tuple[str, ...], to: str | None, path: str, is_json: bool) -> None:
    """Print a job's submission to another cluster.

    This is what a transfer queue would submit there, with the request in the words of CLUSTER.
    [map.CLUSTER.KIND.NAME] and asks of [queue.NAME] in gridbridge.toml, as it is now, say which
    those are. Nothing is submitted. The command also says when the transfer queue would not take
    the job, by [cluster.CLUSTER.users] or by its own user_lists, pe_list and slots, and when the
    job's own words (-q, -l remote=false) keep it out of that queue.
    JOB is a job that qstat lists, or a task of an array; anything else is given to `qsub -verify`,
    which reads it as qsub would: a script, with options before it and arguments behind it. Put `--`
    before them if one of them is also an option of this command. The
    words -clear and -@ are refused, with which qsub could submit it after all. Of a range of slots
    the most are shown, a parallel environment with a wildcard as it was asked for.
    Exit status: 0, 1 when the job can't go there, which is told, 2 for anything else.

    \b
    Example:
      gridbridge explain 12 --to beta
      gridbridge explain --to beta -l h_rt=1:0:0 -pe smp 4 job.sh
    """
    if to is None:
        clusters = " or ".join(clusters_with_transfer_queues(path))
        right = f"expected --to with {clusters}" if clusters else "no transfer queue leads to a cluster"
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
