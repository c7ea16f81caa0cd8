"""Parsers for the values of JDL keys, and descriptions of the expected values."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, NamedTuple

from gridbridge.campaigns.submission.jdl_host_conditions import parse_host_conditions
from gridbridge.model.campaigns.campaign_predecessors import (
    CampaignPredecessor,
    PredecessorCondition,
    PredecessorFailureAction,
)
from gridbridge.model.campaigns.jdl import AUTOMATIC, JdlDataset
from gridbridge.model.campaigns.task_file_patterns import is_output_pattern
from gridbridge.model.rebalance.datasets import DATASET_NAME

MOST_TASKS = 10_000_000
MOST_SLOTS = 100_000
MOST_OUTPUTS = MOST_INPUT_PATTERNS = 100
MOST_DATASETS, MOST_REPLICAS, MOST_PREDECESSORS = 100, 100, 100
YEAR_S = 31_536_000
RESOURCES = re.compile(r"/?\w+=\d+(?:/\w+=\d+)*", re.ASCII)
OF_NODES, OF_SLOTS = ("nodes", "network_address", "host"), ("core", "resource_id")
LEVELS = (*OF_NODES, "cpu", *OF_SLOTS)  # levels of OAR's resource requests, outermost level first
LAYOUT = (
    "expected /nodes=N/core=M, /core=M or /nodes=N/cpu=C/core=M, as oarsub -l takes it,"
    f" with 1 to {MOST_SLOTS} slots in all"
)
TIME = f'expected "H", "H:M" or "H:M:S", from "0:0:1" to "{YEAR_S // 3600}:0:0" (a year)'
WALLTIME = re.compile(r"\d+(?::[0-5]?\d(?::[0-5]?\d)?)?", re.ASCII)
# names, which all users see, must not have these characters: controls, line ends, changes of text direction
STEERING = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
NAME = re.compile(f"[^{STEERING}]{{1,255}}")
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}", re.ASCII)
PATH = re.compile(r"[^\x00-\x1f\x7f]{0,4096}")
COMMAND = re.compile(r"[^\x00]{1,65536}")
DATASETS = 'expected {"NAME": {"path": "FILE or FOLDER", "replicas": N}}'
INPUTS = 'expected ["FOLDER/FILE", "FOLDER/{}.DATA", "FOLDER/{1}_*.DATA"], paths of files'
OUTPUTS = 'expected ["FILE", "FOLDER/{1}.bam"], relative paths of letters, digits and _.+-'
BY_SIGNAL = "signal"
NO_DMTCP = "not supported, because Debian 12 has no package of DMTCP"
CHECKPOINT_SIGNALS = ("USR2", "USR1", "HUP", "ALRM", "URG", "WINCH")
PROPERTIES = "expected NAME = VALUE, with AND, OR and ( ), and '...' around a value of several words"
AFTER = 'expected [12, "NAME", "12:ended", "NAME:same"], campaigns of yours'
ON_FAILURE = "expected wait or cancel"
LINES = 'expected ["LINE OF SH", "LINE OF SH"]'
TRUTHS = "expected true or false"
LEAVE_OUT = "expected a JDL without this key"
NUL, UTF_8 = "NUL byte found", "expected text in UTF-8"
PLACES_TOLD = 10  # an error message lists at most this many positions of empty entries
IDLE = (  # CiGri keys without effect
    *("output_gathering_method", "output_file", "output_destination", "cluster_job_type"),
)
LATER = (  # keys that are not supported yet: a campaign with one of the keys is refused
    *("checkpointing_period", "data_to_transfer", "dependencies", "masters"),
)
NOT_SAID: tuple[object, ...] = ("", None, [])  # a key with one of these values counts as absent, as in CiGri
NUMBER = re.compile(r"\s*\d{1,18}\s*", re.ASCII)
TIMED = re.compile(r"(?P<levels>.*?)\s*,\s*walltime\s*=\s*(?P<time>.*)", re.DOTALL)
WORD_ENDS = " \t\n;&|()"  # word separators of sh: a # after a separator begins a comment
COMMANDS = frozenset(("exec_file", "prologue", "epilogue"))
MACROS = {  # {CiGri's macro (scheduler 3.2, JDL): sh variable}
    "{HOME}": "${HOME}",
    "{CAMPAIGN_ID}": "${CIGRI_CAMPAIGN_ID}",
    "{OAR_JOB_ID}": "${OAR_JOB_ID:-$JOB_ID}",
}
MACRO = re.compile("(?<![$])({})".format("|".join(map(re.escape, MACROS))))
JOBS_TYPES = "normal"  # the only supported jobs_type of CiGri
MOST_SIDE_BY_SIDE = 1000
SIDE_BY_SIDE = f"expected the number of tasks side by side in a job, from 1 to {MOST_SIDE_BY_SIDE}"
TASKS = f"expected a number from 1 to {MOST_TASKS}"
BEST_EFFORT = ("best-effort", "besteffort")
NIGHTLY, SEMI = "nightly", "semi-best-effort"  # types that CiGri documents and never implemented
TYPES = (*BEST_EFFORT, "normal", NIGHTLY, SEMI)


class JdlClusterKey(NamedTuple):
    fields: tuple[str, ...]  # fields of JdlSettingsAtCluster
    read: Callable[[Any], Any]  # returns the value of the field, or the values by field; ValueError for a wrong value
    right: str


def parse_walltime_s(text: object) -> int:
    """Parse a walltime H, H:M or H:M:S, as oarsub does."""
    if isinstance(text, int) and not isinstance(text, bool):
        text = str(text)
    if not isinstance(text, str) or not WALLTIME.fullmatch(text):
        raise ValueError("not a time")
    hours, minutes, seconds_part = (*map(int, text.split(":")), 0, 0)[:3]
    total = hours * 3600 + minutes * 60 + seconds_part
    if not 0 < total <= YEAR_S:
        raise ValueError("out of range")
    return total


def parse_oar_resource_request(text: object) -> dict[str, int]:
    """Parse a resource request of OAR, such as `/nodes=2/core=4,walltime=1:0:0`, into slots and nodes.

    Whole nodes and processors are refused: until OAR chooses nodes, their number of slots is unknown.
    """
    if isinstance(text, str) and (timed := TIMED.fullmatch(text)):
        return parse_oar_resource_request(timed["levels"]) | {"walltime_s": parse_walltime_s(timed["time"])}
    if not isinstance(text, str) or not RESOURCES.fullmatch(text):
        raise ValueError("wrong form")
    levels = [level.partition("=") for level in text.removeprefix("/").split("/")]
    names, counts = [name for name, _, _ in levels], [int(count) for _, _, count in levels]
    if unknown := [name for name in names if name not in LEVELS]:
        raise ValueError(f"unknown level {unknown[0]}")
    if names[-1] not in OF_SLOTS:
        raise ValueError("the number of slots is unknown without /core=M at the end")
    order = [0 if name in OF_NODES else 1 if name == "cpu" else 2 for name in names]
    if order != sorted(set(order)):
        raise ValueError("the levels are in the wrong order")
    if not 0 < prod(counts) <= MOST_SLOTS:
        raise ValueError("out of range")
    return {"slots": prod(counts), "nodes": counts[0] if names[0] in OF_NODES else 0}


def _regex_text_parser(form: "re.Pattern[str]") -> Callable[[object], str]:
    def parse_text(value: object) -> str:
        if not isinstance(value, str) or not form.fullmatch(value):
            raise ValueError("wrong form")
        return _require_unicode_text(value)

    return parse_text


def parse_task_command(value: object) -> str:
    """Parse a command, and drop blank lines at its end, because a task's parameters are added there."""
    command = _regex_text_parser(COMMAND)(value)
    bare = command.rstrip()
    if not bare:
        raise ValueError("blank command")
    if _command_ends_in_comment(bare.removesuffix("#")):  # an owner may end a command in # to drop the parameters
        raise ValueError("a comment at the end would hide the parameters")
    if "\n" not in command[len(bare) :]:
        return command
    is_escaped = (len(bare) - len(bare.rstrip("\\"))) % 2  # a backslash before a line end continues the line
    return command[: len(bare) + is_escaped]


