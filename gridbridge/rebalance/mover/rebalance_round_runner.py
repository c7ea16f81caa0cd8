"""Runs a rebalancing round as the service account, under the locks of the round's kind."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial

from gridbridge.errors import ConfigError, StateError
from gridbridge.model.fixed_paths import CARRYING_LOCK, READING_LOCK, REBALANCE_LOCK, REPLICAS_LOCK
from gridbridge.model.policy import Policy
from gridbridge.model.rebalance.planned_moves import ValidAndDroppedMoves
from gridbridge.model.rebalance.published_rebalance_rounds import RebalanceRoundKind
from gridbridge.program import cycle
from gridbridge.rebalance.mover.rebalance_decision import RebalancePlanWithInputs, RebalanceScope, RebalanceTarget
from gridbridge.rebalance.mover.rebalance_service_account import load_policy_as_service_account
from gridbridge.rebalance.mover.task_rebalancer import WaitingTaskRebalancer
from gridbridge.rebalance.replicas.replica_reconciler import ReplicaReconciler, merge_rebalance_plans
from gridbridge.rebalance.replicas.replica_verification import OverdueReplicaVerifier
from gridbridge.shell.clock import Clock
from gridbridge.shell.poller_lock import MomentaryPollerLock
from gridbridge.state import published_json
from gridbridge.state.database import StateFile

NAME, LOCKED = "gridbridge rebalance", 1


def run_rebalance_round(
    question: RebalanceTarget, path: str, *, is_acting: bool
) -> tuple[RebalancePlanWithInputs, ValidAndDroppedMoves | None]:
    """Plan a rebalancing of tasks or datasets, and apply it with `is_acting`.

    Task rounds and dataset rounds have separate locks, because copies take long. A dataset round
    releases its lock before its last copies have ended. Replicas are verified after the release,
    because reading all replicas takes longer than a round.
    """
    policy = load_policy_as_service_account(path)
    is_of_data = question.is_of_data or _is_of_data(question, policy)
    if not is_acting:
        return _run(policy, question, is_of_data=is_of_data, is_acting=False)
    lock, kind = (
        (REPLICAS_LOCK, RebalanceRoundKind.DATASETS) if is_of_data else (REBALANCE_LOCK, RebalanceRoundKind.TASKS)
    )
    with ExitStack() as going, ExitStack() as alone:
        alone.enter_context(cycle.hold_program_lock(lock, NAME, LOCKED))
        alone.enter_context(_shown(kind, is_asked=bool(question.what)))
        let_go = partial(_let_go, going, alone)
        outcome = _run(policy, question, is_of_data=is_of_data, is_acting=True, let_go=let_go)
    if is_of_data and not question.what:
        _read(policy)
    return outcome


def plan_rebalance_round(question: RebalanceTarget, policy: Policy) -> RebalancePlanWithInputs:
    """Plan a rebalancing without acting: of everything, or of the named host or job."""
    if question.what or not policy.storage:
        is_of_data = _is_of_data(question, policy)
        return _run(policy, question, is_of_data=is_of_data, is_acting=False)[0]
    with ThreadPoolExecutor(2) as threads:  # both plans mostly wait for clusters' answers
        tasks, replicas = (
            threads.submit(_run, policy, question, is_of_data=is_of_data, is_acting=False)
            for is_of_data in (False, True)
        )
    return merge_rebalance_plans(tasks.result()[0], replicas.result()[0])


def pause_or_resume_rebalancing(path: str, *, is_quiesced: bool) -> None:
    """Pause all moves of tasks and replicas, or resume them."""
    clock = Clock()
    rebalancer = WaitingTaskRebalancer(load_policy_as_service_account(path), clock, RebalanceTarget())
    with closing(rebalancer.database):
        rebalancer.quiesce(is_quiesced=is_quiesced)
    published_json.publish_rebalance_pause(clock.now() if is_quiesced else None)


def _let_go(going: ExitStack, alone: ExitStack) -> bool:
    """Release the round's lock during its copies; say whether the next round may begin."""
    try:
        is_known = going.enter_context(MomentaryPollerLock(CARRYING_LOCK, is_shared=True))
    except StateError:  # disk full: the next round waits for the copies
        return False
    if is_known:
        alone.close()
    return is_known


def _run(
    policy: Policy,
    question: RebalanceTarget,
    *,
    is_of_data: bool,
    is_acting: bool,
    let_go: Callable[[], bool] = lambda: True,
) -> tuple[RebalancePlanWithInputs, ValidAndDroppedMoves | None]:
    mover: ReplicaReconciler | WaitingTaskRebalancer
    if is_of_data:
        mover = ReplicaReconciler(policy, Clock(), question, is_dry=not is_acting, let_go=let_go)
        with closing(mover.database):
            planned = cycle.run_cycle_once(mover, _untold, is_dry=not is_acting)
    else:
        mover = WaitingTaskRebalancer(policy, Clock(), question, is_dry=not is_acting)
        with closing(mover.database):
            planned = cycle.run_cycle_once(mover, _untold, is_dry=not is_acting)
    return planned, mover.checked if is_acting else None


def _read(policy: Policy) -> None:
    """Verify replicas, unless an earlier round is still verifying."""
    with MomentaryPollerLock(READING_LOCK) as is_ours:
        if is_ours:
            with _shown(RebalanceRoundKind.READING), closing(StateFile.open(policy.site.state)) as database:
                OverdueReplicaVerifier(policy.rebalance, database, Clock()).read()


@contextmanager
def _shown(kind: RebalanceRoundKind, *, is_asked: bool = False) -> Iterator[None]:
    """Publish the begin and end of a rebalancing round; a failure to publish is ignored.

    A failed round has no published end, unless a user requested it and sees the failure.
    """
    clock = Clock()
    with suppress(StateError):
        published_json.publish_rebalance_round_begin(kind, clock.now())
    try:
        yield
    except BaseException:
        if is_asked:
            _end(kind, clock)
        raise
    _end(kind, clock)


def _end(kind: RebalanceRoundKind, clock: Clock) -> None:
    with suppress(StateError):
        published_json.publish_rebalance_round_end(kind, clock.now())


def _untold(_: str) -> None:
    """Print nothing: the caller prints the decision."""


def _is_of_data(question: RebalanceTarget, policy: Policy) -> bool:
    """Say whether a target is a storage area or a dataset OWNER/NAME.

    Raises ConfigError for a name that is neither a cluster nor an area.
    """
    if question.what in (RebalanceScope.HOST, RebalanceScope.FAIL):
        names = (*sorted(policy.clusters), *sorted(policy.storage))
        if question.name not in names:
            hint = f"there are {', '.join(names)}"
            raise ConfigError((f"{question.name}: no cluster and no storage area; {hint}",))
        return question.name in policy.storage
    return "/" in question.name
