"""Folders with the inputs of a balancer round, for support and for trying rules."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from stat import S_ISREG
from typing import TypeVar

from gridbridge.errors import ParseError
from gridbridge.model.elastic.balance_plan import SavedBalancerRoundInput, SavedBatchProgramOutputs, WaitingJobsHistory
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.shell import safe_files

QSTAT, QHOST, QCONF, STATE = "qstat.xml", "qhost.xml", "qconf.json", "state.json"
OAR = "oar.txt"  # output of an OAR server; a folder of OAR has no qstat.xml, qhost.xml and qconf.json
KEYS = ("now", "master", "last_change", "nodes")
ELSEWHERE = ("elsewhere", "elsewhere_free")
MORE = ("best_effort", "eligible", "watched", "runtimes", *ELSEWHERE, "failed", "spent")
MARKS = ("kept", "drained", "machine")  # keys with boolean values
OF_WATCHED = ("at", "tasks", "room_since", "stuck_since")
OF_NODE = ("up_since", "state", "since", "idle_since", "failed_at", "pool", "group", *MARKS)
A_TIME = "an ISO 8601 time such as 2026-11-23T20:00:00+00:00"
MOST_BYTES = 1 << 30
INFINITE = float("inf")
MOST_TOLD = 20  # limit of mistakes that a message lists
MOST = 1e300  # largest valid number

Value = TypeVar("Value")


def write_saved_balancer_round(
    folder: str, documents: SavedBatchProgramOutputs, saved_round: SavedBalancerRoundInput
) -> None:
    """Save a round's inputs, never through another user's symlink; raises OSError or StateError."""
    os.makedirs(folder, exist_ok=True)
    content = {
        "now": saved_round.now,
        "master": saved_round.master,
        "last_change": saved_round.last_change,
        "nodes": {node.name: _saved_entry_of_node(node) for node in saved_round.nodes},
        **{key: value for key, value in _optional_state_entries_of_round(saved_round).items() if value},
    }
    for name, data in (
        (QSTAT, documents.qstat),
        (QHOST, documents.qhost),
        (QCONF, documents.qconf),
        (OAR, documents.oar),
        (STATE, f"{json.dumps(content, indent=2, default=datetime.isoformat)}\n".encode()),
    ):
        if data:
            safe_files.replace_file_atomically(os.path.join(folder, name), data, _umask_file_mode(), durable=False)


def _umask_file_mode() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def read_saved_balancer_round(folder: str) -> tuple[SavedBatchProgramOutputs, SavedBalancerRoundInput]:
    """Read a round's inputs; raises a ParseError that lists missing and invalid values.

    Without state.json the balancer has no nodes, and the time is the modification time of qstat.xml.
    """
    documents = _read_saved_program_outputs(folder)
    path = os.path.join(folder, STATE)
    if not os.path.exists(path):
        written = os.stat(os.path.join(folder, OAR if documents.oar else QSTAT)).st_mtime
        return documents, SavedBalancerRoundInput(now=datetime.fromtimestamp(written, UTC).astimezone())
    return documents, _SavedRoundStateParser(path, _read_regular_file(folder, STATE)).parse_saved_round()


def _read_saved_program_outputs(folder: str) -> SavedBatchProgramOutputs:
    if os.path.exists(os.path.join(folder, OAR)):
        return SavedBatchProgramOutputs(oar=_read_regular_file(folder, OAR))
    has_layout = os.path.exists(os.path.join(folder, QCONF))
    return SavedBatchProgramOutputs(
        qstat=_read_regular_file(folder, QSTAT),
        qhost=_read_regular_file(folder, QHOST),
        qconf=_read_regular_file(folder, QCONF) if has_layout else b"",
    )


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
        raise ValueError
    return int(text)


def _parse_time(text: str) -> datetime:
    """Parse a time, by default in the local zone; raises ValueError for an impossible time."""
    moment = datetime.fromisoformat(text)
    try:
        return moment if moment.tzinfo else moment.astimezone()
    except OverflowError as error:
        raise ValueError from error


class _SavedRoundStateParser:
    """Parser of state.json that collects all mistakes; an invalid value gets a placeholder."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        self._mistakes = dict[str, None]()
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"{path}: no JSON: {error}") from error
        self._told = self._parse_table(content, "", KEYS + MORE)

    def parse_saved_round(self) -> SavedBalancerRoundInput:
        """Return the saved round; raises ParseError with a line for each invalid key."""
        saved_round = self._parse_round()
        if self._mistakes:
            lines = [f"{self._path}: {mistake}" for mistake in self._mistakes]
            more = [f"{self._path}: {len(lines) - MOST_TOLD} more"] if lines[MOST_TOLD:] else []
            raise ParseError("\n".join(lines[:MOST_TOLD] + more))
        return saved_round

    def _parse_round(self) -> SavedBalancerRoundInput:
        now = self._parse_required_time(self._told, "now")
        nodes = self._told.get("nodes", {})
        if not isinstance(nodes, dict):
            self._report_wrong_value("nodes", nodes, "a table of nodes by their names")
            nodes = {}
        return SavedBalancerRoundInput(
            now=now,
            master=self._parse_text(self._told.get("master", ""), "master"),
            last_change=self._parse_optional_time(self._told, "last_change"),
            nodes=tuple(self._parse_node(name, row) for name, row in nodes.items()),
            best_effort=self._parse_names("best_effort"),
            eligible_since={
                self._parse_whole_number(job, "eligible"): since for job, since in self._parse_times("eligible").items()
            },
            watched={
                self._parse_whole_number(job, "watched"): self._parse_job_history(f"watched.{job}.", row)
                for job, row in self._parse_entries("watched").items()
            },
            runtimes={
                (owner, name): seconds
                for owner in self._parse_entries("runtimes")
                for name, seconds in self._parse_numbers(owner, self._parse_entries("runtimes"), "runtimes.").items()
            },
            elsewhere=self._parse_numbers("elsewhere"),
            elsewhere_free={queue: int(slots) for queue, slots in self._parse_numbers("elsewhere_free").items()},
            failed=self._parse_times("failed"),
            spent=self._parse_number(self._told.get("spent", 0), "spent"),
        )

    def _parse_entries(self, key: str) -> Mapping[str, object]:
        return self._parse_table(self._told.get(key, {}), f"{key}.", ())

    def _parse_numbers(self, key: str, table: Mapping[str, object] | None = None, where: str = "") -> dict[str, float]:
        numbers = self._parse_table((table or self._told).get(key, {}), f"{where}{key}.", ())
        return {name: self._parse_number(number, f"{where}{key}.{name}") for name, number in numbers.items()}

    def _parse_times(self, key: str) -> dict[str, datetime]:
        moments = (
            (name, self._parse_optional_time(self._parse_entries(key), name, f"{key}."))
            for name in self._parse_entries(key)
        )
        return {name: at for name, at in moments if at is not None}

    def _parse_names(self, key: str) -> frozenset[str]:
        names = self._told.get(key, [])
        if not isinstance(names, list):
            self._report_wrong_value(key, names, "a list of names")
            return frozenset()
        return frozenset(self._parse_text(name, key) for name in names)

    def _parse_number(self, number: object, key: str) -> float:
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < INFINITE:
            self._report_wrong_value(key, number, "a number that is not negative")
            return 0.0
        if number > MOST:
            self._report_wrong_value(key, number, f"a number of at most {MOST:.0e}")
            return 0.0
        return float(number)

    def _parse_node(self, name: str, row: object) -> ElasticNode:
        where = f"nodes.{name}."
        table = self._parse_table(row, where, OF_NODE)
        right = f"one of {', '.join(state.value for state in ElasticNodeState)}"
        state = self._parse_value_with(
            ElasticNodeState, table.get("state", ElasticNodeState.READY.value), f"{where}state", right
        )
        return ElasticNode(
            name=name,
            state=state or ElasticNodeState.READY,
            up_since=self._parse_optional_time(table, "up_since", where),
            since=self._parse_optional_time(table, "since", where),
            idle_since=self._parse_optional_time(table, "idle_since", where),
            pool=self._parse_text(table.get("pool", ""), f"{where}pool"),
            group=self._parse_text(table.get("group", ""), f"{where}group"),
            failed_at=self._parse_optional_time(table, "failed_at", where),
            is_kept=self._parse_bool(table.get("kept", False), f"{where}kept"),
            is_drained=self._parse_bool(table.get("drained", False), f"{where}drained"),
            has_machine=self._parse_bool(table.get("machine", False), f"{where}machine"),
        )

    def _parse_whole_number(self, job: str, key: str) -> int:
        return self._parse_value_with(_parse_job_number, job, key, "the number of a job") or 0

    def _parse_job_history(self, where: str, row: object) -> WaitingJobsHistory:
        table = self._parse_table(row, where, OF_WATCHED)
        return WaitingJobsHistory(
            at=self._parse_required_time(table, "at", where),
            tasks=int(self._parse_number(table.get("tasks", 0), f"{where}tasks")),
            room_since=self._parse_optional_time(table, "room_since", where),
            stuck_since=self._parse_optional_time(table, "stuck_since", where),
        )

    def _parse_bool(self, flag: object, key: str) -> bool:
        if not isinstance(flag, bool):
            self._report_wrong_value(key, flag, "true or false")
        return flag is True

    def _parse_optional_time(self, table: Mapping[str, object], key: str, where: str = "") -> datetime | None:
        text = table.get(key)
        return None if text is None else self._parse_value_with(_parse_time, text, where + key, A_TIME)

    def _parse_required_time(self, table: Mapping[str, object], key: str, where: str = "") -> datetime:
        at = self._parse_optional_time(table, key, where)
        if at is None:
            self._report_wrong_value(f"{where}{key}", table.get(key), A_TIME)
        return at or datetime.min.replace(tzinfo=UTC)

    def _parse_text(self, text: object, key: str) -> str:
        if not isinstance(text, str):
            self._report_wrong_value(key, text, "a text")
            return ""
        return text

    def _parse_table(self, content: object, where: str, keys: tuple[str, ...]) -> Mapping[str, object]:
        if not isinstance(content, dict):
            right = f"a table with {', '.join(keys)}" if keys else "a table"
            self._report_wrong_value(where.rstrip(".") or "it", content, right)
            return {}
        for key in (name for name in content if keys and name not in keys):
            self._mistakes[f"{where}{key}: unknown; expected one of: {', '.join(keys)}"] = None
        return content

    def _parse_value_with(self, read: Callable[[str], Value], text: object, key: str, right: str) -> Value | None:
        if not isinstance(text, str):
            self._report_wrong_value(key, text, right)
            return None
        try:
            return read(text)
        except ValueError:
            self._report_wrong_value(key, text, right)
            return None

    def _report_wrong_value(self, key: str, content: object, right: str) -> None:
        self._mistakes[f"{key}: {json.dumps(content)[:60]}; expected {right}"] = None
