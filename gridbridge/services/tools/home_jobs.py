"""Explains a job at home: how it stands, and which transfer queues would take it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gridbridge.apply.adapters import adapter_of
from gridbridge.apply.clusters import away
from gridbridge.decisions.site.standing import sentences
from gridbridge.decisions.transfer import health
from gridbridge.errors import GridbridgeError
from gridbridge.model.ids import parse_local
from gridbridge.model.places import CONFIG, PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.report import printable
from gridbridge.model.snapshot import JobStanding
from gridbridge.services.tools import configured
from gridbridge.services.tools.remote_half import LIMIT_S
from gridbridge.state import shown as files


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAnswer:
    """Whether a transfer queue would take a waiting job."""

    queue: str
    cluster: str
    would_take: bool
    why: str = ""  # why the queue would not take it, or not now


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeJob:
    """A job at home without a known transfer."""

    job: int
    owner: str
    submitted_at: datetime | None
    sentences: tuple[str, ...]
    queues: tuple[QueueAnswer, ...] = ()  # for a waiting job


def look(job: str, now: datetime, folder: str = PUBLISHED, path: str = CONFIG) -> HomeJob | None:
    """Return what home's batch system says about a job; None without an answer.

    Raises ParseError for anything but a job id.
    """
    number, _ = parse_local(job)
    try:
        policy = configured.load(path)[0]
        found = _standing(policy, number)
    except GridbridgeError:
        return None
    if not found or not found.rows:
        return None
    does_wait = any(row.state.is_waiting for row in found.rows)
    return HomeJob(
        job=number,
        owner=found.owner,
        submitted_at=found.submitted_at,
        sentences=tuple(map(printable, sentences(found, now))),
        queues=tuple(_queues(number, policy, now, folder, path)) if does_wait else (),
    )


def _standing(policy: Policy, job: int) -> JobStanding | None:
    home = away(policy, policy.site.cluster).within(LIMIT_S)
    shows = adapter_of(home).shows_requests
    return shows.standing(home, job) if shows else None


def _queues(
    job: int, policy: Policy, now: datetime, folder: str, path: str
) -> Iterator[QueueAnswer]:
    """Give the answer of each transfer queue, in the order of the file."""
    from gridbridge.services.tools.explain import explained  # rarely needed

    shown = files.read_all(folder)
    routes = {route.queue: route for route in shown.service.routes} if shown.service else {}
    for name, queue in policy.queues.items():
        try:
            answer = explained((str(job),), name, path)
            refused = answer.refused or answer.kept
        except GridbridgeError as error:
            refused = str(error)
        route = routes.get(name)
        closed = health.judge_queue(route, shown, now).why if route and not refused else ""
        yield QueueAnswer(
            queue=name,
            cluster=queue.cluster,
            would_take=not refused,
            why=printable(refused or closed),
        )
