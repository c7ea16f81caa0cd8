"""Builds campaigns without a JDL, from a command for each number or line, or from a qsub job script.

A number or line is never executed: a shell function gets it as argument `"$1"`.
"""

import json
import os
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from gridbridge.campaigns.submission import jdl_reader, qsub_directive_parser
from gridbridge.campaigns.submission.jdl_host_conditions import parse_host_conditions
from gridbridge.campaigns.submission.jdl_reader import CLUSTERS, ParsedJdl
from gridbridge.campaigns.submission.jdl_value_parsers import LEVELS, MOST_TASKS
from gridbridge.campaigns.submission.jdl_writer_and_task_files import read_task_lines
from gridbridge.errors import CommandLineMistake, ConfigError, ParseError
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.shell.program_runs import quote_for_sh

COMMAND_LINE = "the command line"
PLACE = "{}"  # placeholder for a task's number, or for a task's line
SCRIPT_BYTES = 60_000  # longest job script; Linux limits an argument to 128 KiB
TIME = "-l h_rt=H:M:S or walltime=H:M:S"
ARRAYS_ONLY = "qsub accepts this option for arrays only; expected a line #$ -t N-M"
# {variable in qsub's paths (qsub(1), -o): value for a task}
VARIABLES = {
    "HOME": '"$HOME"',
    "USER": '"$CIGRI_USER"',
    "JOB_ID": '"$JOB_ID"',
    "JOB_NAME": '"$JOB_NAME"',
    "HOSTNAME": '"$(uname -n)"',
    "TASK_ID": '"$SGE_TASK_ID"',
}
NEAR = 0.88  # cutoff of get_close_matches: finds walltime with one wrong letter, and core with one extra letter
AMOUNT = re.compile(r"[\w.:/@*|+!&()?\[\]^=-]{1,254}", re.ASCII)  # a resource value or expression (sge_types(5))
VARIABLE = re.compile(rf"\$(?:({'|'.join(VARIABLES)})\b|\{{({'|'.join(VARIABLES)})\}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignWithoutJdlOptions:
    clusters: tuple[str, ...] = ()  # clusters that the campaign may use; empty for all clusters
    by_resource: frozenset[str] = frozenset()  # clusters where -l uses qsub's names of resources
    resources: tuple[str, ...] = ()
    name: str = ""
    type_: CampaignType = CampaignType.DEFAULT
    is_idempotent: bool = False
    kind: str = ""  # value of the JDL key `type`; empty: best-effort
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    on_failure: str | None = None


def campaign_with_task_per_number(numbers: str, words: tuple[str, ...], typed: CampaignWithoutJdlOptions) -> ParsedJdl:
    """Return a campaign that runs a command for each number; raise CommandLineMistake for wrong options."""
    try:
        indices = qsub_directive_parser.parse_qsub_task_range(numbers)
    except ParseError as error:
        raise CommandLineMistake((f"{COMMAND_LINE}: --array {numbers}: {error}",)) from error
    if len(indices) > MOST_TASKS:
        wrong = f"{len(indices)} tasks; expected at most {MOST_TASKS}"
        raise CommandLineMistake((f"{COMMAND_LINE}: --array {numbers}: {wrong}",))
    return _make_campaign_from_options(
        shell_command_with_task_words(words, "$1"), _campaign_name_of_command(words), tuple(map(str, indices)), typed
    )


def campaign_with_task_per_line(path: str, words: tuple[str, ...], typed: CampaignWithoutJdlOptions) -> ParsedJdl:
    """Return a campaign that runs a command for each non-blank line of a file.

    Line numbers name the tasks. Raises CommandLineMistake, or ConfigError for mistakes in the file.
    """
    parameters = tuple(f"{number} {quote_for_sh(line)}" for number, line in read_task_lines(path))
    inputs, outputs = (
        tuple(pattern.replace(PLACE, "{2}") for pattern in files) for files in (typed.inputs, typed.outputs)
    )
    typed = replace(typed, inputs=inputs, outputs=outputs)
    return _make_campaign_from_options(
        shell_command_with_task_words(words, "$2"), _campaign_name_of_command(words), parameters, typed
    )


def campaign_of_job_script(
    path: str, text: str, arguments: tuple[str, ...], typed: CampaignWithoutJdlOptions
) -> ParsedJdl:
    """Return the campaign of a job script; raise ConfigError for a wrong script, CommandLineMistake for options."""
    read = qsub_directive_parser.JobScriptParser(path)
    read.parse_directives(text)
    problems, request = read.problems, read.asked
    if len(text.encode("utf-8", "surrogateescape")) > SCRIPT_BYTES or "\0" in text:
        wrong = "the script is too long, or has a NUL byte"
        problems.append(f"{path}: {wrong}; expected text of at most {SCRIPT_BYTES} bytes")
    if not text.strip():
        problems.append(f"{path}: the script is empty; expected a script with a command")
    if request.most and not (request.array or "-t" in request.wrong):
        problems.append(f"{request.places['max_parallel']}: {ARRAYS_ONLY}")
    if problems:
        raise ConfigError(tuple(problems))
    if not (request.walltime_s or request.soft_walltime_s or typed.resources):
        read.warnings.append(f"{path}: each task gets a walltime of one hour; {TIME} changes the walltime")
    parameters = tuple(map(str, request.array or range(1, 2)))
    name = typed.name or request.name or path.rpartition("/")[2]
    parsed = _make_campaign_from_options(
        _embed_job_script_in_command(text, arguments, request, name), name, parameters, typed, request
    )
    return ParsedJdl(jdl=parsed.jdl, parameters=parameters, warnings=(*read.warnings, *parsed.warnings))


def shell_command_with_task_words(words: tuple[str, ...], word: str) -> str:
    """Return sh code, to which a task's words are appended, that runs `words` with `word` in place of {}."""
    if not any(PLACE in argument for argument in words):
        words += (PLACE,)
    parts = ([quote_for_sh(part) if part else "" for part in argument.split(PLACE)] for argument in words)
    command = " ".join(f'"{word}"'.join(pieces) or "''" for pieces in parts)
    return f"gb_run() {{ {command}; }}; gb_run"


def _embed_job_script_in_command(
    text: str, arguments: tuple[str, ...], request: qsub_directive_parser.JobScriptRequest, name: str
) -> str:
    first = text.partition("\n")[0]
    interpreter = [request.shell] if request.shell else first[2:].split() if first[:2] == "#!" else []
    end = "gb-end"
    while end in text:
        end += "-"
    array, none = request.array, "undefined"
    first, last, step = map(str, (array[0], array[-1], array.step)) if array else (none, none, none)
    of_array = {"SGE_TASK_FIRST": first, "SGE_TASK_LAST": last, "SGE_TASK_STEPSIZE": step}
    variables = request.variables | of_array | {"JOB_NAME": name}  # Grid Engine's variables override those of -v
    number = '"$1"' if array else none
    values = " ".join(f"{key}={quote_for_sh(value)}" for key, value in variables.items())
    argv = " ".join(map(quote_for_sh, (*(interpreter or ["/bin/sh"]), "/dev/fd/3", *arguments)))
    body = text if text.endswith("\n") else f"{text}\n"
    return (
        f"gb_run() {{\nexport {values} SGE_TASK_ID={number}\n"
        'export NSLOTS="$CIGRI_RESOURCES" JOB_ID="${JOB_ID:-$OAR_JOB_ID}"\n'
        f"{_output_redirection_shell_lines(request)}{argv} 3<<'{end}'\n{body}{end}\n}}; gb_run"
    )


def _output_redirection_shell_lines(request: qsub_directive_parser.JobScriptRequest) -> str:
    end = ".$SGE_TASK_ID" if request.array else ""
    lines = _redirect_stream_to_file(">>", request.output, "o", end) if request.output else ""
    if request.is_joined:
        return f"{lines}exec 2>&1\n"
    return lines + (_redirect_stream_to_file("2>>", request.error, "e", end) if request.error else "")


def _redirect_stream_to_file(sign: str, path: str, letter: str, end: str) -> str:
    """Return sh lines that write an output stream to a file, or fail with a message about the option."""
    home, target, at = "~/", "", 0
    path = f"$HOME/{path.removeprefix(home)}" if path.startswith(home) else path
    for match in VARIABLE.finditer(path):
        target += quote_for_sh(path[at : match.start()]) + VARIABLES[match[1] or match[2]]
        at = match.end()
    target += quote_for_sh(path[at:])
    name = f"$JOB_NAME.{letter}$JOB_ID{end}"
    message = f"gridbridge: -{letter} $gb_to: can't be opened; expected an existing folder of yours"
    return (
        f'gb_to={target}\n[ ! -d "$gb_to" ] || gb_to=$gb_to/{name}\n'
        f'true {sign}"$gb_to" || {{ echo "{message}" >&2 && exit 1; }}\n'
        f'exec {sign}"$gb_to"\n'
    )


def _make_campaign_from_options(
    line: str,
    name: str,
    parameters: tuple[str, ...],
    typed: CampaignWithoutJdlOptions,
    request: qsub_directive_parser.JobScriptRequest | None = None,
) -> ParsedJdl:
    request = request or qsub_directive_parser.JobScriptRequest()
    table: dict[str, Any] = {"name": typed.name or name, "exec_file": line}
    table |= {"idempotent": True} if typed.is_idempotent else {}
    table |= {"type": typed.kind} if typed.kind else {}
    table |= {"inputs": list(typed.inputs)} if typed.inputs else {}
    table |= {"outputs": list(typed.outputs), "outputs_to": "."} if typed.outputs else {}
    table |= {"after": list(typed.after)} if typed.after else {}
    table |= {"on_failure": typed.on_failure} if typed.on_failure else {}
    if request.slots > 1 or request.environment:
        table |= {"resources": f"/nodes=1/core={request.slots}", "pe": request.environment}
    if request.folder is not None:
        table["exec_directory"] = _replace_home_by_variable(_absolute_working_directory(request.folder))
    if request.most:
        table["max_parallel"] = request.most
    of_script = {*request.places.values()}
    warnings = _parse_resource_options(table, typed.resources, request)
    warnings += _use_soft_walltime(table, request)
    warnings += _add_clusters_with_conditions(table, typed, request)
    if request.walltime_s:
        hours, seconds = divmod(request.walltime_s, 3600)
        table["walltime"] = f"{hours}:{seconds // 60:02}:{seconds % 60:02}"
    text = json.dumps(table)
    locations = request.places | {CLUSTERS: f"{COMMAND_LINE}: --clusters"}
    locations |= {"name": f"{COMMAND_LINE}: -N {typed.name:.80}"} if typed.name else {}
    locations |= {key: f"{COMMAND_LINE}: --{key.replace('_', '-')}" for key in ("after", "on_failure")}
    reader = jdl_reader.JdlReader(COMMAND_LINE, text, ".", places=locations)
    try:
        parsed = reader.parse_whole_jdl(typed.type_, parameters)
    except ConfigError as error:
        is_of_script = any(locations.get(key) in of_script for key in reader.wrong)
        raise (ConfigError if is_of_script else CommandLineMistake)(error.problems) from error
    return ParsedJdl(jdl=parsed.jdl, parameters=parameters, warnings=(*warnings, *parsed.warnings))


def _add_clusters_with_conditions(
    table: dict[str, Any], typed: CampaignWithoutJdlOptions, request: qsub_directive_parser.JobScriptRequest
) -> list[str]:
    conditions = [_host_condition_of_resource(resource) for resource in request.resources]
    own = {"properties": ",".join(conditions)} if conditions else {}
    table["clusters"] = {cluster: own if cluster in typed.by_resource else {} for cluster in typed.clusters}
    unaffected = ", ".join(cluster for cluster in typed.clusters if cluster not in typed.by_resource)
    ignored = request.resources if unaffected else ()
    return [f"{resource.place}: -l {resource.text}: changes nothing at {unaffected}" for resource in ignored]


def _host_condition_of_resource(resource: qsub_directive_parser.JobScriptResourceRequest) -> str:
    """Return a resource of qsub -l as a host condition of a JDL; a name without a value must be true."""
    name, is_set, value = resource.text.partition("=")
    if is_set and not AMOUNT.fullmatch(value):
        raise _invalid_resource_error(resource)
    text = f"{name}='{value}'" if is_set else f"{name}=TRUE"
    try:
        parse_host_conditions(text)
    except ValueError as error:
        raise _invalid_resource_error(resource) from error
    return text


def _invalid_resource_error(resource: qsub_directive_parser.JobScriptResourceRequest) -> ConfigError:
    wrong = f"{resource.place}: -l {resource.text}: {qsub_directive_parser.RESOURCE_RIGHT}"
    return (CommandLineMistake if resource.place == COMMAND_LINE else ConfigError)((wrong,))


def _parse_resource_options(
    table: dict[str, Any], words: tuple[str, ...], request: qsub_directive_parser.JobScriptRequest
) -> list[str]:
    """Parse option -l in the form of oarsub (/core=2,walltime=1:0:0) or of qsub (h_rt=600)."""
    idle: list[str] = []
    request.place, request.is_soft = COMMAND_LINE, False
    for word in ",".join(words).split(",") if words else ():
        key, _, value = word.partition("=")
        if "/" in key or key in LEVELS:
            table["resources"] = word
            request.places["resources"] = f"{COMMAND_LINE}: -l {word}"
        elif key == "walltime":
            table["walltime"], request.walltime_s = value, 0
            request.places["walltime"] = f"{COMMAND_LINE}: -l {word}"
        else:
            try:
                idle += qsub_directive_parser.parse_qsub_resource_option(request, word)
            except ParseError as error:
                raise CommandLineMistake((f"{COMMAND_LINE}: -l {word}: {error}",)) from error
    warnings = [f"{COMMAND_LINE}: -l {word}" for word in idle]
    return warnings + [
        f"{resource.place}: -l {resource.text}: read as a resource of Grid Engine; did you mean {near}?"
        for resource in request.resources
        for near in get_close_matches(resource.text.partition("=")[0], (*LEVELS, "walltime"), 1, NEAR)
    ]


def _use_soft_walltime(table: dict[str, Any], request: qsub_directive_parser.JobScriptRequest) -> list[str]:
    """Use the soft time limit s_rt as walltime if the script has no other time limit; otherwise warn."""
    if not request.soft_walltime_s:
        return []
    if request.walltime_s or "walltime" in table:
        return [f"{request.places[qsub_directive_parser.SOFT]}: changes nothing yet"]
    request.walltime_s, request.places["walltime"] = request.soft_walltime_s, request.places[qsub_directive_parser.SOFT]
    return []


def _absolute_working_directory(folder: str) -> str:
    """Return a folder's absolute path. ~ and $HOME stay, because the task's host expands them."""
    if folder[:1] in ("~", "$"):
        return folder
    try:
        return os.path.abspath(folder or ".")
    except FileNotFoundError as error:
        problem = "the current directory was removed"
        raise CommandLineMistake((f"-cwd or -wd: {problem}; expected an existing folder",)) from error


def _replace_home_by_variable(folder: str) -> str:
    home = os.path.expanduser("~")
    inside = folder == home or folder.startswith(f"{home}/")
    return f"$HOME{folder.removeprefix(home)}" if inside else folder


def _campaign_name_of_command(words: tuple[str, ...]) -> str:
    return (words[0].rpartition("/")[2] or "campaign")[:255]
