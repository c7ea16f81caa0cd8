"""A person's datasets: added, verified, replicated, dropped and taken from an area, as oneself.

A replica counts only when it is whole just now: its files are read and compared with the list of
checksums before anything is decided by it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from gridbridge.apply.rebalance import areas, originals
from gridbridge.apply.rebalance.areas import Area
from gridbridge.apply.rebalance.copying import Copier, Place
from gridbridge.decisions.rebalance.replicas import next_target, why_not
from gridbridge.errors import GridbridgeError, ParseError, StorageAway, StorageUnusable
from gridbridge.model.rebalance.datasets import (
    DATASET_NAME,
    Dataset,
    Refused,
    Replica,
    Sums,
    difference,
    sums_text,
)
from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.model.rebalance.storage import Measured
from gridbridge.model.report import count
from gridbridge.state.rebalance.datasets import Records

NOT_CONFIGURED = "gridbridge.toml has no such area any more"
DRAINED = "it is drained: it gets no replica"
MOST_REPLICAS = 100
AT_ONCE = 8  # areas that are looked at

Asked = TypeVar("Asked")
Seen = TypeVar("Seen")
Noted = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A dataset as it is now, and why areas got nothing."""

    dataset: Dataset
    refused: tuple[Refused, ...] = ()
    is_done: bool


