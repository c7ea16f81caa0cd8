"""Runs rebalancing rounds as the service account, one round of each kind at a time; no owner delays another."""

import logging
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial

from gridbridge.errors import ConfigError, StateError
from gridbridge.model.fixed_paths import CARRYING_LOCK, PUBLISHED, READING_LOCK, REBALANCE_LOCK, REPLICAS_LOCK
from gridbridge.model.rebalance.datasets import DelegatedDataset
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedStorageAreas, RebalanceRoundKind
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import NEVER, ValidAndDroppedMoves, past_moment_or_never
from gridbridge.model.site_configuration import Policy
from gridbridge.program import service_cycle
from gridbridge.rebalance.mover.rebalance_plan_by_target import (
    RebalancePlanWithInputs,
    RebalanceTarget,
    RebalanceTargetKind,
)
from gridbridge.rebalance.mover.service_account_and_policy import load_policy_as_service_account
from gridbridge.rebalance.mover.task_rebalancer import WaitingTaskRebalancer
from gridbridge.rebalance.replica_act_and_move_tables import MoveAndVerificationTimeRows
from gridbridge.rebalance.replicas import delegated_datasets
from gridbridge.rebalance.replicas.replica_reconciler import ReplicaReconciler, merge_rebalance_plans
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from gridbridge.state import published_json
from gridbridge.state.state_file import StateFile


def run_rebalance_round(
    question: RebalanceTarget, path: str, *, is_acting: bool
) -> tuple[RebalancePlanWithInputs, ValidAndDroppedMoves | None]:
    """Plan a rebalancing of tasks or datasets, and apply the plan if `is_acting`.

    Copies and verifications take long, so a round about datasets releases its own lock before they end.
    """
    policy = load_policy_as_service_account(path)
    is_of_data = question.is_of_data or _is_target_data_not_tasks(question, policy)
    if not is_acting:
        return _run_round_of_tasks_or_datasets(policy, question, is_of_data=is_of_data, is_acting=False)
    lock = REPLICAS_LOCK if is_of_data else REBALANCE_LOCK
    kind = RebalanceRoundKind.DATASETS if is_of_data else RebalanceRoundKind.TASKS
    with ExitStack() as going, ExitStack() as alone:
        alone.enter_context(service_cycle.hold_program_lock(lock, "gridbridge rebalance", 1))
        alone.enter_context(_publish_round_begin_and_end(kind, PUBLISHED, is_asked=bool(question.what)))
        let_go = partial(_release_lock_while_copying, going, alone)
        outcome = _run_round_of_tasks_or_datasets(
            policy, question, is_of_data=is_of_data, is_acting=True, let_go=let_go
        )
    if is_of_data and not question.what:
        _verify_replicas_unless_verification_runs(policy)
    return outcome


def plan_rebalance_round(question: RebalanceTarget, policy: Policy) -> RebalancePlanWithInputs:
    if question.what or not policy.storage:
        is_of_data = _is_target_data_not_tasks(question, policy)
        return _run_round_of_tasks_or_datasets(policy, question, is_of_data=is_of_data, is_acting=False)[0]
    with ThreadPoolExecutor(2) as threads:
        tasks, replicas = (
            threads.submit(_run_round_of_tasks_or_datasets, policy, question, is_of_data=is_of_data, is_acting=False)
            for is_of_data in (False, True)
        )
    return merge_rebalance_plans(tasks.result()[0], replicas.result()[0])


def pause_or_resume_rebalancing(path: str, *, is_quiesced: bool) -> None:
    since = Clock().now() if is_quiesced else None
    with closing(StateFile.open(load_policy_as_service_account(path).site.state)) as database:
        MoveAndVerificationTimeRows(database).record_pause_of_moves(since)
    published_json.publish_rebalance_pause(since)


def _release_lock_while_copying(going: ExitStack, alone: ExitStack) -> bool:
    """Release this round's lock although its copies still run; say whether the next round may begin."""
    try:
        is_known = going.enter_context(MomentaryProgramLock(CARRYING_LOCK, is_shared=True))
    except StateError:  # without a lock file, on a full disk, the next round waits for the copies
        return False
    if is_known:
        alone.close()
    return is_known


def _run_round_of_tasks_or_datasets(
    policy: Policy,
    question: RebalanceTarget,
    *,
    is_of_data: bool,
    is_acting: bool,
    let_go: Callable[[], bool] = lambda: True,
) -> tuple[RebalancePlanWithInputs, ValidAndDroppedMoves | None]:
    mover: ReplicaReconciler | WaitingTaskRebalancer
    if is_of_data:
        mover = ReplicaReconciler(
            policy, Clock(), question, is_dry=not is_acting, let_go=let_go, tell_areas=_publish_storage_areas
        )
        with closing(mover.database):
            planned = service_cycle.run_cycle_once(mover, lambda _: None, is_dry=not is_acting)
    else:
        mover = WaitingTaskRebalancer(policy, Clock(), question, is_dry=not is_acting)
        with closing(mover.database):
            planned = service_cycle.run_cycle_once(mover, lambda _: None, is_dry=not is_acting)
    return planned, mover.checked if is_acting else None


