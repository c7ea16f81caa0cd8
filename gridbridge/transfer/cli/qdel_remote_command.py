"""The command qdel_remote: delete jobs that are at another cluster, both local and remote job."""

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FOLDER, JSON, VERSION
from gridbridge.errors import ParseError
from gridbridge.transfer.cli import qalter_and_qdel_remote
from gridbridge.transfer.cli.owner_remote_job_access import JobWithTasks
from gridbridge.transfer.cli.remote_tool_arguments import parse_job_with_tasks

PATTERN = frozenset("*?[")  # characters that turn a user name into a pattern (sge_types(1))


@click.command(context_settings={"help_option_names": ["-h", "--help", "-help"]})
@click.argument("jobs", metavar="JOB[.TASKS]...", nargs=-1)
@click.option("-t", "ranges", metavar="TASKS", default="", help="Delete only these tasks of JOB, such as 2-3 or 1-9:2.")
@click.option(
    "-u", "owner", metavar="USER", help="Delete all your jobs that are at other clusters; USER is your own name."
)
@click.option("--dry-run", "is_dry", is_flag=True, help="Only show the jobs to delete.")
@CONFIG_FILE
@FOLDER
@JSON
@VERSION
def qdel_remote(
    jobs: tuple[str, ...], ranges: str, owner: str, is_dry: bool, path: str, folder: str, is_json: bool
) -> None:
    """Delete your jobs that are at another cluster, both local and remote jobs.

    The command deletes the local job, whose end deletes the remote job. Jobs that wait or run at home stay. JOB
    alone means the tasks of an array that are at another cluster, and 147.2-3 means tasks 2 and 3. A remote job
    without a local job is deleted directly. There is no -f: a remote job would outlive `qdel -f`. If the remote
    cluster is unreachable, the service deletes the job as soon as possible. Exit status: 0, 1 when something
    was not deleted, with a message, 2 for other errors.

    \b
    Example:
      qdel_remote 12 13.2 147.2-3
      qdel_remote 147 -t 2-3
      qdel_remote -u alice
    """
    if bool(jobs) == bool(owner):
        raise click.UsageError("expected either JOB[.TASK]... or -u USER")
    if ranges and (owner or len(jobs) != 1 or "," in jobs[0]):
        raise click.UsageError("-t needs exactly one JOB; for several jobs type 147.2-3 148.1")
    if owner and PATTERN & set(owner):
        raise click.UsageError("-u takes no pattern; expected your own name")
    if owner:
        results = qalter_and_qdel_remote.delete_owner_transferred_jobs(owner, is_dry=is_dry, folder=folder, path=path)
    else:
        results = (
            result
            for job in _parse_jobs_with_tasks(jobs, ranges)
            for result in qalter_and_qdel_remote.delete_transferred_tasks(job, is_dry=is_dry, folder=folder, path=path)
        )
    qalter_and_qdel_remote.print_remote_job_act_results("qdel_remote", results, is_json)


def _parse_jobs_with_tasks(jobs: tuple[str, ...], ranges: str) -> list[JobWithTasks]:
    """Parse all jobs before the first is deleted; a comma separates jobs, except in -t."""
    words = [word for text in jobs for word in text.split(",") if word]
    if not words:
        raise ParseError(f"{', '.join(map(repr, jobs))}: no job id")
    return [parse_job_with_tasks(word, ranges) for word in words]


def main() -> None:
    output_and_errors.run_command_reporting_errors(qdel_remote, "qdel_remote")
