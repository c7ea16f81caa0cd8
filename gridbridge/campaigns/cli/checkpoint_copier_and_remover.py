"""Copies checkpoints of tasks to another cluster, or removes them, as the owner; gridbridge-as-user runs this program.

Usage: python3 -m gridbridge.campaigns.cli.checkpoint_copier_and_remover CAMPAIGN CLUSTER TASKS [SOURCE]. Checkpoints at
SOURCE are copied into the folder `.carried` at CLUSTER, and moved to the attempts' folders when they are whole. A
checkpoint that CLUSTER has, or sees on a shared filesystem, is not copied. Without SOURCE the checkpoints at CLUSTER
are removed. The program prints one line of JSON. Exit status: 0 done; 2 error, on standard error; 75 another such
process of the campaign runs for the cluster.
"""

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from gridbridge.campaigns.cli.task_output_reading_and_fetching import (
    TaskOutputFolderAtCluster,
    copy_outputs_of_tasks,
    files_and_links_of_folder,
    own_campaign_output_folders,
    run_carrier_alone,
)
from gridbridge.errors import StateError
from gridbridge.model.campaigns.task_file_patterns import output_names_of_task
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.transfer_route import BARE
from gridbridge.shell import rsync, ssh
from gridbridge.shell.program_runs import LIST_BYTES

CARRIED = ".carried"  # in the campaign's folder: checkpoints that are being copied
# task.sh makes and marks the campaign's folder in the same way
OPEN = """\
cd -- "$1" || exit
mkdir -m 700 -- "$2" 2>/dev/null
cd -P -- "./$2" && [ -O . ] || exit
ln -sT -- "$3" .campaign 2>/dev/null
[ "$(readlink .campaign)" = "$3" ] || { echo "$1/$2: folder of another campaign" >&2; exit 1; }
shift 3
"""
LIST = f"""{OPEN}\
for name; do
    if [ -e "$name" ]; then printf +; fi
    printf '\\000'
done
"""
MOVE = f"""{OPEN}\
for name; do [ -e "$name" ] || mv -T -- "{CARRIED}/$name" "$name" || exit; done
rm -rf -- {CARRIED}
"""
REMOVE = """\
cd -P -- "$1/$2" 2>/dev/null && [ -O . ] && [ "$(readlink .campaign)" = "$3" ] || exit 0
shift 3
for name; do
    rm -rf -- "$name" || exit
    rmdir -p --ignore-fail-on-non-empty -- "${name%/*}" 2>/dev/null
done
exit 0
"""
PathsByTask = Mapping[int, tuple[str, ...]]  # the files of each task's checkpoint, in the campaign's folder


def run_checkpoint_copier_and_remover(paths: FixedPaths | None = None) -> int:
    """Copy or remove the checkpoints that the command line names; return the exit status."""
    campaign, cluster, tasks, *sources = int(sys.argv[1]), *sys.argv[2:]

    def carry_or_remove(folder: str) -> dict[str, object]:
        attempts = dict(parse_attempt_ranges(tasks))
        clusters = own_campaign_output_folders(campaign, paths or FixedPaths(), attempts)
        target, *source = (_require_readable_folder_at_cluster(clusters, name) for name in (cluster, *sources))
        files = {task: _checkpoint_paths(target, task, attempt) for task, attempt in attempts.items()}
        if source:
            return carry_checkpoints(source[0], target, files, f"{folder}/parts/saved.{campaign}.{cluster}")
        _run_script(target, REMOVE, (path for of_task in files.values() for path in of_task))
        return {"missing": {}}

    return run_carrier_alone(f"checkpoints.{campaign}.{cluster}", carry_or_remove)


def carry_checkpoints(
    source: TaskOutputFolderAtCluster, target: TaskOutputFolderAtCluster, files: PathsByTask, parts: str
) -> dict[str, object]:
    """Copy checkpoints that the target lacks; return the answer for the runner.

    Between two remote clusters the files go through the folder `parts` on this host.
    """
    lacking = _tasks_without_files(target, files)
    began_s, copied_bytes = time.monotonic(), 0
    if lacking:
        copied_bytes = _copy_into_carried(source, target, [path for task in lacking for path in files[task]], parts)
    took_s = time.monotonic() - began_s
    if lacking:
        arrived = {task: tuple(f"{CARRIED}/{path}" for path in files[task]) for task in lacking}
        whole = lacking.keys() - _tasks_without_files(target, arrived).keys()
        _run_script(target, MOVE, sorted({files[task][0].partition("/")[0] for task in whole}))
        lacking = _tasks_without_files(target, files)
    missing = {task: f"{source.folder}/{path}: no such file at the cluster" for task, path in lacking.items()}
    is_timed = not (source.login and target.login)
    return {"missing": missing, "copied_bytes": copied_bytes, "took_s": round(took_s, 3) if is_timed else 0}


def _require_readable_folder_at_cluster(
    clusters: Mapping[str, TaskOutputFolderAtCluster], name: str
) -> TaskOutputFolderAtCluster:
    if name not in clusters:
        raise StateError(f"{name}: not configured any more")
    clusters[name].require_readable_files()
    return clusters[name]


def _checkpoint_paths(folder: TaskOutputFolderAtCluster, task: int, attempt: int) -> tuple[str, ...]:
    try:
        names = output_names_of_task(folder.checkpoint_files, folder.lines[task])
    except (ValueError, KeyError) as error:
        raise StateError(f"task {task}: {error}") from error
    return tuple(f"{task}.{attempt}/{name}" for name in names)


def _tasks_without_files(folder: TaskOutputFolderAtCluster, files: PathsByTask) -> dict[int, str]:
    """Return the tasks that lack a file in the campaign's folder, each with the first lacking path."""
    paths = [path for of_task in files.values() for path in of_task]
    marks = _run_script(folder, LIST, paths).split(b"\0")
    present = {path for path, mark in zip(paths, marks, strict=False) if mark}
    lacking = {task: [path for path in of_task if path not in present] for task, of_task in files.items()}
    return {task: of_task[0] for task, of_task in lacking.items() if of_task}


def _run_script(folder: TaskOutputFolderAtCluster, script: str, words: Iterable[str]) -> bytes:
    parent, _, name = folder.folder.rpartition("/")
    argv = ("/bin/sh", "-c", script, "sh", parent or "/", name, folder.token, *words)
    result = ssh.run_over_ssh(folder.login, argv, dict(BARE), folder.timeout_s, most_bytes=LIST_BYTES)
    return result.require_success().stdout


def _copy_into_carried(
    source: TaskOutputFolderAtCluster, target: TaskOutputFolderAtCluster, paths: Sequence[str], parts: str
) -> int:
    """Copy files and folders; return their bytes. Files that the source lacks are left out."""
    to, here = f"{target.folder}/{CARRIED}", source.folder
    if source.login or not target.login:
        here = parts if target.login else to
        os.makedirs(here, 0o700, exist_ok=True)
        copy_outputs_of_tasks(source, paths, here)
    present = [path for path in paths if os.path.lexists(f"{here}/{path}")]
    if target.login and present:
        rsync.rsync_files_to_host(target.login, (f"{here}/./{path}" for path in present), to, lambda: False)
    copied_bytes = sum(_size_bytes(f"{here}/{path}") for path in present)
    if here == parts:
        rsync.remove_folder_tree(parts)
    return copied_bytes


def _size_bytes(path: str) -> int:
    return sum(os.lstat(file).st_size for file in (files_and_links_of_folder(path) if os.path.isdir(path) else [path]))


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(run_checkpoint_copier_and_remover())
