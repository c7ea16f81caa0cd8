"""Carries a job's files to a cluster without a shared filesystem, and back.

Each step may be killed anywhere and is then repeated. Inputs go into a remote folder with the
transfer's name before the job's release. Outputs go to their places at home, the streams once;
then the folder is removed.
"""

import errno
import os

from gridbridge.errors import GridbridgeError, UnstageablePaths
from gridbridge.model import transfer_message
from gridbridge.model.job_request import JobRequest
from gridbridge.model.transfer import staged_paths
from gridbridge.model.transfer_message import MAX_BYTES
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import remote_stage_folder as folder
from gridbridge.shell import rsync, safe_files
from gridbridge.transfer.starter import starter_step_and_answers, task_notes
from gridbridge.transfer.starter.local_task import LocalTask, own_login_name

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gridbridge.transfer.starter.starter_step_and_answers import StarterStepContext

STDIN, STREAMS = "stdin", ("stdout", "stderr")  # file names in the remote staging folder
HOME = "home"  # the note that all outputs are at home and verified
CARRIED = "carried"  # the note that all inputs are at the remote cluster
NOTE = "stage"
BEHIND = "/./"  # mark before the part of a path that rsync recreates (rsync(1), --relative)
SHORT_BYTES = 1 << 20  # largest size of a stream that is fetched without rsync
LONG_S = 40.0  # timeout for listing or removing a remote folder


class RemoteStagingFolder:
    """A job's remote folder for carried files, and the job's lists of files to carry."""

    __slots__ = ("cwd", "folder", "stage_in", "stage_out")

    def __init__(self, *, folder: str, cwd: str, stage_in: str = "", stage_out: str = "") -> None:
        self.folder = folder
        self.cwd = cwd
        self.stage_in = stage_in
        self.stage_out = stage_out


def begin_file_staging(step: "StarterStepContext", request: JobRequest, config: dict[str, str]) -> str:
    """Note the files to carry and create the remote folder; return the folder's path.

    If an earlier starter already submitted the job, only the note is written. Raises
    UnstageablePaths, before the folder is created, for a wrong list or a missing input.
    """
    stage = _declared(step, request, config)
    step.record = step.record.but(stage=stage.folder)
    _note(step.task, stage)
    if step.record.remote_id:
        # A released remote job has all its inputs.
        if not step.far.find_held_job(step.away, step.record.transfer, _login(step).user):
            step.task.note_done(CARRIED)
        return ""
    for key in (staged_paths.IN, staged_paths.OUT):
        if wrong := staged_paths.staging_path_list_problem(key, getattr(stage, key)):
            raise UnstageablePaths(wrong)
    _refuse_missing(step.task, stage)
    step.note()
    try:
        return folder.make_remote_stage_folder(_login(step), stage.folder, step.away.timeout_s)
    except UnstageablePaths as error:
        if not stage.folder.startswith("/"):
            raise
        starter_step_and_answers.log_step_error(error)
        return _make_at_home(step, stage)


def _make_at_home(step: "StarterStepContext", stage: RemoteStagingFolder) -> str:
    """Create and note a private folder below the remote home directory."""
    stage.folder = f"{folder.STAGE_DIR}/{step.record.transfer}"
    _note(step.task, stage)
    step.note(stage=stage.folder)
    return folder.make_remote_stage_folder(_login(step), stage.folder, step.away.timeout_s)


def carry_inputs_to_remote_folder(step: "StarterStepContext") -> bool:
    """Carry the inputs to the remote folder; False if the local job was deleted.

    Raises UnstageablePaths when an input is gone, CommandFailed when a retry is needed.
    """
    task, login, at = step.task, _login(step), step.record.stage
    if task.is_done(CARRIED):
        return True
    stage = _staging_note(task)
    _refuse_missing(task, stage)
    source = _standard_input(task)
    names = [_source(stage, path) for path in staged_paths.decode_staging_path_list(staged_paths.IN, stage.stage_in)]
    if source or names:
        folder.restore_remote_stage_folder(login, at, step.away.timeout_s)
    if source and not rsync.rsync_file_to_remote_path(login, source, f"{at}/{STDIN}", task.is_dead):
        return False
    if names and not rsync.rsync_files_to_host(login, names, f"{at}/{folder.WORK}/", task.is_dead):
        return False
    task.note_done(CARRIED)
    return True


