"""Applies the site's admission rules to campaigns, and checks the limits of a campaign's values.

Rules that other accounts can write are refused, because rules are executed as Python.
"""

import os
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

from gridbridge.campaigns.submission import jdl_value_parsers
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.submission.jdl_writer_and_task_files import STEPS
from gridbridge.decisions.campaigns import admission_rule_application
from gridbridge.decisions.transfer.request_mapping import conditions_sge_cannot_express
from gridbridge.errors import ConfigError, StateError
from gridbridge.model import names_offered_by_cluster
from gridbridge.model.campaigns.admission import CampaignAdmissionResult, CampaignAdmissionRule, CampaignForAdmission
from gridbridge.model.campaigns.campaign_file_and_array_names import UNIQUE
from gridbridge.model.campaigns.host_property_request_parser import (
    parse_alternative_host_properties,
    parse_required_host_properties,
)
from gridbridge.model.campaigns.jdl import AUTOMATIC, Jdl
from gridbridge.model.campaigns.task_file_patterns import is_output_pattern
from gridbridge.model.fixed_paths import ADMISSION, FixedPaths
from gridbridge.model.job_request import JobRequest
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.rebalance.datasets import DATASET_NAME
from gridbridge.model.site_configuration import Policy
from gridbridge.program import configuration_in_force
from gridbridge.shell import local_host_facts, safe_files
from gridbridge.state.published_file_formats import read_offered_names

ENDING = ".py"
WHO_MENDS = "the administrator must correct this admission rule, which refuses every campaign"
LONGEST = 200  # largest number of characters of an error message


def load_site_admission_rules(folder: str = ADMISSION, owner: int = 0) -> tuple[CampaignAdmissionRule, ...]:
    """Return the site's rules by file name and line; raise FileWritableByOthers or ConfigError."""
    try:
        safe_files.require_trusted_path(folder, owner=owner)
        names = sorted(safe_files.list_folder_or_empty(folder))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError((f"{folder}: {error.strerror}",)) from error
    chosen = (name for name in names if name.endswith(ENDING) and not name.startswith("."))
    return tuple(rule for name in chosen for rule in _load_rules_of_file(folder, name, owner))


def _load_rules_of_file(folder: str, name: str, owner: int) -> list[CampaignAdmissionRule]:
    path = f"{folder}/{name}"
    namespace: dict[str, object] = {"__name__": name.removesuffix(ENDING), "__file__": path}
    try:
        safe_files.require_trusted_path(path, owner=owner)
        text, _ = safe_files.read_file_only_owner_writes(path, 1 << 20)
        exec(compile(text, path, "exec"), namespace)  # noqa: S102 - root alone wrote it
    except ConfigError:
        raise
    except StateError as error:
        raise ConfigError((str(error),)) from error
    except (Exception, SystemExit) as error:  # a site's code may raise any exception
        words = " ".join((error.msg if isinstance(error, SyntaxError) else str(error)).split())
        described = f"{type(error).__name__}: {words}"[:LONGEST].removesuffix(": ")
        raise ConfigError((f"{_location_of_rule_error(error, path)}: {described}; {WHO_MENDS}",)) from error
    return [
        CampaignAdmissionRule(name=f"{name}:{key}", judge=function)
        for key, function in namespace.items()
        if isinstance(function, FunctionType) and not key.startswith("_")
        if function.__globals__ is namespace  # imported functions are no rules
    ]


