"""Collects a support report: configuration, logs, versions and counts of this host, without secrets and people's words.

People's files, requests, spool messages, environments and command lines are not opened at all. Texts of the service,
its log lines above all, may repeat such words, so each text passes the redaction.
"""

import errno
import io
import json
import os
import platform
import sqlite3
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib import metadata
from pathlib import Path

import gridbridge
from gridbridge.campaigns.store import campaign_client
from gridbridge.config import configuration_file, shareable_configuration
from gridbridge.decisions.site.support_report_redaction import ReadableWords, redact_text, words_of_texts
from gridbridge.errors import ConfigError, GridbridgeError, describe_error
from gridbridge.model import fixed_paths
from gridbridge.model.site.site_section import SiteSection
from gridbridge.shell import local_host_facts, program_lock_file, safe_files
from gridbridge.shell.program_runs import run_program
from gridbridge.shell.program_startup import version_with_commit
from gridbridge.site.storage_provider_and_runner_checks import LOCKS
from gridbridge.state import drains, published_json
from gridbridge.state.state_file import StateFile

LOG_BYTES = 512 << 10  # of the end of each log
JOURNAL_LINES, JOURNAL_LIMIT_S = "5000", 30.0
UNITS = ("poller", "runner", "nikita", "balance", "metrics")
SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPlaces:
    """Files and folders of this host of which a support report tells; a test has others."""

    configuration: str = fixed_paths.CONFIG
    published: str = fixed_paths.PUBLISHED
    log_folders: tuple[str, ...] = (fixed_paths.HOME, fixed_paths.BALANCE_HOME, os.path.dirname(fixed_paths.SENSOR_LOG))
    counted_folders: tuple[str, ...] = (fixed_paths.SPOOL, fixed_paths.CAMPAIGNS, fixed_paths.LEDGER)
    balancer_state: str = fixed_paths.BALANCE_STATE


def support_report_files(places: ReportedPlaces, findings: Iterable[str]) -> dict[str, str]:
    """Return the report's files by name; `findings` are lines of gridbridge check."""
    raw, wrong = _configuration_and_fault(places.configuration)
    readable = ReadableWords(
        words=words_of_texts((*_source_texts(), *map(os.strerror, errno.errorcode))),
        names=shareable_configuration.names_in_configuration(raw) | _published_host_names(places.published),
        accounts=_accounts(places.published, raw) - {SiteSection(cluster="a").service_account},
        phrases=_written_reasons(places.published),
    )
    redact = partial(redact_text, readable=readable)
    logs = {f"logs/{name}": redact(text) for name, text in _ends_of_logs(places)}
    return {
        "versions.json": _json(_versions()),
        "configuration.toml": shareable_configuration.render_shareable_configuration(raw),
        "check.txt": redact("".join(f"{line}\n" for line in (*wrong, *findings))),
        "counts.json": _json(_counts(places, raw)),
        **logs,
    }


