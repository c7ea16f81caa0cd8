"""Loads a site's admission rules: the functions of the *.py files of a folder that root owns.

Nothing that a user wrote is ever evaluated: a folder or file that others than root can write is
refused, with the line that mends it.
"""

from types import FunctionType

from gridbridge.errors import ConfigError, StateError
from gridbridge.model.campaigns.admission import Rule
from gridbridge.model.places import ADMISSION
from gridbridge.shell import files, trust

MAX_BYTES = 1 << 20
ENDING = ".py"


def load(folder: str = ADMISSION, owner: int = trust.ROOT) -> tuple[Rule, ...]:
    """Return the rules in the order of their files' names, and in each in its order.

    None without the folder. Raises Untrusted, and ConfigError for a file that is no Python.
    """
    try:
        trust.require(folder, owner=owner)
        names = sorted(files.names(folder))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError((f"{folder}: {error.strerror}",)) from error
    chosen = (name for name in names if name.endswith(ENDING) and not name.startswith("."))
    return tuple(rule for name in chosen for rule in _rules(folder, name, owner))


def _rules(folder: str, name: str, owner: int) -> list[Rule]:
    path = f"{folder}/{name}"
    known: dict[str, object] = {"__name__": name.removesuffix(ENDING), "__file__": path}
    try:
        trust.require(path, owner=owner)
        text, _ = files.read(path, MAX_BYTES)
        exec(compile(text, path, "exec"), known)  # noqa: S102 - root alone wrote it
    except ConfigError:
        raise
    except StateError as error:
        raise ConfigError((str(error),)) from error
    except (Exception, SystemExit) as error:  # a site's own code
        line = getattr(error, "lineno", None)
        raise ConfigError((f"{path}{f':{line}' if line else ''}: {error!r:.200}",)) from error
    return [
        Rule(name=f"{name}:{key}", judge=each)
        for key, each in known.items()
        if isinstance(each, FunctionType) and not key.startswith("_")
        if each.__globals__ is known  # what it imports is no rule
    ]
