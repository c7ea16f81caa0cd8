"""qdel_remote: end jobs that are at another cluster, both halves of them."""

import click

from gridbridge.cli import error_boundary
from gridbridge.cli.options import CONFIG_FILE, FOLDER, JSON, VERSION
from gridbridge.transfer.cli.act_results import show_results
from gridbridge.transfer.remote_tools import qdel_remote as service
from gridbridge.transfer.remote_tools import remote_job

PATTERN = frozenset("*?[")  # qdel takes them (sge_types(1)); nobody's name has them


@click.command(context_settings={"help_option_names": ["-h", "--help", "-help"]})
@click.argument("jobs", metavar="JOB[.TASK]...", nargs=-1)
@click.option("-u", "owner", metavar="USER", help="All of USER's jobs that are away: your own.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Only say what would be deleted.")
@CONFIG_FILE
@FOLDER
@JSON
@VERSION
def qdel_remote(
    jobs: tuple[str, ...], owner: str, is_dry: bool, path: str, folder: str, is_json: bool
) -> None:
    """Delete your jobs that are at another cluster, here and there.

    It deletes the local job, and so the remote one: as qdel does, but only what is away. JOB alone
    of an array means its tasks that are away; those that wait here stay. A remote job whose local
    one is gone already is deleted by itself. There is no -f: what qdel -f forgets here would go
    on there; when the other cluster can't be reached the service deletes the job as soon as it
    can. Exit status: 0, 1 when something was not deleted, which is told, 2 for anything else.

    \b
    Example:
      qdel_remote 12 13.2
      qdel_remote -u alice
    """
    if bool(jobs) == bool(owner):
        raise click.UsageError("expected either JOB[.TASK]... or -u USER")
    if owner and PATTERN & set(owner):
        raise click.UsageError("-u takes no pattern; expected your own name")
    if owner:
        results = service.delete_all(owner, is_dry=is_dry, folder=folder, path=path)
    else:
        results = (
            result
            for job in remote_job.split(jobs)
            for result in service.delete(job, is_dry=is_dry, folder=folder, path=path)
        )
    show_results("qdel_remote", results, is_json)


def main() -> None:
    """Run it."""
    error_boundary.run(qdel_remote, "qdel_remote")