class Datasets:
    """The datasets of whoever runs this, and the areas that they may be in."""

    def __init__(
        self, records: Records, known: Mapping[str, Area], rules: Rebalance, copier: Copier
    ) -> None:
        self._records = records
        self._areas = known
        self._rules = rules
        self._copier = copier

    def listed(self) -> list[Dataset]:
        """Return all of them, as they were last seen."""
        return [self._records.load(name) for name in self._records.names()]

    def add(
        self,
        name: str,
        path: str,
        wished: int,
        *,
        may_move: bool = True,
        is_later: bool = False,
        noted: Noted = lambda: None,
    ) -> Outcome:
        """Note a new dataset with its checksums, and make its replicas, or leave that for later.

        `noted` is called once it is noted, before the first copy.
        """
        _require_name(name)
        if not 0 < wished <= MOST_REPLICAS:
            raise GridbridgeError(
                f"{count(wished, 'replica')}; 1 to {MOST_REPLICAS} would be right"
            )
        self._require_areas()
        with self._records.alone(name):
            if self._records.has(name):
                raise GridbridgeError(
                    f"{name}: you have such a dataset already; another name would be right, or"
                    f" gridbridge data drop {name} first"
                )
            originals.require_apart(path, self._areas.values())
            original = originals.survey(path)
            dataset = replace(_new(name, path, wished, original), may_move=may_move)
            self._records.save(dataset, original.sums)
            noted()
            if is_later:
                return Outcome(dataset=dataset, is_done=True)
            source = Place(login=None, folder=original.top)
            return self._fill(dataset, original.sums, source=source)

    def verify(self, name: str) -> Outcome:
        """Read every replica, and note what is whole."""
        with self._opened(name) as (dataset, sums):
            dataset = self._looked(dataset, sums)
            return Outcome(dataset=dataset, is_done=_is_met(dataset) and not _broken(dataset))

    def replicate(self, name: str, to: str = "", *, noted: Noted = lambda: None) -> Outcome:
        """Make the replicas that are missing, and repair those that are not whole.

        With `to` one is made or repaired in that area, beyond what is wished for if need be.
        `noted` is called before the first copy.
        """
        if to:
            self._require(to)
        with self._opened(name) as (dataset, sums):
            noted()
            dataset = self._looked(dataset, sums)
            return self._to(dataset, sums, to) if to else self._fill(dataset, sums)

    def drop(
        self, name: str, storage: str = "", *, is_lost: bool = False, noted: Noted = lambda: None
    ) -> Outcome:
        """Remove a replica, or all of them with the dataset; the original stays.

        The last whole replica alone is not removed, nor one that may be it while nobody can read
        it. One that `is_lost` is forgotten where it can't be removed. `noted` is called before the
        first of all goes.
        """
        with self._alone(name) as dataset:
            if not storage:
                noted()
                return self._drop_all(dataset, is_lost=is_lost)
            self._require_touched(dataset, storage)
            dataset = self._looked(dataset, self._records.sums(dataset))
            _require_another(dataset, storage, is_lost=is_lost)
            dataset, refused = self._dropped(dataset, storage, is_lost=is_lost)
            return Outcome(dataset=dataset, refused=refused, is_done=not refused)

    def drain(self, storage: str) -> Iterator[Outcome | Refused]:
        """Take all replicas from an area, each once enough others are whole elsewhere.

        A dataset that is busy or whose record is wrong hides no other.
        """
        if storage not in self._areas and not self._is_known(storage):
            self._require(storage)
        for name in self._records.names():
            try:
                if storage in self._records.load(name).touched:
                    yield self._drained(name, storage)
            except GridbridgeError as error:
                yield Refused(what=name, reason=str(error))

    def _drained(self, name: str, storage: str) -> Outcome:
        with self._opened(name) as (dataset, sums):
            filled = self._fill(self._looked(dataset, sums), sums, leaving=storage)
            elsewhere = set(filled.dataset.whole) - {storage}
            if len(elsewhere) < dataset.wished:
                are = count(dataset.wished, "replica is", "replicas are")
                why = f"{len(elsewhere)} of {are} whole elsewhere: it stays"
                others = (one for one in filled.refused if one.what != storage)
                refused = (Refused(what=storage, reason=why), *others)
                return Outcome(dataset=filled.dataset, refused=refused, is_done=False)
            dataset, refused = self._dropped(filled.dataset, storage, is_lost=False)
            return Outcome(dataset=dataset, refused=refused, is_done=not refused)

    def _fill(
        self, dataset: Dataset, sums: Sums, *, source: Place | None = None, leaving: str = ""
    ) -> Outcome:
        """Make replicas until there are as many as wished, but none in the area that is left."""
        barred = self._drained_areas() | ({leaving: "it is being drained"} if leaving else {})
        measured = _at_once(lambda one: _measured(dataset, one), self._areas.values())
        failed: dict[str, str] = {}
        while len(set(dataset.whole) - {leaving}) < dataset.wished:
            target, refused = next_target(dataset, measured, self._rules, barred | failed)
            if not target:
                return Outcome(
                    dataset=self._swept(dataset, is_met=False), refused=refused, is_done=False
                )
            dataset, why = self._copied(dataset, sums, self._areas[target], source)
            failed |= {target: why} if why else {}
        reasons = tuple(Refused(what=name, reason=why) for name, why in failed.items())
        return Outcome(dataset=self._swept(dataset, is_met=True), refused=reasons, is_done=True)

    def _to(self, dataset: Dataset, sums: Sums, to: str) -> Outcome:
        measured = [_measured(dataset, self._areas[to])]
        target, refused = next_target(dataset, measured, self._rules, self._drained_areas())
        is_done = to in dataset.whole
        if target:
            dataset, why = self._copied(dataset, sums, self._areas[to], None)
            refused, is_done = (Refused(what=to, reason=why),) if why else (), not why
        dataset = self._swept(dataset, is_met=_is_met(dataset), but=to)
        return Outcome(dataset=dataset, refused=refused, is_done=is_done)

    def _copied(
        self, dataset: Dataset, sums: Sums, area: Area, source: Place | None
    ) -> tuple[Dataset, str]:
        """Make one replica and note it; the second value says why there is none."""
        try:
            taken = source or self._source(dataset, sums)
            known, relay = self._is_known(area.name), self._records.relay(dataset.name)
            with self._records.turn(area.name, area.copies_at_once):
                areas.prepare(area, dataset, is_known=known)
                dataset = dataset.beginning(area.name)
                self._records.save(dataset)
                made = self._copier.copy(dataset, sums, taken, area, relay=relay)
        except StorageUnusable as error:
            return dataset, str(error)
        dataset = dataset.holding(made).ended(area.name)
        self._records.save(dataset)
        return dataset, ""

    def _swept(self, dataset: Dataset, *, is_met: bool, but: str = "") -> Dataset:
        """Remove what failed copies left where none will go on: enough are whole, or no room is.

        What can't be removed now is kept in mind.
        """
        if is_met and but not in dataset.begun:
            self._records.remove_relay(dataset.name)
        for area in (self._areas[name] for name in dataset.begun if name in self._areas):
            if (is_met and area.name != but) or self._is_short(dataset, area):
                with suppress(StorageUnusable):
                    areas.sweep(area, dataset)
                    dataset = dataset.ended(area.name)
                    self._records.save(dataset)
        return dataset

    def _is_short(self, dataset: Dataset, area: Area) -> bool:
        measured = _measured(dataset, area)
        return not measured.fault and bool(why_not(dataset, measured, self._rules))

    def _source(self, dataset: Dataset, sums: Sums) -> Place:
        """Return where to copy from: a whole replica that is seen here, the original, any other."""
        whole = [self._areas[name] for name in dataset.whole if name in self._areas]
        best = min(whole, key=lambda one: one.login is not None, default=None)
        is_here = best is not None and best.login is None
        if not is_here and originals.is_at(dataset.path, sums):  # all of it is read for that
            top = originals.top_of(dataset.path, is_tree=dataset.is_tree)
            return Place(login=None, folder=top)
        if best is None:
            raise StorageUnusable(f"no replica is whole, and {dataset.path} is not what was added")
        return Place(login=best.login, folder=best.replica(dataset.name))

    def _looked(self, dataset: Dataset, sums: Sums) -> Dataset:
        """Read every replica, and note what was found."""
        found = _at_once(lambda one: self._checked(dataset, sums, one), dataset.replicas)
        for replica in found:
            dataset = dataset.holding(replica)
        self._records.save(dataset)
        return dataset

    def _checked(self, dataset: Dataset, sums: Sums, last: Replica) -> Replica:
        """Return a replica as it is now; of one that can't be reached what was known stays."""
        seen = replace(last, checked_at=self._copier.clock.now(), is_away=False)
        area = self._areas.get(last.storage)
        if area is None:
            return replace(seen, size_bytes=0, is_whole=False, why=NOT_CONFIGURED)
        try:
            found = areas.check(area, dataset.name, dataset)
        except StorageAway as error:
            return replace(seen, why=str(error), is_away=True)
        except (StorageUnusable, ParseError) as error:
            return replace(seen, size_bytes=0, is_whole=False, why=str(error))
        why = difference(sums, found.sums)
        return replace(seen, size_bytes=found.size_bytes, is_whole=not why, why=why)

    def _drop_all(self, dataset: Dataset, *, is_lost: bool) -> Outcome:
        told: tuple[Refused, ...] = ()
        for storage in dataset.touched:
            dataset, refused = self._dropped(dataset, storage, is_lost=is_lost)
            told += refused
        if not told:
            self._records.remove(dataset.name)
        return Outcome(dataset=dataset, refused=told, is_done=not told)

    def _dropped(
        self, dataset: Dataset, storage: str, *, is_lost: bool
    ) -> tuple[Dataset, tuple[Refused, ...]]:
        """Remove a replica and forget it; one that can't be removed is kept in mind."""
        try:
            if storage not in self._areas:
                raise StorageUnusable(NOT_CONFIGURED)
            areas.drop(self._areas[storage], dataset)
        except StorageUnusable as error:
            if not is_lost:
                return dataset, (Refused(what=storage, reason=f"{error}; --lost forgets it"),)
        dataset = dataset.without(storage)
        self._records.save(dataset)
        return dataset, ()

    @contextmanager
    def _alone(self, name: str) -> Iterator[Dataset]:
        """Have a dataset for oneself."""
        _require_name(name)
        self._records.load(name)  # without it nothing is made
        with self._records.alone(name):
            yield self._records.load(name)

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[Dataset, Sums]]:
        """Have a dataset and its checksums for oneself."""
        with self._alone(name) as dataset:
            yield dataset, self._records.sums(dataset)

    def _drained_areas(self) -> dict[str, str]:
        return {name: DRAINED for name, one in self._areas.items() if one.is_drained}

    def _is_known(self, storage: str) -> bool:
        """Say whether we have had a folder in an area: it must be there, then."""
        return any(storage in one.touched for one in self._readable())

    def _readable(self) -> Iterator[Dataset]:
        for name in self._records.names():
            with suppress(GridbridgeError):
                yield self._records.load(name)

    def _require(self, storage: str) -> None:
        self._require_areas()
        if storage not in self._areas:
            raise GridbridgeError(f"{storage}: no storage area; {_any(self._areas)} would be right")

    def _require_areas(self) -> None:
        if not self._areas:
            raise GridbridgeError("gridbridge.toml has no storage area: a [storage.NAME] is needed")

    def _require_touched(self, dataset: Dataset, storage: str) -> None:
        if storage not in dataset.touched:
            held = _any(dataset.storages) if dataset.storages else "there is no replica"
            raise GridbridgeError(f"{storage}: no replica of {dataset.name} there; {held}")


