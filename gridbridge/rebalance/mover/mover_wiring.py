"""Rebalancing put together: alone, as the service account."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial

from gridbridge.errors import ConfigError, StateError
from gridbridge.model.places import CARRYING_LOCK, READING_LOCK, REBALANCE_LOCK, REPLICAS_LOCK
from gridbridge.model.policy import Policy
from gridbridge.model.rebalance.moves import RecheckedMoves
from gridbridge.model.rebalance.published_rounds import RebalanceRound
from gridbridge.program import cycle
from gridbridge.rebalance.mover.rebalancer import Rebalancer
from gridbridge.rebalance.mover.rule_choice import (
    RebalancePlan,
    RebalanceQuestion,
    RebalanceRequest,
)
from gridbridge.rebalance.mover.service_account import policy_at
from gridbridge.rebalance.replicas.reconciler import ReplicaReconciler, merged
from gridbridge.rebalance.replicas.scrub import ReplicaScrub
from gridbridge.shell.clock import Clock
from gridbridge.shell.poller_lock import MomentaryLock
from gridbridge.state import published_round_files
from gridbridge.state.database import StateFile

NAME, LOCKED = "gridbridge rebalance", 1


def run(
    question: RebalanceQuestion, path: str, *, is_acting: bool
) -> tuple[RebalancePlan, RecheckedMoves | None]:
    """Decide about what there is now, and act if that is wanted; return what came of it.

    What is asked about is a matter of tasks, or of datasets where it is an area or a dataset.
    Copies take long, so that each kind has a lock of its own, which a round about datasets gives
    back before its last copies have ended. It has replicas read at its end, when the next one may
    begin: reading all of them takes longer than a round.
    """
    policy = policy_at(path)
    is_of_data = question.is_of_data or _is_of_data(question, policy)
    if not is_acting:
        return _run(policy, question, is_of_data=is_of_data, is_acting=False)
    lock, kind = (
        (REPLICAS_LOCK, RebalanceRound.DATASETS)
        if is_of_data
        else (REBALANCE_LOCK, RebalanceRound.TASKS)
    )
    with ExitStack() as going, ExitStack() as alone:
        alone.enter_context(cycle.held(lock, NAME, LOCKED))
        alone.enter_context(_shown(kind, is_asked=bool(question.what)))
        let_go = partial(_let_go, going, alone)
        outcome = _run(policy, question, is_of_data=is_of_data, is_acting=True, let_go=let_go)
    if is_of_data and not question.what:
        _read(policy)
    return outcome


def plan(question: RebalanceQuestion, policy: Policy) -> RebalancePlan:
    """Say what would be done: about all that there is, or what is asked about."""
    if question.what or not policy.storage:
        is_of_data = _is_of_data(question, policy)
        return _run(policy, question, is_of_data=is_of_data, is_acting=False)[0]
    with ThreadPoolExecutor(2) as threads:  # both mostly wait for answers
        tasks, replicas = (
            threads.submit(_run, policy, question, is_of_data=is_of_data, is_acting=False)
            for is_of_data in (False, True)
        )
    return merged(tasks.result()[0], replicas.result()[0])


def quiesce(path: str, *, is_quiesced: bool) -> None:
    """Let nothing be moved from now on, or again."""
    clock = Clock()
    rebalancer = Rebalancer(policy_at(path), clock, RebalanceQuestion())
    with closing(rebalancer.database):
        rebalancer.quiesce(is_quiesced=is_quiesced)
    published_round_files.quiesce(clock.now() if is_quiesced else None)


def _let_go(going: ExitStack, alone: ExitStack) -> bool:
    """Let the next round begin, and have it know that copies go on; say whether it may."""
    try:
        is_known = going.enter_context(MomentaryLock(CARRYING_LOCK, is_shared=True))
    except StateError:  # no room: it waits for them
        return False
    if is_known:
        alone.close()
    return is_known


def _run(
    policy: Policy,
    question: RebalanceQuestion,
    *,
    is_of_data: bool,
    is_acting: bool,
    let_go: Callable[[], bool] = lambda: True,
) -> tuple[RebalancePlan, RecheckedMoves | None]:
    mover: ReplicaReconciler | Rebalancer
    if is_of_data:
        mover = ReplicaReconciler(policy, Clock(), question, is_dry=not is_acting, let_go=let_go)
        with closing(mover.database):
            planned = cycle.once(mover, _untold, is_dry=not is_acting)
    else:
        mover = Rebalancer(policy, Clock(), question, is_dry=not is_acting)
        with closing(mover.database):
            planned = cycle.once(mover, _untold, is_dry=not is_acting)
    return planned, mover.checked if is_acting else None


def _read(policy: Policy) -> None:
    """Have replicas read, unless an earlier round still has some read."""
    with MomentaryLock(READING_LOCK) as is_ours:
        if is_ours:
            with (
                _shown(RebalanceRound.READING),
                closing(StateFile.open(policy.site.state)) as database,
            ):
                ReplicaScrub(policy.rebalance, database, Clock()).read()


@contextmanager
def _shown(kind: RebalanceRound, *, is_asked: bool = False) -> Iterator[None]:
    """Let everybody see when a round begins and ends; one that can't be shown is no worse.

    One that failed has not ended, but where somebody asked for it and is told.
    """
    clock = Clock()
    with suppress(StateError):
        published_round_files.begin(kind, clock.now())
    try:
        yield
    except BaseException:
        if is_asked:
            _end(kind, clock)
        raise
    _end(kind, clock)


def _end(kind: RebalanceRound, clock: Clock) -> None:
    with suppress(StateError):
        published_round_files.end(kind, clock.now())


def _untold(_: str) -> None:
    """Say nothing: what was decided is shown by who asked."""


def _is_of_data(question: RebalanceQuestion, policy: Policy) -> bool:
    """Say whether what is asked about is an area, or a dataset, OWNER/NAME.

    ConfigError for a name that is neither a cluster's nor an area's.
    """
    if question.what in (RebalanceRequest.HOST, RebalanceRequest.FAIL):
        names = (*sorted(policy.clusters), *sorted(policy.storage))
        if question.name not in names:
            hint = f"there are {', '.join(names)}"
            raise ConfigError((f"{question.name}: no cluster and no storage area; {hint}",))
        return question.name in policy.storage
    return "/" in question.name
