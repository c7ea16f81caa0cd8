"""Builders of published values: an idle service, an open queue, a job that runs at beta."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gridbridge.model.published_status_and_reports import (
    PublishedClusterAnswer,
    PublishedFilesSnapshot,
    PublishedLoadValues,
    PublishedOpenTransfers,
    PublishedQueueOnHost,
    PublishedServiceStatus,
    PublishedTaskTransfers,
    PublishedTransfer,
    PublishedTransferEvent,
    PublishedTransferHistory,
    PublishedTransferQueue,
)
from gridbridge.state import published_file_formats
from gridbridge.state import published_json as files
from tests.states import job_state, queue_state

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OPEN = {"gb_beta_up": "1", "gb_beta_pending": "2", "gb_beta_free": "0"}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def transfer(**values: object) -> PublishedTransfer:
    running = PublishedTransfer(
        transfer="gb.alpha.12.0.1",
        owner="alice",
        queue="transfer-beta",
        remote="beta",
        remote_id=34,
        phase="released",
        local_state="r",
        local_since=ago(300),
        remote_state="r",
        remote_host="beta-n1",
        since=ago(200),
        created_at=ago(300),
        reason="running at beta as 34 on all.q@beta-n1",
    )
    one = replace(running, **values)  # type: ignore[arg-type]  # the tests' own words
    return replace(one, remote_facts=tuple(sorted(job_state(one.remote_state).facts)))


def queue(name: str = "transfer-beta@alpha-master", state: str = "", used: int = 1) -> PublishedQueueOnHost:
    facts = tuple(sorted(queue_state(state).facts))
    return PublishedQueueOnHost(name=name, used=used, reserved=0, total=2, state=state, facts=facts)


def cluster(name: str, *queues: PublishedQueueOnHost, **values: object) -> PublishedClusterAnswer:
    """Return a cluster that answered 4 s ago."""
    quiet = PublishedClusterAnswer(
        cluster=name, asked_at=ago(4), taken_at=ago(4), pending=2, free_slots=0, queues=queues
    )
    return replace(quiet, **values)  # type: ignore[arg-type]  # the tests' own words


def load(values: Mapping[str, str] = OPEN, age_s: float = 1) -> PublishedLoadValues:
    return PublishedLoadValues(taken_at=ago(age_s), stale=timedelta(seconds=30), values=dict(values))


def service() -> PublishedServiceStatus:
    route = PublishedTransferQueue(queue="transfer-beta", cluster="beta", pending_limit=10, slots=2)
    return PublishedServiceStatus(
        cluster="alpha", version="0", started_at=ago(9000), keep_closed_h=24.0, routes=(route,)
    )


def shown(*transfers: PublishedTransfer, **values: object) -> PublishedFilesSnapshot:
    quiet = PublishedFilesSnapshot(
        service=service(),
        load=load(),
        clusters={"alpha": cluster("alpha", queue()), "beta": cluster("beta", queue("all.q@beta-n1", used=2))},
        transfers=transfers,
    )
    return replace(quiet, **values)  # type: ignore[arg-type]  # the tests' own words


def history(one: PublishedTransfer, *texts: str) -> PublishedTaskTransfers:
    """Return a task with one attempt and these events, 10 s apart."""
    events = tuple(
        PublishedTransferEvent(at=one.created_at + timedelta(seconds=10 * count), text=text)
        for count, text in enumerate(texts)
    )
    _, _, job, task, _ = one.transfer.split(".")
    local = job if task == "0" else f"{job}.{task}"
    return PublishedTaskTransfers(job=local, attempts=(PublishedTransferHistory(transfer=one, events=events),))


def publish(folder: Path, what: PublishedFilesSnapshot, *tasks: PublishedTaskTransfers) -> str:
    values: dict[str, object] = {files.TRANSFERS: PublishedOpenTransfers(transfers=what.transfers)}
    values |= {f"clusters/{name}.json": one for name, one in what.clusters.items()}
    values |= {f"jobs/{task.job}.json": task for task in tasks}
    if what.service:
        values[files.SERVICE] = what.service
    for name, value in values.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(files.encode_published_value(value))
    if what.load:
        stale_s = what.load.stale.total_seconds()
        taken_at = what.load.taken_at.timestamp()
        data = published_file_formats.encode_load_values(taken_at, stale_s, dict(what.load.values))
        (folder / "load").write_bytes(data)
    return str(folder)
