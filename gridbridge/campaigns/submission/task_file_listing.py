"""Finds the input files of each task of a new campaign, with sizes and checksums, and checks names of output files.

An input pattern such as `/home/ann/./reads/{1}_*.fq` names files; the part after `/./` is the path in a task's folder.
"""

import hashlib
import os
import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape, has_magic
from itertools import chain
from types import MappingProxyType

from gridbridge.decisions.campaigns.tasks_sharing_inputs import (
    LEAST_SHARED_BYTES,
    GroupTaskRange,
    group_tasks_by_shared_input,
)
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.task_file_patterns import (
    fill_placeholders,
    has_placeholder,
    output_names_of_task,
    targets_of_outputs,
)
from gridbridge.model.campaigns.task_input_files import (
    MADE_LATER,
    MOST_INPUTS,
    TaskInputFile,
    is_inside_name,
    task_line_with_inputs,
)
from gridbridge.model.published_status_and_reports import number_with_noun, replace_control_characters
from gridbridge.shell import safe_files

OF_DATASET = "dataset:"
BEFORE_NAME = "/./"  # in a pattern: the path in a task's folder begins after this
LITERAL = re.compile(r"[^*?[]*")  # the part of a pattern before its first wildcard
AS_TYPED = ("utf-8", "surrogateescape")
LAST_LETTER = "\U0010ffff"
MOST_REPORTED = 20  # at most this many tasks with a missing input or a wrong output are reported


def absolute_input_pattern(pattern: str, folder: str, datasets: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a JDL's pattern with its absolute folder; raise ValueError if a path in the task's folder has `..`.

    Patterns `dataset:NAME/FILE` begin at the path of a dataset, from {name: path}. Relative patterns begin at `folder`,
    and keep their whole path in a task's folder; absolute patterns keep the file's name there, or what follows `/./`.
    """
    path = os.path.expanduser(pattern)
    if pattern.startswith(OF_DATASET):
        dataset, _, name = pattern.removeprefix(OF_DATASET).partition("/")
        if dataset not in datasets:
            raise ValueError(f"{pattern:.80}: no dataset {dataset} in the key datasets")
        head = datasets[dataset]
    elif not path.startswith("/"):
        head, name = os.path.abspath(folder), path.removeprefix("./")
    elif BEFORE_NAME in path:
        head, _, name = path.rpartition(BEFORE_NAME)
    else:
        head, _, name = path.rpartition("/")
    if not is_inside_name(name):
        raise ValueError(f"{pattern:.80}: not a path below a folder")
    return f"{head}{BEFORE_NAME}{name}"


def require_valid_outputs_of_tasks(jdl: Jdl, parameters: tuple[str, ...]) -> None:
    """Raise ConfigError with the tasks whose outputs have invalid names, or would replace outputs of other tasks."""
    files: dict[str, int] = {}
    folders: dict[str, int] = {}
    problems = _checkpoint_name_problems(jdl, parameters)
    for number, line in enumerate(parameters if any(map(has_placeholder, jdl.outputs)) else ()):
        try:
            for _, target in targets_of_outputs(jdl.outputs, number, line):
                if jdl.outputs_to:
                    _require_own_target(target, number, files, folders)
        except ValueError as error:
            problems.append(f"outputs of task {number}: {replace_control_characters(str(error))}")
            if len(problems) == MOST_REPORTED:
                break
    if problems:
        raise ConfigError(tuple(problems))


def make_folder_of_outputs(jdl: Jdl) -> None:
    """Make the folder to which outputs are brought, if it is missing; raise ConfigError.

    Only a new campaign makes the folder: later a missing folder may be on a filesystem that is not mounted.
    """
    try:
        os.makedirs(jdl.outputs_to, exist_ok=True)
    except OSError as error:
        raise ConfigError((f"outputs_to = {jdl.outputs_to}: {error.strerror}",)) from error


def _checkpoint_name_problems(jdl: Jdl, parameters: tuple[str, ...]) -> list[str]:
    problems: list[str] = []
    for number, line in enumerate(parameters if any(map(has_placeholder, jdl.checkpoint_files)) else ()):
        try:
            output_names_of_task(jdl.checkpoint_files, line)
        except ValueError as error:
            problems.append(f"checkpoint_files of task {number}: {replace_control_characters(str(error))}")
            if len(problems) == MOST_REPORTED:
                break
    return problems


def _require_own_target(target: str, number: int, files: dict[str, int], folders: dict[str, int]) -> None:
    """Raise ValueError if another output has the path `target`, or another task's output lies above or inside it."""
    parts = target.split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts))]
    others = [folders.get(target, number), *(files.get(path, number) for path in above)]
    other = files.get(target, next((task for task in others if task != number), None))
    if other is not None:
        raise ValueError(f"{target}: task {other} has this output too; expected a different name for each task")
    files[target] = number
    folders.update(dict.fromkeys(above, number))


def list_inputs_of_tasks(jdl: Jdl, parameters: tuple[str, ...], first: int = 0) -> "CampaignInputFileLister":
    """Find and read the input files of tasks from number `first` on; raise ConfigError with tasks that lack a file."""
    files = CampaignInputFileLister(secrets.token_hex() if jdl.after else "")
    for number, line in enumerate(parameters[first:], first):
        if len(files.problems) < MOST_REPORTED:
            files.list_inputs_of_task(jdl.inputs, number, line)
    if files.problems:
        raise ConfigError(tuple(files.problems))
    return files


