"""Reads gridbridge.toml into a Policy, and writes a Policy as such a file.

All that is wrong is told at once, a line each: `FILE: [section] key = value: what is wrong;
expected WHAT`. The file is TOML 1.0; a capability's sections are in a module of its name.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from gridbridge.config.capabilities import CAPABILITIES, GROUPS
from gridbridge.config.mistakes import Table, key_name, table_of
from gridbridge.config.sections import above_all, misplaced, named_alone
from gridbridge.errors import ConfigError
from gridbridge.model.places import CONFIG, ELSEWHERE
from gridbridge.model.policy import Policy
from gridbridge.shell import trust

TWICE = re.compile(r"^Cannot declare \((.*)\) twice( \(.*\))$")
OVERWRITTEN = "Cannot overwrite a value"
_TITLES = [group.title for group in GROUPS.values()]
SECTIONS = f"the sections are {', '.join(_TITLES[:-1])} and {_TITLES[-1]}"
AT_ONCE = os.O_NONBLOCK  # a FIFO would wait for its writer
MAX_BYTES = 1 << 20  # a file of thousands of queues is shorter; longer ones would stop the service
SAMPLE = "/opt/gridbridge/conf/gridbridge.toml"
HEADER = """\
# gridbridge.toml: every key with its meaning, what may stand there, and its default.
# A key behind # has its default. See gridbridge.toml(5).
"""


def load(path: str) -> Policy:
    """Read the configuration; ConfigError tells everything that is wrong with it.

    Untrusted is raised to root for a file that anybody else could have written.
    """
    return parse(path, read(path))


def parse(path: str, raw: bytes) -> Policy:
    """Read a configuration from the bytes of that file; ConfigError as `load`."""
    try:
        sections = tomllib.loads(raw.decode())
    except ValueError as error:
        problems = _hidden(error, raw) or [f"{_place(error, raw)}; TOML 1.0 in UTF-8"]
        raise ConfigError(tuple(f"{path}: {problem}" for problem in problems)) from error
    except RecursionError as error:
        wrong = "its values are nested too deeply; a table of texts is all that a key has"
        raise ConfigError((f"{path}: {wrong}",)) from error
    problems = list(_problems(sections))
    if problems:
        raise ConfigError(tuple(f"{path}: {problem}" for problem in problems))
    return _policy(sections)


def read(path: str) -> bytes:
    """Return the file's bytes; ConfigError when it can't be trusted."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | AT_ONCE)) as file:
            _refuse(path, file.fileno())
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError((f"{path}: {error.strerror}{_remedy(path, error)}",)) from error
    if len(raw) > MAX_BYTES:
        raise ConfigError((f"{path}: too long; at most {MAX_BYTES} bytes are read",))
    return raw


def text(policy: Policy) -> str:
    """Write a policy as its file: every key, those that have their default in a comment."""
    written = (group.text(getattr(policy, group.field)) for group in GROUPS.values())
    return "\n".join([HEADER, *(part for parts in written for part in parts)])


def _remedy(path: str, error: OSError) -> str:
    """Say what is to be done about the site's own file; another one was named by its reader."""
    if path != CONFIG:
        return ""
    if isinstance(error, FileNotFoundError):
        return f"; {ELSEWHERE}; on a new one a copy of {SAMPLE} has to be there"
    return f"; a readable copy of {SAMPLE} has to be there"


def _refuse(path: str, opened: int) -> None:
    """Refuse what is no file, and to root one that others could have written."""
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        remedy = f"; a copy of {SAMPLE} has to be there" if path == CONFIG else ""
        raise ConfigError((f"{path}: not a file{remedy}",))
    owner = trust.demanded()
    if owner is not None:
        trust.require(os.path.abspath(path), opened, owner)


def _place(error: ValueError, raw: bytes) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"{error.reason} (at line {raw.count(bytes([10]), 0, error.start) + 1})"
    text = TWICE.sub(_section_twice, str(error))
    return text.replace("at end of document", f"at line {len(raw.splitlines())}, the end")


def _hidden(error: ValueError, raw: bytes) -> list[str]:
    """Name the keys above every section where one of them has the name of a section below."""
    if not str(error).startswith(OVERWRITTEN):
        return []
    above = re.split(rb"(?m)^[ \t]*\[", raw, maxsplit=1)[0]
    return [problem for _, problem in above_all(tomllib.loads(above.decode()), GROUPS.values())]


def _section_twice(match: re.Match[str]) -> str:
    """Name a section as its file has it, and not as Python's reader of TOML does."""
    name = ".".join(re.findall(r"'([^']*)'", match[1]))
    return f"a second section [{name}]{match[2]}: its keys belong to the first one"


def _problems(sections: Table) -> Iterator[str]:
    keys = dict(above_all(sections, GROUPS.values()))
    yield from keys.values()
    sections = {name: content for name, content in sections.items() if name not in keys}
    for name, group in GROUPS.items():
        yield from group.problems(sections.get(name, {}))
    yield from misplaced(sections, GROUPS.values())
    yield from _unknown(name for name in sections if name not in GROUPS)
    for capability in CAPABILITIES:
        yield from capability.problems(named_alone(sections, GROUPS.values()))


def _unknown(names: Iterable[str]) -> Iterator[str]:
    """Name the nearest section, or all of them, once."""
    hint = SECTIONS
    for name in names:
        near = get_close_matches(name, GROUPS, 1)
        nearest = f"{GROUPS[near[0]].title} is the nearest" if near else hint
        yield f"[{key_name(name)}]: unknown section; {nearest}"
        hint = hint if near else "they are named above"


def _policy(sections: Table) -> Policy:
    parts: dict[str, Any] = {
        group.field: group.read(table_of(sections, name)) for name, group in GROUPS.items()
    }
    return Policy(**parts)
