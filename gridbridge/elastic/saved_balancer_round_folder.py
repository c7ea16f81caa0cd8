"""Folders with the inputs of a balancer round, for support and for trying rules."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from stat import S_ISREG
from typing import Any, get_args

from cattrs.gen import override

from gridbridge.batch.batch_adapter_table import demand_reader_of_outputs
from gridbridge.errors import ParseError
from gridbridge.model.elastic.balance_plan import SavedBalancerRoundInput, WaitingJobsHistory
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.shell import json_documents, safe_files
from gridbridge.shell.json_documents import JsonDocumentReader, WrongJsonValue, json_value_hook

STATE = "state.json"
A_TIME = "an ISO 8601 time such as 2026-11-23T20:00:00+00:00"
MOST_BYTES = 1 << 30
INFINITE = float("inf")
MOST = 1e300  # largest valid number


def write_saved_balancer_round(folder: str, outputs: Mapping[str, bytes], saved_round: SavedBalancerRoundInput) -> None:
    """Save a round's inputs, but never through another user's symlink; raises OSError or StateError."""
    os.makedirs(folder, exist_ok=True)
    content = {
        "now": saved_round.now,
        "master": saved_round.master,
        "last_change": saved_round.last_change,
        "nodes": {node.name: _saved_entry_of_node(node) for node in saved_round.nodes},
        **{key: value for key, value in _optional_state_entries_of_round(saved_round).items() if value},
    }
    state = f"{json.dumps(content, indent=2, default=datetime.isoformat)}\n".encode()
    for name, data in (*outputs.items(), (STATE, state)):
        if data:
            safe_files.replace_file_atomically(os.path.join(folder, name), data, _umask_file_mode(), durable=False)


def _umask_file_mode() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def read_saved_balancer_round(folder: str) -> tuple[dict[str, bytes], SavedBalancerRoundInput]:
    """Read a round's inputs; raises a ParseError that lists missing and invalid values.

    If state.json is missing, the balancer has no nodes, and the round's time is the modification time of the first
    output.
    """
    reader = demand_reader_of_outputs(lambda name: os.path.exists(os.path.join(folder, name)))
    outputs = _read_saved_program_outputs(folder, reader.OUTPUT_FILES, reader.OPTIONAL_FILES)
    path = os.path.join(folder, STATE)
    if not os.path.exists(path):
        written = os.stat(os.path.join(folder, reader.OUTPUT_FILES[0])).st_mtime
        return outputs, SavedBalancerRoundInput(now=datetime.fromtimestamp(written, UTC).astimezone())
    content = json_documents.read_json_file(path, _read_regular_file(folder, STATE))
    saved_round, mistakes = _READER.read(content, SavedBalancerRoundInput)
    if saved_round is None:
        raise ParseError("\n".join(json_documents.mistake_lines(path, mistakes)))
    return outputs, saved_round


def _read_saved_program_outputs(folder: str, files: Iterable[str], optional: Iterable[str]) -> dict[str, bytes]:
    names = (*files, *(name for name in optional if os.path.exists(os.path.join(folder, name))))
    return {name: _read_regular_file(folder, name) for name in names}


def _read_regular_file(folder: str, name: str) -> bytes:
    path = os.path.join(folder, name)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ParseError(f"{path}: no regular file")
            return file.read(MOST_BYTES)
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror}") from error


def _optional_state_entries_of_round(saved_round: SavedBalancerRoundInput) -> dict[str, object]:
    runtimes = dict[str, dict[str, float]]()
    for (owner, name), time_s in saved_round.runtimes.items():
        runtimes.setdefault(owner, {})[name] = time_s
    return {
        "best_effort": sorted(saved_round.best_effort),
        "eligible": dict(saved_round.eligible_since),
        "watched": {
            job: {key: value for key, value in asdict(history).items() if value is not None}
            for job, history in saved_round.watched.items()
        },
        "runtimes": runtimes,
        "elsewhere": dict(saved_round.elsewhere),
        "elsewhere_free": dict(saved_round.elsewhere_free),
        "failed": dict(saved_round.failed),
        "spent": saved_round.spent,
    }


def _saved_entry_of_node(node: ElasticNode) -> dict[str, object]:
    optional = {
        "since": node.since,
        "idle_since": node.idle_since,
        "failed_at": node.failed_at,
        "pool": node.pool,
        "group": node.group,
        "kept": node.is_kept,
        "drained": node.is_drained,
        "machine": node.has_machine,
    }
    return {"up_since": node.up_since, "state": node.state.value} | {k: v for k, v in optional.items() if v}


def _parse_job_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise WrongJsonValue(text, "the number of a job")
    return int(text)


def _parse_time(text: str) -> datetime:
    """Parse a time, by default in the local zone; raises ValueError for an impossible time."""
    moment = datetime.fromisoformat(text)
    try:
        return moment if moment.tzinfo else moment.astimezone()
    except OverflowError as error:
        raise ValueError from error


def _parse_number(number: float) -> float:
    if not 0 <= number < INFINITE:
        raise ValueError
    if number > MOST:
        raise WrongJsonValue(number, f"a number of at most {MOST:.0e}")
    return float(number)


def _structure_by_job_number(content: object, kind: Any) -> dict[int, object]:
    """Return the entries of a table by job numbers, which are texts in JSON."""
    entries = _READER.structure_entries(content, get_args(kind)[1])
    return {_parse_job_number(job): entry for job, entry in entries.items()}


def _structure_run_times(content: object, _: object) -> dict[tuple[str, str], float]:
    owners = _READER.structure_entries(content, Mapping[str, float])
    return {(owner, name): time_s for owner, times_s in owners.items() for name, time_s in times_s.items()}


def _structure_nodes(content: object, _: object) -> tuple[ElasticNode, ...]:
    rows = _READER.structure_entries(content, Any)
    named = {name: row | {"name": name} if isinstance(row, dict) else row for name, row in rows.items()}
    return tuple(_READER.structure_entries(named, ElasticNode).values())


A_NUMBER = "a number that is not negative"
_READER = JsonDocumentReader(
    {
        bool: json_value_hook(bool, "true or false"),
        datetime: json_value_hook(str, A_TIME, _parse_time),
        ElasticNodeState: json_value_hook(
            str, f"one of {', '.join(state.value for state in ElasticNodeState)}", ElasticNodeState
        ),
        float: json_value_hook(int | float, A_NUMBER, _parse_number),
        int: json_value_hook(int | float, A_NUMBER, lambda number: int(_parse_number(number))),
        str: json_value_hook(str, "a text"),
    }
)
_READER.add_table(WaitingJobsHistory, **dict.fromkeys(("at", "tasks", "room_since", "stuck_since"), override()))
_READER.add_table(
    ElasticNode,
    **dict.fromkeys(("name", "up_since", "state", "since", "idle_since", "failed_at", "pool", "group"), override()),
    is_kept=override(rename="kept"),
    is_drained=override(rename="drained"),
    has_machine=override(rename="machine"),
)
_READER.add_table(
    SavedBalancerRoundInput,
    **dict.fromkeys(("now", "master", "last_change"), override()),
    nodes=override(struct_hook=_structure_nodes),
    best_effort=override(),
    eligible_since=override(rename="eligible", struct_hook=_structure_by_job_number),
    watched=override(struct_hook=_structure_by_job_number),
    runtimes=override(struct_hook=_structure_run_times),
    **dict.fromkeys(("elsewhere", "elsewhere_free", "failed", "spent"), override()),
)
