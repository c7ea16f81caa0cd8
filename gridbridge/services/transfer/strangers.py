"""Finds remote ids that belong to other jobs by now; what is listed of those is ignored."""

import logging
from collections.abc import Callable
from concurrent.futures import Future

from gridbridge.apply.adapters import ADAPTERS
from gridbridge.apply.transfer.acts import Acts
from gridbridge.decisions.transfer import strangers
from gridbridge.decisions.transfer.strangers import Sight
from gridbridge.decisions.transfer.world import World
from gridbridge.errors import GridbridgeError
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer import Key, Transfer
from gridbridge.services.transfer.ledger import Ledger
from gridbridge.services.watch.observer import Answer
from gridbridge.services.work.workers import Workers

AT_ONCE = 100  # jobs in one question

_log = logging.getLogger(__name__)


class Strangers:
    """Whose the ids are that clusters list; asked only where that is in doubt."""

    def __init__(self, ledger: Ledger, acts: Acts, workers: Workers) -> None:
        self._ledger = ledger
        self._acts = acts
        self._workers = workers
        self._known: dict[Key, Sight] = {}
        self._found: set[Key] = set()
        self._asked: dict[str, tuple[dict[Key, Sight], Future[dict[int, str]]]] = {}

    def now(self) -> frozenset[Key]:
        """Return the transfers whose ids other jobs have."""
        return frozenset(self._found)

    def believe(self, told: list[Transfer]) -> None:
        """Take what gridbridge-as-user has found out."""
        for one in told:
            self._find(one.key, one)
        told.clear()

    def see(self, came: tuple[Answer, ...], policy: Policy, world: Callable[[], World]) -> None:
        """Look at what was listed, before anything is concluded from it."""
        for answer in came:
            where = policy.clusters.get(answer.cluster)
            if where is None or not ADAPTERS[where.kind].tells_accounts:
                continue
            if answer.snapshot is None:
                self._doubt(answer.cluster)
            else:
                self._take(answer.cluster)
                self._look(answer.cluster, world())
        self._forget()

    def _doubt(self, cluster: str) -> None:
        """Know nothing of what a cluster lists that was silent meanwhile."""
        for one in self._ledger.all():
            if one.remote == cluster:
                self._known.pop(one.key, None)

    def _look(self, cluster: str, world: World) -> None:
        doubtful: dict[Key, Sight] = {}
        for one, seen in strangers.sights(self._ledger.all(), cluster, world):
            if strangers.is_doubtful(one, seen, self._known):
                doubtful[one.key] = seen
            else:
                self._known[one.key] = seen
        if doubtful and cluster not in self._asked:
            some = dict(list(doubtful.items())[:AT_ONCE])
            jobs = tuple(sorted({each.job_id for each in some.values()}))
            asked = self._workers.do(f"cluster {cluster}", self._ask, (cluster, jobs))
            self._asked[cluster] = some, asked

    def _ask(self, what: tuple[str, tuple[int, ...]]) -> dict[int, str]:
        return self._acts.accounts(*what)

    def _take(self, cluster: str) -> None:
        """Take a cluster's answer about the jobs that were in doubt."""
        if cluster not in self._asked or not self._asked[cluster][1].done():
            return
        some, asked = self._asked.pop(cluster)
        try:
            accounts = asked.result()
        except (GridbridgeError, OSError) as error:
            _log.warning("event=failed act=whose_id cluster=%s why=%r", cluster, str(error))
            return
        for each, seen in some.items():
            one = self._ledger.open.get(each)
            if one is None or seen.job_id not in accounts or one.remote_id != seen.job_id:
                continue
            if accounts[seen.job_id] == one.name:
                self._known[each] = seen
            else:
                self._find(each, one)

    def _find(self, each: Key, one: Transfer) -> None:
        if each not in self._found:
            self._found.add(each)
            self._ledger.note(one, f"{one.remote} has given {one.remote_id} to another job")

    def _forget(self) -> None:
        """Keep nothing of what is looked after no more."""
        living = self._ledger.open.keys() | self._ledger.ended.keys()
        self._found &= living
        for each in self._known.keys() - living:
            del self._known[each]
