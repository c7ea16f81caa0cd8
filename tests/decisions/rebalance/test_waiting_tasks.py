"""Tasks at clusters as hosts, jobs and tasks of a rebalance snapshot, and the second check of planned moves."""

from dataclasses import replace

import pytest

from gridbridge.decisions.rebalance.automatic_round_and_evacuation import plan_host_evacuation
from gridbridge.decisions.rebalance.host_rebalancing import plan_host_balance
from gridbridge.decisions.rebalance.job_copy_repair_and_spread import plan_job_repair_or_spread
from gridbridge.decisions.rebalance.waiting_task_and_transfer_moves import (
    recheck_waiting_task_moves,
    tasks_as_rebalance_snapshot,
)
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.cluster_snapshot import ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    CampaignTaskAtCluster,
    RebalanceMove,
    RebalanceMoveKind,
    RebalanceSnapshot,
    TasksObservedAtClusters,
    TransferredTask,
)
from tests.builders.campaigns import NOON, made_campaign

RULES = RebalanceSection()


def answer(name: str, free: int, slots: int = 8, besteffort: int | None = None) -> ClusterSnapshot:
    queue = QueueInstanceStatus(name="all.q@n1", slots_used=slots - free, slots_reserved=0, slots_total=slots)
    return ClusterSnapshot(
        cluster=name, taken_at=NOON, queues=(queue,), jobs={}, pending=0, free_slots=free, besteffort_slots=besteffort
    )


def campaign(number: int, *clusters: str, slots: int = 1, type_: CampaignType = CampaignType.DEFAULT) -> Campaign:
    wishes = {name: JdlSettingsAtCluster(exec_file="run", slots=slots) for name in clusters}
    return made_campaign(number=number, tasks=100, jdl=Jdl(name="n", type=type_, clusters=wishes))


def listed(task: int, cluster: str = "beta", campaign: int = 1, **more: object) -> CampaignTaskAtCluster:
    """Return a waiting task of array 1; its array index is the task number plus 1."""
    known = {"campaign": campaign, "task": task, "array": 1, "place": task + 1}
    usual = known | {"cluster": cluster, "slots": 1, "is_waiting": True}
    return CampaignTaskAtCluster(**usual | more)  # type: ignore[arg-type]  # a test's


def gathered(**more: object) -> TasksObservedAtClusters:
    usual = {
        "now": NOON,
        "answers": {"beta": answer("beta", 0), "gamma": answer("gamma", 3)},
        "campaigns": (campaign(1, "beta", "gamma"),),
        "tasks": tuple(listed(number) for number in range(6)),
    }
    return TasksObservedAtClusters(**usual | more)  # type: ignore[arg-type]  # a test's


def moves(seen: TasksObservedAtClusters) -> list[tuple[int, str, str]]:
    advice = plan_job_repair_or_spread(tasks_as_rebalance_snapshot(seen), "1", RULES)
    return [(one.number, one.source, one.target) for one in advice.moves]


def test_as_many_waiting_tasks_are_moved_as_the_target_has_free_slots() -> None:
    assert moves(gathered()) == [(0, "beta", "gamma"), (1, "beta", "gamma"), (2, "beta", "gamma")]
    one_free = {"beta": answer("beta", 0), "gamma": answer("gamma", 1)}
    assert len(moves(gathered(answers=one_free))) == 1


def test_moving_tasks_take_free_slots_before_other_tasks() -> None:
    moved = [listed(number, is_waiting=False, is_moving=True) for number in (0, 1)]
    others = [listed(number) for number in range(2, 6)]

    assert len(moves(gathered(tasks=(*moved, *others)))) == 1


WAITING = tuple(listed(number) for number in range(6))
TWO = (campaign(1, "beta", "gamma"), campaign(2, "gamma"))


