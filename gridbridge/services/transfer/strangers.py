"""Finds remote ids that belong to other jobs by now; what is listed of those is ignored."""

from collections.abc import Callable
from functools import partial

from gridbridge.apply.adapters import ADAPTERS
from gridbridge.apply.transfer.acts import Acts
from gridbridge.decisions.transfer import strangers
from gridbridge.decisions.transfer.strangers import Sight
from gridbridge.decisions.transfer.world import World
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer import Key, Transfer
from gridbridge.services.transfer.ledger import Ledger
from gridbridge.services.watch.observer import Answer
from gridbridge.services.work.question import AT_ONCE, Question
from gridbridge.services.work.workers import Workers


class Strangers:
    """Whose the ids are that clusters list; asked only where that is in doubt."""

    def __init__(
        self, ledger: Ledger, acts: Acts, workers: Workers, clock: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._acts = acts
        self._workers = workers
        self._clock = clock
        self._known: dict[Key, Sight] = {}
        self._found: set[Key] = set()
        self._asked: dict[str, Question[dict[Key, Sight], dict[int, str]]] = {}  # by cluster

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
        if doubtful and self._question(cluster).may_ask():
            self._question(cluster).ask(dict(list(doubtful.items())[:AT_ONCE]))

    def _question(self, cluster: str) -> Question[dict[Key, Sight], dict[int, str]]:
        if cluster not in self._asked:
            ask = partial(self._accounts, cluster)
            self._asked[cluster] = Question(self._workers, cluster, "whose_id", ask, self._clock)
        return self._asked[cluster]

    def _accounts(self, cluster: str, some: dict[Key, Sight]) -> dict[int, str]:
        return self._acts.accounts(cluster, tuple(sorted({one.job_id for one in some.values()})))

    def _take(self, cluster: str) -> None:
        """Take a cluster's answer about the jobs that were in doubt."""
        some, accounts = self._question(cluster).answer() or ({}, {})
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
