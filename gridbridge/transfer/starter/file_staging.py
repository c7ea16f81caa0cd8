"""Copy a job's files to a cluster and its outputs home; each step may be killed and repeated."""

import errno
import os

from gridbridge.errors import GridbridgeError, UnstageablePaths
from gridbridge.model import transfer_messages_in_spool
from gridbridge.model.job_request import JobRequest
from gridbridge.model.transfer import staged_paths
from gridbridge.model.transfer_messages_in_spool import MAX_BYTES
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import remote_stage_folder, rsync, safe_files
from gridbridge.transfer.starter import starter_step_context, task_notes
from gridbridge.transfer.starter.local_task import LocalTask, own_login_name

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gridbridge.transfer.starter.starter_step_context import StarterStepContext

STDIN, STREAMS = "stdin", ("stdout", "stderr")
OUTPUTS_FETCHED_NOTE = "home"  # note that all outputs are at home
INPUTS_COPIED_NOTE = "carried"  # note that all inputs are at the remote cluster
STAGING_NOTE = "stage"
RSYNC_RELATIVE_MARK = "/./"  # rsync recreates the part of a path after this mark (rsync(1), --relative)
SHORT_BYTES = 1 << 20  # rsync fetches only standard streams larger than this
LONG_S = 40.0  # timeout of a command that lists or removes a remote folder


class RemoteStagingFolder:
    __slots__ = ("cwd", "folder", "stage_in", "stage_out")

    def __init__(self, *, folder: str, cwd: str, stage_in: str = "", stage_out: str = "") -> None:
        self.folder, self.cwd = folder, cwd
        self.stage_in, self.stage_out = stage_in, stage_out


def prepare_file_staging(step: "StarterStepContext", request: JobRequest, config: dict[str, str]) -> str:
    """Note which files to copy, and create the remote folder; return the folder's path.

    If the job was already submitted, only the note is written. Raises UnstageablePaths before it makes the folder.
    """
    stage = _staging_folder_of_job(step, request, config)
    step.record = step.record.with_changes(stage=stage.folder)
    _write_staging_note(step.task, stage)
    if step.record.remote_id:
        # A released remote job has all its inputs.
        if not step.far.find_held_job(step.away, step.record.transfer, _remote_ssh_login(step).user):
            step.task.note_step_done(INPUTS_COPIED_NOTE)
        return ""
    for key in (staged_paths.IN, staged_paths.OUT):
        if wrong := staged_paths.staging_path_list_problem(key, getattr(stage, key)):
            raise UnstageablePaths(wrong)
    _require_copyable_inputs(step.task, stage)
    step.save_and_send_record()
    try:
        return remote_stage_folder.make_remote_stage_folder(_remote_ssh_login(step), stage.folder, step.away.timeout_s)
    except UnstageablePaths as error:
        if not stage.folder.startswith("/"):
            raise
        starter_step_context.log_step_error(error)
        # path below the account's home directory
        stage.folder = f"{remote_stage_folder.STAGE_DIR}/{step.record.transfer}"
        _write_staging_note(step.task, stage)
        step.save_and_send_record(stage=stage.folder)
        return remote_stage_folder.make_remote_stage_folder(_remote_ssh_login(step), stage.folder, step.away.timeout_s)


def copy_inputs_to_remote_folder(step: "StarterStepContext") -> bool:
    """Copy the inputs; return False for a deleted local job, raise UnstageablePaths for a lost input."""
    task, login, at = step.task, _remote_ssh_login(step), step.record.stage
    if task.is_step_noted_done(INPUTS_COPIED_NOTE):
        return True
    stage = _read_staging_note(task)
    _require_copyable_inputs(task, stage)
    source = _standard_input_file(task)
    paths = staged_paths.decode_staging_path_list(staged_paths.IN, stage.stage_in)
    names = [_rsync_source_path(stage, path) for path in paths]
    if source or names:
        remote_stage_folder.restore_remote_stage_folder(login, at, step.away.timeout_s)
    if source and not rsync.rsync_file_to_remote_path(login, source, f"{at}/{STDIN}", task.was_local_job_deleted):
        return False
    if names and not rsync.rsync_files_to_host(
        login, names, f"{at}/{remote_stage_folder.WORK}/", task.was_local_job_deleted
    ):
        return False
    task.note_step_done(INPUTS_COPIED_NOTE)
    return True


