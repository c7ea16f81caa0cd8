"""Writes campaigns as JDLs, finds the lines of JDL keys, and reads files with a task on each line."""

import json
import os
import re
import stat
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count as counting
from typing import BinaryIO

from gridbridge.campaigns.submission.jdl_value_parsers import (
    BEST_EFFORT,
    BY_SIGNAL,
    NIGHTLY,
    NUL,
    PARAMETERS,
    SEMI,
    UTF_8,
)
from gridbridge.errors import CommandLineMistake, ConfigError
from gridbridge.model.campaigns.campaign_file_and_array_names import first_task_parameter, has_closed_quotes
from gridbridge.model.campaigns.host_property_request_parser import (
    ALL,
    Pair,
    parse_alternative_host_properties,
    parse_required_host_properties,
)
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.job_request import VALUELESS, WORDS, split_property_and_sql_relation
from gridbridge.model.published_status_and_reports import number_with_noun

STEPS = ("prologue", "epilogue")  # commands with a walltime of their own
Path = tuple[str, ...]  # path of a key: the names of its tables, then the name of the key
JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
NAMES = rf"{NAME}(?:\s*\.\s*{NAME})*"
TOML = re.compile(rf"\s*(?:\[(?P<table>\s*{NAMES}\s*)\]|(?P<key>{NAMES})\s*=)")
LONG = re.compile("\"\"\"|'''")


def campaign_to_jdl_table(jdl: Jdl, parameters: Iterable[str]) -> dict[str, object]:
    """Return a campaign as the table of a JDL, which `parse_jdl` reads as the same campaign."""
    keys: dict[str, object] = {
        "idempotent": jdl.is_idempotent,
        "outputs": list(jdl.outputs),
        "outputs_to": jdl.outputs_to,
        "inputs": list(jdl.inputs),
        "datasets": {name: asdict(dataset) for name, dataset in jdl.datasets.items()},
        "after": [predecessor.jdl_text for predecessor in jdl.after],
        "on_failure": jdl.on_failure if jdl.after else "",
        "max_parallel": jdl.max_parallel,
        "first_tasks": jdl.first_tasks,
    }
    table = {"name": jdl.name} | {key: value for key, value in keys.items() if value}
    table |= _jdl_keys_of_checkpoints(jdl) if jdl.checkpoint_files else {}
    if not (jdl.may_move or jdl.checkpoint_files):
        table["rebalance"] = False
    table["clusters"] = {name: dict(_jdl_keys_of_cluster(cluster)) for name, cluster in jdl.clusters.items()}
    return table | {"params": list(parameters)}


def _jdl_keys_of_checkpoints(jdl: Jdl) -> dict[str, object]:
    return {
        "checkpointing_type": BY_SIGNAL,
        "checkpoint_files": list(jdl.checkpoint_files),
        "checkpoint_signal": jdl.checkpoint_signal,
        "checkpoint_s": jdl.checkpoint_s or "auto",
    }


def _type_of_tasks(cluster: JdlSettingsAtCluster) -> str:
    if cluster.is_nightly:
        return NIGHTLY
    ordinary = SEMI if cluster.is_semi_besteffort else "normal"
    return BEST_EFFORT[0] if cluster.is_besteffort else ordinary


def _jdl_keys_of_cluster(cluster: JdlSettingsAtCluster) -> Iterator[tuple[str, object]]:
    slots, nodes = cluster.slots // cluster.side_by_side, cluster.nodes
    yield "exec_file", cluster.exec_file
    yield "resources", f"/nodes={nodes}/core={slots // nodes}" if nodes else f"/core={slots}"
    yield "walltime", _format_walltime(cluster.walltime_s)
    yield "type", _type_of_tasks(cluster)
    texts = {
        "exec_directory": cluster.exec_directory,
        "project": cluster.project,
        "queue": cluster.queue,
        "pe": cluster.environment,
        # a comma binds less than OR, so clauses joined by commas need no parentheses
        "properties": ", ".join(map(_format_host_condition_clause, cluster.properties.split(ALL)))
        if cluster.properties
        else "",
        "max_jobs": cluster.max_jobs,
        "dimensional_grouping": cluster.side_by_side if cluster.side_by_side > 1 else 0,
    }
    yield from ((key, value) for key, value in texts.items() if value)
    if cluster.temporal_grouping is not None:
        yield "temporal_grouping", cluster.temporal_grouping
    for key in STEPS:
        if lines := getattr(cluster, key):
            yield key, lines.split("\n")
            yield f"{key}_walltime", _format_walltime(getattr(cluster, f"{key}_walltime_s"))