def test_a_parallel_task_takes_all_of_its_slots_at_the_target() -> None:
    wide = tuple(listed(number, slots=8) for number in range(6))
    free = {"beta": answer("beta", 0, 64), "gamma": answer("gamma", 8, 64)}
    seen = gathered(answers=free, tasks=wide, campaigns=(campaign(1, "beta", "gamma", slots=8),))
    sent = tuple(
        TransferredTask(transfer=f"gb.beta.12.{number}.1", uid=1, cluster="beta", slots=8, is_waiting=True)
        for number in range(1, 5)
    )
    transferred = gathered(answers=free, tasks=(), away=sent, reached=frozenset({"gamma"}))

    assert moves(seen) == [(0, "beta", "gamma")]
    assert len(plan_job_repair_or_spread(tasks_as_rebalance_snapshot(transferred), "gb.beta.12", RULES).moves) == 1
    assert checked(tasks_as_rebalance_snapshot(seen), MOVE, SECOND) == (1, ["gamma has room for no more tasks"])


NOWHERE: dict[str, dict[str, object]] = {
    "its tasks to send take the room first": {"unsent": {1: 3}},
    "so do another campaign's": {"unsent": {2: 9}, "campaigns": TWO},
    "closed to it": {"closed": frozenset({(1, "gamma")})},
    "its JDL names no other": {"campaigns": (campaign(1, "beta"),)},
    "too few slots": {"campaigns": (campaign(1, "beta", "gamma", slots=4),)},
    "drained": {"drained": frozenset({"gamma"})},
    "no answer": {"answers": {"beta": answer("beta", 0), "gamma": None}},
    "they run": {"tasks": tuple(replace(one, is_running=True) for one in WAITING)},
    "they are held": {"tasks": tuple(replace(one, is_waiting=False) for one in WAITING)},
    "copies decide among themselves": {"tasks": (*WAITING, *(replace(one, cluster="gamma") for one in WAITING))},
}


@pytest.mark.parametrize("more", NOWHERE.values(), ids=NOWHERE.keys())
def test_no_task_is_moved_to_a_cluster_where_the_task_would_not_start(more: dict[str, object]) -> None:
    seen = gathered(**more)
    known = {one.name for one in tasks_as_rebalance_snapshot(seen).jobs}

    assert "1" not in known or moves(seen) == []


def test_slots_with_preemptible_tasks_count_as_free_for_best_effort_tasks() -> None:
    full = {"beta": answer("beta", 0), "gamma": answer("gamma", 0, besteffort=2)}

    assert len(moves(gathered(answers=full))) == 2


def test_a_campaign_of_type_test_is_not_rebalanced() -> None:
    """A test campaign has one task for each cluster."""
    seen = gathered(campaigns=(campaign(1, "beta", "gamma", type_=CampaignType.TEST),))

    assert tasks_as_rebalance_snapshot(seen).jobs == ()


@pytest.mark.parametrize("may_move", [True, False])
def test_automatic_rounds_move_a_campaigns_tasks_only_if_its_jdl_allows(may_move: bool) -> None:
    one = campaign(1, "beta", "gamma")
    seen = gathered(campaigns=(replace(one, jdl=replace(one.jdl, may_move=may_move)),))

    advice = plan_host_balance(tasks_as_rebalance_snapshot(seen), "beta", RULES)

    assert bool(advice.moves) is may_move


@pytest.mark.parametrize(
    ("cluster", "free", "room"),
    [
        pytest.param("beta", 3, 2, id="it is on its way"),
        pytest.param("gamma", 2, 2, id="it is there, and gamma counts it"),
    ],
)
def test_a_recalled_task_reserves_its_slots_at_the_target_cluster(cluster: str, free: int, room: int) -> None:
    one = TransferredTask(
        transfer="gb.alpha.7.0.1", uid=1000, cluster=cluster, slots=1, is_waiting=False, is_moving=True, target="gamma"
    )
    seen = gathered(answers={"beta": answer("beta", 0), "gamma": answer("gamma", free)}, tasks=(), away=(one,))

    assert {host.name: host.room for host in tasks_as_rebalance_snapshot(seen).hosts}["gamma"] == room


