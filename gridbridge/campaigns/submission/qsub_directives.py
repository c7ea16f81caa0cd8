"""Parses what a job script requests by its `#$` lines (qsub(1), OPTIONS and -C)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gridbridge.campaigns.submission.jdl_values import YEAR_S
from gridbridge.campaigns.submission.qsub_values import (
    IDLE,
    IDLE_HERE,
    LATER,
    NAMED,
    PLACES,
    ArrayRange,
    fewest_slots_of_ranges,
    is_ignored_option_valid,
    is_qsub_job_name,
    parse_limited_number,
    parse_qsub_boolean,
    parse_qsub_walltime_s,
    parse_range_bounds,
    path_on_any_host,
    require_path_on_any_host,
    split_directive_words,
)
from gridbridge.errors import ParseError
from gridbridge.model.request import is_home_place, resource_long_name
from gridbridge.model.status_report import count

PREFIX = "#$"
RESOURCE = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
RESOURCE_RIGHT = "it is not a resource; expected NAME=VALUE"
# The keys of a JDL that an option sets.
SETS = {
    "-N": ("name",),
    "-tc": ("max_jobs",),
    "-pe": ("resources", "pe"),
    "-wd": ("exec_directory",),
    "-cwd": ("exec_directory",),
}
HARD, SOFT = "h_rt", "s_rt"  # limits of time
SLOTS = "slots"  # a resource that qsub refuses (complex(5))
NO_INPUT = "/dev/null"
NOT_YET = "campaigns do not have it yet"
ALONE = ("-cwd", "-hard", "-soft")  # options without a value
ABROAD = re.compile(r"\$\{?(?:HOME|USER|JOB_ID|JOB_NAME|HOSTNAME|TASK_ID)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResource:
    """A requested resource, `NAME=VALUE` or a NAME that must be true, and its line."""

    place: str
    text: str


@dataclass(slots=True, kw_only=True)
class JobScriptRequest:
    """Everything that a job script requests by its qsub options."""

    place: str = ""  # of what is read
    places: dict[str, str] = field(default_factory=dict)  # of what was read, by a JDL's key
    name: str = ""
    array: ArrayRange | None = None
    most: int = 0  # running tasks at a time; 0: no limit
    walltime_s: int = 0  # 0: not said
    soft_walltime_s: int = 0
    environment: str = ""
    slots: int = 1
    folder: str | None = None  # None: not set; empty: the folder of the submission
    output: str = ""
    error: str = ""
    is_joined: bool = False
    shell: str = ""
    is_soft: bool = False  # following resources are soft requests
    resources: list[ScriptResource] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)  # options whose values were refused


@dataclass(slots=True)
class JobScriptParser:
    """Parses one job script; collects mistakes and options without effect."""

    path: str
    asked: JobScriptRequest = field(default_factory=JobScriptRequest)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def read(self, text: str) -> None:
        """Parse all `#$` lines of a script."""
        for number, line in enumerate(text.split("\n"), start=1):
            if line.startswith(PREFIX):
                self._line(f"{self.path}:{number}", line.removeprefix(PREFIX))

    def _line(self, location: str, line: str) -> None:
        self.asked.is_soft = False  # -soft holds to the end of its line
        words = split_directive_words(line)
        while words:
            self._option(location, words.pop(0), words)

    def _option(self, location: str, option: str, words: list[str]) -> None:
        """Read an option, and take the words off that belong to it."""
        count = _words_behind(option, words)
        values, words[:] = words[:count], words[count:]
        text = " ".join((option, *values))
        if option not in READ and option not in IDLE and option not in LATER:
            self.problems.append(f"{location}: {text}: unknown option; expected one of qsub(1)")
            words.clear()
        elif len(values) < count:
            self.problems.append(f"{location}: {text}: its value is missing")
        elif option in LATER:
            self.problems.append(f"{location}: {text}: {NOT_YET}; expected a script without it")
        elif option in READ:
            self._value(location, text, option, values)
        elif is_ignored_option_valid(option, values[-1] if values else ""):
            self.warnings.append(f"{location}: {text}: {IDLE_HERE}")
        else:
            self.problems.append(f"{location}: {text}: wrong form; expected one of qsub(1)")

    def _value(self, location: str, text: str, option: str, values: list[str]) -> None:
        self.asked.place = location
        try:
            notes = READ[option](self.asked, *values)
        except ParseError as error:
            self.problems.append(f"{location}: {text}: {error}")
            self.asked.wrong.add(option)
            return
        self.asked.places.update(dict.fromkeys(SETS.get(option, ()), f"{location}: {text}"))
        self.warnings += [f"{location}: {option} {note}" for note in notes or ()]


def _words_behind(option: str, words: list[str]) -> int:
    """Return the number of words of an option and its value."""
    if option == "-pe" or (option == "-binding" and words[:1] and words[0] in PLACES):
        return 2
    if option in READ:
        return int(option not in ALONE)
    return int(option in LATER or IDLE.get(option) is not None)


def parse_resource_option(request: JobScriptRequest, text: str) -> list[str]:
    """Parse the value of -l into walltime and resources; return warnings."""
    notes = []
    for entry in re.split(r"[,\s]+", text.strip(", \t")) if text.strip(", \t") else ():
        name, _, value = entry.partition("=")
        if name in (HARD, SOFT):
            notes += _limit(request, name, value)
        elif resource_long_name(name) == SLOTS:
            raise ParseError("slots are no resource; expected -pe NAME N")
        elif not RESOURCE.fullmatch(name):
            raise ParseError(RESOURCE_RIGHT)
        elif request.is_soft or is_home_place(name):
            notes.append(f"{entry}: {IDLE_HERE}")
        else:
            request.resources.append(ScriptResource(place=request.place, text=entry))
            request.places["properties"] = f"{request.place}: -l {entry}"
    return notes


def _limit(request: JobScriptRequest, name: str, value: str) -> list[str]:
    """Take a limit of time; INFINITY is the longest walltime."""
    is_unlimited = value.upper() == "INFINITY"
    seconds = YEAR_S if is_unlimited else parse_qsub_walltime_s(value)
    if name == HARD:
        request.walltime_s = seconds
    else:
        request.soft_walltime_s = seconds
    key = "walltime" if name == HARD else SOFT
    request.places[key] = f"{request.place}: -l {name}={value}"
    return [f"{name}={value}: each task has a year, the longest walltime"] * is_unlimited


def _name(request: JobScriptRequest, text: str) -> None:
    if not is_qsub_job_name(text):
        raise ParseError(f"qsub takes no such name; expected {NAMED}")
    request.name = text


def _array(request: JobScriptRequest, text: str) -> None:
    first, last, step = parse_range_bounds(text)
    request.array = ArrayRange(first=min(first, last), last=max(first, last), step=step)


def _most(request: JobScriptRequest, text: str) -> None:
    request.most = parse_limited_number(text, 0)


def _environment(request: JobScriptRequest, name: str, slots: str) -> list[str]:
    request.environment, request.slots = "" if name == "*" else name, fewest_slots_of_ranges(slots)
    is_range = not slots.isdigit()
    return [f"{name} {slots}: each task has the least, {count(request.slots, 'slot')}"] * is_range


def _folder(request: JobScriptRequest, path: str = "") -> None:
    request.folder = path


def _given_folder(request: JobScriptRequest, path: str) -> None:
    home = re.match(r"(?:~|\$HOME|\$\{HOME\})(?=/|$)", path)
    if match := ABROAD.search(path, home.end() if home else 0):
        raise ParseError(f"{match[0]} is not known there; expected /FOLDER, ~/FOLDER or a folder")
    if path:
        request.folder = path


def _output(request: JobScriptRequest, text: str) -> list[str]:
    request.output, notes = require_path_on_any_host(text)
    return notes


def _error(request: JobScriptRequest, text: str) -> list[str]:
    request.error, notes = require_path_on_any_host(text)
    return notes


def _input(_: JobScriptRequest, text: str) -> list[str]:
    path, notes = require_path_on_any_host(text)
    if path != NO_INPUT:
        raise ParseError(f"{NOT_YET}; expected {NO_INPUT}, or a script without it")
    return notes


def _binary(_: JobScriptRequest, word: str) -> None:
    if parse_qsub_boolean(word):
        raise ParseError(f"{NOT_YET}; expected a script without it")


def _hard(request: JobScriptRequest) -> None:
    request.is_soft = False


def _soft(request: JobScriptRequest) -> None:
    request.is_soft = True


def _joined(request: JobScriptRequest, word: str) -> None:
    request.is_joined = parse_qsub_boolean(word)


def _shell(request: JobScriptRequest, text: str) -> list[str]:
    path, notes = path_on_any_host(text)
    request.shell = path or request.shell
    return notes


def _variables(request: JobScriptRequest, text: str) -> list[str]:
    notes = []
    for setting in filter(None, text.split(",")):
        name, is_set, value = setting.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ParseError("a shell has no such variable; expected NAME=VALUE,...")
        if is_set:
            request.variables[name] = value
        else:
            notes.append(f"{setting}: {IDLE_HERE}")
    return notes


READ: Mapping[str, Callable[..., list[str] | None]] = {
    "-N": _name,
    "-b": _binary,
    "-i": _input,
    "-t": _array,
    "-tc": _most,
    "-l": parse_resource_option,
    "-hard": _hard,
    "-soft": _soft,
    "-pe": _environment,
    "-o": _output,
    "-e": _error,
    "-j": _joined,
    "-wd": _given_folder,
    "-cwd": _folder,
    "-S": _shell,
    "-v": _variables,
}
OF_SCRIPTS = (READ.keys() | IDLE.keys()) - {"-b", "-i"}  # options that a campaign's script may use
