"""Copies files to and from another host by rsync over ssh, with the key of a user.

File names go through standard input and rsync's protocol, so no shell reads them (--secluded-args).
"""

import os
import select
import time

from gridbridge.errors import CommandFailed, ProgramNotStarted, ProgramOutputTooLong
from gridbridge.model.transfer_route import BARE, SshLogin
from gridbridge.shell import program_runs, ssh

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROGRAM = "/usr/bin/rsync"
WITH_US = ("/usr/bin/setpriv", "--pdeathsig", "TERM")  # SIGTERM, because rsync then keeps its partial file
PARTIAL = ".gridbridge.partial"
OPTIONS = (
    *("--recursive", "--links", "--times", "--omit-dir-times", "--executability"),
    *("--checksum", "--secluded-args"),
)
BESIDE = (f"--partial-dir={PARTIAL}",)  # the old file stays until the new file is complete
IN_PLACE = ("--inplace", "--no-whole-file")  # options for folders that no job uses yet
PROGRESS = "--info=progress2"
LISTED = ("--from0", "--files-from=-")
INCOMPLETE = 23  # rsync(1): partial transfer due to error
SOME_FILES_ERRORS = (INCOMPLETE, 24)  # rsync(1): the other files were copied
FILE_ERROR = 11  # rsync(1): error in file I/O, which rsync may leave unexplained
UNREAD = "a file could not be read or written"
DANGLING = "symlink has no referent"
FOLLOWS = (
    "Broken pipe",
    "connection unexpectedly closed",
)  # rsync prints these messages only after a message that names the cause
LOOK_S = 0.5  # pause between two checks whether the job was deleted
SIGTERM, END_S = 15, 5
MAX_BYTES = 65536  # maximal bytes of rsync's error output that are shown
MOST_BYTES = 16 << 20  # largest error output of rsync: a line for each of 100,000 files
SILENCE_S = 3600  # rsync's timeout; rsync is silent during the checksum of a large file
LINE_BYTES = 200
REMOVAL_S = 600.0


class RsyncLimitAndProgress:
    """The bandwidth limit and progress of a copy in place; a killed copy continues at its last byte."""

    __slots__ = ("is_unwanted", "kib_per_s", "tell")

    def __init__(
        self,
        *,
        tell: "Callable[[str], None]",
        kib_per_s: int = 0,
        is_unwanted: "Callable[[], bool]" = lambda: False,
    ) -> None:
        self.kib_per_s = kib_per_s  # bandwidth limit; 0: no limit
        self.tell = tell  # called with rsync's last progress line
        self.is_unwanted = is_unwanted  # called as often as `tell`; a true answer ends the copy

    def rsync_options(self) -> tuple[str, ...]:
        limit = (f"--bwlimit={self.kib_per_s}",) if self.kib_per_s else ()
        return (*IN_PLACE, PROGRESS, *limit)


def rsync_files_to_host(
    login: SshLogin | None,
    names: "Iterable[str]",
    target: str,
    is_unwanted: "Callable[[], bool]",
    pace: RsyncLimitAndProgress | None = None,
) -> bool:
    """Copy local files into a remote folder; return False if the job was deleted in the meantime.

    The remote folder keeps the folders that follow `/./` in an absolute name. A symlink becomes a copy of its target,
    if any. Raises CommandFailed if a file did not arrive. Without a login, `target` is a local folder.
    """
    options = ("--copy-links", *LISTED)
    return _copy_with_rsync(login, options, names, "/", _rsync_location(login, target), is_unwanted, pace)


def rsync_file_to_remote_path(login: SshLogin, path: str, target: str, is_unwanted: "Callable[[], bool]") -> bool:
    """Copy a local file to a remote path; return False if the job was deleted meanwhile."""
    return _copy_with_rsync(login, ("--copy-links",), (), path, _rsync_location(login, target), is_unwanted)


def rsync_files_from_host(
    login: SshLogin,
    names: "Iterable[str]",
    source: str,
    target: str,
    is_unwanted: "Callable[[], bool]",
    leads: bool = False,
    may_miss: bool = False,
    pace: RsyncLimitAndProgress | None = None,
    follows: bool = True,
) -> bool:
    """Copy files from a remote folder; return False if the job was deleted meanwhile.

    Symlinks stay, or with `leads` become copies of their targets. Without `follows` no local symlink to a folder is
    followed, because another user may have made the symlink. With `may_miss` missing files are left out.
    """
    options = (*(("--keep-dirlinks",) if follows else ()), *LISTED)
    options += ("--copy-links",) if leads else ()
    options += ("--ignore-missing-args",) if may_miss else ()
    listed = (f"./{name}" for name in names)
    return _copy_with_rsync(login, options, listed, f"{_rsync_location(login, source)}/", target, is_unwanted, pace)


def remove_folder_tree(folder: str) -> None:
    """Remove a folder with all its content; files that can't be removed stay."""
    try:
        program_runs.run_program(("/bin/rm", "-rf", "--", folder), dict(BARE), REMOVAL_S)
    except CommandFailed:
        return


def _rsync_location(login: SshLogin | None, path: str) -> str:
    return f"{login.host}:{path}" if login else path


