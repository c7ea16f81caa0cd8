"""Builders for the input of a balancer round: hosts, queues, jobs and nodes."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gridbridge.batch import qstat_state_letters
from gridbridge.model.elastic import grid_engine_cell
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MASTER = "master"


def cases(names: str | tuple[str, ...], rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(names, rows.values(), ids=rows.keys())


def ago(minutes: float) -> datetime:
    return NOON - timedelta(minutes=minutes)


def instance(
    host: str,
    running: Iterable[int] = (),
    *,
    slots: int = 4,
    state: str = "",
    queue: str = "all.q",
    begun: Iterable[grid_engine_cell.RunningTaskGroup] = (),
    promised: int = 0,
) -> grid_engine_cell.CellQueueInstance:
    """Return a queue on a host; `running` has the slots of each running task."""
    used = tuple(running)
    return grid_engine_cell.CellQueueInstance(
        queue=queue,
        host=host,
        used=sum(used),
        reserved=0,
        total=slots,
        state=qstat_state_letters.parse_queue_state_letters(state),
        running=used,
        begun=tuple(begun),
        promised=promised,
    )


def begun(minutes: float, slots: int = 4, name: str = "job") -> grid_engine_cell.RunningTaskGroup:
    return grid_engine_cell.RunningTaskGroup(owner="alice", name=name, slots=slots, since=ago(minutes))


def waiting(
    minutes: float,
    *,
    tasks: int = 1,
    slots: int = 1,
    state: str = "qw",
    oldest: float | None = None,
    jobs: tuple[int, ...] = (7,),
    queues: tuple[str, ...] = (),
    pe: str = "",
    capped: int = 0,
    is_deferred: bool = False,
    is_campaign: bool = False,
    kind: tuple[str, str] = ("alice", "job"),
    **asks: str,
) -> grid_engine_cell.WaitingJobGroup:
    """Return a group of waiting jobs; the first job has waited for the given number of minutes."""
    return grid_engine_cell.WaitingJobGroup(
        shape=grid_engine_cell.TaskResourceRequests(slots=slots, queues=queues, pe=pe, requests=tuple(asks.items())),
        state=qstat_state_letters.parse_job_state_letters(state),
        jobs=jobs,
        tasks=tasks,
        first_since=ago(minutes),
        oldest_since=ago(minutes if oldest is None else oldest),
        capped=capped,
        is_deferred=is_deferred,
        is_campaign=is_campaign,
        kinds=((*kind, tasks),),
    )


def node(
    name: str,
    minutes: float | None = 50,
    state: str = "ready",
    *,
    idle: float | None = None,
    pool: str = "",
    is_kept: bool = False,
) -> ElasticNode:
    since = None if minutes is None else ago(minutes)
    return ElasticNode(
        name=name,
        state=ElasticNodeState(state),
        up_since=since,
        idle_since=None if idle is None else ago(idle),
        pool=pool,
        is_kept=is_kept,
    )


def situation(
    *instances: grid_engine_cell.CellQueueInstance,
    wait: Iterable[grid_engine_cell.WaitingJobGroup] = (),
    nodes: Iterable[ElasticNode] = (),
    changed: float | None = None,
    hosts: Iterable[str] = (),
) -> BalanceSituation:
    names = dict.fromkeys([*(one.host for one in instances), *hosts])
    return BalanceSituation(
        now=NOON,
        cell=grid_engine_cell.GridEngineCellSnapshot(
            hosts=tuple(grid_engine_cell.CellExecutionHost(name=name) for name in names),
            instances=instances,
            waiting=tuple(wait),
        ),
        master=MASTER,
        last_change=None if changed is None else ago(changed),
        nodes=tuple(nodes),
    )


def cluster(
    nodes: Mapping[str, ElasticNode],
    running: Mapping[str, Iterable[int]] | None = None,
    wait: Iterable[grid_engine_cell.WaitingJobGroup] = (),
    changed: float | None = None,
) -> BalanceSituation:
    busy = running or {}
    found = [instance(name, busy.get(name, ())) for name in (MASTER, *nodes)]
    return situation(*found, wait=wait, nodes=nodes.values(), changed=changed)
