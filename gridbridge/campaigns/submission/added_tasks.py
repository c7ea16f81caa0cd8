"""Reads the tasks that are added to a campaign: a file with a line a task, or a JSON list.

CiGri's -F names a file with such a list: one that is nothing else is read as that.

All that is wrong is told at once, as of a JDL.
"""

import json

from gridbridge.campaigns.submission.jdl_values import PARAMETERS
from gridbridge.campaigns.submission.task_file import lines_of
from gridbridge.errors import ConfigError

READ, RIGHT = PARAMETERS["params"]


def of_file(path: str) -> tuple[str, ...]:
    """Return the parameters of a file; raises Mistyped and ConfigError, as `lines_of` does."""
    lines = tuple(line for _, line in lines_of(path))
    text = "\n".join(lines)
    return of_text(path, text) if _is_list(text) else lines


def of_text(source: str, text: str) -> tuple[str, ...]:
    """Return the parameters of a JSON list; ConfigError."""
    try:
        parameters: tuple[str, ...] = READ(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError((f"{source} = {text:.40}: {error}; {RIGHT}",)) from error
    return parameters


def _is_list(text: str) -> bool:
    if not (text.startswith("[") and text.endswith("]")):
        return False
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False  # a task's parameters may begin so