def _location_of_rule_error(error: BaseException, path: str) -> str:
    """Return FILE:LINE of an error; if an imported module fails, LINE is the line of the import."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return f"{path}:{error.lineno}" if error.lineno else path
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == path), None)
    return f"{path}:{line}" if line else path


def apply_site_admission_rules(parsed: ParsedJdl, paths: FixedPaths) -> CampaignAdmissionResult:
    """Apply the site's admission rules to the caller's campaign; wrong rules raise an error."""
    rules = load_site_admission_rules(paths.admission, paths.admission_owner)
    return admission_rule_application.apply_campaign_admission_rules(rules, _campaign_for_admission_rules(parsed))


def admit_campaign_by_site_rules(parsed: ParsedJdl, paths: FixedPaths) -> ParsedJdl:
    """Return the campaign as admission rules change it; raise ConfigError if the rules refuse it."""
    admission = apply_site_admission_rules(parsed, paths)
    if admission.refusal:
        raise ConfigError((admission.refusal,))
    refuse_unsupported_properties(replace(parsed, jdl=admission.jdl), paths)
    return replace(parsed, jdl=admission.jdl)


def require_unchanged_by_site_rules(parsed: ParsedJdl, paths: FixedPaths) -> None:
    """Raise ConfigError if admission rules would refuse or change the campaign with the added tasks."""
    rules = load_site_admission_rules(paths.admission, paths.admission_owner)
    if problem := admission_rule_application.explain_admission_violation(rules, _campaign_for_admission_rules(parsed)):
        raise ConfigError((problem,))


def refuse_unsupported_properties(parsed: ParsedJdl, paths: FixedPaths) -> None:
    """Raise ConfigError for clusters that do not support the campaign's host properties."""
    clusters = parsed.jdl.clusters.items()
    requests = {
        name: JobRequest(
            hard=parse_required_host_properties(cluster.properties),
            either=parse_alternative_host_properties(cluster.properties),
        )
        for name, cluster in clusters
        if cluster.properties
    }
    if not requests:
        return
    policy, _ = configuration_in_force.load_config_or_one_in_force(paths.configuration)
    problems = []
    for name, request in requests.items():
        location = f"{parsed.places[name]}: " if parsed.places.get(name) else ""
        if reason := _explain_unsupported_host_properties(policy, name, request) or _explain_inexpressible_conditions(
            name, request, paths.published
        ):
            problems.append(f"{location}{name}.properties: {reason}")
    if problems:
        raise ConfigError(tuple(problems))


def _explain_unsupported_host_properties(policy: Policy, cluster: str, request: JobRequest) -> str:
    from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
    from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access

    if cluster not in policy.clusters:
        return ""
    return batch_adapter_of_cluster(configured_cluster_access(policy, cluster)).explain_request_refusal(request)


def _explain_inexpressible_conditions(cluster: str, request: JobRequest, folder: str) -> str:
    """Say which conditions a Grid Engine cluster can't compare; empty if all can be compared."""
    if not (published := read_offered_names(cluster, folder)):
        return ""
    odd = ", ".join(conditions_sge_cannot_express(names_offered_by_cluster.decode_offered_names(published), request))
    return f"expected NAME = VALUE for resources that are no strings at this cluster: {odd}" if odd else ""


def _campaign_for_admission_rules(parsed: ParsedJdl) -> CampaignForAdmission:
    user = safe_files.account_name_or_uid(os.getuid())
    groups = frozenset(local_host_facts.groups_of_account(user))
    return CampaignForAdmission(user=user, groups=groups, tasks=len(parsed.parameters), jdl=parsed.jdl)


# root's parser gets the same values from a campaign file only if each cluster has all keys of NEEDED
NEEDED = ("exec_file", "slots", "nodes", "walltime_s", "is_besteffort")

May = Callable[[Any], bool]


def _make_pattern_check(form: "re.Pattern[str]") -> May:
    return lambda value: bool(form.fullmatch(value)) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _make_optional_pattern_check(form: "re.Pattern[str]") -> May:
    return lambda value: value == "" or _make_pattern_check(form)(value)


def _make_range_check(low: int, high: int) -> May:
    return lambda value: low <= value <= high


FIELDS: Mapping[str, May] = {  # {field of a campaign's settings at a cluster: check of a value}
    "exec_file": _make_pattern_check(jdl_value_parsers.COMMAND),
    "slots": _make_range_check(1, jdl_value_parsers.MOST_SLOTS),
    "nodes": _make_range_check(0, jdl_value_parsers.MOST_SLOTS),
    "max_jobs": _make_range_check(0, jdl_value_parsers.MOST_TASKS),
    "side_by_side": _make_range_check(1, jdl_value_parsers.MOST_SIDE_BY_SIDE),
    "temporal_grouping": lambda value: value in (None, True, False),
    **dict.fromkeys(("exec_directory", "properties"), _make_pattern_check(jdl_value_parsers.PATH)),
    **dict.fromkeys(("environment", "project", "queue"), _make_optional_pattern_check(jdl_value_parsers.WORD)),
    **dict.fromkeys(STEPS, _make_optional_pattern_check(jdl_value_parsers.COMMAND)),
    **dict.fromkeys(
        ("walltime_s", *(f"{step}_walltime_s" for step in STEPS)), _make_range_check(1, jdl_value_parsers.YEAR_S)
    ),
}