def test_the_owners_of_transferred_tasks_take_turns_in_an_evacuation() -> None:
    """One person has nine tasks, another person has one; six tasks may move at once."""
    theirs = [
        TransferredTask(transfer=f"gb.alpha.{job}.0.1", uid=uid, cluster="beta", slots=1, is_waiting=True)
        for job, uid in (*((job, 1000) for job in range(1, 10)), (99, 1001))
    ]
    free = {"beta": answer("beta", 0, 64), "gamma": answer("gamma", 32, 64)}
    seen = gathered(
        answers=free, tasks=(), away=tuple(theirs), reached=frozenset({"gamma"}),
        drained=frozenset({"beta"}),
    )  # fmt: skip

    advice = plan_host_evacuation(tasks_as_rebalance_snapshot(seen), "beta", RULES)

    assert len(advice.moves) == RULES.moves_from_failed
    assert "gb.alpha.99" in {one.job for one in advice.moves}


MOVE = RebalanceMove(kind=RebalanceMoveKind.LIVE, job="1", number=0, source="beta", target="gamma")
SECOND = replace(MOVE, number=1)


def checked(now: RebalanceSnapshot, *wanted: RebalanceMove) -> tuple[int, list[str]]:
    found = recheck_waiting_task_moves(wanted or (MOVE,), now, RebalanceSection(), is_asked=False)
    return len(found.moves), [one.reason for one in found.dropped]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (gathered(tasks=(listed(0, is_running=True),)), "the task is running"),
        (gathered(tasks=(listed(0, is_waiting=False),)), "the task is held, or has not waited long enough"),
        (gathered(tasks=(listed(0, is_moving=True),)), "the task is moving"),
        (gathered(tasks=(listed(0, "gamma"),)), "the task is no longer at beta"),
        (gathered(tasks=(listed(5),)), "the task is no longer at beta"),
        (gathered(campaigns=()), "the task is no longer at beta"),
        (gathered(closed=frozenset({(1, "gamma")})), "gamma takes no tasks of this job now"),
        (gathered(drained=frozenset({"gamma"})), "gamma takes no tasks of this job now"),
        (gathered(unsent={1: 9}), "gamma has room for no more tasks"),
    ],
    ids=["started", "held", "moved", "elsewhere", "gone", "deleted", "closed", "drained", "full"],
)
def test_a_planned_move_that_is_no_longer_valid_is_dropped_with_the_reason(
    seen: TasksObservedAtClusters, reason: str
) -> None:
    assert checked(tasks_as_rebalance_snapshot(seen)) == (0, [reason])


def test_valid_moves_are_kept_as_far_as_the_target_has_free_slots() -> None:
    one_free = {"beta": answer("beta", 0), "gamma": answer("gamma", 1)}

    assert checked(tasks_as_rebalance_snapshot(gathered()), MOVE, SECOND) == (2, [])
    assert checked(tasks_as_rebalance_snapshot(gathered(answers=one_free)), MOVE, SECOND) == (
        1,
        ["gamma has room for no more tasks"],
    )
    copy = replace(MOVE, kind=RebalanceMoveKind.REPLICA)
    assert checked(tasks_as_rebalance_snapshot(gathered()), copy) == (0, ["only waiting tasks are moved"])


def test_a_cluster_without_free_slot_is_refused_as_a_target_with_this_reason() -> None:
    """A fair share of 0 would not explain the refusal."""
    answers = {"beta": answer("beta", 0), "gamma": answer("gamma", 0)}
    advice = plan_host_balance(tasks_as_rebalance_snapshot(gathered(answers=answers)), "beta", RULES)

    assert advice.moves == ()
    assert "gamma has no free slot for the task" in {one.reason for one in advice.rejected}