@dataclass(slots=True)
class CampaignInputFileLister:
    """Finds and reads the input files of a campaign's tasks; a file of several tasks is read once.

    With `later_names` files without wildcards are not read, because predecessors of the campaign may make them.
    """

    later_names: str = ""  # random text; files that predecessors make get names from it in place of checksums
    lines: list[str] = field(default_factory=list)  # the tasks' lines of the campaign file
    problems: list[str] = field(default_factory=list)
    _read: dict[str, tuple[str, int]] = field(default_factory=dict)  # {path: (checksum, bytes)}
    _made_later: set[str] = field(default_factory=set)
    _files: list[list[tuple[int, str]]] = field(default_factory=list)  # bytes and checksums of tasks' large files
    _folders: "SortedFolderListings" = field(default_factory=lambda: SortedFolderListings())

    @property
    def shared_input_groups(self) -> tuple[GroupTaskRange, ...]:
        """The ranges of tasks that share a large file."""
        return group_tasks_by_shared_input(self._files)

    @property
    def distinct_files(self) -> tuple[TaskInputFile, ...]:
        """The files that have been read, a single file for each checksum."""
        read = {digest: TaskInputFile("", path, size, digest) for path, (digest, size) in self._read.items()}
        return tuple(read.values())

    @property
    def summary(self) -> str:
        """The number and bytes of different files, in a line for gridsub --check."""
        sizes = [file.size_bytes for file in self.distinct_files]
        files, tasks = number_with_noun(len(sizes), "different file"), number_with_noun(len(self.lines), "task")
        later = f", and {number_with_noun(len(self._made_later), 'file')} that predecessors may make"
        return f"inputs: {files} with {sum(sizes)} bytes for {tasks}{later if self._made_later else ''}"

    def list_inputs_of_task(self, patterns: tuple[str, ...], number: int, line: str) -> None:
        inputs: dict[str, TaskInputFile] = {}
        try:
            for name, path in chain.from_iterable(self._files_of_pattern(pattern, line) for pattern in patterns):
                if name in inputs and inputs[name].path != path:
                    raise ValueError(f"{name}: two inputs have this path in the task's folder: {path}")
                digest, size_bytes = self._checksum_and_size(path)
                inputs[name] = TaskInputFile(name, path, size_bytes, digest)
            if len(inputs) > MOST_INPUTS:
                raise ValueError(f"{len(inputs)} input files; expected at most {MOST_INPUTS}")
        except (ValueError, OSError) as error:
            why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
            self.problems.append(f"inputs of task {number}: {replace_control_characters(why)}")
        self.lines.append(task_line_with_inputs(line, inputs.values()))
        large = (file for file in inputs.values() if file.size_bytes >= LEAST_SHARED_BYTES)
        self._files.append([(file.size_bytes, file.digest) for file in large])

    def _checksum_and_size(self, path: str) -> tuple[str, int]:
        if path in self._made_later:
            return hashlib.sha256(f"{self.later_names}{path}".encode(*AS_TYPED)).hexdigest(), MADE_LATER
        if path not in self._read:
            read = safe_files.checksum_regular_file(path)
            if read is None:
                raise ValueError(f"{path}: not a file; a pattern FOLDER/* names the files of a folder")
            self._read[path] = read
        return self._read[path]

    def _files_of_pattern(self, pattern: str, line: str) -> Iterator[tuple[str, str]]:
        """Yield path in the task's folder and absolute path of each file that a pattern names for a task."""
        head, _, tail = pattern.rpartition(BEFORE_NAME)
        folder = fill_placeholders(head, line)
        if has_magic(tail):
            names = sorted(self._folders.paths_of_pattern(folder, fill_placeholders(tail, line, escape)))
            if not names:
                raise ValueError(f"{folder}/{tail}: no file has such a name")
        else:
            names = [fill_placeholders(tail, line)]
            self._made_later.update(f"{folder}/{name}" for name in names if self.later_names)
        for name in names:
            if not is_inside_name(name):
                raise ValueError(f"{name:.80}: expected a path below a folder")
            yield name, f"{folder}/{name}"


class SortedFolderListings:
    """The names in folders; each folder is listed once for the patterns of all tasks."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}

    def paths_of_pattern(self, folder: str, pattern: str) -> Iterator[str]:
        """Yield the existing paths in a folder that match a pattern, like glob(); unlistable folders have none."""
        part, _, rest = pattern.partition("/")
        for name in self._matching_names(folder, part) if has_magic(part) else (part,):
            if not rest and os.path.lexists(f"{folder}/{name}"):
                yield name
            elif rest and os.path.isdir(f"{folder}/{name}"):
                yield from (f"{name}/{path}" for path in self.paths_of_pattern(f"{folder}/{name}", rest))

    def _matching_names(self, folder: str, pattern: str) -> Iterator[str]:
        if folder not in self._names:
            self._names[folder] = []
            with suppress(OSError):
                self._names[folder] = sorted(os.listdir(folder))
        names, prefix = self._names[folder], LITERAL.findall(pattern)[0]
        for name in names[bisect_left(names, prefix) : bisect_right(names, f"{prefix}{LAST_LETTER}")]:
            if fnmatchcase(name, pattern) and name.startswith(".") <= pattern.startswith("."):
                yield name