def fetch_remote_outputs_home(step: "StarterStepContext", has_run: bool) -> bool:
    """Bring the outputs home and remove the remote folder; False if the job was deleted.

    If the job has not run and its cluster is unreachable now, the service removes the folder later.
    """
    try:
        if has_run and not _bring_home(step):
            return False
        folder.remove_remote_stage_folder(_login(step), step.record.stage, LONG_S)
        step.note(stage="")
    except GridbridgeError as error:
        if has_run:
            raise
        starter_step_and_answers.log_step_error(error)
    return True


def _bring_home(step: "StarterStepContext") -> bool:
    """Carry the outputs home once; False if the local job was deleted meanwhile.

    Missing outputs are skipped, even all outputs if the folder is gone. A symlink is carried as
    the file or folder that the symlink leads to.
    """
    task, login, at = step.task, _login(step), step.record.stage
    if task.is_done(HOME):
        return True
    stage = _staging_note(task)
    outputs = [
        staged_paths.path_in_remote_job_folder(path)
        for path in staged_paths.decode_staging_path_list(staged_paths.OUT, stage.stage_out)
    ]
    names = (*STREAMS, *(f"{folder.WORK}/{name}" for name in outputs))
    present = folder.find_remote_files(login, at, names, LONG_S) or {}
    streams = [name for name in STREAMS if name in present]
    long = [name for name in streams if not _fetch(task, login, at, name)]
    if long and not rsync.rsync_files_from_host(login, long, at, f"{task.private}/", task.is_dead):
        return False
    links = {name: present.get(f"{folder.WORK}/{name}") for name in outputs}
    work, cwd = f"{at}/{folder.WORK}", f"{stage.cwd}/"
    for leads in (False, True):
        paths = [name for name, is_link in links.items() if is_link is leads]
        if paths and not rsync.rsync_files_from_host(login, paths, work, cwd, task.is_dead, leads):
            return False
    for name in streams:
        _append_once(f"{task.private}/{name}", task.env[f"SGE_{name.upper()}_PATH"])
    task.note_done(HOME)
    return True


def _fetch(task: LocalTask, login: SshLogin, at: str, name: str) -> bool:
    """Fetch a short stream over the open connection; False for a long stream."""
    data = folder.read_remote_file(login, at, name, SHORT_BYTES + 1, LONG_S)
    is_whole = len(data) <= SHORT_BYTES
    if is_whole:
        task_notes.write_note(f"{task.private}/{name}", data)
    return is_whole


def _declared(step: "StarterStepContext", request: JobRequest, config: dict[str, str]) -> RemoteStagingFolder:
    """Return the lists of files to carry; a job's list overrides its queue's list."""
    route = step.route
    lists = staged_paths.job_stage_in_and_out_paths(route.stage_in, route.stage_out, request.context)
    base = folder.remote_stage_parent(route.remote_stage_dir, _login(step).user or own_login_name())
    return RemoteStagingFolder(
        folder=step.record.stage or f"{base}/{step.record.transfer}",
        cwd=config["cwd"],
        stage_in=lists[staged_paths.IN],
        stage_out=lists[staged_paths.OUT],
    )


def _note(task: LocalTask, stage: RemoteStagingFolder) -> None:
    text = transfer_message.encode_key_value_lines({key: getattr(stage, key) for key in RemoteStagingFolder.__slots__})
    task_notes.write_note(f"{task.private}/{NOTE}", text)


def _staging_note(task: LocalTask) -> RemoteStagingFolder:
    data, _ = safe_files.read_file_only_owner_writes(f"{task.private}/{NOTE}", 16 * MAX_BYTES, os.getuid())
    return RemoteStagingFolder(**transfer_message.decode_key_value_lines(data, RemoteStagingFolder.__slots__))


def _login(step: "StarterStepContext") -> SshLogin:
    login = step.away.login
    assert login  # only routes with an ssh login carry files
    return login


