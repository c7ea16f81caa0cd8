"""The script of an array of a campaign's tasks: each task's parameters, then the static task.sh.

It needs nothing but sh at the cluster and no shared filesystem. A task is found by its place in
the array, never by its words. Hot programs load this module.
"""

from gridbridge.shell.runner import quote

BODY = f"{__file__.rpartition('/')[0]}/task.sh"
PLACE = """\
gb_place=${SGE_TASK_ID:-undefined}
case $gb_place in undefined) gb_place=${OAR_ARRAY_INDEX:-1} ;; esac
"""
AS_TYPED = ("utf-8", "surrogateescape")  # the user's bytes, whatever their encoding


class ScriptTask:
    """One task of an array: its number in the campaign, which attempt this is, its parameters."""

    __slots__ = ("attempt", "copy", "label", "number", "parameters")

    def __init__(self, number: int, attempt: int, parameters: tuple[str, ...]) -> None:
        self.number = number
        self.attempt = attempt
        self.parameters = parameters  # the first is its name
        self.copy = 0  # which copy of the task this is; 0: none
        self.label = ""  # of what is no task: how it is called in the place of a number


def script(settings: dict[str, str], tasks: tuple[ScriptTask, ...]) -> bytes:
    """Write the script; `settings` are task.sh's gb_* but for what differs from task to task."""
    header = "".join(f"gb_{key}={quote(value)}\n" for key, value in settings.items())
    cases = "".join(_case(index, task) for index, task in enumerate(tasks, start=1))
    ours = f"#!/bin/sh\n{header}{PLACE}case $gb_place in\n{cases}*) exit 1 ;; esac\n"
    with open(BODY, "rb") as body:
        return ours.encode(*AS_TYPED) + body.read()


def _case(index: int, task: ScriptTask) -> str:
    words = " ".join(map(quote, task.parameters))
    number = task.label or str(task.number)
    name = quote(task.parameters[0] if task.parameters and not task.label else number)
    assignments = f"gb_number={number} gb_attempt={task.attempt} gb_copy={task.copy} gb_name={name}"
    return f"{index}) {assignments}; set -- {words} ;;\n"
