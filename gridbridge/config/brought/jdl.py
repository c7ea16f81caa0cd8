"""Reads a campaign's JDL, in JSON or TOML, into the model.

All that is wrong is told at once, a line each: `FILE:LINE: key = value: what is wrong; what would
be right`. Keys are CiGri's, in any case of letters; a global one holds for each cluster that has
none of its own. Keys that CiGri has and we don't are told as warnings, unknown ones are refused.
"""

import json
import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import count
from typing import Any, BinaryIO

from gridbridge.config.brought.jdl_lines import Lines, is_json, lines_of
from gridbridge.config.brought.jdl_values import (
    COMMANDS,
    DATASETS,
    IDLE,
    JOBS_TYPES,
    KEYS,
    LATER,
    NAME,
    NUL,
    OUTPUTS,
    PARAMETERS,
    TOGETHER,
    TRUTHS,
    Key,
    asks_for_nothing,
    datasets,
    jobs_type,
    named_once,
    one_of,
    outputs,
    text_of,
    truth,
    with_macros,
)
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.jdl import AtCluster, DatasetWish, Jdl, Type
from gridbridge.model.ids import is_cluster_name

LINE_BYTES = 65_536  # of one task's parameters
FILE_BYTES = 256 << 20  # of all tasks' parameters
MOST_TOLD = 1000  # wrong lines of one file; of more it is told how many there are
STDIN = "/dev/stdin"
CLUSTERS, TEST = "clusters", "test_mode"
WHOLE = (
    "idempotent",
    "outputs",
    "datasets",
    "rebalance",
)  # ours, of the whole campaign: a copy runs at another cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A right JDL: what it asks for, its tasks' parameters, and what of it changes nothing."""

    jdl: Jdl
    parameters: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def load(
    path: str,
    text: str,
    *,
    type_: Type = Type.DEFAULT,
    folder: str = ".",
    parameters: tuple[str, ...] = (),
    known: tuple[str, ...] = (),
) -> Said:
    """Read a JDL; ConfigError tells everything that is wrong with it.

    Its `param_file` is looked up from `folder`; it has none where the parameters are given. Other
    clusters than those that are known are wrong; where none is, any may be there.
    """
    return Reader(path, text, folder, known=known).read(type_, parameters)


