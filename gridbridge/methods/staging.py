"""What is carried for a job whose cluster sees none of our files: before its release, and back.

Each part may be killed anywhere and is then done again: inputs go into a folder under the
transfer's name, in which the job can't have started; outputs come home to where they belong,
the streams once; only then is the folder removed. Loaded for such jobs alone.
"""

import os

from gridbridge.batch.gridengine.request import Request
from gridbridge.errors import GridbridgeError, Unstageable
from gridbridge.methods.task import Task
from gridbridge.model import lines, staging
from gridbridge.model.message import MAX_BYTES
from gridbridge.model.route import Away, Login, Route
from gridbridge.shell import files, folder, rsync

STDIN, STREAMS = "stdin", ("stdout", "stderr")  # in the folder, beside the working directory
HOME = "home"  # the note that all is here, and proved
NOTE = "stage"
LONG_S = 40.0  # of looking into a folder, and of removing it; as_user.LIMIT_S holds too


class Stage:
    """The folder there and what goes into it, and comes out of it; lists as they were declared."""

    __slots__ = ("cwd", "folder", "stage_in", "stage_out")

    def __init__(self, *, folder: str, cwd: str, stage_in: str = "", stage_out: str = "") -> None:
        self.folder = folder
        self.cwd = cwd
        self.stage_in = stage_in
        self.stage_out = stage_out


def declare(
    task: Task, route: Route, request: Request, config: dict[str, str], transfer: str
) -> Stage:
    """Note and return what is carried; what the job says goes before what its queue does.

    Raises Unstageable when a list is wrong, or an input is not there.
    """
    told = {staging.IN: route.stage_in, staging.OUT: route.stage_out} | dict(request.context)
    stage = Stage(
        folder=f"{route.remote_stage_dir or folder.STAGE_DIR}/{transfer}",
        cwd=config["cwd"],
        stage_in=told[staging.IN],
        stage_out=told[staging.OUT],
    )
    for key in (staging.IN, staging.OUT):
        if wrong := staging.fault(key, told[key]):
            raise Unstageable(wrong)
    text = lines.encode({key: getattr(stage, key) for key in Stage.__slots__})
    files.replace(f"{task.private}/{NOTE}", text, durable=False)
    return stage


def prepare(task: Task, away: Away, stage: Stage) -> str:
    """Make the folder there; return its path. Nothing is made when an input is not here."""
    _refuse_missing(task, stage)
    return folder.make(_login(away), stage.folder, away.timeout_s)


def bring_in(task: Task, away: Away, at: str) -> bool:
    """Carry the inputs there; False when the job was deleted meanwhile.

    Raises Unstageable when one is not there any more, CommandFailed when it has to be tried again.
    """
    stage, login = _noted(task), _login(away)
    _refuse_missing(task, stage)
    source = _standard_input(task)
    if source and not rsync.push_one(login, source, f"{at}/{STDIN}", task.is_dead):
        return False
    names = [_source(stage, path) for path in staging.paths(staging.IN, stage.stage_in)]
    target = f"{at}/{folder.WORK}/"
    return not names or rsync.push(login, names, target, task.is_dead)


def bring_home(task: Task, away: Away, at: str) -> bool:
    """Carry the outputs home, once; False when the job was deleted meanwhile.

    A declared output that the job did not make is none, and so is all when the folder is gone.
    """
    if os.path.exists(f"{task.private}/{HOME}"):
        return True
    stage, login = _noted(task), _login(away)
    outputs = [staging.name_of(path) for path in staging.paths(staging.OUT, stage.stage_out)]
    names = (*STREAMS, *(f"{folder.WORK}/{name}" for name in outputs))
    found = folder.present(login, at, names, LONG_S) or ()
    streams = [name for name in STREAMS if name in found]
    made = [name for name in outputs if f"{folder.WORK}/{name}" in found]
    if streams and not rsync.pull(login, streams, at, f"{task.private}/", task.is_dead):
        return False
    whole = f"{at}/{folder.WORK}"
    if made and not rsync.pull(login, made, whole, f"{stage.cwd}/", task.is_dead):
        return False
    for name in streams:
        _append_once(f"{task.private}/{name}", task.env[f"SGE_{name.upper()}_PATH"])
    files.replace(f"{task.private}/{HOME}", b"", durable=False)
    return True


def clear(away: Away, at: str) -> None:
    """Remove the folder there."""
    folder.remove(_login(away), at, LONG_S)


def _noted(task: Task) -> Stage:
    data, _ = files.read(f"{task.private}/{NOTE}", 16 * MAX_BYTES, os.getuid())
    return Stage(**lines.decode(data, Stage.__slots__))


def _login(away: Away) -> Login:
    assert away.login  # job.is_staged
    return away.login


def _standard_input(task: Task) -> str:
    path = task.env["SGE_STDIN_PATH"]
    return "" if path.startswith("/dev/") else path


def _source(stage: Stage, path: str) -> str:
    """Return an input as rsync takes it: what stands behind `/./` is its name there."""
    name = staging.name_of(path)
    above = os.path.dirname(path.rstrip("/")) if path.startswith("/") else stage.cwd
    return f"{above}/./{name}"


def _refuse_missing(task: Task, stage: Stage) -> None:
    """Tell of an input that can't be read before anything depends on it."""
    declared = [_source(stage, path) for path in staging.paths(staging.IN, stage.stage_in)]
    for source in filter(None, [*declared, _standard_input(task)]):
        path = source.replace("/./", "/")
        if not os.access(path, os.R_OK):
            wrong = "can not be read" if os.path.lexists(path) else "no such file or folder"
            raise Unstageable(f"{staging.IN}: {path}: {wrong}")


def _append_once(fetched: str, path: str) -> None:
    """Append what came to a file of the owner's, which may have had content, and others' too.

    Where we began is noted before; a step that was killed there goes on behind what agrees.
    """
    try:
        with open(fetched, "rb") as source, open(path, "ab") as target:
            begun = _begun(f"{fetched}.from", target.tell())
            source.seek(_agreeing(fetched, path, begun))
            while chunk := source.read(1 << 20):
                target.write(chunk)
    except OSError as error:
        raise GridbridgeError(f"{path}: {error.strerror}") from error


def _begun(note: str, now: int) -> int:
    if not os.path.exists(note):
        files.replace(note, b"%d" % now, durable=False)
    return int(files.read(note, 20)[0])


def _agreeing(fetched: str, path: str, begun: int) -> int:
    """Return how many bytes of a file stand in another behind a place, from its beginning."""
    agreeing = 0
    with open(fetched, "rb") as one, open(path, "rb") as other:
        other.seek(begun)
        while ours := one.read(1 << 16):
            if ours != (theirs := other.read(len(ours))):
                unlike = (
                    at
                    for at, pair in enumerate(zip(ours, theirs, strict=False))
                    if pair[0] != pair[1]
                )
                return agreeing + next(unlike, len(theirs))
            agreeing += len(ours)
    return agreeing
