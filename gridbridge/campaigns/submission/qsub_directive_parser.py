"""Parses the `#$` lines of a job script as qsub of Grid Engine 8.1.9 does (qsub(1), -C; sge_types(5))."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from gridbridge.campaigns.submission.jdl_value_parsers import YEAR_S
from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts
from gridbridge.model.job_request import is_home_only_resource, resource_long_name
from gridbridge.model.published_status_and_reports import number_with_noun

WORD = re.compile(r"""(?:[^ \t"']|"[^"]*"?|'[^']*'?)+""")
YES, NO = ("y", "yes"), ("n", "no")
ANY, SOME = r"(?s:.*)", r"(?s:.+)"
DATE = r"(?:\d\d)?(?:\d\d)?(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d(?:\.[0-5]\d)?"
VARIABLES = r"[^=,]+(?:=[^,]*)?(?:,[^=,]+(?:=[^,]*)?)*"
PLACES = ("env", "pe", "set")  # optional first words of the value of -binding
# {option without effect in a campaign: form of its value}; None: an option without a value
IDLE: Mapping[str, str | None] = {
    **dict.fromkeys(("-V", "-h", "-notify", "-terse", "-verify", "-clear")),
    **dict.fromkeys(("-A", "-C", "-P", "-ckpt", "-jsv", "-u"), ANY),
    **dict.fromkeys(("-M", "-masterq", "-q"), SOME),
    **dict.fromkeys(("-now", "-pty", "-R", "-r", "-shell", "-sync"), r"(?i:y|yes|n|no)"),
    **dict.fromkeys(("-a", "-dl"), DATE),
    **dict.fromkeys(("-ac", "-sc"), VARIABLES),
    "-binding": r"(?:linear|striding:\d+:\d+|explicit:\d+,\d+)(?:[:,]\w+)*",
    "-c": r"[nsmxr]+|[\d:]+",
    "-dc": SOME,
    "-js": r"\d+(?:\.\d*)?",
    "-m": "[abens]+",
    "-p": r"[+-]?0*(?:\d{1,3}|10[01]\d|102[0-3])|\+?0*1024",
    "-w": "[enpvw]",
}
WITHOUT = "a script without it"
LATER = {  # options that campaigns do not support yet, each with a value: what is expected instead
    "-hold_jid": "gridsub --after CAMPAIGN:ended",
    "-hold_jid_ad": "gridsub --after CAMPAIGN:same",
    "-ar": WITHOUT,
    "-@": WITHOUT,
}
NAME = re.compile(r"(?!\d)(?i:(?!(?:all|none|template)$))[!-~]{1,512}")
NOT_IN_NAMES = frozenset("/:@*?\\")
NAMED = "1 to 512 ASCII characters without blanks and /:@*?\\, the first not a digit"
RANGE = re.compile(r"(\d{1,9})(?:[-:](\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
RANGE_RIGHT = "expected N, N-M or N-M:STEP, from 1 to 999999999"
SLOT_RANGE = re.compile(r"(?=.*\d)(\d{0,9})(?:([-:])(\d{0,9}))?", re.ASCII)
MOST = 9_999_999  # largest allowed number of running tasks, and of slots per task
TIME = "expected h_rt=H:M:S or h_rt=SECONDS, at least 1 second"
OCTAL = re.compile(r"0\d+$", re.ASCII)
IDLE_HERE = "changes nothing yet"
PREFIX = "#$"
RESOURCE = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
RESOURCE_RIGHT = "not a resource; expected NAME=VALUE"
# {option: JDL keys that the option sets}
SETS = {
    "-N": ("name",),
    "-tc": ("max_parallel",),
    "-pe": ("resources", "pe"),
    "-wd": ("exec_directory",),
    "-cwd": ("exec_directory",),
}
HARD, SOFT = "h_rt", "s_rt"
SLOTS = "slots"  # resource that qsub refuses in -l (complex(5))
NO_INPUT = "/dev/null"
NOT_YET = "campaigns do not support this yet"
ALONE = ("-cwd", "-hard", "-soft")  # options without a value
ABROAD = re.compile(r"\$\{?(?:HOME|USER|JOB_ID|JOB_NAME|HOSTNAME|TASK_ID)\b")


def parse_qsub_task_range(text: str, *, may_fall: bool = False) -> range:
    """Parse N, N-M or N-M:STEP; raise ParseError for other texts. M < N is allowed with `may_fall`."""
    match = RANGE.fullmatch(text)
    if not match:
        raise ParseError(f"not a range; {RANGE_RIGHT}")
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if not first or not last or not step:
        raise ParseError(f"tasks and steps count from 1; {RANGE_RIGHT}")
    if last < first and not may_fall:
        raise ParseError(f"the last number is less than the first; {RANGE_RIGHT}")
    return range(min(first, last), max(first, last) + 1, step)


def _parse_qsub_walltime_s(text: str) -> int:
    try:
        seconds = grid_engine_amounts.parse_grid_engine_amount(text)
    except ParseError as error:
        raise ParseError(f"{error}; {TIME}") from error
    if text.count(":") == 1 or OCTAL.match(text):
        raise ParseError(f"qsub would read another time, or refuse this text; {TIME}")
    if not seconds:
        raise ParseError(f"the time is less than a second; {TIME}")
    return max(1, round(seconds))


def _parse_number_at_least(text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= MOST):
        raise ParseError(f"not a number from {least} to {MOST}")
    return int(text)


def _parse_smallest_slot_number(text: str) -> int:
    least = MOST + 1
    for part in filter(None, text.split(",")):
        match = SLOT_RANGE.fullmatch(part)
        if not match:
            raise ParseError("not a range of slots; expected N, N-M, N- or -M, from 1")
        ends = (match[1] or "1", match[3] or str(MOST) if match[2] else match[1])
        least = min(least, *(_parse_number_at_least(end.lstrip("0") or "0", 1) for end in ends))
    return _parse_number_at_least(str(least), 1)


def output_path_for_any_host(text: str, *, may_lack: bool = False) -> tuple[str, list[str]]:
    """Return the path for all hosts in -o, and a warning for each path for one host.

    Without a path for all hosts, returns an empty path if `may_lack`, else raises ParseError.
    """
    entries = [entry for entry in text.split(",") if entry]
    at_one = [entry for entry in entries if entry.find(":") > 0]
    at_any = [entry.removeprefix(":") for entry in entries if entry not in at_one]
    if len(at_any) > 1:
        raise ParseError("several paths for the same hosts; expected one path")
    if not entries or "" in at_any:
        raise ParseError("no path; expected one")
    if not (at_any or may_lack):
        raise ParseError("this is a path for one host only; expected a path without HOST:")
    return "".join(at_any), [f"{entry}: {IDLE_HERE}" for entry in at_one]


def _parse_qsub_boolean(word: str) -> bool:
    if word.lower() not in (*YES, *NO):
        raise ParseError("neither yes nor no; expected y or n")
    return word.lower() in YES


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScriptResourceRequest:
    place: str
    text: str


@dataclass(slots=True, kw_only=True)
class JobScriptRequest:
    place: str = ""  # file and line of the option that is being parsed
    places: dict[str, str] = field(default_factory=dict)  # {JDL key: file and line of the option}
    name: str = ""
    array: range | None = None
    most: int = 0  # largest number of tasks that run at once; 0: no limit
    walltime_s: int = 0  # hard time limit; 0 if not given
    soft_walltime_s: int = 0
    environment: str = ""
    slots: int = 1
    folder: str | None = None  # working directory; None if not given, empty for the folder in which gridsub was run
    output: str = ""
    error: str = ""
    is_joined: bool = False
    shell: str = ""
    is_soft: bool = False  # whether -soft applies to the next resources
    resources: list[JobScriptResourceRequest] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)


@dataclass(slots=True)
class JobScriptParser:
    path: str
    asked: JobScriptRequest = field(default_factory=JobScriptRequest)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def parse_directives(self, script: str) -> None:
        """Parse all `#$` lines of a script.

        A line ends at the next `#`. Quotation marks are removed, and a backslash is an ordinary character.
        """
        for number, line in enumerate(script.split("\n"), start=1):
            self.asked.is_soft = False  # -soft has effect up to the end of its line
            text = line.removeprefix(PREFIX).partition("#")[0].strip() if line.startswith(PREFIX) else ""
            words = [word.replace('"', "").replace("'", "") for word in WORD.findall(text)]
            while words:
                self._parse_qsub_option(f"{self.path}:{number}", words.pop(0), words)

    def _parse_qsub_option(self, location: str, option: str, words: list[str]) -> None:
        count = _count_words_of_qsub_option(option, words)
        values, words[:] = words[:count], words[count:]
        text = " ".join((option, *values))
        if option not in READ and option not in IDLE and option not in LATER:
            self.problems.append(f"{location}: {text}: unknown option; expected an option of qsub(1)")
            words.clear()
        elif len(values) < count:
            self.problems.append(f"{location}: {text}: the option's value is missing")
        elif option in LATER:
            self.problems.append(f"{location}: {text}: {NOT_YET}; expected {LATER[option]}")
        elif option in READ:
            self._parse_qsub_option_value(location, text, option, values)
        elif re.fullmatch(IDLE[option] or "", values[-1] if values else "", re.ASCII):
            self.warnings.append(f"{location}: {text}: {IDLE_HERE}")
        else:
            self.problems.append(f"{location}: {text}: wrong form; expected the form of qsub(1)")

    def _parse_qsub_option_value(self, location: str, text: str, option: str, values: list[str]) -> None:
        self.asked.place = location
        try:
            notes = READ[option](self.asked, *values)
        except ParseError as error:
            self.problems.append(f"{location}: {text}: {error}")
            self.asked.wrong.add(option)
            return
        self.asked.places.update(dict.fromkeys(SETS.get(option, ()), f"{location}: {text}"))
        self.warnings += [f"{location}: {option} {note}" for note in notes or ()]


def _count_words_of_qsub_option(option: str, words: list[str]) -> int:
    if option == "-pe" or (option == "-binding" and words[:1] and words[0] in PLACES):
        return 2
    if option in READ:
        return int(option not in ALONE)
    return int(option in LATER or IDLE.get(option) is not None)


def parse_qsub_resource_option(request: JobScriptRequest, text: str) -> list[str]:
    """Parse the value of -l into walltime and resources; return warnings."""
    notes = []
    for entry in re.split(r"[,\s]+", text.strip(", \t")) if text.strip(", \t") else ():
        name, _, value = entry.partition("=")
        if name in (HARD, SOFT):
            notes += _parse_time_limit_resource(request, name, value)
        elif resource_long_name(name) == SLOTS:
            raise ParseError("slots are not requested by -l; expected -pe NAME N")
        elif not RESOURCE.fullmatch(name):
            raise ParseError(RESOURCE_RIGHT)
        elif request.is_soft or is_home_only_resource(name):
            notes.append(f"{entry}: {IDLE_HERE}")
        else:
            request.resources.append(JobScriptResourceRequest(place=request.place, text=entry))
            request.places["properties"] = f"{request.place}: -l {entry}"
    return notes


def _parse_time_limit_resource(request: JobScriptRequest, name: str, value: str) -> list[str]:
    is_unlimited = value.upper() == "INFINITY"
    seconds = YEAR_S if is_unlimited else _parse_qsub_walltime_s(value)
    setattr(request, "walltime_s" if name == HARD else "soft_walltime_s", seconds)
    request.places["walltime" if name == HARD else SOFT] = f"{request.place}: -l {name}={value}"
    return [f"{name}={value}: each task gets the longest walltime, a year"] * is_unlimited


def _set_job_name(request: JobScriptRequest, text: str) -> None:
    if not NAME.fullmatch(text) or NOT_IN_NAMES.intersection(text):
        raise ParseError(f"qsub refuses this name; expected {NAMED}")
    request.name = text


Setter = Callable[..., list[str] | None]


def _make_option_field_setter(name: str, parse: Callable[[str], object]) -> Setter:
    return lambda request, text: setattr(request, name, parse(text))


def _make_output_path_setter(name: str) -> Setter:
    def set_output_path(request: JobScriptRequest, text: str) -> list[str]:
        path, notes = output_path_for_any_host(text)
        setattr(request, name, path)
        return notes

    return set_output_path


def _set_parallel_environment(request: JobScriptRequest, name: str, slots: str) -> list[str]:
    request.environment, request.slots = "" if name == "*" else name, _parse_smallest_slot_number(slots)
    is_range = not slots.isdigit()
    return [f"{name} {slots}: each task gets the smallest number, {number_with_noun(request.slots, 'slot')}"] * is_range


def _set_working_directory(request: JobScriptRequest, path: str) -> None:
    home = re.match(r"(?:~|\$HOME|\$\{HOME\})(?=/|$)", path)
    if match := ABROAD.search(path, home.end() if home else 0):
        raise ParseError(f"{match[0]} is not expanded in a folder's path; expected /FOLDER, ~/FOLDER or a folder")
    if path:
        request.folder = path


def _require_empty_standard_input(_: JobScriptRequest, text: str) -> list[str]:
    path, notes = output_path_for_any_host(text)
    if path != NO_INPUT:
        raise ParseError(f"{NOT_YET}; expected {NO_INPUT}, or a script without it")
    return notes


def _refuse_binary_job(_: JobScriptRequest, word: str) -> None:
    if _parse_qsub_boolean(word):
        raise ParseError(f"{NOT_YET}; expected a script without it")


def _set_job_shell(request: JobScriptRequest, text: str) -> list[str]:
    path, notes = output_path_for_any_host(text, may_lack=True)
    request.shell = path or request.shell
    return notes


def _set_environment_variables(request: JobScriptRequest, text: str) -> list[str]:
    notes = []
    for setting in filter(None, text.split(",")):
        name, is_set, value = setting.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ParseError("this is not the name of a shell variable; expected NAME=VALUE,...")
        if is_set:
            request.variables[name] = value
        else:
            notes.append(f"{setting}: {IDLE_HERE}")
    return notes


READ: Mapping[str, Setter] = {
    "-N": _set_job_name,
    "-b": _refuse_binary_job,
    "-i": _require_empty_standard_input,
    "-t": _make_option_field_setter("array", partial(parse_qsub_task_range, may_fall=True)),
    "-tc": _make_option_field_setter("most", partial(_parse_number_at_least, least=0)),
    "-l": parse_qsub_resource_option,
    "-hard": lambda request: setattr(request, "is_soft", False),
    "-soft": lambda request: setattr(request, "is_soft", True),
    "-pe": _set_parallel_environment,
    "-o": _make_output_path_setter("output"),
    "-e": _make_output_path_setter("error"),
    "-j": _make_option_field_setter("is_joined", _parse_qsub_boolean),
    "-wd": _set_working_directory,
    "-cwd": lambda request: setattr(request, "folder", ""),
    "-S": _set_job_shell,
    "-v": _set_environment_variables,
}
OF_SCRIPTS = (READ.keys() | IDLE.keys()) - {"-b", "-i"}