def fetch_remote_outputs_home(step: "StarterStepContext", has_run: bool) -> bool:
    """Copy the outputs home, then remove the remote folder; return False if the local job was deleted."""
    try:
        if has_run and not _copy_outputs_home(step):
            return False
        remote_stage_folder.remove_remote_stage_folder(_remote_ssh_login(step), step.record.stage, LONG_S)
        step.save_and_send_record(stage="")
    except GridbridgeError as error:
        if has_run:
            raise
        starter_step_context.log_step_error(error)
    return True


def _copy_outputs_home(step: "StarterStepContext") -> bool:
    """Copy existing outputs home once, following symlinks; return False if the local job was deleted."""
    task, login, at = step.task, _remote_ssh_login(step), step.record.stage
    if task.is_step_noted_done(OUTPUTS_FETCHED_NOTE):
        return True
    stage = _read_staging_note(task)
    declared = staged_paths.decode_staging_path_list(staged_paths.OUT, stage.stage_out)
    outputs = [staged_paths.path_in_remote_job_folder(path) for path in declared]
    names = (*STREAMS, *(f"{remote_stage_folder.WORK}/{name}" for name in outputs))
    present = remote_stage_folder.find_existing_staged_files(login, at, names, LONG_S) or {}
    streams = [name for name in STREAMS if name in present]
    long = [name for name in streams if not _fetch_short_standard_stream(task, login, at, name)]
    if long and not rsync.rsync_files_from_host(login, long, at, f"{task.private}/", task.was_local_job_deleted):
        return False
    links = {name: present.get(f"{remote_stage_folder.WORK}/{name}") for name in outputs}
    work, cwd = f"{at}/{remote_stage_folder.WORK}", f"{stage.cwd}/"
    for leads in (False, True):
        paths = [name for name, is_link in links.items() if is_link is leads]
        if paths and not rsync.rsync_files_from_host(login, paths, work, cwd, task.was_local_job_deleted, leads):
            return False
    for name in streams:
        _append_standard_stream_once(f"{task.private}/{name}", task.env[f"SGE_{name.upper()}_PATH"])
    task.note_step_done(OUTPUTS_FETCHED_NOTE)
    return True


def _fetch_short_standard_stream(task: LocalTask, login: SshLogin, at: str, name: str) -> bool:
    data = remote_stage_folder.read_remote_file(login, at, name, SHORT_BYTES + 1, LONG_S)
    is_whole = len(data) <= SHORT_BYTES
    if is_whole:
        task_notes.write_note(f"{task.private}/{name}", data)
    return is_whole


def _staging_folder_of_job(
    step: "StarterStepContext", request: JobRequest, config: dict[str, str]
) -> RemoteStagingFolder:
    route = step.route
    lists = staged_paths.job_stage_in_and_out_paths(route.stage_in, route.stage_out, request.context)
    base = remote_stage_folder.parent_of_remote_stage_folder(
        route.remote_stage_dir, _remote_ssh_login(step).user or own_login_name()
    )
    return RemoteStagingFolder(
        folder=step.record.stage or f"{base}/{step.record.transfer}",
        cwd=config["cwd"],
        stage_in=lists[staged_paths.IN],
        stage_out=lists[staged_paths.OUT],
    )


def _write_staging_note(task: LocalTask, stage: RemoteStagingFolder) -> None:
    values = {key: getattr(stage, key) for key in RemoteStagingFolder.__slots__}
    text = transfer_messages_in_spool.encode_key_value_lines(values)
    task_notes.write_note(f"{task.private}/{STAGING_NOTE}", text)


def _read_staging_note(task: LocalTask) -> RemoteStagingFolder:
    data, _ = safe_files.read_file_only_owner_writes(f"{task.private}/{STAGING_NOTE}", 16 * MAX_BYTES, os.getuid())
    return RemoteStagingFolder(**transfer_messages_in_spool.decode_key_value_lines(data, RemoteStagingFolder.__slots__))


