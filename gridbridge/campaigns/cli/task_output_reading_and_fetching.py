"""Reads or fetches the outputs of the calling user's tasks, with the user's permissions."""

import json
import os
import shutil
import stat
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.campaigns.store.campaign_files_of_owners import ForeignOrMissingCampaignFile
from gridbridge.errors import GridbridgeError, StateError, describe_error, error_on_one_line
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_file_and_array_names import UNIQUE, campaign_folder_at_cluster
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignTask
from gridbridge.model.campaigns.task_file_patterns import output_names_of_task
from gridbridge.model.fixed_paths import NOT_NOW, FixedPaths
from gridbridge.model.transfer_route import BARE, SshLogin
from gridbridge.program import configuration_in_force
from gridbridge.shell import rsync, safe_files, ssh
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from gridbridge.shell.program_runs import LIST_BYTES

DONE, WRONG = 0, 2
OUT, ERR = "out", "err"
A_CALL = 200  # at most this many files are read in one call
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LOOK = """\
cd -- "$1" || exit
most=$2 from=${3%/*}; shift 2
case $1 in */*) [ -O "$from" ] && case $(ls -ld -- "$from") in d????-??-*) ;; *) false ;; esac ;; esac || most=
for name; do
    if [ -n "$most" ] && [ -f "$name" ]; then printf +; tail -c "$most" -- "$name" 2>/dev/null | tr -d '\\000'; fi
    printf '\\000'
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutputFolderAtCluster:
    login: SshLogin | None
    folder: str  # path, relative to the remote home directory if the cluster has an ssh login
    timeout_s: float
    outputs: tuple[str, ...] = ()  # patterns of the JDL
    outputs_to: str = ""  # folder of the JDL, to which the outputs are brought
    lines: Mapping[int, str] = field(default_factory=dict)  # parameters of tasks
    checkpoint_files: tuple[str, ...] = ()  # patterns of the JDL
    token: str = ""  # target of the symlink .campaign, by which task.sh marks the folder
    api: str = ""  # address of OAR's REST interface, by which the cluster is reached; empty: files can be read

    def require_readable_files(self) -> None:
        """Raise StateError if the cluster is reached by a REST interface, which carries no files."""
        if self.api:
            raise StateError(f"the outputs stay at the cluster: {self.api} carries no files")

    def outputs_of_task(self, number: int) -> Iterator[str]:
        """Yield the paths of a task's declared outputs in its folder, without invalid names."""
        for pattern in self.outputs:
            with suppress(ValueError):
                yield from output_names_of_task((pattern,), self.lines.get(number, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutputFetchOutcome:
    cluster: str
    files: int
    problem: str = ""


def task_output_file_name(task: PublishedCampaignTask, stream: str) -> str:
    """Return the file name of a task's output stream, as task.sh writes it."""
    return f"{task.number}.{task.attempt}.{stream}"


def own_campaign_output_folders(
    number: int, paths: FixedPaths, tasks: Iterable[int] | None = None
) -> Mapping[str, TaskOutputFolderAtCluster]:
    """Return the output folder of the caller's own campaign at each cluster, for some tasks or all.

    Raises ForeignOrMissingCampaignFile for another user's campaign, so that root follows no path of a user.
    """
    uid = campaign_files_of_owners.uid_of_campaign_owner(number, paths.campaigns)
    if not os.geteuid() and uid:
        owner = safe_files.account_name_or_uid(uid)
        raise ForeignOrMissingCampaignFile(f"campaign {number}: owned by {owner}; expected sudo -u {owner} ...")
    header, lines = campaign_files_of_owners.read_own_campaign_header_and_lines(number, paths.campaigns, tasks)
    policy, _ = configuration_in_force.load_config_or_one_in_force(paths.configuration)
    declared = tuple(map(str, header.get("outputs", ())))
    folders = {}
    for name, cluster in header["clusters"].items():
        if name in policy.clusters:
            where = configured_cluster_access(policy, name)
            home = "." if where.login else os.path.expanduser("~")
            path = campaign_folder_at_cluster(str(cluster["exec_directory"]), number, home)
            folders[name] = TaskOutputFolderAtCluster(
                login=where.login,
                folder=path,
                timeout_s=where.timeout_s,
                outputs=declared,
                outputs_to=str(header.get("outputs_to", "")),
                lines=lines,
                checkpoint_files=tuple(map(str, header.get("checkpoint_files") or ())),
                token=f"{policy.site.cluster}.{header.get(UNIQUE)}",
                api=policy.clusters[name].api,
            )
    return folders


def read_task_output_tails(
    tasks: Iterable[PublishedCampaignTask], stream: str, most: int, at: Mapping[str, TaskOutputFolderAtCluster]
) -> tuple[dict[int, str], list[str]]:
    """Return {task number: last bytes of the output file}, and an error for each unreadable cluster."""
    texts: dict[int, str] = {}
    problems: list[str] = []
    for cluster, cluster_tasks in _group_tasks_by_cluster(tasks).items():
        try:
            for first in range(0, len(cluster_tasks), A_CALL):
                texts |= _read_output_tails_at_cluster(at[cluster], cluster_tasks[first : first + A_CALL], stream, most)
        except GridbridgeError as error:
            problems.append(f"{cluster}: {error}")
        except KeyError:
            problems.append(f"{cluster}: not configured any more")
    return texts, problems


def fetch_task_outputs(
    tasks: Iterable[PublishedCampaignTask],
    to: str,
    at: Mapping[str, TaskOutputFolderAtCluster],
    *,
    is_chosen: bool = True,
) -> tuple[TaskOutputFetchOutcome, ...]:
    """Copy the outputs of tasks into a local folder; report each cluster that can't be read.

    Follows no symlinks. Raises StateError for an unwritable folder, or another user's default folder.
    """
    if os.path.exists(to) and not os.path.isdir(to):
        raise StateError(f"{to}: not a folder")
    try:
        os.makedirs(to, exist_ok=True)
    except OSError as error:
        raise StateError(f"{to}: {error.strerror}") from error
    if not os.access(to, os.W_OK | os.X_OK):
        raise StateError(f"{to}: you may not write there")
    if not (is_chosen or safe_files.is_owned_by_current_user(to)):
        raise StateError(f"{to}: owned by another user; expected a folder of yours as DIR")
    return tuple(
        _fetch_outputs_from_cluster(name, cluster_tasks, to, at)
        for name, cluster_tasks in sorted(_group_tasks_by_cluster(tasks).items())
    )


def _fetch_outputs_from_cluster(
    cluster: str, tasks: list[PublishedCampaignTask], to: str, at: Mapping[str, TaskOutputFolderAtCluster]
) -> TaskOutputFetchOutcome:
    names, problem = [task_output_file_name(task, stream) for task in tasks for stream in (OUT, ERR)], ""
    try:
        source = at[cluster]
        good = (task.number for task in tasks if task.outcome is TaskAttemptOutcome.SUCCESS)
        names += [f"{number}/{output}" for number in good for output in source.outputs_of_task(number)]
        copy_outputs_of_tasks(source, names, to)
    except KeyError:
        return TaskOutputFetchOutcome(cluster=cluster, files=0, problem="not configured any more")
    except (GridbridgeError, OSError) as error:
        problem = describe_error(error)
    files = sum(os.path.exists(f"{to}/{name}") for name in names)
    return TaskOutputFetchOutcome(cluster=cluster, files=files, problem=problem)


def copy_outputs_of_tasks(source: TaskOutputFolderAtCluster, names: Iterable[str], to: str) -> None:
    """Copy files, by their paths in the campaign's output folder, into a local folder; leave out missing files.

    A symlink among `names` becomes a copy of its target; symlinks in folders stay symlinks.
    """
    source.require_readable_files()
    if not source.login:
        _copy_local_outputs(source.folder, names, to)
        return
    outputs = tuple(names)
    copy = partial(rsync.rsync_files_from_host, source.login, may_miss=True, follows=False)
    copy(outputs, source.folder, to, lambda: False)
    if links := [name for name in outputs if os.path.islink(f"{to}/{name}")]:
        copy(links, source.folder, to, lambda: False, leads=True)


def _copy_local_outputs(folder: str, names: Iterable[str], to: str) -> None:
    """Copy files; after a failure copy all other files, then raise StateError with the first error."""
    os.listdir(folder)  # raises OSError if the folder is missing
    if os.path.samefile(folder, to):
        return
    wrong: list[Exception] = []
    outputs = dict.fromkeys(names)
    for name in (path for output in outputs for path in _list_output_files(output, folder, wrong)):
        source = f"{folder}/{name}"
        try:
            with open_target_folder(name, to) as end:
                copy_file_if_changed(os.path.realpath(source) if name in outputs else source, name, end)
        except (GridbridgeError, OSError) as error:
            wrong.append(error)
    if wrong:
        suffix = f", and {len(wrong) - 1} more could not be copied" if wrong[1:] else ""
        raise StateError(f"{wrong[0]}{suffix}")


def _list_output_files(name: str, folder: str, pattern_errors: list[Exception]) -> Iterator[str]:
    """Yield an output file, or the files and symlinks of an output folder."""
    if os.path.isfile(f"{folder}/{name}"):
        yield name
    elif os.path.isdir(f"{folder}/{name}"):
        for path in files_and_links_of_folder(f"{folder}/{name}", pattern_errors.append):
            yield path.removeprefix(f"{folder}/")


def files_and_links_of_folder(folder: str, onerror: Callable[[OSError], object] | None = None) -> Iterator[str]:
    """Yield the paths of all files and symlinks in a folder and in its folders."""
    for directory, folders, names in os.walk(folder, onerror=onerror):
        paths = (f"{directory}/{entry}" for entry in (*names, *folders))
        yield from (path for path in paths if os.path.islink(path) or os.path.isfile(path))


@contextmanager
def open_target_folder(name: str, to: str) -> Iterator[int]:
    """Create the folders above a file, and open the last folder; raises StateError for a symlink."""
    end = os.open(to, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in name.split("/")[:-1]:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=end)
            above = end
            try:
                end = os.open(part, FOLDER, dir_fd=above)
            except OSError as error:
                raise StateError(f"{to}/{name}: {part} is a link, or not a folder of yours") from error
            os.close(above)
        yield end
    finally:
        os.close(end)


def copy_file_if_changed(source: str, target: str, folder: int) -> None:
    """Copy a changed file or symlink atomically into an open folder, under the last part of the path `target`.

    Like rsync without --perms, keep the permissions that the umask allows, without setuid, setgid and sticky bits.
    """
    name = os.path.basename(target)
    if _is_copy_unchanged(source, name, folder):
        return
    beside = safe_files.random_file_name(safe_files.TEMPORARY)
    try:
        if os.path.islink(source):
            os.symlink(os.readlink(source), beside, dir_fd=folder)
        else:
            _copy_content(source, beside, folder)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise


def _copy_content(source: str, name: str, folder: int) -> None:
    options = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(source, "rb") as source_file:
        facts = os.fstat(source_file.fileno())
        end = os.open(name, options, facts.st_mode & 0o777, dir_fd=folder)
        with open(end, "wb") as target_file:
            shutil.copyfileobj(source_file, target_file)
            target_file.flush()  # a write after os.utime would change the modification time
            os.utime(end, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _is_copy_unchanged(source: str, name: str, folder: int) -> bool:
    try:
        original, copied = os.lstat(source), os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    is_same = (original.st_size, original.st_mtime_ns) == (copied.st_size, copied.st_mtime_ns)
    return is_same and stat.S_ISREG(copied.st_mode)


def _read_output_tails_at_cluster(
    source: TaskOutputFolderAtCluster, tasks: list[PublishedCampaignTask], stream: str, most: int
) -> dict[int, str]:
    numbers = {task_output_file_name(task, stream): task.number for task in tasks}
    return {numbers[name]: text for name, text in _read_tails_at_once(source, tuple(numbers), most).items()}


def read_output_tails_by_name(source: TaskOutputFolderAtCluster, names: Sequence[str], most: int) -> dict[str, str]:
    """Return the last bytes of existing files in a campaign's output folder; raise GridbridgeError on failure.

    If all names begin with the same folder, its files count only if the caller alone owns and can write the folder.
    """
    texts: dict[str, str] = {}
    for first in range(0, len(names), A_CALL):
        texts |= _read_tails_at_once(source, names[first : first + A_CALL], most)
    return texts


def _read_tails_at_once(source: TaskOutputFolderAtCluster, names: Sequence[str], most: int) -> dict[str, str]:
    source.require_readable_files()
    argv = ("/bin/sh", "-c", LOOK, "sh", source.folder, str(most), *names)
    result = ssh.run_over_ssh(source.login, argv, dict(BARE), source.timeout_s, most_bytes=LIST_BYTES).require_success()
    texts = result.stdout.decode("utf-8", "replace").split("\0")
    return {name: text.removeprefix("+") for name, text in zip(names, texts, strict=False) if text}


def _group_tasks_by_cluster(tasks: Iterable[PublishedCampaignTask]) -> dict[str, list[PublishedCampaignTask]]:
    by_cluster: dict[str, list[PublishedCampaignTask]] = defaultdict(list)
    for task in tasks:
        if task.cluster:
            by_cluster[task.cluster].append(task)
    return by_cluster


def run_carrier_alone(scope: str, carry: Callable[[str], object]) -> int:
    """Print the answer of a carry as JSON, unless another process of the user works in this scope; return the status.

    `carry` gets the user's folder of gridbridge, which has the lock. The status is 0, 2 after an error, or 75 if
    another process works.
    """
    folder = os.path.expanduser("~/.gridbridge")
    lock = f"{folder}/{scope}.lock"
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        with MomentaryProgramLock(lock) as is_alone:
            if not is_alone:
                return NOT_NOW
            try:
                answer = carry(folder)
            finally:
                os.unlink(lock)
    except (GridbridgeError, OSError) as error:
        print(error_on_one_line(error), file=sys.stderr)  # noqa: T201
        return WRONG
    print(json.dumps(answer))  # noqa: T201
    return DONE