def _command_ends_in_comment(command: str) -> bool:
    """Say whether a command ends in a comment of sh: a # at the beginning of a word."""
    quote, before, is_comment = "", " ", False
    letters = iter(command)
    for letter in letters:
        if is_comment:
            is_comment = letter != "\n"
        elif letter == "\\" and quote != "'":
            next(letters, "")  # an escaped character has no special meaning
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            is_comment = letter == "#" and before in WORD_ENDS
        before = letter
    return is_comment


def _require_unicode_text(text: str) -> str:
    """Return a text; raises ValueError for lone surrogates, which JSON allows and no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("no Unicode text") from error
    return text


def _parse_working_directory(value: object) -> str:
    """Parse a folder; only $HOME, {HOME} and ~, the owner's home at the cluster, are expanded."""
    text = _regex_text_parser(PATH)(value)
    home = re.match(r"(~|\$HOME|\$?\{HOME\})(/|$)", text)
    path = text[home.end() :] if home else text
    if not home and text.startswith(("~", "$")):
        raise ValueError(f"{text.split('/')[0]} is not expanded in a folder's path")
    if macro := MACRO.search(path):
        raise ValueError(f"{macro[0]} is not expanded in a folder's path")
    return f"{'$HOME/' if home else ''}{path}".rstrip("/") if (home or path) else ""