def _measured(dataset: Dataset, area: Area) -> Measured:
    """Measure an area for a dataset: what came of a copy that was begun there has not to come."""
    is_begun = area.name in dataset.begun
    return areas.measure_begun(area, dataset.name) if is_begun else areas.measure(area)


def _at_once(look: Callable[[Asked], Seen], what: Iterable[Asked]) -> list[Seen]:
    """Look at several areas at the same time: one that does not answer takes its limit."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(look, what))


def _require_name(name: str) -> None:
    if not DATASET_NAME.holds(name):
        raise GridbridgeError(f"{name!r}: no name of a dataset; {DATASET_NAME.right}")


def _require_another(dataset: Dataset, storage: str, *, is_lost: bool) -> None:
    """Raise GridbridgeError for the last whole replica; one that is away counts as it was."""
    last = next((one for one in dataset.replicas if one.storage == storage and one.is_whole), None)
    if not last or set(dataset.whole) - {storage} or (is_lost and last.is_away):
        return
    away = f", as far as anybody can see now ({last.why})" if last.is_away else ""
    raise GridbridgeError(
        f"{storage} has the last whole replica of {dataset.name}{away}: gridbridge data replicate"
        f" {dataset.name} first, or gridbridge data drop {dataset.name} for all of it"
    )


def _new(name: str, path: str, wished: int, original: originals.Original) -> Dataset:
    return Dataset(
        name=name,
        path=path,
        is_tree=original.is_tree,
        files=len(original.sums),
        size_bytes=original.size_bytes,
        sha256=hashlib.sha256(sums_text(original.sums)).hexdigest(),
        wished=wished,
    )


def _is_met(dataset: Dataset) -> bool:
    return len(dataset.whole) >= dataset.wished


def _broken(dataset: Dataset) -> bool:
    return len(dataset.whole) < len(dataset.replicas)


def _any(names: Iterable[str]) -> str:
    return " or ".join(names)
