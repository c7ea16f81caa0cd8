"""The updator: what the clusters say of free slots and of our tasks, one question each.

Unknown never means gone: of a cluster that does not answer nothing is decided, and a task that is
neither listed nor accounted for is waited for.
"""

import logging
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from gridbridge.apply.adapters import adapter_of, status_of
from gridbridge.apply.clusters import away
from gridbridge.decisions.campaigns import ends as rules
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import Array, ArrayState, Attempt, Campaign
from gridbridge.model.campaigns.jdl import Type
from gridbridge.model.campaigns.names import ArrayId
from gridbridge.model.campaigns.plan import Room, Seen, There
from gridbridge.model.job import JobEnd
from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.shell.clock import Clock
from gridbridge.state.database.campaigns import Campaigns

_log = logging.getLogger(__name__)


class Updator:
    """Asks the clusters."""

    def __init__(self, policy: Policy, campaigns: Campaigns, clock: Clock) -> None:
        self._policy = policy
        self._campaigns = campaigns
        self._clock = clock
        self._missing: dict[Attempt, float] = {}  # since when

    def look(self) -> Seen:
        """Return all that a decision may look at."""
        campaigns, arrays = self._campaigns.unfinished(), self._campaigns.open_arrays()
        answers = self._ask(campaigns, arrays)
        released = [
            one for one in arrays if one.state is ArrayState.RELEASED and one.cluster in answers
        ]
        ended, over = self._ended(released, answers, campaigns)
        tests = (one for one in campaigns if one.jdl.type is Type.TEST)
        return Seen(
            campaigns=campaigns,
            waiting=self._campaigns.waiting(),
            arrays=arrays,
            room={name: _room(seen) for name, seen in answers.items()},
            max_tasks=self._policy.runner.max_tasks,
            there=_there(released, answers),
            tried={one.number: self._campaigns.tried(one.number) for one in tests},
            ended=ended,
            over=over,
        )

    def _ask(
        self, campaigns: Iterable[Campaign], arrays: Iterable[Array]
    ) -> dict[str, ClusterSnapshot]:
        """Return what the clusters say that campaigns use or tasks are at, all asked at once."""
        used = {name for one in campaigns for name in one.jdl.clusters}
        used |= {one.cluster for one in arrays}
        names = sorted(used & self._policy.clusters.keys())
        wanted = frozenset(one.job_id for one in arrays if one.job_id)
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as threads:
            answers = threads.map(lambda name: self._snapshot(name, wanted), names)
            return {name: seen for name, seen in zip(names, answers, strict=True) if seen}

    def _snapshot(self, name: str, wanted: frozenset[int]) -> ClusterSnapshot | None:
        where = away(self._policy, name)
        queues = tuple(self._policy.queues) if name == self._policy.site.cluster else ()
        try:
            return status_of(where).snapshot(where, name, wanted, queues)[0]
        except (GridbridgeError, OSError) as error:
            _log.warning("event=no_answer cluster=%s why=%r", name, str(error))
            return None

    def _ended(
        self,
        arrays: Iterable[Array],
        answers: dict[str, ClusterSnapshot],
        campaigns: tuple[Campaign, ...],
    ) -> tuple[tuple[Attempt, ...], tuple[Array, ...]]:
        """Return the attempts that have ended, and the arrays that are over by that."""
        walltimes = {
            (one.number, name): wish.walltime_s
            for one in campaigns
            for name, wish in one.jdl.clusters.items()
        }
        ended: list[Attempt] = []
        over: list[Array] = []
        for array in arrays:
            pending = self._campaigns.pending(array)
            missing = self._missed(array, pending, answers[array.cluster])
            ends = self._ends(array) if missing else {}
            walltime_s = walltimes.get((array.campaign, array.cluster), 0)
            found = rules.ended(missing, ends, walltime_s, self._policy.runner.forgotten_s)
            ended += found
            over += [array] if len(found) == len(pending) else []
        return tuple(ended), tuple(over)

    def _missed(
        self, array: Array, pending: tuple[Attempt, ...], seen: ClusterSnapshot
    ) -> dict[Attempt, float]:
        """Return the attempts that are not listed, with how long that has been so."""
        now_s = self._clock.steady_s()
        rows = seen.jobs.get(array.job_id, ())
        whole = (range(1, array.size + 1),)
        gone = rules.not_listed(pending, (some for row in rows for some in row.tasks or whole))
        for one in set(pending) - set(gone):
            self._missing.pop(one, None)
        return {one: now_s - self._missing.setdefault(one, now_s) for one in gone}

    def _ends(self, array: Array) -> dict[int, JobEnd]:
        where = away(self._policy, array.cluster)
        system = adapter_of(where).array_ends
        assert system  # campaigns are not sent to others
        name = ArrayId(self._policy.site.cluster, array.campaign, array.number)
        try:
            return system.array_ends(where, array.job_id, str(name))
        except GridbridgeError as error:
            _log.warning("event=no_ends cluster=%s why=%r", array.cluster, str(error))
            return {}


def _room(seen: ClusterSnapshot) -> Room:
    return Room(free_slots=seen.free_slots, besteffort_slots=seen.besteffort_slots)


def _there(arrays: Iterable[Array], answers: dict[str, ClusterSnapshot]) -> tuple[There, ...]:
    """Count our listed tasks by campaign and cluster."""
    waiting: Counter[tuple[int, str]] = Counter()
    listed: Counter[tuple[int, str]] = Counter()
    for array in arrays:
        whose = (array.campaign, array.cluster)
        for row in answers[array.cluster].jobs.get(array.job_id, ()):
            listed[whose] += row.task_count
            waiting[whose] += row.task_count if row.state.is_waiting else 0
    return tuple(
        There(campaign=number, cluster=name, waiting=waiting[number, name], listed=tasks)
        for (number, name), tasks in sorted(listed.items())
    )
