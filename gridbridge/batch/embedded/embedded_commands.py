"""Builds command lines of the embedded cluster's program from values."""

from gridbridge.model.job_request import (
    YIELDS,
    JobRequest,
    JobSpec,
    is_home_only_resource,
    split_property_and_sql_relation,
)
from gridbridge.model.transfer_route import EmbeddedClusterAccess

Argv = tuple[str, ...]
OWN = "embedded"  # the queue of the cluster's own slots
WALLTIME = "h_rt"  # the name of the walltime resource


def submit_held_job_command(folder: EmbeddedClusterAccess, spec: JobSpec) -> Argv:
    """Build the command that submits a held job, with its script on standard input.

    An array uses only the cluster's own slots, because a campaign's task is never transferred to
    another cluster again.
    """
    names = (f"--name={spec.transfer}", f"--account={spec.transfer}", "--held")
    options = (f"--shell={spec.shell}", f"--cwd={spec.cwd}", f"--slots={spec.slots}")
    return _call(folder, "submit", *names, *options, *(_array(spec) if spec.tasks else ()))


def _array(spec: JobSpec) -> Argv:
    options: Argv = (f"--tasks={spec.tasks}", f"--queue={OWN}")
    options += tuple(f"--walltime={limit}" for name, limit in spec.request.hard if name == WALLTIME)
    return (*options, "--yields") if YIELDS in spec.request.types else options


def list_cluster_and_jobs_command(folder: EmbeddedClusterAccess) -> Argv:
    """Build the command that lists the cluster and all its jobs."""
    return _call(folder, "list")


def show_job_command(folder: EmbeddedClusterAccess, job: str) -> Argv:
    """Build the command that shows one job."""
    return _call(folder, "list", f"--job={job}")


def list_jobs_by_name_command(folder: EmbeddedClusterAccess, name: str) -> Argv:
    """Build the command that lists the jobs of a name."""
    return _call(folder, "list", f"--name={name}")


def show_job_end_command(folder: EmbeddedClusterAccess, job: str) -> Argv:
    """Build the command that shows how a job ended."""
    return _call(folder, "ended", job)


def rename_and_release_command(folder: EmbeddedClusterAccess, job: str, name: str) -> Argv:
    """Build the command that gives a held job its real name and releases it."""
    return _call(folder, "release", job, f"--name={name}")


def show_array_task_ends_command(folder: EmbeddedClusterAccess, array: str) -> Argv:
    """Build the command that shows the ends of an array's tasks."""
    return _call(folder, "ended", array, "--tasks")


def release_array_command(folder: EmbeddedClusterAccess, array: str, name: str) -> Argv:
    """Build the command that gives a held array its real name and releases its tasks."""
    return _call(folder, "release-array", array, f"--name={name}")


def delete_array_command(folder: EmbeddedClusterAccess, array: str, indices: str = "") -> Argv:
    """Build the command that deletes all tasks of an array, or the tasks with some indices."""
    return _call(folder, "delete-array", array, f"--places={indices}")


def job_control_command(folder: EmbeddedClusterAccess, verb: str, job: str) -> Argv:
    """Build the command that holds, releases, suspends, resumes or deletes a job."""
    return _call(folder, verb, job)


def keep_on_own_slots_command(folder: EmbeddedClusterAccess, job: str, reason: str) -> Argv:
    """Build the command that restricts a job to the cluster's own slots."""
    return _call(folder, "stay", job, f"--reason={reason}")


def pin_to_queue_command(folder: EmbeddedClusterAccess, job: str, queue: str) -> Argv:
    """Build the command that restricts a job to one queue, or lifts that restriction."""
    return _call(folder, "pin", job, f"--queue={queue}")


def explain_request_refusal(request: JobRequest, *, is_array: bool = False) -> str:
    """Return why an embedded cluster can't satisfy a request; empty if it can.

    The cluster has only slots, and walltimes for array tasks. Any other limit or resource is
    refused, because ignoring it would change the job.
    """
    ignored = (WALLTIME,) if is_array else ()
    unsupported = [name for name, _ in request.hard if not (is_home_only_resource(name) or name in ignored)]
    unsupported += [name for clause in request.either for name, _ in clause]
    unsupported = [split_property_and_sql_relation(name)[0] for name in unsupported]
    unsupported += ["checkpointing"] if request.checkpoint else []
    unsupported += ["-notify"] if request.notify else []
    return f"an embedded cluster has no {', '.join(unsupported)}" if unsupported else ""


def _call(folder: EmbeddedClusterAccess, *words: str) -> Argv:
    return (folder.python, "-I", "-m", "gridbridge.batch.embedded", folder.path, *words)
