"""The command qalter_remote: change remote jobs that wait at another cluster."""

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FOLDER, JSON, VERSION
from gridbridge.model.job_request import Pairs
from gridbridge.transfer.cli import owner_remote_job_access, qalter_and_qdel_remote

SUPPORTED_OPTIONS = (
    *("-p", "-l", "-h", "--hold", "--release", "--dry-run"),
    *("--config", "--published", "--json", "--version"),
)
HINT_BY_QALTER_OPTION = {
    "-N": "the remote job's name is a copy: qalter -N changes the local job's name",
    "-P": "the mapping sets the remote project ([map.CLUSTER.project.NAME])",
    "-q": "the mapping sets the remote queues ([map.CLUSTER.queue.NAME])",
    "-A": "the remote account is the transfer's name, by which the job is found",
    "-pe": "the slots were granted at home: qdel_remote the job and submit it again",
    "-m": "the home cluster sends the mail: qalter -m",
    "-M": "the home cluster sends the mail: qalter -M",
    "-o": "the output files are already set: qdel_remote the job and submit it again",
    "-e": "the output files are already set: qdel_remote the job and submit it again",
    "-r": "the home cluster decides whether the job runs again: qalter -r",
    "-hold_jid": "the job has already waited for other jobs at home",
    "-a": "the job has already waited for its start time at home",
}


class QalterRemoteCommand(click.Command):
    """A click command with a hint for each option of qalter that qalter_remote lacks."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[-1:] == ["-h"]:
            raise click.UsageError("-h: no value; expected u, U or n (--help shows the help)")
        for word in args:
            name = word.partition("=")[0] if word.startswith("--") else word
            if word.startswith("-") and name not in (*SUPPORTED_OPTIONS, "--help", "-help") and not word[1:].isdigit():
                hint = "expected -p, -l or -h, which change a waiting remote job"
                raise click.UsageError(f"no {word}: {HINT_BY_QALTER_OPTION.get(word, hint)}")
        return super().parse_args(ctx, args)


def _parse_resource_requests(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> Pairs | None:
    words = [word for text in value for word in text.split(",")]
    pairs = tuple((name, amount) for name, _, amount in (word.partition("=") for word in words))
    if not all(name for name, _ in pairs):
        raise click.BadParameter("name=value,..., as qsub -l takes it")
    return pairs or None


@click.command(cls=QalterRemoteCommand, context_settings={"help_option_names": ["--help", "-help"]})
@click.argument("job", metavar="JOB[.TASK]")
@click.option("-p", "priority", metavar="N", type=click.IntRange(-1023, 1024), help="Set priority.")
@click.option(
    *("-l", "resources"),
    metavar="NAME=VALUE,...",
    multiple=True,
    callback=_parse_resource_requests,
    help="Replace all hard resource requests; NAME is a resource at home.",
)
@click.option(*("-h", "hold"), type=click.Choice(["u", "U", "n"]), help="u: hold; U or n: release.")
@click.option("--hold", "hold", flag_value="u", help="Same as -h u.")
@click.option("--release", "hold", flag_value="U", help="Same as -h U.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Only print the command line.")
@CONFIG_FILE
@FOLDER
@JSON
@VERSION
def qalter_remote(
    job: str,
    priority: int | None,
    resources: Pairs | None,
    hold: str | None,
    is_dry: bool,
    path: str,
    folder: str,
    is_json: bool,
) -> None:
    """Change your job that waits at another cluster.

    The remote job is changed. The local job's request stays, and applies if the job comes home.
    The mapping rules translate resources to the remote cluster's names. JOB alone means all tasks
    of an array that are at another cluster. Exit status: 0, 1 when something was not changed,
    with a message, 2 for any other error, such as an option of qalter that is not supported.

    \b
    Example:
      qalter_remote 12 -p -100
      qalter_remote 12.3 -l h_rt=3600,mem=2G
      qalter_remote 12 -h u
    """
    if priority is None and resources is None and hold is None:
        raise click.UsageError("nothing to change; expected -p, -l or -h")
    job, *others = owner_remote_job_access.parse_job_list((job,))
    if others:
        raise click.UsageError("several jobs; expected one JOB or JOB.TASK")
    hold = "U" if hold == "n" else hold
    change = qalter_and_qdel_remote.RemoteJobRequestChange(priority=priority, resources=resources, hold=hold)
    results = qalter_and_qdel_remote.alter_remote_tasks(job, change, is_dry=is_dry, folder=folder, path=path)
    qalter_and_qdel_remote.print_remote_job_act_results("qalter_remote", results, is_json)


def main() -> None:
    output_and_errors.run_command_reporting_errors(qalter_remote, "qalter_remote")
