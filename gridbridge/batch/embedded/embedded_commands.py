"""Command lines of the embedded cluster's program: pure, from values to argv."""

from gridbridge.model.request import YIELDS, JobRequest, JobSpec, is_home_place, split_relation
from gridbridge.model.route import EmbeddedFolder

Argv = tuple[str, ...]
OWN = "embedded"  # the queue of the cluster's own slots
WALLTIME = "h_rt"  # the resource that is a task's walltime


def submit_held(folder: EmbeddedFolder, spec: JobSpec) -> Argv:
    """Submit the script on standard input, held and under the transfer's name.

    An array stays in the cluster's own slots: a campaign's task is not sent on.
    """
    names = (f"--name={spec.transfer}", f"--account={spec.transfer}", "--held")
    options = (f"--shell={spec.shell}", f"--cwd={spec.cwd}", f"--slots={spec.slots}")
    return _call(folder, "submit", *names, *options, *(_array(spec) if spec.tasks else ()))


def _array(spec: JobSpec) -> Argv:
    options: Argv = (f"--tasks={spec.tasks}", f"--queue={OWN}")
    options += tuple(f"--walltime={limit}" for name, limit in spec.request.hard if name == WALLTIME)
    return (*options, "--yields") if YIELDS in spec.request.types else options


def show(folder: EmbeddedFolder) -> Argv:
    """Show the cluster and all its jobs."""
    return _call(folder, "list")


def show_job(folder: EmbeddedFolder, job: str) -> Argv:
    """Show one job."""
    return _call(folder, "list", f"--job={job}")


def show_named(folder: EmbeddedFolder, name: str) -> Argv:
    """Show the jobs of a name."""
    return _call(folder, "list", f"--name={name}")


def ended(folder: EmbeddedFolder, job: str) -> Argv:
    """Show how a job ended."""
    return _call(folder, "ended", job)


def release_as(folder: EmbeddedFolder, job: str, name: str) -> Argv:
    """Give a held job its real name and let it run."""
    return _call(folder, "release", job, f"--name={name}")


def ended_tasks(folder: EmbeddedFolder, array: str) -> Argv:
    """Show how the tasks of an array ended that did."""
    return _call(folder, "ended", array, "--tasks")


def release_array(folder: EmbeddedFolder, array: str, name: str) -> Argv:
    """Give a held array its real name and let its tasks run."""
    return _call(folder, "release-array", array, f"--name={name}")


def delete_array(folder: EmbeddedFolder, array: str, indices: str = "") -> Argv:
    """Delete the tasks of an array, or those at some places."""
    return _call(folder, "delete-array", array, f"--places={indices}")


def act(folder: EmbeddedFolder, verb: str, job: str) -> Argv:
    """Do one thing to a job: hold, release, suspend, resume or delete it."""
    return _call(folder, verb, job)


def stay(folder: EmbeddedFolder, job: str, reason: str) -> Argv:
    """Let a job start in the cluster's own slots only."""
    return _call(folder, "stay", job, f"--reason={reason}")


def pin(folder: EmbeddedFolder, job: str, queue: str) -> Argv:
    """Let a job start in one queue only, or in those that it asked for."""
    return _call(folder, "pin", job, f"--queue={queue}")


def refusal(request: JobRequest, *, is_array: bool = False) -> str:
    """Return why the cluster can't give what a job asked for; empty when it can.

    It has slots, for the tasks of arrays a walltime, and nothing else: a limit or resource that it
    ignored would change the job.
    """
    ignored = (WALLTIME,) if is_array else ()
    unsupported = [name for name, _ in request.hard if not (is_home_place(name) or name in ignored)]
    unsupported += [name for clause in request.either for name, _ in clause]
    unsupported = [split_relation(name)[0] for name in unsupported]
    unsupported += ["checkpointing"] if request.checkpoint else []
    unsupported += ["-notify"] if request.notify else []
    return f"an embedded cluster has no {', '.join(unsupported)}" if unsupported else ""


def _call(folder: EmbeddedFolder, *words: str) -> Argv:
    return (folder.python, "-I", "-m", "gridbridge.batch.embedded", folder.path, *words)