def _standard_input(task: LocalTask) -> str:
    path = task.env["SGE_STDIN_PATH"]
    return "" if path.startswith("/dev/") else path


def _source(stage: RemoteStagingFolder, path: str) -> str:
    """Return an input's path for rsync, with `/./` before its name in the remote folder."""
    name = staged_paths.path_in_remote_job_folder(path)
    above = os.path.dirname(os.path.normpath(path)) if path.startswith("/") else stage.cwd
    return f"{os.path.normpath(above)}{BEHIND}{name}"


def _refuse_missing(task: LocalTask, stage: RemoteStagingFolder) -> None:
    """Raise UnstageablePaths for an unreadable input."""
    declared = [_source(stage, path) for path in staged_paths.decode_staging_path_list(staged_paths.IN, stage.stage_in)]
    for source in filter(None, [*declared, _standard_input(task)]):
        path = source.replace(BEHIND, "/")
        wrong = _wrong(path)
        if wrong:
            raise UnstageablePaths(f"{staged_paths.IN}: {path}: {wrong}")


def _wrong(path: str) -> str:
    """Return the reason why an input can't be carried; empty for a good input."""
    if not os.path.exists(path):
        return "a dangling symlink" if os.path.islink(path) else "no such file or folder"
    if not (os.path.isfile(path) or os.path.isdir(path)):
        return "neither a file nor a folder"
    if not os.access(path, os.R_OK):
        return "not readable"
    endless = next(_endless(path), "") if os.path.isdir(path) else ""
    return f"symlink {endless} leads to its parent folder" if endless else ""


def _endless(top: str) -> "Iterator[str]":
    """Yield symlinks to a parent folder, on which rsync would never end.

    Unreadable folders are skipped, as rsync reports such folders.
    """
    pending = [(top, _holders(os.path.realpath(top)))]
    while pending:
        path, above_it = pending.pop()
        try:
            below = [entry.path for entry in os.scandir(path) if entry.is_dir()]
            folders = [(child, _identity(child)) for child in below]
        except OSError:
            continue
        for child, identity in folders:
            if identity in above_it:
                yield child
            else:
                pending.append((child, above_it | {identity}))


def _holders(path: str) -> frozenset[tuple[int, int]]:
    """Return the device and inode numbers of a folder and all its parents."""
    ancestors = {_identity(path)}
    while path != "/":
        path = os.path.dirname(path)
        ancestors.add(_identity(path))
    return frozenset(ancestors)


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _append_once(fetched: str, path: str) -> None:
    """Append a fetched stream to the owner's file, which other programs may write to.

    A note keeps the offset of the first byte, so a repeated step continues behind the bytes that a
    killed step wrote. A pipe, device or unreadable file is simply appended to.
    """
    note = f"{fetched}.from"
    try:
        with open(fetched, "rb") as source, open(path, "ab") as target:
            if target.seekable():
                _lock(target.fileno())
                if (begun := task_notes.read_note_number(note)) is None:
                    task_notes.write_note(note, b"%d" % target.seek(0, os.SEEK_END))
                source.seek(0 if begun is None else _agreeing(fetched, path, int(begun)))
            while chunk := source.read(1 << 20):
                target.write(chunk)
    except OSError as error:
        raise GridbridgeError(f"{path}: {error.strerror}") from error


def _lock(descriptor: int) -> None:
    """Lock the output file against other tasks, if its filesystem has locks."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):
            raise


def _agreeing(fetched: str, path: str, begun: int) -> int:
    """Return how many fetched bytes the output file already has from `begun` on.

    Return 0 if other writers' bytes follow: duplicate output is better than lost output.
    """
    if not os.access(path, os.R_OK):
        return 0
    agreeing = 0
    with open(fetched, "rb") as fetched_file, open(path, "rb") as file:
        file.seek(begun)
        while ours := fetched_file.read(1 << 16):
            theirs = file.read(len(ours))
            if not ours.startswith(theirs):
                return 0
            agreeing += len(theirs)
            if len(theirs) < len(ours):
                break
    return agreeing
