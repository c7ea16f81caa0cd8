"""Plans from a file of hosts, jobs and tasks, and the reported faults of such a file."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.errors import ConfigError, ParseError
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceHostState,
    RebalanceJobOrDataset,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
    RecentRebalanceMoveTimes,
)
from gridbridge.rebalance.mover import snapshot_file_plan
from gridbridge.rebalance.mover.rebalance_plan_by_target import RebalanceTargetKind
from gridbridge.rebalance.mover.snapshot_file_plan import plan_from_snapshot_file

TASK = {"job": "align", "number": 1, "bytes": 60_000_000_000, "state": "IDLE", "live": "alpha"}
WHOLE = {
    "now": "2026-11-25T12:00:00Z",
    "hosts": [
        {"name": "alpha", "used_bytes": 900e9, "max_bytes": 1000e9, "slots": 4},
        {"name": "beta", "used_bytes": 100e9, "max_bytes": 1000e9, "slots": 4},
    ],
    "jobs": [{"name": "align", "last_run": "2026-11-25T08:00:00Z"}],
    "tasks": [TASK],
}


def told(folder: Path, **more: object) -> str:
    path = folder / "hosts.json"
    path.write_text(json.dumps(WHOLE | more))
    return str(path)


def mistakes(folder: Path, **more: object) -> list[str]:
    path = told(folder, **more)
    with pytest.raises(ConfigError) as raised:
        plan_from_snapshot_file(path)
    assert all(one.startswith(f"{path}: ") for one in raised.value.problems)
    return [one.removeprefix(f"{path}: ") for one in raised.value.problems]


@pytest.mark.parametrize(("what", "name"), [("", ""), ("host", "alpha"), ("host", "beta"), ("fail", "alpha")])
def test_a_file_of_hosts_jobs_and_tasks_leads_to_planned_moves(tmp_path: Path, what: str, name: str) -> None:
    hosts = [*WHOLE["hosts"], {"name": "gamma", "used_bytes": 400e9, "max_bytes": 2000e9}]

    (move,) = plan_from_snapshot_file(told(tmp_path, hosts=hosts), RebalanceTargetKind(what), name).advice.moves

    assert ("align", 1, "alpha") == (move.job, move.number, move.source)


def test_every_key_of_a_snapshot_file_is_read(tmp_path: Path) -> None:
    noon = datetime(2026, 11, 25, 12, tzinfo=UTC)
    one, two, three = (f"2026-11-25T{hour}:00:00Z" for hour in ("11", "10", "09"))
    host = {"name": "a", "kind": "tape", "up": False, "read_only": True, "state": "drain"}
    host |= {"used_bytes": 1, "max_bytes": 2, "slots": 3, "mean_active": 0.4, "zone": "x"}
    job = {"name": "j", "autobalance": False, "replicas": 5, "last_run": one, "max_per_host": 6}
    task = {"job": "j", "number": 7, "bytes": 8, "state": "running", "live": "a"}
    recent = {"hosts": {"a": one}, "replicated": {"a": two}, "jobs": {"j": three}}
    path = told(tmp_path, hosts=[host], jobs=[job], tasks=[task | {"replicas": ["b"], "slots": 9}], recent=recent)

    ago_1h, ago_2h, ago_3h = (noon - timedelta(hours=hours) for hours in (1, 2, 3))
    flags = {"is_up": False, "is_read_only": True, "state": RebalanceHostState.DRAIN}
    amounts = {"used_bytes": 1, "max_bytes": 2, "slots": 3, "mean_active": 0.4}
    run = {"state": RebalanceTaskState.RUNNING, "live": "a", "replicas": ("b",)}
    assert plan_from_snapshot_file(path).snapshot == RebalanceSnapshot(
        now=noon,
        hosts=(RebalanceHost(name="a", kind="tape", zone="x", **flags, **amounts),),
        jobs=(RebalanceJobOrDataset(name="j", is_autobalanced=False, replicas=5, last_run=ago_1h, max_per_host=6),),
        tasks=(RebalanceTask(job="j", number=7, size_bytes=8, slots=9, **run),),
        recent=RecentRebalanceMoveTimes(hosts={"a": ago_1h}, replicated={"a": ago_2h}, jobs={"j": ago_3h}),
    )


def test_the_rules_in_the_snapshot_file_replace_the_defaults(tmp_path: Path) -> None:
    path = told(tmp_path, policy={"min_task_bytes": 70_000_000_000})

    advice = plan_from_snapshot_file(path, RebalanceTargetKind.HOST, "alpha").advice

    assert () == advice.moves
    assert ["the copy is smaller than 70 GB"] == [one.reason for one in advice.rejected]


@pytest.mark.parametrize(
    ("state", "moves"), [("IDLE", 1), ("queued-no-slot", 1), ("qw", 1), ("RUNNING", 0), ("levitating", 0)]
)
def test_a_task_in_an_unknown_state_is_not_moved(tmp_path: Path, state: str, moves: int) -> None:
    path = told(tmp_path, tasks=[TASK | {"state": state}])

    assert moves == len(plan_from_snapshot_file(path, RebalanceTargetKind.HOST, "alpha").advice.moves)


def test_every_fault_of_a_snapshot_file_is_reported_with_its_key_and_the_expected_value(tmp_path: Path) -> None:
    hosts = [{"name": "a", "slots": -1, "up": "yes"}, {"nmae": "b"}, {"name": "a", "mean_active": 1e300}]
    tasks = [{"job": "align", "bytes": "big", "replicas": "alpha"}]

    found = mistakes(tmp_path, now="noon", hosts=hosts, tasks=tasks, extra=1)

    assert [
        "extra: unknown; expected one of now, policy, hosts, jobs, tasks, recent",
        'now: "noon"; expected an ISO 8601 time with its zone, such as 2026-11-25T12:00:00+00:00',
        'hosts[0].up: "yes"; expected true or false',
        "hosts[0].slots: -1; expected a whole number, 0 to 1e18",
        "hosts[1].nmae: unknown; expected one of name, kind, up, read_only, state, used_bytes,"
        " max_bytes, slots, mean_active, zone",
        "hosts[1].name: missing; expected a name: 1 to 255 printable characters",
        "hosts[2].mean_active: 1e+300; expected a number, 0 to 1",
        "tasks[0].number: missing; expected a whole number, 0 to 1e18",
        'tasks[0].bytes: "big"; expected a whole number, 0 to 1e18',
        'tasks[0].replicas: "alpha"; expected a list of names',
    ] == found
    assert ["hosts: a: twice; expected once"] == mistakes(tmp_path, hosts=[{"name": "a"}, {"name": "a"}])
    assert "10 more faults" == mistakes(tmp_path, jobs=[{"name": ""}] * 30)[-1]


@pytest.mark.parametrize("number", ["1e999", "-1", "1.5", "NaN", "1e19", "9" * 400])
def test_a_number_out_of_range_is_reported_with_its_key(tmp_path: Path, number: str) -> None:
    path = Path(told(tmp_path, hosts=[{"name": "a", "slots": "HERE"}]))
    path.write_text(path.read_text().replace('"HERE"', number))

    with pytest.raises(ConfigError, match=r"hosts\[0\]\.slots: .*; expected a whole number, 0 to 1e18"):
        plan_from_snapshot_file(str(path))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"tasks": 3}, "tasks: unknown key"),
        ({"disk_share": 2}, "policy: [rebalance] disk_share = 2: out of range; expected a number, 0.01 to 1"),
        ({"recentlyBalancedHosts": 10**400}, "[rebalance] host_rest_s = 1000"),
        ([], "policy: []; expected a table"),
    ],
)
def test_a_faulty_rule_in_the_snapshot_file_is_reported(tmp_path: Path, policy: object, words: str) -> None:
    (found,) = mistakes(tmp_path, policy=policy)

    assert words in found


def test_null_as_the_value_of_an_optional_key_means_the_default(tmp_path: Path) -> None:
    usual = plan_from_snapshot_file(told(tmp_path), "host", "alpha")

    for recent in (None, {"hosts": None, "replicated": None, "jobs": None}):
        path = told(tmp_path, policy=None, recent=recent)
        assert usual == plan_from_snapshot_file(path, "host", "alpha")


def test_null_in_place_of_a_list_means_an_empty_list(tmp_path: Path) -> None:
    """Some programs write an empty list as null."""
    planned = plan_from_snapshot_file(told(tmp_path, hosts=None, jobs=None, tasks=None))

    assert ((), (), ()) == (planned.snapshot.hosts, planned.snapshot.jobs, planned.snapshot.tasks)


def test_null_as_the_value_of_a_required_key_is_reported_as_missing(tmp_path: Path) -> None:
    rows = {"hosts": [{"name": None}], "jobs": [{"name": None}]}
    found = mistakes(tmp_path, now=None, **rows, tasks=[TASK | {"job": None, "number": None}])

    assert ["now", "hosts[0].name", "jobs[0].name", "tasks[0].job", "tasks[0].number"] == [
        one.partition(": missing; ")[0] for one in found
    ]


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 100_000, '{"now": 1}'])
def test_a_file_that_is_no_snapshot_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hosts.json"
    path.write_text(text)

    with pytest.raises((ParseError, ConfigError)):
        plan_from_snapshot_file(str(path))
    with pytest.raises(ParseError, match=r"none\.json: No such file"):
        plan_from_snapshot_file(str(tmp_path / "none.json"))


def test_a_plan_has_the_loads_of_hosts_before_and_after_the_moves(tmp_path: Path) -> None:
    alpha, beta = plan_from_snapshot_file(told(tmp_path), RebalanceTargetKind.HOST, "alpha").host_load_changes

    assert ("alpha", "beta") == (alpha.host, beta.host)
    assert alpha.disk > alpha.disk_after > beta.disk_after > beta.disk
    assert alpha.score > alpha.score_after
    moved = (alpha.disk - alpha.disk_after, beta.disk_after - beta.disk)
    assert moved[0] == pytest.approx(moved[1])


@pytest.mark.parametrize(
    ("policy", "own"),
    [
        ({"bytes_per_round": 2e9, "disk_share": 1.0}, RebalanceSection(bytes_per_round=2_000_000_000, disk_share=1.0)),
        ({"tasksMovedFullRebalance": 3}, RebalanceSection(tasks_per_round=3)),
        ({"spawnbalance.bytes.fullbalance": 2e9}, RebalanceSection(bytes_per_round=2_000_000_000)),
        ({"recentlyBalancedHosts": 5}, RebalanceSection(host_rest_s=300.0)),
        ({"activeTaskMilliCutoff": 3_600_000}, RebalanceSection(active_s=3600.0)),
        ({"host.fail.maxMovingTasks": 4, "extreme_ratio": 1.3},
         RebalanceSection(moves_from_failed=4, extreme_ratio=1.3)),
    ],
    ids=["own names", "name", "property", "minutes", "milliseconds", "both"],
)  # fmt: skip
def test_rules_may_be_written_with_hydras_names_and_units(
    tmp_path: Path, policy: dict[str, object], own: RebalanceSection
) -> None:
    assert own == plan_from_snapshot_file(told(tmp_path, policy=policy)).rules


def test_a_rule_under_two_names_in_one_file_is_refused(tmp_path: Path) -> None:
    twice = {"tasks_per_round": 3, "tasksMovedFullRebalance": 4}

    assert mistakes(tmp_path, policy=twice) == [
        "policy: tasksMovedFullRebalance: same meaning as tasks_per_round; expected only one of these keys"
    ]
    hydras = {"minTaskSizeBytes": 3, "spawnbalance.mintaskbytes": 4}
    assert mistakes(tmp_path, policy=hydras) == [
        "policy: spawnbalance.mintaskbytes: same meaning as minTaskSizeBytes; expected only one of these keys"
    ]


def test_the_documentation_lists_each_of_hydras_names() -> None:
    text = Path(__file__).parents[3].joinpath("docs/reference/rebalance.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]

    for name, (own, _) in snapshot_file_plan.HYDRAS.items():
        assert any(f"`{name}`" in row and row.startswith(f"| `{own}` ") for row in rows), name
