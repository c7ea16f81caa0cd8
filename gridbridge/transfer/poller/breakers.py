"""The breakers of all remote clusters: changed by news of transfers, published and logged."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.decisions.transfer import breaker
from gridbridge.decisions.transfer.breaker import BreakerObservation
from gridbridge.model.policy import Policy
from gridbridge.model.published import ShownBreaker, ShownBreakers
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfer_row import Key, Transfer
from gridbridge.model.transfer.transfer_sections import Breaker
from gridbridge.shell.clock import Clock
from gridbridge.transfer.poller.published_views import PublishedViews

_log = logging.getLogger(__name__)


class Breakers:
    """One breaker for each cluster; the published ones outlive the process."""

    def __init__(self, policy: Breaker, views: PublishedViews, clock: Clock) -> None:
        self._policy = policy
        self._views = views
        self._clock = clock
        self._known: dict[str, ShownBreaker] = clock.dated(_moved)
        # somebody may have set the clock back while no process ran
        self._known.update({one.cluster: self._shortened(one) for one in views.shown_breakers()})
        self._unproved: dict[
            tuple[str, str], dict[int, BreakerObservation]
        ] = {}  # by owner and cluster
        self._proved: set[Key] = set()  # transfers that home listed in their queue
        self._probes: dict[str, tuple[datetime | None, dict[str, datetime]]] = {}  # by cluster

    def follow(self, policy: Policy) -> None:
        """Obey another configuration; no queue stays closed for longer than its longest pause."""
        self._policy = policy.breaker
        before = dict(self._known)
        for name, known in before.items():
            self._known[name] = self._shortened(known)
        if self._known != before:
            self._show()

    def take_news(
        self, before: Transfer | None, one: Transfer, transfers: Iterable[Transfer]
    ) -> None:
        """Take a transfer's news; it counts once home's list has proved the transfer."""
        said = breaker.news(before, one, self._policy)
        if said is None:
            return
        if one.key in self._proved:
            self._count(said, self._of_queues(transfers))
            return
        self._put(breaker.count_unproved(self._of(said), said))
        waiting = self._unproved.setdefault((said.owner, said.cluster), {})
        if said.job in waiting or len(waiting) < self._policy.failures:
            waiting[said.job] = said

    def prove(self, home: ClusterSnapshot, transfers: Collection[Transfer]) -> None:
        """Count the news that home's list proves, and drop news that it disproves."""
        self._proved &= {one.key for one in transfers}
        self._proved.update(
            one.key
            for one in transfers
            if one.key not in self._proved
            and breaker.is_in_queue(one.name, one.owner, one.queue, home)
        )
        for key, waiting in tuple(self._unproved.items()):
            asked = [one for one in waiting.values() if one.at < home.taken_at]
            for one in asked:
                del waiting[one.job]
                if one.is_proved(home):
                    self._count(one, self._of_queues(transfers))
            if not waiting:
                del self._unproved[key]

    def jobs(self) -> set[int]:
        """Return the local jobs that home's next answer has to show."""
        return {job for waiting in self._unproved.values() for job in waiting}

    def begin_anew(self) -> None:
        """Forget unproved news, and publish all breakers anew: the clock was set."""
        self._unproved.clear()
        self._show()

    def closed(self, transfers: Iterable[Transfer]) -> frozenset[str]:
        """Return the clusters that get no more jobs for now."""
        now, everyone = self._clock.now(), self._of_queues(transfers)
        return frozenset(
            name
            for name, known in self._known.items()
            if breaker.is_closed(known, self._first_probes(known, everyone), now, self._policy)
        )

    def _first_probes(
        self, known: ShownBreaker, transfers: Collection[Transfer]
    ) -> dict[str, datetime]:
        """Return when each owner's first probe began, even if that one is over."""
        if not known.until:
            return {}
        until, before = self._probes.get(known.cluster, (None, {}))
        probes = breaker.first_probes(known, transfers) | (before if until == known.until else {})
        self._probes[known.cluster] = known.until, probes
        return probes

    def _of_queues(self, transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
        """Return the transfers that home has listed in their queue: nobody has invented those."""
        return tuple(one for one in transfers if one.key in self._proved)

    def why(self) -> dict[str, str]:
        """Return why the queues to some clusters are closed, or being probed."""
        return {name: f"jobs fail at {name}" for name, known in self._known.items() if known.times}

    def _of(self, said: BreakerObservation) -> ShownBreaker:
        return self._known.get(said.cluster, ShownBreaker(cluster=said.cluster))

    def _count(self, said: BreakerObservation, transfers: Iterable[Transfer]) -> None:
        now = self._clock.now()
        self._put(breaker.count(self._of(said), said, transfers, now, self._policy))

    def _put(self, one: ShownBreaker) -> None:
        known = self._known.get(one.cluster, ShownBreaker(cluster=one.cluster))
        if one == known:
            return
        self._known[one.cluster] = one
        if one.until and one.until != known.until:
            words = f"event=closed cluster={one.cluster} until={one.until:%FT%TZ} times={one.times}"
            _log.error("%s cause=%s owners=%s", words, one.cause, ",".join(one.owners))
        elif known.times and not one.times:
            _log.warning("event=opened cluster=%s why='a job ran there'", one.cluster)
        self._show()

    def _shortened(self, one: ShownBreaker) -> ShownBreaker:
        """Return a breaker that is closed for the longest pause from now on, at most."""
        latest = self._clock.now() + timedelta(seconds=self._policy.pause_max_s)
        return replace(one, until=one.until and min(one.until, latest))

    def _show(self) -> None:
        self._views.breakers(ShownBreakers(breakers=tuple(self._known.values())))


def _moved(one: ShownBreaker, step: timedelta) -> ShownBreaker:
    return replace(one, until=one.until and one.until + step)
