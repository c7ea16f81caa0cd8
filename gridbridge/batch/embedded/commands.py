"""Command lines of the embedded cluster's program: pure, from values to argv."""

from gridbridge.model.places import is_place
from gridbridge.model.request import JobSpec, Request
from gridbridge.model.route import Folder

Argv = tuple[str, ...]


def submit_held(folder: Folder, spec: JobSpec) -> Argv:
    """Submit the script on standard input, held and under the transfer's name."""
    names = (f"--name={spec.transfer}", f"--account={spec.transfer}", "--held")
    place = (f"--shell={spec.shell}", f"--cwd={spec.cwd}", f"--slots={spec.slots}")
    return _call(folder, "submit", *names, *place)


def show(folder: Folder) -> Argv:
    """Show the cluster and all its jobs."""
    return _call(folder, "list")


def show_job(folder: Folder, job: str) -> Argv:
    """Show one job."""
    return _call(folder, "list", f"--job={job}")


def show_named(folder: Folder, name: str) -> Argv:
    """Show the jobs of a name."""
    return _call(folder, "list", f"--name={name}")


def ended(folder: Folder, job: str) -> Argv:
    """Show how a job ended."""
    return _call(folder, "ended", job)


def release_as(folder: Folder, job: str, name: str) -> Argv:
    """Give a held job its real name and let it run."""
    return _call(folder, "release", job, f"--name={name}")


def act(folder: Folder, verb: str, job: str) -> Argv:
    """Do one thing to a job: hold, release, suspend, resume or delete it."""
    return _call(folder, verb, job)


def stay(folder: Folder, job: str, reason: str) -> Argv:
    """Let a job start in the cluster's own slots only."""
    return _call(folder, "stay", job, f"--reason={reason}")


def pin(folder: Folder, job: str, queue: str) -> Argv:
    """Let a job start in one queue only, or in those that it asked for."""
    return _call(folder, "pin", job, f"--queue={queue}")


def refusal(request: Request) -> str:
    """Return why the cluster can't give what a job asked for; empty when it can.

    It has slots and nothing else: a limit or resource that it ignored would change the job.
    """
    asked = [name for name, _ in request.hard if not is_place(name)]
    asked += ["checkpointing"] if request.checkpoint else []
    asked += ["-notify"] if request.notify else []
    return f"an embedded cluster has no {', '.join(asked)}" if asked else ""


def _call(folder: Folder, *words: str) -> Argv:
    return (folder.python, "-I", "-m", "gridbridge.batch.embedded", folder.path, *words)
