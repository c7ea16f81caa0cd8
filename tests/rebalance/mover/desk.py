"""Replaces gridbridge-as-user: the actions of owners' processes are done at once in the test's process."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.batch import privileged_helper_calls
from gridbridge.errors import GridbridgeError
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedStorageAreas
from gridbridge.model.rebalance.rebalance_section import (
    MeasuredStorageArea,
    RebalanceSection,
    StorageAreaKind,
    StorageAreaSection,
)
from gridbridge.model.site.site_section import SiteSection as SiteSection
from gridbridge.model.site_configuration import Policy
from gridbridge.program import service_cycle
from gridbridge.rebalance.mover.rebalance_plan_by_target import RebalancePlanWithInputs, RebalanceTarget
from gridbridge.rebalance.mover.rebalance_round_runner import verify_overdue_replicas
from gridbridge.rebalance.replicas import dataset_owner_program, delegated_datasets, replica_reconciler
from gridbridge.rebalance.replicas.delegated_datasets import DatasetDelegationFile
from gridbridge.rebalance.replicas.owner_datasets import OwnerDatasets
from gridbridge.rebalance.replicas.replica_reconciler import ReplicaReconciler
from gridbridge.rebalance.replicas.storage_area_shell_scripts import StorageAreaForAccount, measure_whole_area
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import made_policy
from tests.rebalance.mover.areas import Site

RULES = RebalanceSection(
    min_free_bytes=0, full_free_bytes=0, min_task_bytes=0, host_rest_s=0.0, replicated_rest_s=0.0, verify_every_s=0.0
)


class Desk:
    """The service, and one person's datasets in storage areas that are local folders."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site = Site(folder)
        self.rules = RULES
        self.drained: set[str] = set()
        self.owners: dict[str, str] = {}  # owners of datasets by dataset; by default al
        self.sizes: dict[str, tuple[int, int]] = {}  # size and free bytes of areas, instead of the measured values
        self.clock = Clock()
        self.asked: list[tuple[str, ...]] = []
        self.before: Callable[[tuple[str, ...]], None] = lambda _: None
        self.carrying = f"{folder}/carrying.lock"
        self.let_go: Callable[[], bool] = lambda: True
        self.told_areas: list[PublishedStorageAreas] = []
        self._state = f"sqlite:///{folder}/state.db"
        self.site.rules = RULES
        monkeypatch.setattr(privileged_helper_calls, "run_gridbridge_as_user", self._call)
        monkeypatch.setattr(delegated_datasets, "list_dataset_delegations", self._let)
        monkeypatch.setattr(replica_reconciler.drains, "list_drained_clusters", lambda: frozenset(self.drained))
        monkeypatch.setattr(replica_reconciler.owner_datasets, "storage_areas_of_account", lambda _: self.site.areas)
        monkeypatch.setattr(replica_reconciler.storage_area_shell_scripts, "measure_whole_area", self._measure)

    @property
    def policy(self) -> Policy:
        storage = {
            name: StorageAreaSection(cluster=area.clusters[0], path=area.path, copies_at_once=area.copies_at_once)
            if isinstance(area, StorageAreaForAccount)
            else StorageAreaSection(kind=StorageAreaKind.COMMAND, program=area.program)
            for name, area in self.site.areas.items()
        }
        site = SiteSection(cluster="alpha", state=self._state)
        return made_policy("alpha", "beta", "gamma", site=site, rebalance=self.rules, storage=storage)

    @property
    def served(self) -> OwnerDatasets:
        """The datasets, as a process of their owner reads them."""
        return self.site.datasets

    def round(
        self, asked: RebalanceTarget | None = None, *, is_dry: bool = False
    ) -> tuple[RebalancePlanWithInputs, ReplicaReconciler]:
        locks = {"carrying": self.carrying, "let_go": self.let_go, "tell_areas": self.told_areas.append}
        reconciler = ReplicaReconciler(self.policy, self.clock, asked or RebalanceTarget(), is_dry=is_dry, **locks)
        with closing(reconciler.database):
            planned = service_cycle.run_cycle_once(reconciler, lambda _: None, is_dry=is_dry)
            if not is_dry:
                verify_overdue_replicas(self.rules, reconciler.database, self.clock)
            return planned, reconciler

    @contextmanager
    def state_file(self) -> Iterator[StateFile]:
        with closing(StateFile.open(self._state)) as database:
            yield database

    def did(self, verb: str) -> list[tuple[str, ...]]:
        """Return the arguments, without the file, of each call of an owner's process with this verb."""
        return [words[2:] for words in self.asked if words[0] == verb]

    def _let(self) -> list[DatasetDelegationFile]:
        return [self._one(dataset.name) for dataset in self.served.list_datasets()]

    def _one(self, name: str) -> DatasetDelegationFile:
        owner = self.owners.get(name, "al")
        return DatasetDelegationFile(uid=1000 + len(owner), owner=owner, file=f"u.1000/data.{name}", dataset=name)

    def _measure(self, area: StorageAreaForAccount) -> MeasuredStorageArea:
        found = measure_whole_area(area)
        size, free = self.sizes.get(area.name, (found.size_bytes, found.free_bytes))
        return replace(found, size_bytes=size, free_bytes=free)

    def _call(self, *words: str, patience_s: float = 0, most_bytes: int = 0) -> CompletedProgram:
        del patience_s, most_bytes
        self.asked.append(words)
        self.before(words)
        verb, file, *rest = words
        names = [one.rpartition("data.")[2] for one in (file, *rest)]
        if verb == "look":
            told: object = [dataset_owner_program._report_dataset(self.served, name) for name in names]
            return CompletedProgram(words, 0, json.dumps(told).encode(), b"")
        try:
            outcome = dataset_owner_program.VERBS[verb][2](self.served, names[0], *rest)
        except GridbridgeError as error:
            return CompletedProgram(words, 2, b"", str(error).encode())
        answer = json.dumps(dataset_owner_program.dataset_outcome_json(outcome)).encode()
        return CompletedProgram(words, 0 if outcome.is_done else 1, answer, b"")
