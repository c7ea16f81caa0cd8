"""Edits one section of gridbridge.toml; all other lines of the file stay unchanged.

Call: `python3 -I -m gridbridge.config.edit FILE put queue NAME 'KEY = VALUE' ...`, or `... drop queue NAME`.
"""

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.items import InlineTable, Item, Key, Table, Whitespace

from gridbridge.config import configuration_file
from gridbridge.config.section_parsing import format_toml_key
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.shell import safe_files

Body = list[tuple[Key | None, Item]]
Section = tuple[str, str]  # group and name of the section


def main(argv: list[str] | None = None) -> None:
    """Edit a configuration file as the arguments say; the file is replaced atomically."""
    path, verb, group, name, *lines = sys.argv[1:] if argv is None else argv
    try:
        raw = configuration_file.read_configuration_bytes(path)
        section = (group, name)
        edited = edited_configuration(raw, section, lines if verb == "put" else None)
        if edited != raw:
            target = os.path.realpath(path)
            before = os.stat(target)
            safe_files.replace_file_atomically(target, edited, mode=before.st_mode & 0o777)
            if os.stat(target).st_gid != before.st_gid:
                os.chown(target, -1, before.st_gid)
    except (GridbridgeError, OSError) as error:
        raise SystemExit(f"{path}: {error}") from error


def edited_configuration(raw: bytes, section: Section, lines: list[str] | None) -> bytes:
    """Return the file's text with some keys of a section changed, or without the section if `lines` is None."""
    if lines is None:
        return remove_section_and_subsections(raw, section)
    return put_keys_in_section(raw, section, lines)


def put_keys_in_section(raw: bytes, section: Section, lines: list[str]) -> bytes:
    """Return the file's text with some keys of a section changed; a missing section is appended."""
    document, keys = _parse_toml_document(raw), tomllib.loads("\n".join(lines))
    end = "\r\n" if b"\r\n" in raw else "\n"
    tables = [
        item
        for _, _, item in _find_toml_parts_of_section(document, section)
        if isinstance(item, InlineTable) or (isinstance(item, Table) and not item.is_super_table())
    ]
    expected: dict[str, Any] = document.unwrap()
    expected.setdefault(section[0], {}).setdefault(section[1], {}).update(keys)
    if tables:
        _change_section_keys(tables[0], keys, lines, end)
        return _verified_edited_file(document.as_string(), expected, section)
    text = document.as_string()
    apart = "" if text.endswith(("\n\n", "\r\n\r\n")) or not text else end
    start = text if text.endswith("\n") or not text else text + end
    added = end.join((f"[{_toml_section_title(section)}]", *lines, ""))
    return _verified_edited_file(f"{start}{apart}{added}", expected, section)


def remove_section_and_subsections(raw: bytes, section: Section) -> bytes:
    """Return the file's text without a section and its subsections; the next section keeps its comment."""
    document = _parse_toml_document(raw)
    expected: dict[str, Any] = document.unwrap()
    if expected.get(section[0], {}).pop(section[1], None) is None:
        return raw
    for body, index, item in list(_find_toml_parts_of_section(document, section)):
        is_last = document.as_string().endswith(item.as_string())
        body[index] = (None, Whitespace(_comment_of_next_section(item.as_string(), is_last)))
    return _verified_edited_file(document.as_string(), expected, section)


def _parse_toml_document(raw: bytes) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(raw.decode())
    except ValueError as error:
        raise ConfigError((f"{error}; TOML 1.0 in UTF-8",)) from error


def _find_toml_parts_of_section(within: Container, path: tuple[str, ...]) -> Iterator[tuple[Body, int, Item]]:
    for index, (key, item) in enumerate(within.body):
        if key is None or key.key != path[0]:
            continue
        if not path[1:]:
            yield within.body, index, item
        elif isinstance(item, Table | InlineTable):
            yield from _find_toml_parts_of_section(item.value, path[1:])


def _change_section_keys(table: Item, keys: Mapping[str, object], lines: list[str], end: str) -> None:
    assert isinstance(table, Table | InlineTable)
    news = [line for line, key in zip(lines, keys, strict=True) if key not in table]
    for key, value in keys.items():
        if key in table or isinstance(table, InlineTable):
            table[key] = value
    if not news or isinstance(table, InlineTable):
        return
    body = table.value.body
    plain = [index for index, (key, item) in enumerate(body) if key and not isinstance(item, Table)]
    before = body[plain[-1]][1] if plain else table
    before.trivia.trail = before.trivia.trail or end
    body.insert(plain[-1] + 1 if plain else 0, (None, Whitespace(end.join((*news, "")))))


def _comment_of_next_section(text: str, is_last: bool) -> str:
    """Return the last comment lines of `text`; if `is_last`, only those after a blank line."""
    lines = text.splitlines(keepends=True)
    start = len(lines)
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    is_apart = bool(start) and not lines[start - 1].strip()
    return "".join(lines[start:]) if is_apart or not is_last else ""


def _verified_edited_file(text: str, expected: Mapping[str, Any], section: Section) -> bytes:
    """Refuse an edited file with unexpected content; people must then edit the section themselves."""
    try:
        content = tomllib.loads(text)
    except ValueError:
        content = {}
    if _sections_without_empty_group(content, section) != _sections_without_empty_group(expected, section):
        raise ConfigError((f"[{_toml_section_title(section)}] can't be edited by a program; edit the section by hand",))
    return text.encode()


def _sections_without_empty_group(sections: Mapping[str, Any], section: Section) -> Mapping[str, Any]:
    return {name: table for name, table in sections.items() if table or name != section[0]}


def _toml_section_title(section: Section) -> str:
    return ".".join(map(format_toml_key, section))


if __name__ == "__main__":
    main()