def _format_walltime(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _format_host_condition_clause(text: str) -> str:
    conditions = (*parse_alternative_host_properties(text), parse_required_host_properties(text))[0]
    return " OR ".join(map(_format_host_condition, conditions))


def _format_host_condition(pair: Pair) -> str:
    name, value = pair
    bare, relation = split_property_and_sql_relation(name)
    words = f"{bare} {WORDS.get(relation, relation)}"
    return words if relation in VALUELESS else f"{words} '{value}'"


@dataclass(slots=True)
class JdlKeyLineNumbers:
    lines: dict[Path, int] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)  # original spelling of each key
    twice: list[tuple[Path, int]] = field(default_factory=list)  # repeated keys

    def line_of_key(self, *path: str) -> int:
        """Return the line number of a key, or of its table if the key is missing; 0 if both are missing."""
        lines = (self.lines.get(_lower_case_key_path(path[:end])) for end in range(len(path), 0, -1))
        return next(filter(None, lines), 0)

    def original_spelling_of_key(self, *path: str) -> str:
        return self.written.get(_lower_case_key_path(path), path[-1])


def locate_jdl_keys(text: str) -> JdlKeyLineNumbers:
    keys = JdlKeyLineNumbers()
    for path, line in _locate_keys_in_json(text) if is_json_jdl(text) else _locate_keys_in_toml(text):
        low = _lower_case_key_path(path)
        if low in keys.lines:
            keys.twice.append((path, line))
        else:
            keys.lines[low], keys.written[low] = line, path[-1]
    return keys