def expand_local_path(path: str) -> str:
    """Return a path on this host, with `{HOME}`, `~` and variables expanded."""
    path = re.sub(r"\$?\{HOME\}|\$HOME\b", lambda _: os.path.expanduser("~"), path)
    return os.path.expanduser(os.path.expandvars(path))


def translate_cigri_macros(command: str) -> str:
    return MACRO.sub(lambda match: MACROS[match[0]], command)


def _require_normal_cigri_jobs_type(value: object) -> None:
    if str(value).lower() != JOBS_TYPES:
        raise ValueError("not supported")


def _whole_number_parser(low: int, high: int) -> Callable[[object], int]:
    def parse_whole_number(value: object) -> int:
        if isinstance(value, str) and NUMBER.fullmatch(value):
            value = int(value)  # CiGri accepts numbers as text
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError("not a number")
        if not low <= value <= high:
            raise ValueError("out of range")
        return value

    return parse_whole_number


def _parse_task_type(value: object) -> dict[str, bool]:
    if value not in TYPES:
        raise ValueError("unknown word")
    return {
        "is_besteffort": value in BEST_EFFORT,
        "is_semi_besteffort": value == SEMI,
        "is_nightly": value == NIGHTLY,
    }


def _parse_jdl_boolean(value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower())
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value


def _parse_tasks_side_by_side(value: object) -> int:
    return 1 if value is False else _whole_number_parser(1, MOST_SIDE_BY_SIDE)(value)


