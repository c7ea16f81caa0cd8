"""Brings the outputs of a campaign's tasks home, as the owner; gridbridge-as-user runs this program.

Usage: python3 -m gridbridge.campaigns.cli.task_output_carrier CAMPAIGN CLUSTER TASKS. Each file is moved into the
folder `outputs_to` of the JDL when it is whole. The program prints one line of JSON. Exit status: 0 done; 2 error, on
standard error; 75 another such process of the campaign runs for the cluster.
"""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Collection, Iterator, Set
from typing import NamedTuple

from gridbridge.campaigns.cli import task_output_reading_and_fetching as outputs
from gridbridge.campaigns.cli.task_output_reading_and_fetching import TaskOutputFolderAtCluster
from gridbridge.errors import CommandFailed, StateError
from gridbridge.model.campaigns.task_file_patterns import targets_of_outputs
from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.shell import rsync

LISTING_PAUSES_S = (0, 1, 4, 15)  # a shared filesystem may show a node's new files late
MOST_WRONG = 20  # once this many outputs can't be copied, further outputs are not tried in smaller groups
NO_FILE = "no such file"
PARTS = ".gridbridge-parts"  # folder in `outputs_to` for files that are still being copied


class UnbroughtOutputs(NamedTuple):
    reasons: dict[int, str]  # of each task with an output that did not come
    absent: Set[int]  # those tasks of which only outputs that are not at the cluster did not come


def run_task_output_carrier(paths: FixedPaths | None = None) -> int:
    """Bring the outputs that the command line names; return the exit status."""
    campaign, cluster, tasks = int(sys.argv[1]), *sys.argv[2:]

    def bring(_: str) -> dict[str, object]:
        numbers = [task for task, _ in parse_attempt_ranges(tasks)]
        unbrought = bring_task_outputs(campaign, cluster, numbers, paths or FixedPaths())
        return {"missing": unbrought.reasons, "absent": sorted(unbrought.absent)}

    return outputs.run_carrier_alone(f"outputs.{campaign}.{cluster}", bring)


def bring_task_outputs(campaign: int, cluster: str, tasks: Collection[int], paths: FixedPaths) -> UnbroughtOutputs:
    """Bring the outputs of tasks into the folder `outputs_to`; return what did not come.

    Raises StateError if the folder is missing or can't be written, for example because its filesystem is not mounted,
    and CommandFailed if the cluster can't be reached.
    """
    source = outputs.own_campaign_output_folders(campaign, paths, tasks).get(cluster)
    if source is None:
        raise StateError(f"{cluster}: not configured any more")
    home = source.outputs_to
    targets = {f"{task}/{name}": target for task in tasks for name, target in _names_of_outputs(source, task)}
    try:
        with contextlib.chdir(home):  # from here on nobody can put another folder in the place of `home`
            return _bring_into_present_folder(source, targets, home, f"{campaign}.{cluster}")
    except OSError as error:
        raise StateError(f"{home}: {error.strerror}") from error


def _bring_into_present_folder(
    source: TaskOutputFolderAtCluster, targets: dict[str, str], home: str, name: str
) -> UnbroughtOutputs:
    """Copy outputs into the present folder, or into the owner's home if others can write there; then move them."""
    facts = os.stat(".")
    is_private = facts.st_uid == os.geteuid() and not facts.st_mode & 0o022
    parts = f"{PARTS if is_private else os.path.expanduser('~/.gridbridge/parts')}/{name}"
    os.makedirs(parts, exist_ok=True)
    wrong: dict[str, str] = {}
    for pause_s in LISTING_PAUSES_S:
        time.sleep(pause_s)
        uncopied = _copy_outputs(source, [*targets], parts)  # after an error the parts stay for the next copy
        copied = {output: to for output, to in targets.items() if output not in uncopied}
        wrong = {output: why for output, to in copied.items() if (why := _move_output(f"{parts}/{output}", to))}
        wrong = {output: why for output, why in wrong.items() if why != NO_FILE or not _is_folder(source, output)}
        wrong |= uncopied
        targets = {output: targets[output] for output in wrong}
        if NO_FILE not in wrong.values():
            break
    rsync.remove_folder_tree(parts)
    _remove_empty_folder(os.path.dirname(parts))
    reasons = {
        _task_of_output(output): f"{home}/{targets[output]}: {why}"
        if why != NO_FILE
        else _missing_output_message(source, output)
        for output, why in wrong.items()
    }
    present = {_task_of_output(output) for output, why in wrong.items() if why != NO_FILE}
    return UnbroughtOutputs(reasons, reasons.keys() - present)


def _task_of_output(output: str) -> int:
    return int(output.partition("/")[0])


def _copy_outputs(
    source: TaskOutputFolderAtCluster, names: list[str], parts: str, most_wrong: int = MOST_WRONG
) -> dict[str, str]:
    """Copy outputs into the folder of parts; return the error of each output that can't be copied whole.

    After an error, all files in the folder are whole, and the missing outputs are copied again, half of them at a time.
    """
    try:
        outputs.copy_outputs_of_tasks(source, names, parts)
    except (StateError, CommandFailed) as error:
        if isinstance(error, CommandFailed) and error.status not in rsync.SOME_FILES_ERRORS:
            raise
        missing = [name for name in names if not os.path.isfile(f"{parts}/{name}")]
        why = error.failure_in_words if isinstance(error, CommandFailed) else str(error)
        if len(missing) < 2 or not most_wrong:
            return dict.fromkeys(missing, why)
        first, second = missing[: len(missing) // 2], missing[len(missing) // 2 :]
        wrong = _copy_outputs(source, first, parts, most_wrong)
        return wrong | _copy_outputs(source, second, parts, max(0, most_wrong - len(wrong)))
    return {}


def _is_folder(source: TaskOutputFolderAtCluster, output: str) -> bool:
    """Say whether an output, of which no file was copied, is an empty folder on this host."""
    return source.login is None and os.path.isdir(f"{source.folder}/{output}")


def _missing_output_message(source: TaskOutputFolderAtCluster, output: str) -> str:
    return f"{source.folder}/{output}: no such file at the cluster"


def _names_of_outputs(source: TaskOutputFolderAtCluster, task: int) -> Iterator[tuple[str, str]]:
    """Yield the path of each output in the task's folder, and its path in the folder `outputs_to`."""
    try:
        yield from targets_of_outputs(source.outputs, task, source.lines[task])
    except (ValueError, KeyError) as error:
        raise StateError(f"task {task}: {error}") from error


def _move_output(part: str, target: str) -> str:
    """Move a file, or the files of a folder, to a path below the present folder; return the error, if any."""
    if not os.path.lexists(part) or os.path.islink(part):  # rsync leaves a symlink whose target is missing
        return NO_FILE
    try:
        if not os.path.isdir(part):
            _replace_file(part, target)
        for path in [*outputs.files_and_links_of_folder(part)]:
            _replace_file(path, f"{target}/{os.path.relpath(path, part)}")
    except (StateError, OSError) as error:
        return error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return ""


def _replace_file(part: str, target: str) -> None:
    with outputs.open_target_folder(target, ".") as folder:
        try:
            os.rename(part, os.path.basename(target), dst_dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            outputs.copy_file_if_changed(part, target, folder)


def _remove_empty_folder(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:
        return  # other clusters' files are being brought


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(run_task_output_carrier())