def is_json_jdl(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _locate_keys_in_json(text: str) -> Iterator[tuple[Path, int]]:
    tables: list[str] = []  # keys of the enclosing tables; empty text for a list
    kinds, key, is_key = "", "", False
    line, counted = 1, 0
    for token in JSON.finditer(text):
        word = token[0]
        if word in "{[":
            tables.append(key)
            kinds, is_key = kinds + word, word == "{"
        elif word in "}]":
            tables, kinds = tables[:-1], kinds[:-1]
        elif word in ",:":
            is_key = word == "," and kinds[-1:] == "{"
        elif is_key:
            line, counted = line + text.count("\n", counted, token.start()), token.start()
            key = str(json.loads(word, strict=False))
            yield (*tables[1:], key), line


def _locate_keys_in_toml(text: str) -> Iterator[tuple[Path, int]]:
    table: Path = ()
    is_long = False
    for number, line in enumerate(text.split("\n"), start=1):
        was_long, is_long = is_long, is_long ^ bool(len(LONG.findall(line)) % 2)
        match = None if was_long else TOML.match(line)
        if match and match["table"]:
            table = _split_dotted_toml_key(match["table"])
            yield table, number
        elif match:
            path = (*table, *_split_dotted_toml_key(match["key"]))
            yield path, number
            yield from ((inner, number) for inner in _keys_of_inline_toml_table(path, line[match.end() :]))


def _keys_of_inline_toml_table(path: Path, text: str) -> Iterable[Path]:
    if not text.lstrip().startswith("{"):
        return
    for match in re.finditer(rf"[{{,]\s*({NAME})\s*=\s*(\{{?)", text):
        yield (*path, *_split_dotted_toml_key(match[1]))
        path = (*path, *_split_dotted_toml_key(match[1])) if match[2] else path


def _split_dotted_toml_key(names: str) -> Path:
    return tuple(name.strip().strip("\"'") for name in re.findall(NAME, names))


def _lower_case_key_path(path: Iterable[str]) -> Path:
    return tuple(map(str.lower, path))


LINE_BYTES = 65_536  # largest number of bytes of one task's parameters
FILE_BYTES = 256 << 20  # largest number of bytes of all tasks' parameters
MOST_TOLD = 1000  # largest number of reported wrong lines of a file; further lines are only counted
STDIN = "/dev/stdin"
NO_LINE = ("all lines are blank", "expected one line for each task")


def read_task_lines(path: str) -> tuple[tuple[int, str], ...]:
    """Return the numbered non-blank lines of a task file; raise CommandLineMistake or ConfigError."""
    file = TaskFileReader(path)
    lines = tuple(file.read_numbered_lines())
    if file.unread:
        raise CommandLineMistake((f"{path}: {'; '.join(file.unread)}",))
    if not (lines or file.problems):
        file.problems.append(f"{path}: {'; '.join(NO_LINE)}")
    if file.problems:
        raise ConfigError(tuple(file.problems))
    return lines


@dataclass(slots=True)
class TaskFileReader:
    path: str
    folder: str = "."
    problems: list[str] = field(default_factory=list)
    unread: tuple[str, str] | None = None  # why the file is unreadable, and the expected kind of file
    untold: int = 0

    def read_numbered_lines(self) -> Iterator[tuple[int, str]]:
        """Yield the non-blank lines with their numbers; report lines that are too long or not UTF-8."""
        try:
            with self._open_task_file() as file:
                for number, line in self._read_lines_within_limits(file):
                    stripped = (line.removeprefix(BOM_UTF8) if number == 1 else line).strip()
                    if stripped and (text := self._decode_task_line(number, stripped)):
                        yield number, text
        except OSError as error:
            self.unread = (str(error.strerror), "expected a readable file")
        if self.untold:
            more = number_with_noun(self.untold, "more wrong line")
            self.problems.append(f"{self.path}: {more} not shown")

    def _open_task_file(self) -> BinaryIO:
        if self.path == STDIN:
            return os.fdopen(os.dup(0), "rb")  # after sudo, /dev/stdin can't be opened
        return open(self.path if self.path[:1] == "/" else f"{self.folder}/{self.path}", "rb")

    def _read_lines_within_limits(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        mode = os.fstat(file.fileno()).st_mode
        if self.path != STDIN and not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            self.unread = ("not a plain file", "expected a file with one line for each task")
            return
        remaining_bytes = FILE_BYTES
        for number in counting(1):
            line = file.readline(remaining_bytes + 1)
            remaining_bytes -= len(line)
            if remaining_bytes < 0:
                wrong = f"the file is too large; expected at most {FILE_BYTES} bytes"
                self.problems.append(f"{self.path}:{number}: {wrong}")
            if not line or remaining_bytes < 0:
                return
            if len(line) > LINE_BYTES:
                self._report_wrong_task_line(number, f"the line has {len(line)} bytes; expected at most {LINE_BYTES}")
            else:
                yield number, line

    def _decode_task_line(self, number: int, line: bytes) -> str:
        try:
            if b"\0" in line:
                raise ValueError(NUL)
            return line.decode()
        except ValueError as error:
            self._report_wrong_task_line(number, f"{getattr(error, 'reason', error)}; {UTF_8}")
            return ""

    def _report_wrong_task_line(self, number: int, problem: str) -> None:
        """Record a wrong line; after 1000 wrong lines only count, because a file may have millions."""
        if len(self.problems) < MOST_TOLD:
            self.problems.append(f"{self.path}:{number}: {problem}")
        else:
            self.untold += 1


def make_task_names_unique(lines: tuple[str, ...], before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Make the first word of each line unique in the campaign: the second `a` becomes `a#2`."""
    names = {first_task_parameter(line)[0] for line in before}
    counts = defaultdict[str, int](lambda: 1)

    def line_with_unique_name(line: str) -> str:
        first, end = first_task_parameter(line)
        name = first
        while name in names:
            counts[first] += 1
            name = f"{first}#{counts[first]}"
        names.add(name)
        return line[:end] + name.removeprefix(first) + line[end:]

    return tuple(map(line_with_unique_name, lines))


def task_line_warnings(lines: tuple[str, ...], lines_with_names: tuple[str, ...]) -> Iterator[str]:
    """Yield warnings about tasks with a changed name, and about lines with an unclosed quotation mark."""
    if renamed := [new for line, new in zip(lines, lines_with_names, strict=True) if new != line]:
        tasks = number_with_noun(len(renamed), "task")
        yield f"{tasks} got a number, because the first word was not unique: {renamed[0]:.80}"
    if open_lines := [line for line in lines if not has_closed_quotes(line) and len(line.split()) > 1]:
        tasks = number_with_noun(len(open_lines), "task")
        wrong = "an unclosed quotation mark, which is kept"
        yield f"{tasks} with {wrong}; each blank separates words: {open_lines[0]:.80}"


READ, RIGHT = PARAMETERS["params"]


def read_added_task_file(path: str) -> tuple[str, ...]:
    lines = tuple(line for _, line in read_task_lines(path))
    text = "\n".join(lines)
    try:
        is_list = text.startswith("[") and text.endswith("]") and isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        is_list = False  # the text is no JSON, but parameters that begin like JSON
    return parse_added_tasks_json(path, text) if is_list else lines


def parse_added_tasks_json(source: str, text: str) -> tuple[str, ...]:
    """Return the task parameters in a JSON list; raises ConfigError for other texts."""
    try:
        parameters: tuple[str, ...] = READ(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError((f"{source} = {text:.40}: {error}; {RIGHT}",)) from error
    return parameters
