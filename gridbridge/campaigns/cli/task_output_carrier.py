"""Brings the outputs of a campaign's tasks home, as the owner; gridbridge-as-user runs this program.

Usage: python3 -m gridbridge.campaigns.cli.task_output_carrier CAMPAIGN CLUSTER TASKS. Each file is moved into the
folder `outputs_to` of the JDL when it is whole. The program prints one line of JSON. Exit status: 0 done; 2 error, on
standard error; 75 another such process of the campaign runs for the cluster.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator

from gridbridge.campaigns.cli import task_output_reading_and_fetching as outputs
from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.errors import GridbridgeError, StateError, error_on_one_line
from gridbridge.model.campaigns.task_file_patterns import has_placeholder, output_names_of_task
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from gridbridge.model.fixed_paths import NOT_NOW, FixedPaths
from gridbridge.shell import rsync, safe_files
from gridbridge.shell.program_lock_file import MomentaryProgramLock

DONE, WRONG = 0, 2
LISTING_PAUSES_S = (0, 1, 4, 15)  # a shared filesystem may show a node's new files late
PARTS = ".gridbridge-parts"  # in the folder `outputs_to`: files that are being brought


def run_task_output_carrier(paths: FixedPaths | None = None) -> int:
    """Bring the outputs that the command line names; return the exit status."""
    campaign, cluster, tasks = int(sys.argv[1]), *sys.argv[2:]
    folder = os.path.expanduser("~/.gridbridge")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        with MomentaryProgramLock(f"{folder}/outputs.{campaign}.{cluster}.lock") as is_alone:
            if not is_alone:
                return NOT_NOW
            numbers = [task for task, _ in parse_attempt_ranges(tasks)]
            missing = bring_task_outputs(campaign, cluster, numbers, paths or FixedPaths())
            os.unlink(f"{folder}/outputs.{campaign}.{cluster}.lock")
    except (GridbridgeError, OSError) as error:
        print(error_on_one_line(error), file=sys.stderr)  # noqa: T201
        return WRONG
    print(json.dumps({"missing": missing}))  # noqa: T201
    return DONE


def bring_task_outputs(campaign: int, cluster: str, tasks: Iterable[int], paths: FixedPaths) -> dict[int, str]:
    """Bring the outputs of tasks into the folder `outputs_to`; return for each task without an output the reason.

    Raises StateError if the folder can't be written, and CommandFailed if the cluster can't be reached.
    """
    header, lines = campaign_files_of_owners.read_own_campaign_file(campaign, paths.campaigns)
    home, patterns = str(header["outputs_to"]), tuple(map(str, header["outputs"]))
    names = {f"{task}/{name}": target for task in tasks for name, target in _names_of_outputs(patterns, task, lines)}
    source = outputs.own_campaign_output_folders(campaign, paths).get(cluster)
    if source is None:
        raise StateError(f"{cluster}: not configured any more")
    parts = f"{home}/{PARTS}/{campaign}.{cluster}"
    try:
        os.makedirs(parts, 0o777, exist_ok=True)
    except OSError as error:
        raise StateError(f"{home}: {error.strerror}") from error
    if os.path.islink(f"{home}/{PARTS}") or not safe_files.is_owned_by_current_user(f"{home}/{PARTS}"):
        raise StateError(f"{home}/{PARTS}: expected a folder of yours")
    for pause_s in LISTING_PAUSES_S:
        time.sleep(pause_s)
        outputs.copy_outputs_of_tasks(source, names, parts)
        names = {name: target for name, target in names.items() if not _move_output(f"{parts}/{name}", target, home)}
        if not names:
            break
    missing = {int(name.partition("/")[0]): f"{cluster}: {source.folder}/{name}: no such file" for name in names}
    rsync.remove_folder_tree(parts)
    _remove_empty_folder(f"{home}/{PARTS}")
    return missing


def _names_of_outputs(patterns: Iterable[str], task: int, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the path of each output in the task's folder, and its path in the folder `outputs_to`."""
    for pattern in patterns:
        try:
            for name in output_names_of_task((pattern,), lines[task]):
                yield name, name if has_placeholder(pattern) else f"{task}/{name}"
        except (ValueError, IndexError) as error:
            raise StateError(f"task {task}: {error}") from error


def _move_output(part: str, target: str, home: str) -> bool:
    """Move a file, or the files of a folder, below `home`; return False if the file does not exist."""
    if not os.path.lexists(part):
        return False
    if not os.path.isdir(part) or os.path.islink(part):
        _replace_file(part, target, home)
        return True
    for folder, _, files in os.walk(part):
        for name in files:
            path = f"{folder}/{name}"
            _replace_file(path, f"{target}/{os.path.relpath(path, part)}", home)
    return True


def _replace_file(part: str, target: str, home: str) -> None:
    with outputs.open_target_folder(target, home) as folder:
        os.rename(part, os.path.basename(target), dst_dir_fd=folder)


def _remove_empty_folder(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:
        return  # other clusters' files are being brought


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(run_task_output_carrier())
