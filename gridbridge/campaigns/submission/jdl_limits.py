"""Checks campaigns from files against a JDL's limits, since any program may write files."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from gridbridge.campaigns.submission.jdl_value_parsers import (
    COMMAND,
    DATASETS,
    MOST_OUTPUTS,
    MOST_REPLICAS,
    MOST_SLOTS,
    MOST_TASKS,
    NAME,
    OUTPUT,
    OUTPUTS,
    PATH,
    WORD,
    YEAR_S,
)
from gridbridge.campaigns.submission.jdl_writer import STEPS
from gridbridge.model.campaigns.campaign_names import UNIQUE
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.rebalance.datasets import DATASET_NAME
from gridbridge.model.status_report import number_with_noun

# Keys that each cluster needs, so that root parses the file in the same way.
NEEDED = ("exec_file", "slots", "nodes", "walltime_s", "is_besteffort")

May = Callable[[Any], bool]


def _encodes(value: str) -> bool:
    """Say whether a text is valid UTF-8; JSON allows lone surrogates, which no file can hold."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_of(form: "re.Pattern[str]") -> May:
    return lambda value: bool(form.fullmatch(value)) and _encodes(value)


def _is_none_or(form: "re.Pattern[str]") -> May:
    return lambda value: value == "" or _is_of(form)(value)


def _is_within(low: int, high: int) -> May:
    return lambda value: low <= value <= high


FIELDS: Mapping[str, May] = {  # checks of the fields of a cluster's settings
    "exec_file": _is_of(COMMAND),
    "exec_directory": _is_of(PATH),
    "slots": _is_within(1, MOST_SLOTS),
    "nodes": _is_within(0, MOST_SLOTS),
    "environment": _is_none_or(WORD),
    "walltime_s": _is_within(1, YEAR_S),
    "project": _is_none_or(WORD),
    "queue": _is_none_or(WORD),
    "properties": _is_of(PATH),
    "prologue": _is_none_or(COMMAND),
    "prologue_walltime_s": _is_within(1, YEAR_S),
    "epilogue": _is_none_or(COMMAND),
    "epilogue_walltime_s": _is_within(1, YEAR_S),
    "max_jobs": _is_within(0, MOST_TASKS),
}


def jdl_limit_violation(jdl: Jdl) -> str:
    """Say which value of a campaign is outside the limits of a JDL; empty for none."""
    if not _is_of(NAME)(jdl.name):
        return f"name = {jdl.name!a:.80}: 1 to 255 printable characters"
    if len(jdl.outputs) > MOST_OUTPUTS or not all(map(OUTPUT.fullmatch, jdl.outputs)):
        return f"outputs = {jdl.outputs!a:.80}: {OUTPUTS}"
    if wrong := _wrong_dataset(jdl):
        return wrong
    for cluster, request in jdl.clusters.items():
        for field, may_be in FIELDS.items():
            if not may_be(value := getattr(request, field)):
                return f"{cluster}.{field} = {value!a:.80}: out of range"
        if request.nodes and request.slots % request.nodes:
            nodes = number_with_noun(request.nodes, "node")
            return f"{cluster}.slots = {request.slots}: not the same on each of {nodes}"
    return ""


def campaign_file_jdl_mismatch(header: Any, jdl: Jdl) -> str:
    """Say where a campaign's file differs from the campaign that was parsed from it.

    Root parses the file itself, so the file must have the values that the admission rules saw.
    """
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


def _wrong_dataset(jdl: Jdl) -> str:
    for name, dataset in jdl.datasets.items():
        if not (DATASET_NAME.holds(name) and dataset.path[:1] == "/" and _is_of(PATH)(dataset.path)):
            return f"datasets.{name!a:.80} = {dataset.path!a:.80}: {DATASETS}"
        if not 1 <= dataset.replicas <= MOST_REPLICAS:
            return f"datasets.{name}.replicas = {dataset.replicas!a:.80}: 1 to {MOST_REPLICAS}"
    return ""
