"""The clusters' last answers, shared by all programs of the service: each is asked once for all.

They lie in the state file. Who reads one decides by its age, and by what it covers: that was
recorded as sent before the cluster was asked, so what of that is not listed is not there. What was
sent later is unknown to it. No answer of another program, or about another place, is read.
"""

import logging
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge import __version__
from gridbridge.errors import plain_words
from gridbridge.model.route import Away, SshLogin
from gridbridge.model.snapshot import ClusterSnapshot, SentJob
from gridbridge.shell.clock import Clock
from gridbridge.state import snapshot_codec
from gridbridge.state.database import StateFile
from gridbridge.state.database.snapshots import LastAnswer, LastAnswers

AHEAD_S = 1.0  # by which an answer's time may lie ahead: clocks are slewed

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedAnswer:
    """A cluster's answer that somebody else asked for; without a snapshot there was none."""

    snapshot: ClusterSnapshot | None = None
    trouble: str = ""
    is_regular: bool = False  # from who asks again by itself, and has shown what it was told


class AnswerSharing:
    """Where answers are put and found."""

    def __init__(self, database: StateFile, clock: Clock, *, is_dry: bool = False) -> None:
        """Open the table; in a dry run nothing is put there."""
        self._answers = LastAnswers(database)
        self._clock = clock
        self._is_dry = is_dry

    def put(self, cluster: str, answer: LastAnswer) -> None:
        """Share an answer, or that there was none."""
        if not self._is_dry:
            self._answers.put(cluster, answer)

    def find(
        self, cluster: str, location: str, released: frozenset[str], limit_s: float
    ) -> SharedAnswer | None:
        """Return an answer from there that is young enough and covers what was sent.

        It is young enough below the limit, or while who asked it asks no other.
        """
        last = self._answers.find(cluster)
        if last is None or last.place != location or not released <= last.covers:
            return None
        age_s = (self._clock.now() - last.asked_at).total_seconds()
        if not -AHEAD_S <= age_s < max(limit_s, last.every_s):
            return None
        is_regular = last.every_s > 0
        if last.trouble:
            return SharedAnswer(trouble=last.trouble, is_regular=is_regular)
        snapshot = _read(cluster, last)
        return SharedAnswer(snapshot=snapshot, is_regular=is_regular) if snapshot else None


def answer_of(
    snapshot: ClusterSnapshot | None,
    sent: SentJob,
    location: str,
    now: datetime,
    *,
    every_s: float = 0.0,
    trouble: str = "",
) -> LastAnswer:
    """Return what is shared of an answer: its queues, and the jobs that were sent."""
    return LastAnswer(
        place=location,
        asked_at=snapshot.taken_at if snapshot else now,
        every_s=every_s,
        covers=sent.released,
        trouble=trouble,
        content=snapshot_codec.encode(snapshot, sent.jobs) if snapshot else b"",
    )


def without(snapshot: ClusterSnapshot, jobs: Set[int]) -> ClusterSnapshot:
    """Return an answer without the jobs of these ids."""
    remaining = {number: rows for number, rows in snapshot.jobs.items() if number not in jobs}
    return snapshot if len(remaining) == len(snapshot.jobs) else replace(snapshot, jobs=remaining)


def place_of(where: Away, transfer_queues: Iterable[str]) -> str:
    """Say by which program and where a cluster is asked, and what counts as its own queues."""
    return " ".join((__version__, where.kind, *_words(where), *transfer_queues))


def _words(where: Away | SshLogin) -> Iterator[str]:
    for name in where.__slots__:
        value = getattr(where, name)
        yield from _words(value) if isinstance(value, SshLogin) else (f"{name}={value}",)


def _read(cluster: str, last: LastAnswer) -> ClusterSnapshot | None:
    try:
        return snapshot_codec.decode(last.content, cluster, last.asked_at)
    except Exception as error:  # it is asked then; another program may have written anything
        _log.warning("event=not_shared cluster=%s why=%r", cluster, plain_words(error))
        return None
