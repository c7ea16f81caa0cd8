"""The acts on a person's datasets that the service may request, run as that person.

Each act is checked again by the owner's own record and by the areas' current content. So an
intruder in the service's account can cause a limited number of copies, but can remove no replica
unless enough others are whole. An unneeded act is refused.
"""

from contextlib import suppress
from datetime import timedelta

from gridbridge.errors import GridbridgeError
from gridbridge.model.rebalance.datasets import Dataset, RefusedReplicaArea, ReplicaOutcome
from gridbridge.model.rebalance.placement_snapshot import happened_within
from gridbridge.model.status_report import count
from gridbridge.rebalance.replicas.owner_datasets import OwnerDatasets
from gridbridge.rebalance.replicas.owner_replicas import DatasetOutcome

MOST_A_DAY = 50  # acts about a dataset
DAY = timedelta(days=1)


class DelegatedDatasets(OwnerDatasets):
    """A person's datasets with the acts that the service may request."""

    def look(self, name: str) -> tuple[Dataset, bool] | None:
        """Return a dataset's last state and whether a command works on it; None if unknown."""
        if not self._records.has(name):
            return None
        return self.seen(name)

    def seen(self, name: str) -> tuple[Dataset, bool]:
        """Return an existing dataset's last state and whether a command works on it.

        Raises GridbridgeError when the record can't be read.
        """
        return self._records.load(name), self._records.is_busy(name)

    def is_gone(self, name: str) -> bool:
        """Say whether a dataset certainly does not exist; GridbridgeError when that is unknown."""
        return self._records.is_gone(name)

    def copy(self, name: str, to: str, leaving: str = "") -> DatasetOutcome:
        """Make or repair a replica, if one is missing apart from the replica in `leaving`.

        An unneeded copy is refused. An existing replica is success only if `leaving` is given.
        """
        self._require(to)
        self._require_turn(name)
        with self._opened(name) as (dataset, sums):
            dataset = self._replicas.looked(dataset, sums)
            if to in dataset.whole and leaving:
                return DatasetOutcome(dataset=dataset, is_done=True)
            whole_elsewhere = len(set(dataset.whole) - {leaving})
            is_met = whole_elsewhere >= dataset.wished
            if to in dataset.whole or is_met:
                are = count(dataset.wished, "replica is", "replicas are")
                has = f"{whole_elsewhere} of {are} whole" if is_met else "it has a whole replica"
                dataset = self._replicas.swept(dataset, is_met=is_met)
                refused = (RefusedReplicaArea(what=to, reason=f"{has}: it is not needed"),)
                return DatasetOutcome(dataset=dataset, refused=refused, is_done=False)
            outcome = self._replicas.to(dataset, sums, to)
            self._note(outcome, target=to, source=leaving)
            return outcome

    def drop_spare(self, name: str, storage: str) -> DatasetOutcome:
        """Remove a replica, if as many as wished are whole elsewhere."""
        self._require_turn(name)
        with self._opened(name) as (dataset, sums):
            if storage not in dataset.storages:
                return DatasetOutcome(dataset=dataset, is_done=True)
            dataset = self._replicas.looked(dataset, sums)
            elsewhere = len(set(dataset.whole) - {storage})
            refused: tuple[RefusedReplicaArea, ...]
            if elsewhere < dataset.wished:
                are = count(dataset.wished, "replica is", "replicas are")
                why = f"{elsewhere} of {are} whole elsewhere: it stays"
                refused = (RefusedReplicaArea(what=storage, reason=why),)
            else:
                dataset, refused = self._replicas.dropped(dataset, storage, is_lost=False)
            outcome = DatasetOutcome(dataset=dataset, refused=refused, is_done=not refused)
            self._note(outcome, source=storage)
            return outcome

    def done(self, name: str) -> list[ReplicaOutcome]:
        """Return the service's acts on a dataset, the newest last."""
        return self._records.done(name)

    def _require_turn(self, name: str) -> None:
        now, outcomes = self._clock.now(), self._records.done(name)
        if sum(happened_within(outcome.at, now, DAY) for outcome in outcomes) >= MOST_A_DAY:
            raise GridbridgeError(f"{name}: the service did {MOST_A_DAY} things about it in a day")

    def _note(self, outcome: DatasetOutcome, target: str = "", source: str = "") -> None:
        why = "" if outcome.is_done else "; ".join(refusal.reason for refusal in outcome.refused)
        record = ReplicaOutcome(at=self._clock.now(), target=target, source=source, why=why)
        with suppress(GridbridgeError):  # no room: what is done is done
            self._records.note_done(outcome.dataset.name, record)