def _copy_with_rsync(
    login: SshLogin | None,
    options: tuple[str, ...],
    names: "Iterable[str]",
    source: str,
    target: str,
    is_unwanted: "Callable[[], bool]",
    pace: RsyncLimitAndProgress | None = None,
) -> bool:
    # no word of the ssh command contains a blank
    by = ("-e", " ".join(ssh.ssh_client_command(login))) if login else ()
    paced = pace.rsync_options() if pace else BESIDE
    patience = f"--timeout={SILENCE_S}"  # ends rsync if the host is dead or a mount is stale
    argv = (*WITH_US, PROGRAM, *OPTIONS, patience, *paced, *options, *by, "--", source, target)
    listed = "".join(f"{name}\0" for name in names).encode("utf-8", "surrogateescape")
    status, words = _run_rsync(argv, listed, is_unwanted, pace)
    if status is None:
        return False
    messages = [line for line in words.splitlines() if line]
    lines = [line for line in messages if not line.startswith("rsync error:")]
    only_dangling = lines and all(line.startswith(DANGLING) for line in lines)
    if status == 0 or (status == INCOMPLETE and only_dangling):
        return True
    host = login.host if login else ""
    explained = ssh.ssh_failure_advice(login, words.encode()) if login else ""
    ended = UNREAD if status == FILE_ERROR else f"exit status {status}"
    why = explained or _cause_of_rsync_failure(lines or messages, host) or ended
    raise CommandFailed((PROGRAM,), status, stderr=why.encode(), host=host, transient=True)


def _cause_of_rsync_failure(lines: list[str], host: str) -> str:
    """Return rsync's first error line that tells a cause.

    For a remote copy without such a line, the text says that the connection was lost.
    """
    telling = [line for line in lines if not line.startswith(DANGLING)]
    causes = [line for line in telling if not any(words in line for words in FOLLOWS)]
    if telling and host and not causes:
        return f"the connection to {host} was lost"
    return (causes or telling or lines or [""])[0].removeprefix("rsync: ")


def _run_rsync(
    argv: tuple[str, ...], stdin: bytes, is_unwanted: "Callable[[], bool]", pace: RsyncLimitAndProgress | None
) -> tuple[int | None, str]:
    source = program_runs.open_memory_file(stdin)
    ours, theirs = program_runs.open_output_pipes()
    printed = RsyncProgressAndErrors(*ours)

    def report_progress_and_check_unwanted() -> bool:
        if pace:
            pace.tell(printed.rsync_progress_line())
        return is_unwanted()

    try:
        output = theirs[0] if pace else theirs[1]  # progress lines explain no failure
        pid = program_runs.spawn_program(argv, BARE, [source, output, theirs[1]])
    except OSError as error:
        program_runs.close_file_descriptors(ours)
        raise ProgramNotStarted(argv, error) from error
    finally:
        program_runs.close_file_descriptors([source, *theirs])
    try:
        return _wait_for_rsync_end(pid, printed, report_progress_and_check_unwanted), printed.rsync_error_text()
    except OverflowError as error:
        program_runs.kill_program_session(pid)
        raise ProgramOutputTooLong((PROGRAM,), MOST_BYTES) from error
    finally:
        program_runs.close_file_descriptors(ours)


class RsyncProgressAndErrors:
    def __init__(self, output: int, errors: int) -> None:
        self._output, self.unread = output, {output, errors}
        self._line = b""
        self._words = bytearray()

    def read_rsync_output(self, end: int) -> bool:
        """Read from one pipe; say whether the pipe is still open. Raises OverflowError for too much output."""
        chunk = os.read(end, program_runs.CHUNK_BYTES)
        if end == self._output:
            self._line = (self._line + chunk)[-LINE_BYTES:]
        else:
            self._words += chunk
        if len(self._words) > MOST_BYTES:
            raise OverflowError
        if not chunk:
            self.unread.discard(end)
        return bool(chunk)

    def read_rest_of_rsync_output(self) -> None:
        """Read the rest of the output without waiting, because a child of rsync may hold the pipe open."""
        for end in tuple(self.unread):
            os.set_blocking(end, False)
            try:
                while self.read_rsync_output(end):
                    pass
            except BlockingIOError:
                continue

    def rsync_progress_line(self) -> str:
        line = self._line.decode("utf-8", "replace")
        return line.replace("\n", "\r").rstrip("\r").rpartition("\r")[2].strip()

    def rsync_error_text(self) -> str:
        """Return the first part of rsync's error output."""
        return bytes(self._words[:MAX_BYTES]).decode("utf-8", "replace")


def _wait_for_rsync_end(pid: int, output: RsyncProgressAndErrors, is_unwanted: "Callable[[], bool]") -> int | None:
    end = os.pidfd_open(pid)
    poll = select.poll()
    for descriptor in (end, *output.unread):
        poll.register(descriptor, select.POLLIN)
    looks_at = time.monotonic() + LOOK_S
    try:
        while end not in (ready := [fd for fd, _ in poll.poll(max(0.0, looks_at - time.monotonic()) * 1000)]):
            for descriptor in ready:
                if not output.read_rsync_output(descriptor):
                    poll.unregister(descriptor)
            if time.monotonic() < looks_at:
                continue
            looks_at = time.monotonic() + LOOK_S
            if is_unwanted():
                os.kill(pid, SIGTERM)
                _wait_for_terminated_rsync(end)
                program_runs.kill_program_session(pid)
                return None
    finally:
        os.close(end)
    output.read_rest_of_rsync_output()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _wait_for_terminated_rsync(end: int) -> None:
    poll = select.poll()
    poll.register(end, select.POLLIN)
    poll.poll(END_S * 1000)