def _verify_replicas_unless_verification_runs(policy: Policy) -> None:
    with MomentaryProgramLock(READING_LOCK) as is_ours:
        if is_ours:
            with (
                _publish_round_begin_and_end(RebalanceRoundKind.READING, PUBLISHED),
                closing(StateFile.open(policy.site.state)) as database,
            ):
                verify_overdue_replicas(policy.rebalance, database, Clock())


def _publish_storage_areas(areas: PublishedStorageAreas) -> None:
    with suppress(StateError):
        published_json.publish_storage_areas(areas)


@contextmanager
def _publish_round_begin_and_end(kind: RebalanceRoundKind, folder: str, *, is_asked: bool = False) -> Iterator[None]:
    """Publish a round's begin and end, if possible; an automatic round that fails publishes no end."""
    clock, is_to_publish = Clock(), is_asked
    with suppress(StateError):
        published_json.publish_rebalance_round_begin(kind, clock.now(), folder)
    try:
        yield
        is_to_publish = True
    finally:
        if is_to_publish:
            with suppress(StateError):
                published_json.publish_rebalance_round_end(kind, clock.now(), folder)


def _is_target_data_not_tasks(question: RebalanceTarget, policy: Policy) -> bool:
    """Say whether a target is a storage area or dataset; raise ConfigError for an unknown host."""
    if question.what in (RebalanceTargetKind.HOST, RebalanceTargetKind.FAIL):
        names = (*sorted(policy.clusters), *sorted(policy.storage))
        if question.name not in names:
            hint = f"expected one of: {', '.join(names)}"
            raise ConfigError((f"{question.name}: no cluster and no storage area; {hint}",))
        return question.name in policy.storage
    return "/" in question.name


LONGEST_S = 3600.0  # a run that has lasted this long begins no further verification
AGAIN_S = 3600.0  # pause before an unreadable dataset is read again; the owner's home may be unmounted

_log = logging.getLogger(__name__)


def verify_overdue_replicas(rules: RebalanceSection, database: StateFile, clock: Clock) -> None:
    """Verify the datasets that nobody has read for `verify_every_s`, several owners in parallel; record each try."""
    notes = MoveAndVerificationTimeRows(database)
    if notes.moves_paused_since() is not None:
        return
    now = clock.now()
    tried = {name: past_moment_or_never(at, now) for name, at in notes.last_verifications().items()}
    unread = {name: past_moment_or_never(at, now) for name, at in notes.failed_verifications().items()}
    # a dataset that was unreadable counts as overdue after a pause
    again = {name for name, at in unread.items() if at <= now - timedelta(seconds=AGAIN_S)}
    due = now - timedelta(seconds=rules.verify_every_s)
    datasets = delegated_datasets.query_owners_for_datasets(delegated_datasets.list_dataset_delegations())
    with ThreadPoolExecutor(rules.copies_at_once) as pool:
        for read, failed in pool.map(
            partial(_verify_datasets_of_owner, clock, now), _overdue_datasets_by_owner(datasets, tried, due, now, again)
        ):
            notes.record_verifications(read, failed, clock.now())


def _verify_datasets_of_owner(
    clock: Clock, began_at: datetime, line: list[DelegatedDataset]
) -> tuple[list[str], list[str]]:
    """Verify an owner's datasets until a verification fails; return the names of verified and failed datasets."""
    read: list[str] = []
    for delegated in line:
        if clock.now() - began_at > timedelta(seconds=LONGEST_S):
            break
        if why := delegated_datasets.verify_dataset_as_owner(delegated):
            _log.warning("event=dataset_unread file=%s why=%r", delegated.file, why)
            return read, [delegated.name]
        read.append(delegated.name)
    return read, []


def _overdue_datasets_by_owner(
    datasets: list[DelegatedDataset],
    tried: Mapping[str, datetime],
    read_before: datetime,
    now: datetime,
    unreadable_datasets: Container[str],
) -> list[list[DelegatedDataset]]:
    """Return each owner's overdue datasets, oldest check first; recently served owners come last."""
    turns: dict[str, datetime] = {}
    for name, at in tried.items():
        owner = name.partition("/")[0]
        turns[owner] = max(at, turns.get(owner, at))
    lines, read_at = dict[str, list[DelegatedDataset]](), dict[str, datetime]()
    for delegated in datasets:
        checks = (past_moment_or_never(replica.checked_at, now) for replica in delegated.dataset.replicas)
        oldest = min(checks, default=NEVER)
        read_at[delegated.name] = max(oldest, tried.get(delegated.name, oldest))
    for delegated in sorted(datasets, key=lambda delegated: (read_at[delegated.name], delegated.name)):
        is_due = delegated.name in unreadable_datasets or read_at[delegated.name] <= read_before
        if is_due and not delegated.is_busy and delegated.dataset.replicas:
            lines.setdefault(delegated.owner, []).append(delegated)
    return [lines[owner] for owner in sorted(lines, key=lambda name: (turns.get(name, NEVER), name))]