def _parse_output_file_list(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_OUTPUTS:
        raise TypeError("no list of files")
    if not all(isinstance(name, str) and is_output_pattern(name) for name in value):
        raise ValueError("wrong form")
    return tuple(dict.fromkeys(value))


def _parse_input_pattern_list(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_INPUT_PATTERNS or "" in value:
        raise TypeError("no list of files")
    return tuple(dict.fromkeys(map(_regex_text_parser(PATH), value)))


def _parse_checkpointing_type(value: object) -> str:
    if is_empty_jdl_value(value):
        return ""
    if value == "dmtcp":
        raise ValueError(NO_DMTCP)
    if value != BY_SIGNAL:
        raise ValueError("not supported")
    return BY_SIGNAL


def _parse_checkpoint_signal(value: object) -> str:
    name = value.upper().removeprefix("SIG") if isinstance(value, str) else ""
    if name not in CHECKPOINT_SIGNALS:
        raise ValueError("not such a signal")
    return name


def _parse_checkpoint_interval_s(value: object) -> int:
    return AUTOMATIC if value == "auto" else _whole_number_parser(1, YEAR_S)(value)


def _parse_jdl_datasets(value: object) -> dict[str, JdlDataset]:
    if not isinstance(value, dict) or not 0 < len(value) <= MOST_DATASETS:
        raise TypeError("no table of datasets")
    return {name: _parse_jdl_dataset(name, table) for name, table in value.items()}


def _parse_jdl_dataset(name: str, table: object) -> JdlDataset:
    if not DATASET_NAME.holds(name):
        raise ValueError(f"{name}: {DATASET_NAME.right}")
    if not isinstance(table, dict) or not {"path"} <= set(table) <= {"path", "replicas"}:
        raise TypeError(f"{name}: missing or unknown key; expected path and optionally replicas")
    try:
        path = _regex_text_parser(PATH)(table["path"])
        replicas = _whole_number_parser(1, MOST_REPLICAS)(table.get("replicas", 1))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from error
    if not path:
        raise ValueError(f"{name}: no path")
    return JdlDataset(path=path, replicas=replicas)


def parse_predecessors(value: object) -> tuple[CampaignPredecessor, ...]:
    """Parse predecessors: each a campaign's number or name, with an optional condition, such as `12:ended`."""
    if not isinstance(value, list | tuple) or len(value) > MOST_PREDECESSORS:
        raise TypeError("no list of campaigns")
    return tuple(dict.fromkeys(map(_parse_predecessor, value)))


def _parse_predecessor(value: object) -> CampaignPredecessor:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise TypeError(f"{value!r:.80}: not a number or name")
    campaign, colon, word = str(value).rpartition(":")
    if not (colon and word in {*PredecessorCondition}):
        campaign, word = str(value), PredecessorCondition.OK
    condition = PredecessorCondition(word)
    if NUMBER.fullmatch(campaign) and int(campaign):
        return CampaignPredecessor(number=int(campaign), condition=condition)
    return CampaignPredecessor(name=_regex_text_parser(NAME)(campaign), condition=condition)


def _parse_predecessor_failure_action(value: object) -> PredecessorFailureAction:
    if not isinstance(value, str) or value not in {*PredecessorFailureAction}:
        raise ValueError("unknown word")
    return PredecessorFailureAction(value)


def _parse_task_parameter_list(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(entry, str) for entry in value):
        raise ValueError("not a list of texts")
    text = "\0\0".join(value)
    if "\n" in text:
        raise ValueError("a text has a line feed")
    if text.count("\0") != 2 * (len(value) - 1):
        raise ValueError(NUL)
    _require_unicode_text(text)
    entries = tuple(map(str.strip, value))
    if empty := [number for number, entry in enumerate(entries, start=1) if not entry]:
        listed = ", ".join(map(str, empty[:PLACES_TOLD]))
        more = f" and {len(empty) - PLACES_TOLD} more" if len(empty) > PLACES_TOLD else ""
        raise ValueError(f"entries {listed}{more} are empty" if empty[1:] else f"entry {listed} is empty")
    return entries


def _parse_shell_lines(value: object) -> str:
    lines = value if isinstance(value, list) else [value]
    if not lines or not all(isinstance(line, str) for line in lines):
        raise TypeError("no list of lines")
    text = "\n".join(map(str, lines))
    return _regex_text_parser(COMMAND)(text) if text.strip() else ""


def join_choices_with_or(words: Iterable[str]) -> str:
    return " or ".join(words)


KEYS: Mapping[str, JdlClusterKey] = {
    "exec_file": JdlClusterKey(("exec_file",), parse_task_command, "expected a command line"),
    "exec_directory": JdlClusterKey(
        ("exec_directory",), _parse_working_directory, "expected a folder, $HOME/... or /..."
    ),
    "resources": JdlClusterKey(("slots", "nodes"), parse_oar_resource_request, LAYOUT),
    "walltime": JdlClusterKey(("walltime_s",), parse_walltime_s, TIME),
    "type": JdlClusterKey(
        ("is_besteffort", "is_semi_besteffort", "is_nightly"),
        _parse_task_type,
        f"expected {join_choices_with_or(TYPES)}",
    ),
    "project": JdlClusterKey(("project",), _regex_text_parser(WORD), "expected a project's name"),
    "queue": JdlClusterKey(("queue",), _regex_text_parser(WORD), "expected a queue's name"),
    "pe": JdlClusterKey(("environment",), _regex_text_parser(WORD), "expected a parallel environment of Grid Engine"),
    "properties": JdlClusterKey(("properties",), parse_host_conditions, PROPERTIES),
    "prologue": JdlClusterKey(("prologue",), _parse_shell_lines, LINES),
    "prologue_walltime": JdlClusterKey(("prologue_walltime_s",), parse_walltime_s, TIME),
    "epilogue": JdlClusterKey(("epilogue",), _parse_shell_lines, LINES),
    "epilogue_walltime": JdlClusterKey(("epilogue_walltime_s",), parse_walltime_s, TIME),
    "max_jobs": JdlClusterKey(("max_jobs",), _whole_number_parser(1, MOST_TASKS), TASKS),
    "dimensional_grouping": JdlClusterKey(("side_by_side",), _parse_tasks_side_by_side, SIDE_BY_SIDE),
    "temporal_grouping": JdlClusterKey(("temporal_grouping",), _parse_jdl_boolean, TRUTHS),
}
# {key of the whole campaign: (parser, expected value, default)}; the key is required if the default is ""
CAMPAIGN_KEYS: Mapping[str, tuple[Callable[[Any], Any], str, Any]] = {
    "name": (_regex_text_parser(NAME), "expected 1 to 255 printable characters", ""),
    "idempotent": (_parse_jdl_boolean, TRUTHS, False),
    "outputs": (_parse_output_file_list, OUTPUTS, ()),
    "outputs_to": (_regex_text_parser(PATH), "expected a folder on this host", None),
    "inputs": (_parse_input_pattern_list, INPUTS, ()),
    "datasets": (_parse_jdl_datasets, DATASETS, {}),
    "checkpointing_type": (_parse_checkpointing_type, f'expected "{BY_SIGNAL}"', None),
    "checkpoint_files": (_parse_output_file_list, OUTPUTS, ()),
    "checkpoint_signal": (_parse_checkpoint_signal, f"expected {join_choices_with_or(CHECKPOINT_SIGNALS)}", None),
    "checkpoint_s": (_parse_checkpoint_interval_s, f'expected "auto" or seconds, from 1 to {YEAR_S}', None),
    "rebalance": (_parse_jdl_boolean, TRUTHS, True),
    **dict.fromkeys(("max_parallel", "first_tasks"), (_whole_number_parser(1, MOST_TASKS), TASKS, 0)),
    "after": (parse_predecessors, AFTER, ()),
    "on_failure": (_parse_predecessor_failure_action, ON_FAILURE, PredecessorFailureAction.WAIT),
    "jobs_type": (_require_normal_cigri_jobs_type, f"expected {JOBS_TYPES}", None),
}
PARAMETERS: Mapping[str, tuple[Callable[[object], Any], str]] = {
    "nb_jobs": (lambda value: tuple(map(str, range(_whole_number_parser(1, MOST_TASKS)(value)))), TASKS),
    "params": (_parse_task_parameter_list, 'expected ["FIRST TASK", "SECOND TASK"]'),
    "param_file": (_regex_text_parser(PATH), "expected a file with one line for each task"),
}


def is_empty_jdl_value(value: object) -> bool:
    """Say whether a JDL key with this value counts as absent."""
    return value.lower() in ("false", "no", "none", "") if isinstance(value, str) else not value