@dataclass(slots=True)
class Reader:
    """One JDL, and what is found to be wrong with it."""

    path: str
    text: str
    folder: str
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lines: Lines | None = None
    untold: int = 0  # wrong lines of a file of parameters
    is_typed: bool = False  # without a JDL: nothing in it is CiGri's
    known: tuple[str, ...] = ()  # the site's clusters; none: nobody knows them here

    def read(self, type_: Type, parameters: tuple[str, ...] = ()) -> Said:
        """Read all of it, then tell what is wrong."""
        said = self._lower(self._parsed())
        self.is_typed = bool(parameters)
        clusters = self._clusters(said)
        parameters = parameters or self._parameters(said)
        name = self._value(said, "name", text_of(NAME), "1 to 255 printable characters", "")
        is_idempotent = self._value(said, "idempotent", truth, TRUTHS, False)
        files = self._value(said, "outputs", outputs, OUTPUTS, ())
        if files and said.get("idempotent") is False:
            self._wrong("idempotent", False, "unclear with outputs", "one of them")
        data = self._value(said, "datasets", datasets, DATASETS, {})
        may_move = self._value(said, "rebalance", truth, TRUTHS, True)
        self._value(said, "jobs_type", jobs_type, JOBS_TYPES, None)
        self._known(said, {"name", "clusters", *WHOLE, *PARAMETERS, "jobs_type", *KEYS})
        if self.problems:
            raise ConfigError(tuple(self.problems))
        jdl = Jdl(
            name=name,
            type=type_,
            clusters=clusters,
            is_idempotent=is_idempotent,
            outputs=files,
            datasets={key: self._placed(wish) for key, wish in data.items()},
            may_move=may_move,
        )
        return Said(jdl=jdl, parameters=parameters, warnings=tuple(self.warnings))

    def _placed(self, wish: DatasetWish) -> DatasetWish:
        """Return a dataset with its path from /: from the JDL's folder, or one's home."""
        path = os.path.join(self.folder, os.path.expanduser(wish.path))
        return replace(wish, path=os.path.abspath(path))

    def _parsed(self) -> Mapping[str, Any]:
        try:
            said = self._json() if is_json(self.text) else tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:
            raise ConfigError((f"{self.path}: {error}; JSON or TOML",)) from error
        if not isinstance(said, dict):
            raise ConfigError((f"{self.path}: {said!r:.40}: not a table; {{ ... }}",))
        return said

    def _json(self) -> Any:
        """Read JSON, in which a key may stand twice: the last would count."""
        are_twice: list[bool] = []

        def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            are_twice.append(len({*dict(pairs)}) < len(pairs))
            return dict(pairs)

        said = json.loads(self.text, object_pairs_hook=table)
        for path, line in self._lines().twice if any(are_twice) else ():
            self.problems.append(f"{self.path}:{line}: {path[-1]}: the same key twice; once")
        return said

    def _lower(self, table: Mapping[str, Any], within: str = "") -> dict[str, Any]:
        """Return the table with its keys in small letters; the same key twice is wrong."""
        found: dict[str, Any] = {}
        for key, value in table.items():
            if key.lower() in found:
                self._wrong(key, value, "the same key twice", "once", within)
            found[key.lower()] = value
        return found

    def _clusters(self, said: Mapping[str, Any]) -> dict[str, AtCluster]:
        asked = said.get("clusters")
        if not isinstance(asked, dict) or not asked:
            self._wrong("clusters", asked, "no cluster", '{"NAME": {...}}, at least one')
            return {}
        for_all = self._values(said)
        return {name: self._at_cluster(name, table, for_all) for name, table in asked.items()}

    def _at_cluster(self, name: str, table: Any, for_all: Mapping[str, Any]) -> AtCluster:
        if not is_cluster_name(name) or not isinstance(table, dict):
            self._wrong(name, table, "no cluster", "a cluster's name and a table", "clusters")
            return AtCluster(exec_file="")
        if self.known and name not in self.known:
            self._wrong(name, None, "no such cluster here", one_of(self.known), "clusters")
        own = self._lower(table, name)
        self._known(own, KEYS.keys(), name)
        values = {**for_all, **self._values(own, name)}
        if "exec_file" not in values:
            if "exec_file" not in own:
                self._wrong("exec_file", None, "missing", KEYS["exec_file"].right, name)
            values["exec_file"] = ""
        return AtCluster(**values)

    def _values(self, table: Mapping[str, Any], within: str = "") -> dict[str, Any]:
        """Return the fields of AtCluster that a table sets; wrong ones are noted and left out."""
        found = {
            key.field: self._value(table, name, self._form(key), key.right, None, within)
            for name, key in KEYS.items()
            if name in table
        }
        together = found.pop(TOGETHER, None) or {}
        return {name: value for name, value in found.items() if value is not None} | together

    def _form(self, key: Key) -> Callable[[Any], Any]:
        """Return how a key is read; in a command of a JDL CiGri's macros are known."""
        if self.is_typed or key.field not in COMMANDS:
            return key.read
        return lambda value: with_macros(key.read(value))

    def _parameters(self, said: Mapping[str, Any]) -> tuple[str, ...]:
        given = [key for key in PARAMETERS if key in said]
        if len(given) != 1:
            wrong = "missing" if not given else "more than one"
            self._wrong(
                " and ".join(given) or "params", None, wrong, f"one of {one_of(PARAMETERS)}"
            )
            return ()
        lines = self._value(said, given[0], PARAMETERS[given[0]][0], PARAMETERS[given[0]][1], ())
        if given[0] == "param_file" and lines:
            lines = self._lines_of(str(lines))
        return named_once(lines)

    def _lines_of(self, path: str) -> tuple[str, ...]:
        lines = tuple(line for _, line in self.numbered(path))
        if not lines and not self.problems:
            self._wrong("param_file", path, "no parameters in it", "a line a task")
        return lines

    def numbered(self, path: str) -> Iterator[tuple[int, str]]:
        """Give a file's lines that are not blank, with their numbers.

        A file that can't be read is wrong, and a line that is no UTF-8 or too long: nothing of
        these is kept, for all of a large file may be so.
        """
        try:
            with open(f"{self.folder}/{path}" if path[:1] != "/" else path, "rb") as file:
                for number, line in self._bounded(path, file):
                    stripped = line.strip()
                    if stripped and (text := self._text_of(path, number, stripped)):
                        yield number, text
        except OSError as error:
            self._unread(path, str(error.strerror), "a file that can be read")
        if self.untold:
            self.problems.append(f"{path}: {self.untold} more wrong lines after these")

    def _unread(self, path: str, wrong: str, right: str) -> None:
        """Tell of a file that is not read, by the key that names it, if one does."""
        if self.text:
            self._wrong("param_file", path, wrong, right)
        else:
            self.problems.append(f"{path}: {wrong}; {right}")

    def _wrong_line(self, path: str, number: int, problem: str) -> None:
        """Note a wrong line; a file may have a hundred million of them."""
        if len(self.problems) < MOST_TOLD:
            self.problems.append(f"{path}:{number}: {problem}")
        else:
            self.untold += 1

    def _bounded(self, path: str, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Give the lines with their numbers; a device may have no end, and no line's end."""
        mode = os.fstat(file.fileno()).st_mode
        if path != STDIN and not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            self._unread(path, "no plain file", "a file with a line a task")
            return
        left = FILE_BYTES
        for number in count(1):
            line = file.readline(left + 1)
            left -= len(line)
            if left < 0:
                self.problems.append(f"{path}:{number}: too large; at most {FILE_BYTES} bytes")
            if not line or left < 0:
                return
            if len(line) > LINE_BYTES:
                self._wrong_line(path, number, f"{len(line)} bytes; at most {LINE_BYTES}")
                continue
            yield number, line

    def _text_of(self, path: str, number: int, line: bytes) -> str:
        try:
            if b"\0" in line:
                raise ValueError(NUL)
            return line.decode()
        except ValueError as error:
            self._wrong_line(path, number, f"{getattr(error, 'reason', error)}; UTF-8")
            return ""

    def _value(
        self,
        table: Mapping[str, Any],
        key: str,
        read: Callable[[Any], Any],
        right: str,
        default: Any,
        within: str = "",
    ) -> Any:
        """Read a key; what is wrong is noted, and the default returned."""
        if key not in table:
            if default == "":
                self._wrong(key, None, "missing", right, within)
            return default
        try:
            return read(table[key])
        except (ValueError, TypeError) as error:
            self._wrong(key, table[key], str(error) or "wrong", right, within)
            return default

    def _known(self, table: Mapping[str, Any], keys: Any, within: str = "") -> None:
        for key in table:
            if key in IDLE or (key in (*LATER, TEST) and asks_for_nothing(table[key])):
                self.warnings.append(f"{self._at(key, within)}: changes nothing yet")
            elif key in LATER:
                self._wrong(key, table[key], "not yet", "leave it out", within)
            elif key == TEST:
                self._wrong(key, table[key], "not in a JDL", "gridsub -t test", within)
            elif within and key in WHOLE:
                wrong = "for some clusters alone; outside of clusters, for all of them"
                self.problems.append(f"{self._at(key, within)}: {wrong}")
            elif key not in keys:
                near = get_close_matches(key, [*keys], 1)
                hint = (
                    f"{near[0]} is the nearest"
                    if near
                    else f"the keys are {', '.join(sorted(keys))}"
                )
                self.problems.append(f"{self._at(key, within)}: unknown key; {hint}")

    def _wrong(self, key: str, value: Any, wrong: str, right: str, within: str = "") -> None:
        shown = "" if value is None else f" = {json.dumps(value, default=str):.80}"
        self.problems.append(f"{self._at(key, within)}{shown}: {wrong}; {right}")

    def _at(self, key: str, within: str) -> str:
        """Return where a key stands, as far as its text shows, and how it is called there."""
        above = (CLUSTERS, within) if within and within != CLUSTERS else (within,) * bool(within)
        line = self._lines().of(*above, key)
        word = self._lines().word(*above, key)
        place = f"{self.path}:{line}" if line else self.path
        return f"{place}: {within}.{word}" if within else f"{place}: {word}"

    def _lines(self) -> Lines:
        """Return where its keys stand; only what is wrong has to know."""
        if self.lines is None:
            self.lines = lines_of(self.text)
        return self.lines
