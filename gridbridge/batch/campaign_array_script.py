"""Writes the sh script of a campaign's array; a job selects its task, or its group of tasks, by its array index."""

from gridbridge.model.campaigns.task_index_and_attempt_texts import split_into_groups
from gridbridge.model.campaigns.task_input_files import TaskInputFile
from gridbridge.shell.program_runs import quote_for_sh

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = __file__.rpartition("/")[0]
BODY, FUNCTIONS_FOR_CHECKPOINTS, FUNCTIONS_FOR_GROUPS = (
    f"{FOLDER}/{name}.sh" for name in ("task", "checkpoint", "group")
)
RUN_TASK, RUN_GROUP = b'enter_folder && run_task "$@"\n', b"enter_folder && run_group\n"
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
        # paths of outputs in the task's folder; empty: the outputs that the JDL declares for all tasks
        self.outputs: tuple[str, ...] = ()
        # paths of checkpoint files in the task's folder; empty: the files that the JDL declares for all tasks
        self.checkpoints: tuple[str, ...] = ()
        self.label = ""  # a prologue or epilogue has this name instead of a number; empty: an ordinary task


def write_campaign_array_script(
    settings: dict[str, str], tasks: tuple[CampaignArrayScriptTask, ...], group_tasks: int = 1
) -> bytes:
    """Write an array's script; each KEY of `settings` becomes a shell variable gb_KEY of all tasks.

    Each job runs `group_tasks` tasks one after another.
    """
    header = "".join(f"gb_{key}={quote_for_sh(value)}\n" for key, value in settings.items())
    groups = split_into_groups(tasks, group_tasks)
    cases = "".join(
        _shell_case_of_group(index, group) if group_tasks > 1 else _shell_case_of_task(index, *group)
        for index, group in enumerate(groups, start=1)
    )
    ours = f"#!/bin/sh\n{header}{PLACE}case $gb_place in\n{cases}*) exit 1 ;; esac\n"
    has_checkpoints = settings.get("checkpoints") or any(task.checkpoints for task in tasks)
    files = [FUNCTIONS_FOR_CHECKPOINTS] if has_checkpoints else []
    files += [BODY, FUNCTIONS_FOR_GROUPS] if group_tasks > 1 else [BODY]
    return (
        ours.encode(*AS_TYPED) + b"".join(map(_read_script_part, files)) + (RUN_GROUP if group_tasks > 1 else RUN_TASK)
    )


def _read_script_part(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _shell_case_of_task(index: int, task: CampaignArrayScriptTask) -> str:
    return f"{index}) {_assignments_of_task(task)}; set -- {_words_of_task(task)} ;;\n"


def _shell_case_of_group(index: int, tasks: "Sequence[CampaignArrayScriptTask]") -> str:
    """Define the sh function gb_tasks, which runs a job's tasks: first retried tasks, so that they have most time."""
    return f"{index}) {_shell_function_of_tasks(tasks)} ;;\n"


def _shell_function_of_tasks(tasks: "Sequence[CampaignArrayScriptTask]") -> str:
    lines = (
        f"gb_inputs=; {_assignments_of_task(task)}; next_task {_words_of_task(task)} || return\n"
        for task in sorted(tasks, key=lambda task: -task.attempt)
    )
    return f"gb_tasks() {{\n{''.join(lines)}}}"


def write_further_tasks(tasks: "Sequence[CampaignArrayScriptTask]") -> bytes:
    """Write the file from which a running job takes further tasks."""
    return f"{_shell_function_of_tasks(tasks)}\n".encode(*AS_TYPED)


def _assignments_of_task(task: CampaignArrayScriptTask) -> str:
    number = task.label or str(task.number)
    name = quote_for_sh(task.parameters[0] if task.parameters and not task.label else number)
    assignments = f"gb_number={number} gb_attempt={task.attempt} gb_copy={task.copy} gb_name={name}"
    assignments += f" gb_inputs={len(task.inputs)}" if task.inputs else ""
    assignments += f" gb_outputs={quote_for_sh(' '.join(task.outputs))}" if task.outputs else ""
    return assignments + (f" gb_checkpoints={quote_for_sh(' '.join(task.checkpoints))}" if task.checkpoints else "")


def _words_of_task(task: CampaignArrayScriptTask) -> str:
    return " ".join(map(quote_for_sh, (*_words_of_inputs(task), *task.parameters)))


def _words_of_inputs(task: CampaignArrayScriptTask) -> "Iterator[str]":
    """Yield the four words from which task.sh links each input file of a task."""
    for file in task.inputs:
        yield from (str(file.size_bytes), file.digest, file.path, file.name)
