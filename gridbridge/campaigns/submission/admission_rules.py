"""Loads a site's admission rules: the functions in *.py files of a folder that root owns.

Folders and files that other accounts can write are refused, with a command that corrects this. So
no user's text is ever executed.
"""

import traceback
from types import FunctionType

from gridbridge.errors import ConfigError, StateError
from gridbridge.model.campaigns.admission import AdmissionRule
from gridbridge.model.places import ADMISSION
from gridbridge.shell import files, trust

MAX_BYTES = 1 << 20
ENDING = ".py"
WHO_MENDS = "the administrator has to mend this admission rule; it refuses every campaign"
LONGEST = 200  # characters of an error message


def load_admission_rules(
    folder: str = ADMISSION, owner: int = trust.ROOT
) -> tuple[AdmissionRule, ...]:
    """Return the rules, sorted by file name, and in each file in the order of definition.

    Returns no rules if the folder does not exist. Raises UntrustedFile, and ConfigError for a file
    that is not valid Python.
    """
    try:
        trust.require_trusted_path(folder, owner=owner)
        names = sorted(files.list_folder(folder))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError((f"{folder}: {error.strerror}",)) from error
    chosen = (name for name in names if name.endswith(ENDING) and not name.startswith("."))
    return tuple(rule for name in chosen for rule in _rules(folder, name, owner))


def _rules(folder: str, name: str, owner: int) -> list[AdmissionRule]:
    path = f"{folder}/{name}"
    namespace: dict[str, object] = {"__name__": name.removesuffix(ENDING), "__file__": path}
    try:
        trust.require_trusted_path(path, owner=owner)
        text, _ = files.read_safe_file(path, MAX_BYTES)
        exec(compile(text, path, "exec"), namespace)  # noqa: S102 - root alone wrote it
    except ConfigError:
        raise
    except StateError as error:
        raise ConfigError((str(error),)) from error
    except (Exception, SystemExit) as error:  # a site's own code
        words = f"{_at(error, path)}: {_described(error)}; {WHO_MENDS}"
        raise ConfigError((words,)) from error
    return [
        AdmissionRule(name=f"{name}:{key}", judge=function)
        for key, function in namespace.items()
        if isinstance(function, FunctionType) and not key.startswith("_")
        if function.__globals__ is namespace  # what it imports is no rule
    ]


def _at(error: BaseException, path: str) -> str:
    """Return FILE:LINE of an error; for an error in an import, the line of the import."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return f"{path}:{error.lineno}" if error.lineno else path
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == path), None)
    return f"{path}:{line}" if line else path


def _described(error: BaseException) -> str:
    """Return an error as one line; of a syntax error only its message."""
    words = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(words.split())}"[:LONGEST].removesuffix(": ")
