"""Parses gridbridge.toml (TOML 1.0) into a Policy, and reports all mistakes at once."""

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from gridbridge.config import campaigns, elastic, rebalance, section_parsing, site, transfer
from gridbridge.errors import ConfigError
from gridbridge.model.fixed_paths import CONFIG, ELSEWHERE
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import safe_files

CAPABILITIES: tuple[section_parsing.CapabilityConfigModule, ...] = (site, transfer, campaigns, elastic, rebalance)
GROUPS: Mapping[str, section_parsing.SectionGroupOfOneName] = MappingProxyType(
    {group.name: group for capability in CAPABILITIES for group in capability.GROUPS}
)


_SECTION_TWICE = re.compile(r"^Cannot declare \((.*)\) twice( \(.*\))$")
OVERWRITTEN = "Cannot overwrite a value"
_TITLES = [group.title for group in GROUPS.values()]
SECTIONS = f"the sections are {', '.join(_TITLES[:-1])} and {_TITLES[-1]}"
_NO_WAIT = os.O_NONBLOCK  # otherwise opening a FIFO would wait for a writer
MAX_BYTES = 1 << 20  # enough for thousands of queues; reading a larger file would block the service
SAMPLE = "/opt/gridbridge/conf/gridbridge.toml"


def load_configuration(path: str) -> Policy:
    """Read a configuration file; raise ConfigError with all mistakes, or FileWritableByOthers for root."""
    return parse_configuration(path, read_configuration_bytes(path))


def parse_configuration(path: str, raw: bytes) -> Policy:
    """Parse the bytes of a configuration file; raise a ConfigError that lists all mistakes."""
    try:
        sections = tomllib.loads(raw.decode())
    except ValueError as error:
        problems = _keys_above_overwritten_sections(error, raw) or [
            f"{_toml_error_with_line(error, raw)}; TOML 1.0 in UTF-8"
        ]
        raise ConfigError(tuple(f"{path}: {problem}" for problem in problems)) from error
    except RecursionError as error:
        wrong = "values are nested too deeply; expected at most a table of texts as a value"
        raise ConfigError((f"{path}: {wrong}",)) from error
    problems = list(_configuration_problems(sections))
    if problems:
        raise ConfigError(tuple(f"{path}: {problem}" for problem in problems))
    parts: dict[str, Any] = {
        group.field: group.read(section_parsing.subtable_or_empty(sections, name)) for name, group in GROUPS.items()
    }
    return Policy(**parts)


def read_configuration_bytes(path: str) -> bytes:
    """Return the bytes of a configuration file; raise ConfigError if the file is unreadable or untrusted."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_WAIT)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                remedy = f"; expected a copy of {SAMPLE}" if path == CONFIG else ""
                raise ConfigError((f"{path}: not a regular file{remedy}",))
            owner = safe_files.required_trusted_file_owner()
            if owner is not None:
                safe_files.require_trusted_path(os.path.abspath(path), file.fileno(), owner)
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError((f"{path}: {error.strerror}{_unreadable_file_advice(path, error)}",)) from error
    if len(raw) > MAX_BYTES:
        raise ConfigError((f"{path}: too long; at most {MAX_BYTES} bytes are read",))
    return raw


def _unreadable_file_advice(path: str, error: OSError) -> str:
    if path != CONFIG:
        return ""
    if isinstance(error, FileNotFoundError):
        return f"; {ELSEWHERE}; on a new host run gridbridge init"
    return f"; expected a readable copy of {SAMPLE}"


def _toml_error_with_line(error: ValueError, raw: bytes) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"{error.reason} (at line {raw.count(bytes([10]), 0, error.start) + 1})"
    text = str(error)
    if match := _SECTION_TWICE.match(text):
        name = ".".join(re.findall(r"'([^']*)'", match[1]))
        text = f"a second section [{name}]{match[2]}: move its keys to the first section"
    return text.replace("at end of document", f"at line {len(raw.splitlines())}, the end")


def _keys_above_overwritten_sections(error: ValueError, raw: bytes) -> list[str]:
    if not str(error).startswith(OVERWRITTEN):
        return []
    above = re.split(rb"(?m)^[ \t]*\[", raw, maxsplit=1)[0]
    sections = tomllib.loads(above.decode())
    return [problem for _, problem in section_parsing.find_keys_above_sections(sections, GROUPS.values())]


def _configuration_problems(sections: section_parsing.Table) -> Iterator[str]:
    keys = dict(section_parsing.find_keys_above_sections(sections, GROUPS.values()))
    yield from keys.values()
    sections = {name: content for name, content in sections.items() if name not in keys}
    for name, group in GROUPS.items():
        yield from group.find_section_problems(sections.get(name, {}))
    yield from section_parsing.find_misplaced_keys(sections, GROUPS.values())
    yield from _unknown_section_problems(name for name in sections if name not in GROUPS)
    named_sections = section_parsing.drop_nameless_section_values(sections, GROUPS.values())
    for capability in CAPABILITIES:
        yield from capability.find_config_problems(named_sections)


def _unknown_section_problems(names: Iterable[str]) -> Iterator[str]:
    hint = SECTIONS
    for name in names:
        near = get_close_matches(name, GROUPS, 1)
        nearest = f"{GROUPS[near[0]].title} is the nearest" if near else hint
        yield f"[{section_parsing.format_toml_key(name)}]: unknown section; {nearest}"
        hint = hint if near else "the sections are named above"