def _remote_ssh_login(step: "StarterStepContext") -> SshLogin:
    login = step.away.login
    assert login  # files are copied over ssh only
    return login


def _standard_input_file(task: LocalTask) -> str:
    path = task.env["SGE_STDIN_PATH"]
    return "" if path.startswith("/dev/") else path


def _rsync_source_path(stage: RemoteStagingFolder, path: str) -> str:
    """Return an input's path for rsync, with `/./` before the part that rsync recreates."""
    name = staged_paths.path_in_remote_job_folder(path)
    above = os.path.dirname(os.path.normpath(path)) if path.startswith("/") else stage.cwd
    return f"{os.path.normpath(above)}{RSYNC_RELATIVE_MARK}{name}"


def _require_copyable_inputs(task: LocalTask, stage: RemoteStagingFolder) -> None:
    paths = staged_paths.decode_staging_path_list(staged_paths.IN, stage.stage_in)
    declared = [_rsync_source_path(stage, path) for path in paths]
    for source in filter(None, [*declared, _standard_input_file(task)]):
        path = source.replace(RSYNC_RELATIVE_MARK, "/")
        if wrong := _why_input_is_uncopyable(path):
            raise UnstageablePaths(f"{staged_paths.IN}: {path}: {wrong}")


def _why_input_is_uncopyable(path: str) -> str:
    if not os.path.exists(path):
        return "a dangling symlink" if os.path.islink(path) else "no such file or folder"
    if not (os.path.isfile(path) or os.path.isdir(path)):
        return "neither a file nor a folder"
    if not os.access(path, os.R_OK):
        return "not readable"
    endless = next(_symlinks_to_parent_folder(path), "") if os.path.isdir(path) else ""
    return f"symlink {endless} leads to its parent folder" if endless else ""


def _symlinks_to_parent_folder(top: str) -> "Iterator[str]":
    """Yield symlinks to a parent folder, which rsync would follow forever; skip unreadable folders."""
    path, above = os.path.realpath(top), {_device_and_inode("/")}
    while path != "/":
        above.add(_device_and_inode(path))
        path = os.path.dirname(path)
    pending = [(top, frozenset(above))]
    while pending:
        path, above_it = pending.pop()
        try:
            below = [entry.path for entry in os.scandir(path) if entry.is_dir()]
            folders = [(child, _device_and_inode(child)) for child in below]
        except OSError:
            continue
        for child, identity in folders:
            if identity in above_it:
                yield child
            else:
                pending.append((child, above_it | {identity}))


def _device_and_inode(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _append_standard_stream_once(fetched: str, path: str) -> None:
    """Append a standard stream to the owner's file; other programs may also write to the file.

    A repeated step continues after its own bytes, but a pipe, device or unreadable file gets all bytes again.
    """
    note = f"{fetched}.from"
    try:
        with open(fetched, "rb") as source, open(path, "ab") as target:
            if target.seekable():
                _lock_output_file(target.fileno())
                if (begun := task_notes.read_note_number(note)) is None:
                    task_notes.write_note(note, b"%d" % target.seek(0, os.SEEK_END))
                source.seek(0 if begun is None else _count_stream_bytes_already_written(fetched, path, int(begun)))
            while chunk := source.read(1 << 20):
                target.write(chunk)
    except OSError as error:
        raise GridbridgeError(f"{path}: {error.strerror}") from error


def _lock_output_file(descriptor: int) -> None:
    """Lock the output file against other tasks, if its filesystem has locks."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):
            raise


def _count_stream_bytes_already_written(fetched: str, path: str, begin_offset: int) -> int:
    """Count the stream's bytes that the file already has after its first `begin_offset` bytes; 0 if they differ."""
    if not os.access(path, os.R_OK):
        return 0
    agreeing = 0
    with open(fetched, "rb") as fetched_file, open(path, "rb") as file:
        file.seek(begin_offset)
        while ours := fetched_file.read(1 << 16):
            theirs = file.read(len(ours))
            if not ours.startswith(theirs):
                return 0
            agreeing += len(theirs)
            if len(theirs) < len(ours):
                break
    return agreeing
