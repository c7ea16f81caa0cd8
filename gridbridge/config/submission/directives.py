"""Reads what a job script asks qsub for: its `#$` lines (qsub(1), OPTIONS and -C)."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gridbridge.errors import ParseError
from gridbridge.model import amounts
from gridbridge.model.places import is_place

PREFIX = "#$"
RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
RANGE_RIGHT = "N, N-M or N-M:STEP is right, from 1 to 999999999"
MOST = 9_999_999  # tasks at once, or slots of one
# What changes nothing in a campaign, with how many words follow it.
IDLE = {
    **dict.fromkeys(("-V", "-h", "-notify", "-terse", "-verify", "-clear"), 0),
    **dict.fromkeys(("-a", "-A", "-ac", "-binding", "-c", "-ckpt", "-dc", "-dl", "-js", "-jsv"), 1),
    **dict.fromkeys(("-M", "-m", "-masterq", "-now", "-P", "-p", "-q", "-R", "-r", "-shell"), 1),
    **dict.fromkeys(("-sync", "-w", "-display"), 1),
}
# The keys of a JDL that an option sets.
SETS = {
    "-N": ("name",),
    "-tc": ("max_jobs",),
    "-pe": ("resources", "pe"),
    "-wd": ("exec_directory",),
    "-cwd": ("exec_directory",),
}
HARD, SOFT = "h_rt", "s_rt"  # limits of time
TIME = "h_rt=H:M:S or seconds, from 1 second, is right"
YES, NO = ("y", "yes"), ("n", "no")
# What a task could not do without.
REFUSED = {"-hold_jid": 1, "-hold_jid_ad": 1, "-i": 1, "-b": 1, "-C": 1}
ALONE = ("-cwd", "-hard", "-soft")  # nothing follows them


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The numbers of an array's tasks."""

    first: int
    last: int
    step: int = 1

    @property
    def numbers(self) -> range:
        """All of them."""
        return range(self.first, self.last + 1, self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What a host has to have, `NAME=VALUE` or a NAME that is true there, and where that stands."""

    place: str
    text: str


@dataclass(slots=True, kw_only=True)
class Asked:
    """What a script asks for."""

    place: str = ""  # of what is read
    places: dict[str, str] = field(default_factory=dict)  # of what was read, by a JDL's key
    name: str = ""
    array: Range | None = None
    most: int = 0  # tasks at once; 0: no limit
    walltime_s: int = 0  # 0: not said
    soft_walltime_s: int = 0
    environment: str = ""
    slots: int = 1
    folder: str | None = None  # None: not said; empty: where it is submitted
    output: str = ""
    error: str = ""
    is_joined: bool = False
    shell: str = ""
    is_soft: bool = False  # of the resources that follow
    resources: list[Resource] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Script:
    """One script, and what is found to be wrong or idle in its lines."""

    path: str
    asked: Asked = field(default_factory=Asked)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def read(self, text: str) -> None:
        """Read all of its lines."""
        for number, line in enumerate(text.split("\n"), start=1):
            if line.startswith(PREFIX):
                self._line(f"{self.path}:{number}", line.removeprefix(PREFIX))

    def _line(self, place: str, line: str) -> None:
        try:
            words = shlex.split(line)
        except ValueError as error:
            self.problems.append(f"{place}: {error}; quotation marks in pairs are right")
            return
        while words:
            self._option(place, words.pop(0), words)

    def _option(self, place: str, option: str, words: list[str]) -> None:
        """Read an option, and take the words off that belong to it."""
        count = 2 if option == "-pe" else IDLE.get(option, REFUSED.get(option, int(option in READ)))
        count = 0 if option in ALONE else count
        values, words[:] = words[:count], words[count:]
        said = " ".join((option, *values))
        if option in REFUSED:
            self.problems.append(
                f"{place}: {said}: campaigns do not have it yet; a script without it is right"
            )
        elif option in IDLE:
            self.warnings.append(f"{place}: {said}: changes nothing yet")
        elif option not in READ:
            self.problems.append(f"{place}: {said}: unknown option; those of qsub(1) are right")
            words.clear()
        elif len(values) < count:
            self.problems.append(
                f"{place}: {said}: nothing follows it; its value after it is right"
            )
        else:
            self._value(place, said, option, values)

    def _value(self, place: str, said: str, option: str, values: list[str]) -> None:
        self.asked.place = place
        try:
            idle = READ[option](self.asked, *values)
        except ParseError as error:
            self.problems.append(f"{place}: {said}: {error}")
            return
        self.asked.places.update(dict.fromkeys(SETS.get(option, ()), f"{place}: {said}"))
        self.warnings += [f"{place}: {option} {one}: changes nothing yet" for one in idle or ()]


def read_range(text: str) -> Range:
    """Read the numbers of tasks as qsub -t does; ParseError for anything else."""
    found = RANGE.fullmatch(text)
    if not found:
        raise ParseError(f"it is not a range; {RANGE_RIGHT}")
    first = int(found[1])
    last, step = int(found[2] or first), int(found[3] or 1)
    if not first or not step:
        raise ParseError(f"there is no task and no step 0; {RANGE_RIGHT}")
    if last < first:
        raise ParseError(f"it ends before it begins; {RANGE_RIGHT}")
    return Range(first=first, last=last, step=step)


def resources(asked: Asked, text: str) -> list[str]:
    """Take a walltime and resources from what -l asks for; return what only would be good."""
    idle = []
    for one in text.split(","):
        name, _, value = one.partition("=")
        if name == HARD:
            asked.walltime_s = _walltime(value)
            asked.places["walltime"] = f"{asked.place}: -l {one}"
        elif name == SOFT:
            asked.soft_walltime_s = _walltime(value)
            asked.places[SOFT] = f"{asked.place}: -l {one}"
        elif asked.is_soft or is_place(name):
            idle.append(one)
        else:
            asked.resources.append(Resource(place=asked.place, text=one))
            asked.places["properties"] = f"{asked.place}: -l {one}"
    return idle


def _walltime(text: str) -> int:
    """Read whole seconds; a part of a second is one."""
    try:
        seconds = amounts.read(text)
    except ParseError as error:
        raise ParseError(f"{error}; {TIME}") from error
    if not seconds:
        raise ParseError(f"no task ends in no time; {TIME}")
    return max(1, round(seconds))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MOST):
        raise ParseError(f"it is not such a number; a number from 1 to {MOST} is right")
    return int(text)


def _name(asked: Asked, text: str) -> None:
    asked.name = text


def _array(asked: Asked, text: str) -> None:
    asked.array = read_range(text)


def _most(asked: Asked, text: str) -> None:
    asked.most = _number(text)


def _environment(asked: Asked, name: str, slots: str) -> None:
    asked.environment, asked.slots = name, _number(slots)


def _folder(asked: Asked, path: str = "") -> None:
    asked.folder = path


def _local(path: str) -> str:
    """Return a path without the host that qsub allows before it, which has to be any host."""
    host, colon, rest = path.partition(":")
    if host and colon:
        raise ParseError("it is a file of one host; a path without HOST: is right")
    return rest if colon else path


def _output(asked: Asked, path: str) -> None:
    asked.output = _local(path)


def _error(asked: Asked, path: str) -> None:
    asked.error = _local(path)


def _hard(asked: Asked) -> None:
    asked.is_soft = False


def _soft(asked: Asked) -> None:
    asked.is_soft = True


def _joined(asked: Asked, word: str) -> None:
    if word not in (*YES, *NO):
        raise ParseError("it says neither yes nor no; y or n is right")
    asked.is_joined = word in YES


def _shell(asked: Asked, path: str) -> None:
    if not path.startswith("/"):
        raise ParseError("it is not an absolute path; one as /bin/bash is right")
    asked.shell = path


def _variables(asked: Asked, text: str) -> list[str]:
    idle = []
    for one in text.split(","):
        name, is_set, value = one.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ParseError("it is not a list of variables; NAME=VALUE,... is right")
        if is_set:
            asked.variables[name] = value
        else:
            idle.append(one)
    return idle


READ: Mapping[str, Callable[..., list[str] | None]] = {
    "-N": _name,
    "-t": _array,
    "-tc": _most,
    "-l": resources,
    "-hard": _hard,
    "-soft": _soft,
    "-pe": _environment,
    "-o": _output,
    "-e": _error,
    "-j": _joined,
    "-wd": _folder,
    "-cwd": _folder,
    "-S": _shell,
    "-v": _variables,
}
