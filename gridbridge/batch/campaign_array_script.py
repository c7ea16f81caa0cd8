"""Writes the sh script of a campaign's array; a task selects its parameters by its array index."""

from gridbridge.model.campaigns.task_input_files import TaskInputFile
from gridbridge.shell.program_runs import quote_for_sh

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = __file__.rpartition("/")[0]
BODY, FUNCTIONS_FOR_CHECKPOINTS = f"{FOLDER}/task.sh", f"{FOLDER}/checkpoint.sh"
PLACE = """\
gb_place=${SGE_TASK_ID:-undefined}
case $gb_place in undefined) gb_place=${OAR_ARRAY_INDEX:-1} ;; esac
"""
AS_TYPED = ("utf-8", "surrogateescape")  # leaves a user's bytes unchanged, even if the bytes are not UTF-8


class CampaignArrayScriptTask:
    """A task of an array, as the array's script runs the task."""

    __slots__ = ("attempt", "checkpoints", "copy", "inputs", "label", "number", "outputs", "parameters")

    def __init__(self, number: int, attempt: int, parameters: tuple[str, ...]) -> None:
        self.number = number
        self.attempt = attempt
        self.parameters = parameters  # the first parameter is the task's name
        self.copy = 0  # number of the speculative attempt; 0: an ordinary attempt
        self.inputs: tuple[TaskInputFile, ...] = ()
        self.outputs: tuple[str, ...] = ()  # paths in the task's folder; empty: the outputs of all tasks
        self.checkpoints: tuple[str, ...] = ()  # paths in the task's folder; empty: the files of all tasks
        self.label = ""  # a prologue or epilogue has this name instead of a number; empty: an ordinary task


def write_campaign_array_script(settings: dict[str, str], tasks: tuple[CampaignArrayScriptTask, ...]) -> bytes:
    """Write an array's script; each KEY of `settings` becomes a shell variable gb_KEY of all tasks."""
    header = "".join(f"gb_{key}={quote_for_sh(value)}\n" for key, value in settings.items())
    cases = "".join(_shell_case_of_task(index, task) for index, task in enumerate(tasks, start=1))
    ours = f"#!/bin/sh\n{header}{PLACE}case $gb_place in\n{cases}*) exit 1 ;; esac\n"
    has_checkpoints = settings.get("checkpoints") or any(task.checkpoints for task in tasks)
    return ours.encode(*AS_TYPED) + b"".join(
        map(_read_bytes, (FUNCTIONS_FOR_CHECKPOINTS, BODY) if has_checkpoints else (BODY,))
    )


def _read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _shell_case_of_task(index: int, task: CampaignArrayScriptTask) -> str:
    words = " ".join(map(quote_for_sh, (*_words_of_inputs(task), *task.parameters)))
    number = task.label or str(task.number)
    name = quote_for_sh(task.parameters[0] if task.parameters and not task.label else number)
    assignments = f"gb_number={number} gb_attempt={task.attempt} gb_copy={task.copy} gb_name={name}"
    assignments += f" gb_inputs={len(task.inputs)}" if task.inputs else ""
    assignments += f" gb_outputs={quote_for_sh(' '.join(task.outputs))}" if task.outputs else ""
    assignments += f" gb_checkpoints={quote_for_sh(' '.join(task.checkpoints))}" if task.checkpoints else ""
    return f"{index}) {assignments}; set -- {words} ;;\n"


def _words_of_inputs(task: CampaignArrayScriptTask) -> "Iterator[str]":
    """Yield the four words from which task.sh links each input file of a task."""
    for file in task.inputs:
        yield from (str(file.size_bytes), file.digest, file.path, file.name)