def pack_support_report(files: Mapping[str, str], top: str, at: datetime) -> bytes:
    """Return a gzipped tar with the files below the folder `top`; all belong to root and none is executable."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(at.timestamp()), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _configuration_and_fault(path: str) -> tuple[bytes, tuple[str, ...]]:
    try:
        raw = configuration_file.read_configuration_bytes(path)
    except ConfigError as error:
        return b"", error.problems
    try:
        configuration_file.parse_configuration(path, raw)
    except ConfigError as error:
        return raw, error.problems
    return raw, ()


def _source_texts() -> Iterator[str]:
    for path in sorted(Path(gridbridge.__file__).parent.rglob("*.py")):
        yield path.read_text(encoding="utf-8")


def _published_host_names(folder: str) -> frozenset[str]:
    with suppress(GridbridgeError, OSError):
        answers = published_json.read_published_cluster_status(folder)
        queues = [queue.name for answer in answers for queue in answer.queues]
        return frozenset(part for name in queues for part in (name, *name.split("@")))
    return frozenset()


def _accounts(folder: str, raw: bytes) -> frozenset[str]:
    accounts = shareable_configuration.accounts_in_configuration(raw)
    with suppress(GridbridgeError, OSError):
        accounts |= {transfer.owner for transfer in published_json.read_published_transfers(folder)}
        accounts |= {campaign.owner for campaign in campaign_client.published_campaigns(folder)}
    return accounts


def _written_reasons(folder: str) -> tuple[str, ...]:
    with suppress(GridbridgeError, OSError):
        return tuple(drain.reason for drain in drains.read_cluster_drains(folder).values())
    return ()


def _ends_of_logs(places: ReportedPlaces) -> Iterator[tuple[str, str]]:
    for folder in places.log_folders:
        for name in safe_files.list_folder_or_empty(folder):
            is_ours = folder != os.path.dirname(fixed_paths.SENSOR_LOG) or name.startswith("gridbridge-")
            if name.endswith(".log") and is_ours:
                yield name, _end_of_file(f"{folder}/{name}")
    units = (f"--unit=gridbridge-{unit}" for unit in UNITS)
    argv = ("journalctl", "--no-pager", "--output=short-iso", "--no-hostname", f"--lines={JOURNAL_LINES}", *units)
    with suppress(GridbridgeError):
        told = run_program(argv, {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}, JOURNAL_LIMIT_S).require_success()
        yield "journal", told.stdout.decode("utf-8", "replace")


def _end_of_file(path: str) -> str:
    """Return the last lines of a log; a link, which an account of the service might place, is not followed."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - LOG_BYTES))
            data = file.read(LOG_BYTES)
    except OSError as error:
        return f"{error.strerror}\n"
    whole = data if size <= LOG_BYTES else data.partition(b"\n")[2]
    return whole.decode("utf-8", "replace")


def _versions() -> dict[str, object]:
    running = {program: program_lock_file.lock_file_holder_version(path) for program, path in LOCKS.items()}
    libraries = {package.metadata["Name"]: package.version for package in metadata.distributions()}
    return {
        "gridbridge": version_with_commit(),
        "running": {program: version for program, version in running.items() if version is not None},
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
        "kernel": platform.release(),
        "libraries": libraries,
    }


def _counts(places: ReportedPlaces, raw: bytes) -> dict[str, object]:
    counted: dict[str, object] = {}
    with suppress(GridbridgeError, OSError):
        counted["transfers by phase"] = Counter(
            transfer.phase for transfer in published_json.read_published_transfers(places.published)
        )
    with suppress(GridbridgeError, OSError):
        campaigns = campaign_client.published_campaigns(places.published)
        counted["campaigns by state"] = Counter(str(campaign.state) for campaign in campaigns)
    counted["files"] = {folder: _count_files(folder) for folder in places.counted_folders}
    counted["free"] = {folder: _free(folder) for folder in (*places.counted_folders, places.published)}
    counted["drained clusters"] = len(drains.list_drained_clusters(places.published))
    with suppress(GridbridgeError):
        url = configuration_file.parse_configuration("", raw).site.state
        counted["rows of the service"] = _count_rows(url)
    counted["rows of the balancer"] = _count_rows(f"{SQLITE}{places.balancer_state}")
    return counted


def _count_files(folder: str) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def _free(folder: str) -> dict[str, int | None] | None:
    if not os.path.isdir(folder):
        return None
    facts = local_host_facts.free_bytes_and_files_of_folder(folder)
    return {"bytes": facts.free_bytes, "files": facts.free_files}


def _count_rows(url: str) -> dict[str, int] | str:
    try:
        with closing(StateFile.open(url, is_unchanged=True)) as database:
            return database.count_rows_by_table()
    except GridbridgeError as error:
        return type(error).__name__ if "@" in url else describe_error(error)


def _json(value: object) -> str:
    return f"{json.dumps(value, indent=2, sort_keys=True)}\n"