def _make_list_check(most: int, may_be: May) -> May:
    return lambda values: len(values) <= most and all(map(may_be, values))


CAMPAIGN_FIELDS: Mapping[str, May] = {  # checks of values, by field of the whole campaign
    "name": _make_pattern_check(jdl_value_parsers.NAME),
    "inputs": _make_list_check(jdl_value_parsers.MOST_INPUT_PATTERNS, _make_pattern_check(jdl_value_parsers.PATH)),
    "outputs_to": _make_pattern_check(jdl_value_parsers.PATH),
    **dict.fromkeys(("max_parallel", "first_tasks"), _make_range_check(0, jdl_value_parsers.MOST_TASKS)),
    "checkpoint_signal": lambda value: value in jdl_value_parsers.CHECKPOINT_SIGNALS,
    "checkpoint_s": _make_range_check(AUTOMATIC, jdl_value_parsers.YEAR_S),
    **dict.fromkeys(
        ("outputs", "checkpoint_files"), _make_list_check(jdl_value_parsers.MOST_OUTPUTS, is_output_pattern)
    ),
}


def jdl_limit_violation(jdl: Jdl) -> str:
    for field, may_be in CAMPAIGN_FIELDS.items():
        if not may_be(value := getattr(jdl, field)):
            return f"{field} = {value!a:.80}: {jdl_value_parsers.CAMPAIGN_KEYS[field][1]}"
    if wrong := _find_invalid_dataset(jdl) or _find_invalid_predecessor(jdl):
        return wrong
    for cluster, request in jdl.clusters.items():
        for field, may_be in FIELDS.items():
            if not may_be(value := getattr(request, field)):
                return f"{cluster}.{field} = {value!a:.80}: out of range"
        if request.nodes and request.slots % request.nodes:
            nodes = number_with_noun(request.nodes, "node")
            return f"{cluster}.slots = {request.slots}: can't be the same on each of {nodes}"
    return ""


def campaign_file_jdl_mismatch(header: Any, jdl: Jdl) -> str:
    """Name the value of a campaign file that root would parse differently from the campaign; empty if none."""
    if UNIQUE not in header:
        return f"{UNIQUE}: missing"
    for cluster, request in jdl.clusters.items():
        table = header["clusters"][cluster]
        needed = [*NEEDED, *(f"{step}_walltime_s" for step in STEPS if table.get(step))]
        if missing := next((key for key in needed if key not in table), ""):
            return f"{cluster}.{missing}: missing"
        for key in FIELDS.keys() & table.keys() | {"is_besteffort"}:
            if (type(table[key]), table[key]) != (type(value := getattr(request, key)), value):
                return f"{cluster}.{key} = {table[key]!a:.80}: expected {value!a:.80}"
    return ""


def _find_invalid_predecessor(jdl: Jdl) -> str:
    is_name = _make_pattern_check(jdl_value_parsers.NAME)
    wrong = (predecessor for predecessor in jdl.after if predecessor.number < 1 and not is_name(predecessor.name))
    if len(jdl.after) > jdl_value_parsers.MOST_PREDECESSORS or next(wrong, None):
        return f"after = {[predecessor.jdl_text for predecessor in jdl.after]!a:.80}: {jdl_value_parsers.AFTER}"
    return ""


def _find_invalid_dataset(jdl: Jdl) -> str:
    for name, dataset in jdl.datasets.items():
        if not (
            DATASET_NAME.holds(name)
            and dataset.path[:1] == "/"
            and _make_pattern_check(jdl_value_parsers.PATH)(dataset.path)
        ):
            return f"datasets.{name!a:.80} = {dataset.path!a:.80}: {jdl_value_parsers.DATASETS}"
        if not 1 <= dataset.replicas <= jdl_value_parsers.MOST_REPLICAS:
            return f"datasets.{name}.replicas = {dataset.replicas!a:.80}: 1 to {jdl_value_parsers.MOST_REPLICAS}"
    return ""
