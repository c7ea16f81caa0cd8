"""Parses a campaign's JDL, in JSON or TOML, and reports all mistakes at once."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from gridbridge.campaigns.submission import jdl_value_parsers, jdl_writer_and_task_files, task_file_listing
from gridbridge.campaigns.submission.jdl_value_parsers import KEYS, JdlClusterKey
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlDataset, JdlSettingsAtCluster
from gridbridge.model.published_status_and_reports import replace_control_characters
from gridbridge.model.transfer_name import is_valid_cluster_name

TABLE = "expected a table, {...}"
A_CLUSTER = "expected at most 32 small letters, digits and -, a letter first"
ONCE = ("repeated key", "expected the key once")
AT_LINE = re.compile(r"\(at line (\d+), column \d+\)$")  # position in an error message of tomllib
CLUSTERS, TEST = "clusters", "test_mode"
MOST_SHOWN = 80  # at most this many characters of an unknown key are shown
CHECKPOINT_KEYS = ("checkpointing_type", "checkpoint_files", "checkpoint_signal", "checkpoint_s")
WHOLE = (
    "idempotent",
    "outputs",
    "outputs_to",
    "inputs",
    "datasets",
    *CHECKPOINT_KEYS,
    "rebalance",
    "max_parallel",
    "first_tasks",
    "after",
    "on_failure",
)  # gridbridge's own keys, for the whole campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedJdl:
    jdl: Jdl
    parameters: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)  # {cluster: file and line of its host properties}
    input_groups: tuple[tuple[int, int, int], ...] = ()  # ranges of tasks that share a large input file


def parse_jdl(
    path: str,
    text: str,
    *,
    type_: CampaignType = CampaignType.DEFAULT,
    folder: str = ".",
    parameters: tuple[str, ...] = (),
    site_clusters: tuple[str, ...] = (),
) -> ParsedJdl:
    """Parse a JDL; raise ConfigError with all mistakes.

    A relative `param_file` starts at `folder`; the file is not read if `parameters` are given. If
    `site_clusters` are given, other clusters are refused.
    """
    return JdlReader(path, text, folder, known=site_clusters).parse_whole_jdl(type_, parameters)


@dataclass(slots=True)
class JdlReader:
    path: str
    text: str
    folder: str
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lines: jdl_writer_and_task_files.JdlKeyLineNumbers | None = None
    is_typed: bool = False  # whether the campaign has no JDL, so that CiGri's macros are not expanded
    places: Mapping[str, str] = field(default_factory=dict)  # {key: option that set the key}
    wrong: set[str] = field(default_factory=set)  # keys with a mistake; a wrong cluster name is a mistake of `clusters`
    known: tuple[str, ...] = ()  # the site's clusters; empty if this host does not know the clusters

    def parse_whole_jdl(self, type_: CampaignType, parameters: tuple[str, ...] = ()) -> ParsedJdl:
        """Parse the whole JDL; raises ConfigError with all mistakes."""
        table = self._lower_case_jdl_keys(self._parse_json_or_toml())
        self.is_typed = bool(parameters)
        clusters = self._read_cluster_tables(table)
        parameters = parameters or self._read_task_parameters(table)

        def value_of_key(key: str) -> Any:
            return self._read_value_of_jdl_key(table, key, *jdl_value_parsers.CAMPAIGN_KEYS[key])

        name, is_idempotent, files = map(value_of_key, ("name", "idempotent", "outputs"))
        data, may_move, _ = map(value_of_key, ("datasets", "rebalance", "jobs_type"))
        datasets = {key: replace(dataset, path=self._absolute_path(dataset.path)) for key, dataset in data.items()}
        inputs = self._absolute_input_patterns(value_of_key("inputs"), datasets)
        if files and _is_jdl_key_given(table, "idempotent") and not is_idempotent:
            self._report_key_mistake("idempotent", False, "contradicts the key outputs", "expected true, or no outputs")
        outputs_to = value_of_key("outputs_to")
        if outputs_to and not files:
            self._report_key_mistake("outputs_to", outputs_to, "no key outputs", "expected outputs, the files to bring")
        max_parallel, first_tasks = map(value_of_key, ("max_parallel", "first_tasks"))
        after, on_failure = map(value_of_key, ("after", "on_failure"))
        if _is_jdl_key_given(table, "on_failure") and not after:
            self._report_key_mistake(
                "on_failure", on_failure, "no key after", "expected after, the campaigns to wait for"
            )
        checkpoint = self._read_checkpoint_keys(table)
        self._report_unknown_keys(
            table, {CLUSTERS, *jdl_value_parsers.CAMPAIGN_KEYS, *jdl_value_parsers.PARAMETERS, *KEYS}
        )
        if self.problems:
            raise ConfigError(tuple(self.problems))
        jdl = Jdl(
            name=name,
            type=type_,
            clusters=clusters,
            is_idempotent=is_idempotent,
            outputs=files,
            outputs_to=self._absolute_path(outputs_to) if outputs_to else "",
            inputs=inputs,
            datasets=datasets,
            max_parallel=max_parallel,
            first_tasks=first_tasks,
            after=after,
            on_failure=on_failure,
            may_move=may_move and not checkpoint,  # a moved task would lose its checkpoint
            **checkpoint,
        )
        locations = {
            name: self._location_of_host_properties(table, name) for name in clusters if clusters[name].properties
        }
        return ParsedJdl(jdl=jdl, parameters=parameters, warnings=tuple(self.warnings), places=locations)

    def _read_checkpoint_keys(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields about checkpoints; each key needs both `checkpointing_type` and `checkpoint_files`."""
        of_type, *keys = CHECKPOINT_KEYS
        values = {
            key: self._read_value_of_jdl_key(table, key, *jdl_value_parsers.CAMPAIGN_KEYS[key])
            for key in CHECKPOINT_KEYS
        }
        kind = values.pop(of_type)
        if of_type in self.wrong:
            return {}
        present = [key for key in keys if _is_jdl_key_given(table, key)]
        if kind and "checkpoint_files" not in present:
            expected = 'expected checkpoint_files, such as ["state"]'
            self._report_key_mistake(of_type, kind, "no key checkpoint_files", expected)
        for key in () if kind else present:
            expected = f'expected {of_type} = "{jdl_value_parsers.BY_SIGNAL}"'
            self._report_key_mistake(key, table[key], f"no key {of_type}", expected)
        return {key: values[key] for key in present if values[key] is not None}

    def _location_of_host_properties(self, table: Mapping[str, Any], name: str) -> str:
        if self.is_typed:
            return ""
        is_own = any(key.lower() == "properties" for key in table[CLUSTERS][name])
        line = self._line_numbers_of_jdl_keys().line_of_key(*((CLUSTERS, name) if is_own else ()), "properties")
        return f"{self.path}:{line}" if line else self.path

    def _absolute_input_patterns(
        self, patterns: tuple[str, ...], datasets: Mapping[str, JdlDataset]
    ) -> tuple[str, ...]:
        paths = {name: dataset.path for name, dataset in datasets.items()}
        try:
            return tuple(task_file_listing.absolute_input_pattern(pattern, self.folder, paths) for pattern in patterns)
        except ValueError as error:
            self._report_key_mistake("inputs", list(patterns), str(error), jdl_value_parsers.INPUTS)
            return ()

    def _absolute_path(self, path: str) -> str:
        return os.path.abspath(os.path.join(self.folder, os.path.expanduser(path)))

    def _parse_json_or_toml(self) -> Mapping[str, Any]:
        if not self.text.strip():
            raise ConfigError((f"{self.path}: empty file; expected a JDL in JSON or TOML",))
        try:
            table = (
                self._parse_json_without_duplicates()
                if jdl_writer_and_task_files.is_json_jdl(self.text)
                else tomllib.loads(self.text)
            )
        except (ValueError, RecursionError) as error:
            location = f"{self.path}{self._line_of_syntax_error(error)}"
            raise ConfigError((f"{location}: {error}; expected JSON or TOML",)) from error
        if not isinstance(table, dict):
            raise ConfigError((f"{self.path}:1: {table!r:.40}: not a table; {TABLE}",))
        return table

    def _line_of_syntax_error(self, error: Exception) -> str:
        if isinstance(error, json.JSONDecodeError):
            return f":{error.lineno}"
        if not isinstance(error, tomllib.TOMLDecodeError):
            return ""
        match = AT_LINE.search(str(error))  # Python before 3.14 has no error.lineno
        return f":{match[1] if match else self.text.rstrip().count(chr(10)) + 1}"

    def _parse_json_without_duplicates(self) -> Any:
        """Parse JSON, and refuse a repeated key. Python would silently use the last value."""
        are_twice: list[bool] = []

        def table_noting_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            are_twice.append(len({*dict(pairs)}) < len(pairs))
            return dict(pairs)

        parsed = json.loads(self.text, object_pairs_hook=table_noting_duplicates)
        for path, line in self._line_numbers_of_jdl_keys().twice if any(are_twice) else ():
            word = replace_control_characters(path[-1])[:MOST_SHOWN]
            self.problems.append(f"{self.path}:{line}: {word}: {'; '.join(ONCE)}")
        return parsed

    def _lower_case_jdl_keys(self, table: Mapping[str, Any], within: str = "") -> dict[str, Any]:
        lowered: dict[str, Any] = {}
        for key, value in table.items():
            if key.lower() in lowered:
                self._report_key_mistake(key, value, *ONCE, within)
            lowered[key.lower()] = value
        return lowered

    def _read_cluster_tables(self, table: Mapping[str, Any]) -> dict[str, JdlSettingsAtCluster]:
        for_all, clusters = self._read_cluster_keys(table), table.get(CLUSTERS)
        if isinstance(clusters, dict) and clusters:
            has = _is_jdl_key_given(table, "exec_file")
            return {name: self._read_cluster_settings(name, clusters[name], for_all, has) for name in clusters}
        is_no_table = clusters is not None and not isinstance(clusters, dict)
        wrong = "not a table" if is_no_table else "no cluster named"
        self._report_key_mistake(CLUSTERS, clusters, wrong, 'expected at least one cluster, {"NAME": {...}}')
        if not _is_jdl_key_given(table, "exec_file"):
            self._report_key_mistake("exec_file", None, "missing", KEYS["exec_file"].right)
        return {}

    def _read_cluster_settings(
        self, name: str, table: Any, for_all: Mapping[str, Any], has_command: bool
    ) -> JdlSettingsAtCluster:
        if self.known and name not in self.known:
            right = f"expected {jdl_value_parsers.join_choices_with_or(self.known)}"
            self._report_key_mistake(name, None, "unknown cluster", right, CLUSTERS)
        elif not is_valid_cluster_name(name):
            self._report_key_mistake(name, None, "not a valid cluster name", A_CLUSTER, CLUSTERS)
        if not isinstance(table, dict):
            self._report_key_mistake(name, table, "not a table", TABLE, CLUSTERS)
            return JdlSettingsAtCluster(exec_file="")
        own = self._lower_case_jdl_keys(table, name)
        self._report_unknown_keys(own, KEYS.keys(), name)
        values = {**for_all, **_defaults_of_empty_keys(own), **self._read_cluster_keys(own, name)}
        if not (_is_jdl_key_given(own, "exec_file") or (has_command and "exec_file" not in own)):
            self._report_key_mistake("exec_file", None, "missing", KEYS["exec_file"].right, name)
        return self._with_slots_of_job(name, JdlSettingsAtCluster(**{"exec_file": "", **values}))

    def _with_slots_of_job(self, name: str, request: JdlSettingsAtCluster) -> JdlSettingsAtCluster:
        """Multiply a task's slots by the number of tasks side by side, which must all run on one node."""
        if request.side_by_side == 1:
            return request
        if request.nodes > 1:
            right = "expected resources on one node, such as /nodes=1/core=2"
            self._report_key_mistake(
                "dimensional_grouping", request.side_by_side, "tasks on several nodes", right, name
            )
        return replace(request, slots=request.slots * request.side_by_side, nodes=1)

    def _read_cluster_keys(self, table: Mapping[str, Any], within: str = "") -> dict[str, Any]:
        read = {
            name: self._read_value_of_jdl_key(table, name, self._parser_of_jdl_key(key), key.right, None, within)
            for name, key in KEYS.items()
            if _is_jdl_key_given(table, name)
        }
        walltime_s, of_resources = read.get("walltime"), read.get("resources") or {}
        if walltime_s and walltime_s != of_resources.get("walltime_s", walltime_s):
            wrong, right = "resources have a different walltime", "expected one walltime"
            self._report_key_mistake("walltime", table["walltime"], wrong, right, within)
        values = dict[str, Any]()
        for name, value in read.items():
            values |= value if isinstance(value, dict) else {KEYS[name].fields[0]: value}
        return {name: value for name, value in values.items() if value is not None}

    def _parser_of_jdl_key(self, key: JdlClusterKey) -> Callable[[Any], Any]:
        """Return the parser of a key; the parsers of a JDL's commands expand CiGri's macros."""
        is_plain = self.is_typed or jdl_value_parsers.COMMANDS.isdisjoint(key.fields)
        return key.read if is_plain else lambda value: jdl_value_parsers.translate_cigri_macros(key.read(value))

    def _read_task_parameters(self, table: Mapping[str, Any]) -> tuple[str, ...]:
        keys = [key for key in jdl_value_parsers.PARAMETERS if _is_jdl_key_given(table, key)]
        if len(keys) != 1:
            wrong, right = (
                "more than one" if keys else "missing",
                f"expected one of {', '.join(jdl_value_parsers.PARAMETERS)}",
            )
            self._report_key_mistake(" and ".join(keys) or "params", None, wrong, right)
            return ()
        lines = self._read_value_of_jdl_key(table, keys[0], *jdl_value_parsers.PARAMETERS[keys[0]], ())
        if keys[0] == "param_file" and lines:
            lines = self._read_parameter_file(str(lines))
        named = jdl_writer_and_task_files.make_task_names_unique(lines)
        self.warnings += [
            f"{self._location_of_jdl_key(keys[0], '')}: {note}"
            for note in jdl_writer_and_task_files.task_line_warnings(lines, named)
        ]
        return named

    def _read_parameter_file(self, path: str) -> tuple[str, ...]:
        file = jdl_writer_and_task_files.TaskFileReader(jdl_value_parsers.expand_local_path(path), self.folder)
        lines = tuple(line for _, line in file.read_numbered_lines())
        if file.unread:
            self._report_key_mistake("param_file", path, *file.unread)
        elif not (lines or file.problems):
            self._report_key_mistake("param_file", path, *jdl_writer_and_task_files.NO_LINE)
        self.problems += file.problems
        return lines

    def _read_value_of_jdl_key(
        self, table: Mapping[str, Any], key: str, read: Callable[[Any], Any], right: str, default: Any, within: str = ""
    ) -> Any:
        if not _is_jdl_key_given(table, key):
            if default == "":
                self._report_key_mistake(key, None, "missing", right, within)
            return default
        try:
            return read(table[key])
        except (ValueError, TypeError) as error:
            self._report_key_mistake(key, table[key], str(error) or "wrong", right, within)
            return default

    def _report_unknown_keys(self, table: Mapping[str, Any], keys: Any, within: str = "") -> None:
        for key in table:
            if key in jdl_value_parsers.IDLE or (
                key in (*jdl_value_parsers.LATER, TEST) and jdl_value_parsers.is_empty_jdl_value(table[key])
            ):
                self.warnings.append(f"{self._location_of_jdl_key(key, within)}: changes nothing yet")
            elif key in jdl_value_parsers.LATER:
                self._report_key_mistake(key, table[key], "not supported yet", jdl_value_parsers.LEAVE_OUT, within)
            elif key == TEST:
                self._report_key_mistake(key, table[key], "not a key of a JDL", "expected gridsub -t test", within)
            elif within and key in WHOLE:
                wrong = "set for one cluster; expected for the whole campaign, outside of clusters"
                self.problems.append(f"{self._location_of_jdl_key(key, within)}: {wrong}")
            elif key not in keys:
                near = get_close_matches(key, [*keys], 1)
                hint = f"{near[0]} is the nearest" if near else f"the keys are {', '.join(sorted(keys))}"
                self.problems.append(f"{self._location_of_jdl_key(key, within)}: unknown key; {hint}")

    def _report_key_mistake(self, key: str, value: Any, wrong: str, right: str, within: str = "") -> None:
        self.wrong.add(CLUSTERS if within == CLUSTERS else key)
        if self.is_typed and within == CLUSTERS:
            location = f"{self.places.get(CLUSTERS, CLUSTERS)} {key}"
        elif self.is_typed:
            location = self.places.get(key, f"{self.path}: {key}")
        else:
            shown = "" if value is None else f" = {json.dumps(value, default=str):.80}"
            location = f"{self._location_of_jdl_key(key, within)}{shown}"
        self.problems.append(f"{location}: {replace_control_characters(wrong)}; {right}")

    def _location_of_jdl_key(self, key: str, within: str) -> str:
        above = (CLUSTERS, within) if within and within != CLUSTERS else (within,) * bool(within)
        line = self._line_numbers_of_jdl_keys().line_of_key(*above, key)
        word = replace_control_characters(self._line_numbers_of_jdl_keys().original_spelling_of_key(*above, key))[
            :MOST_SHOWN
        ]
        location = f"{self.path}:{line}" if line else self.path
        table = f"{replace_control_characters(within)[:MOST_SHOWN]}." if within else ""
        return f"{location}: {table}{word}"

    def _line_numbers_of_jdl_keys(self) -> jdl_writer_and_task_files.JdlKeyLineNumbers:
        if self.lines is None:
            self.lines = jdl_writer_and_task_files.locate_jdl_keys(self.text)
        return self.lines


def _is_jdl_key_given(table: Mapping[str, Any], key: str) -> bool:
    return table.get(key) not in jdl_value_parsers.NOT_SAID


def _defaults_of_empty_keys(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default values of fields whose keys a cluster sets to an empty value."""
    names = [name for key in KEYS if key in own and not _is_jdl_key_given(own, key) for name in KEYS[key].fields]
    settings = asdict(JdlSettingsAtCluster(exec_file=""))
    return {name: settings[name] for name in names}
