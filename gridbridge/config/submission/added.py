"""Reads the tasks that are added to a campaign: a file with a line a task, or a JSON list.

All that is wrong is told at once, as of a JDL.
"""

import json

from gridbridge.config.submission.jdl_values import PARAMETERS, named_once
from gridbridge.config.submission.task_file import lines_of
from gridbridge.errors import ConfigError

READ, RIGHT = PARAMETERS["params"]


def of_file(path: str, before: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parameters of a file, named after those that the campaign has.

    Raises Mistyped and ConfigError, as `lines_of` does.
    """
    lines = tuple(line for _, line in lines_of(path))
    return named_once(lines, before)


def of_text(source: str, text: str, before: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parameters of a JSON list, named so too; ConfigError."""
    try:
        lines = READ(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError((f"{source} = {text:.40}: {error}; {RIGHT}",)) from error
    return named_once(lines, before)
