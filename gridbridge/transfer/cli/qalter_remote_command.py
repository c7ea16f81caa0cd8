"""qalter_remote: change the remote half of jobs that wait at another cluster."""

from collections.abc import Sequence

import click

from gridbridge.cli import error_boundary
from gridbridge.cli.options import CONFIG_FILE, FOLDER, JSON, VERSION
from gridbridge.model.request import Pairs
from gridbridge.transfer.cli.act_results import show_results
from gridbridge.transfer.remote_tools import qalter_remote as service
from gridbridge.transfer.remote_tools import remote_job

OWN = (
    *("-p", "-l", "-h", "--hold", "--release", "--dry-run"),
    *("--config", "--published", "--json", "--version"),
)
INSTEAD = {  # of qalter's other options
    "-N": "its name there is a copy: qalter -N changes the job's own name here",
    "-P": "its project there is the mapping's ([map.CLUSTER.project.NAME])",
    "-q": "its queues there are the mapping's ([map.CLUSTER.queue.NAME])",
    "-A": "its account there is the transfer's name, by which it is found",
    "-pe": "its slots were granted here: qdel_remote it and submit it anew",
    "-m": "mail is sent from here: qalter -m",
    "-M": "mail is sent from here: qalter -M",
    "-o": "its files were opened from here: qdel_remote it and submit it anew",
    "-e": "its files were opened from here: qdel_remote it and submit it anew",
    "-r": "whether it runs again is decided here: qalter -r",
    "-hold_jid": "it has waited for other jobs here already",
    "-a": "it has waited for its time here already",
}


class QalterCommand(click.Command):
    """For options that we lack it says what to do instead; qalter's options have one dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that are qalter's but not ours."""
        if args[-1:] == ["-h"]:
            raise click.UsageError("-h needs u, U or n, as of qalter; the help is --help")
        for word in args:
            name = word.partition("=")[0] if word.startswith("--") else word
            if (
                word.startswith("-")
                and name not in (*OWN, "--help", "-help")
                and not word[1:].isdigit()
            ):
                hint = "this changes -p, -l and -h of what waits there"
                raise click.UsageError(f"no {word}: {INSTEAD.get(word, hint)}")
        return super().parse_args(ctx, args)


def _resources(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> Pairs | None:
    """Read `name=value,name`; several -l are one list."""
    words = [word for text in value for word in text.split(",")]
    pairs = tuple((name, amount) for name, _, amount in (word.partition("=") for word in words))
    if not all(name for name, _ in pairs):
        raise click.BadParameter("name=value,..., as qsub -l takes it")
    return pairs or None


@click.command(cls=QalterCommand, context_settings={"help_option_names": ["--help", "-help"]})
@click.argument("job", metavar="JOB[.TASK]")
@click.option("-p", "priority", metavar="N", type=click.IntRange(-1023, 1024), help="Its priority.")
@click.option(
    *("-l", "resources"),
    metavar="NAME=VALUE,...",
    multiple=True,
    callback=_resources,
    help="Its hard requests, all of them anew, in the words of home.",
)
@click.option(
    *("-h", "hold"), type=click.Choice(["u", "U", "n"]), help="u holds it, U or n releases it."
)
@click.option("--hold", "hold", flag_value="u", help="As -h u.")
@click.option("--release", "hold", flag_value="U", help="As -h U.")
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

    The remote job is changed, as yourself: what it asks for here stays, and holds if it comes
    home. Resources are brought into the words of that cluster by its mapping. JOB alone of an
    array means all tasks of it that are away. Exit status: 0, 1 when something was not changed,
    which is told, 2 for anything else, such as options of qalter that have no meaning there.

    \b
    Example:
      qalter_remote 12 -p -100
      qalter_remote 12.3 -l h_rt=3600,mem=2G
      qalter_remote 12 -h u
    """
    if priority is None and resources is None and hold is None:
        raise click.UsageError("nothing to change; expected -p, -l or -h")
    (job,) = _single(job)
    change = service.RequestChange(
        priority=priority, resources=resources, hold="U" if hold == "n" else hold
    )
    results = service.alter(job, change, is_dry=is_dry, folder=folder, path=path)
    show_results("qalter_remote", results, is_json)


def _single(job: str) -> Sequence[str]:
    jobs = remote_job.split((job,))
    if len(jobs) > 1:
        raise click.UsageError("one job, or one task of it")
    return jobs


def main() -> None:
    """Run it."""
    error_boundary.run(qalter_remote, "qalter_remote")
