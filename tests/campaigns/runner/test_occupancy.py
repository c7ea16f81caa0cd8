"""Capacities of clusters and counts of campaign tasks, from snapshots, settings and stress scripts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.campaigns.runner import stress_and_mail_programs
from gridbridge.campaigns.runner.cluster_queries_and_capacities import (
    campaign_capacity_by_cluster,
    clusters_accepting_campaign_tasks,
    count_listed_tasks_by_cluster,
)
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import ClusterCampaignsSection, JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignTaskCountsAtCluster, ClusterCapacityForCampaigns
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.job_and_queue_states import JobState, JobStateFact
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits
from gridbridge.model.site_configuration import ClusterKind, ClusterSection
from tests.builders.campaigns import NOON, RUNNING, job_row, made_campaign, made_policy, made_snapshot, released_array
from tests.builders.programs import write_program

WISH = JdlSettingsAtCluster(exec_file="run")
ONE = made_campaign(
    number=1,
    submitted_at=datetime(2026, 1, 1, tzinfo=UTC),
    tasks=9,
    jdl=Jdl(name="sweep", clusters={"beta": WISH, "gamma": WISH}),
)


def test_stress_scripts_run_only_for_clusters_that_may_get_tasks() -> None:
    delta = replace(ONE, number=2, jdl=replace(ONE.jdl, clusters={"delta": WISH}))
    paused = replace(delta, number=3, state=CampaignState.PAUSED)

    assert clusters_accepting_campaign_tasks((ONE, delta, paused), {1: 4, 3: 4}) == {"beta", "gamma"}
    assert clusters_accepting_campaign_tasks((), {}) == frozenset()


QUEUES = (
    QueueInstanceStatus(name="all.q@n1", slots_used=3, slots_reserved=0, slots_total=8),
    QueueInstanceStatus(name="gb-be1@n1", slots_used=1, slots_reserved=0, slots_total=8, is_besteffort=True),
    QueueInstanceStatus(name="away@n1", slots_used=0, slots_reserved=0, slots_total=9, sends_away=True),
)


def snapshot_of(name: str, *rows: ClusterJobListRow) -> ClusterSnapshot:
    return made_snapshot(cluster=name, jobs={7: rows}, queues=QUEUES, free_slots=5, besteffort_slots=7)


def test_capacity_uses_each_clusters_settings_and_limits() -> None:
    """Slots of transfer queues and best-effort queues do not count."""
    usual, own = (
        ClusterCampaignsSection(),
        ClusterCampaignsSection(predictor=JobRatioRule.SLOW_START, flood_rate=0.5, stress_limit=2.0, affinity="alice"),
    )
    policy = made_policy(campaigns={"gamma": own})
    answers = {name: snapshot_of(name) for name in ("beta", "gamma")}

    stress, limits = {"beta": 0.8, "gamma": 1.9}, {"gamma": ClusterArrayLimits(tasks=9)}
    found = campaign_capacity_by_cluster(policy, answers, stress, limits, drained={"gamma"})

    size: dict[str, Any] = {"free_slots": 5, "besteffort_slots": 7, "max_slots": 8, "slots": 8, "used": 3}
    size |= {"semi_slots": 1, "inputs_ahead_bytes": 1e10}
    assert found["beta"] == ClusterCapacityForCampaigns(
        law=JobRatioRule.MEASURED, flood_rate=usual.flood_rate, is_stressed=True, stress=0.8, stress_limit=0.8, **size
    )
    assert found["gamma"] == ClusterCapacityForCampaigns(
        law=JobRatioRule.SLOW_START,
        flood_rate=0.5,
        stress=1.9,
        stress_limit=2.0,
        affinity="alice",
        limits=ClusterArrayLimits(tasks=9),
        is_drained=True,
        **size,
    )


def test_slots_per_task_are_the_mean_of_running_tasks() -> None:
    running = (job_row(range(1, 2), RUNNING, slots=2), job_row(range(2, 3), RUNNING, slots=4))
    rows = (*running, job_row(range(3, 6)))
    array = released_array(size=9, job_id=7)
    answers = {"beta": snapshot_of("beta", *rows)}
    counts = {"campaign": 1, "cluster": "beta", "waiting": 3, "listed": 5, "slots": 3.0}

    (young,), (old,) = (
        count_listed_tasks_by_cluster([array], answers, NOON + timedelta(seconds=age)) for age in (19, 21)
    )
    assert (young, old) == (
        CampaignTaskCountsAtCluster(fresh=3, **counts),
        CampaignTaskCountsAtCluster(fresh=0, **counts),
    )  # type: ignore[arg-type]
    slow = {"beta": ClusterCampaignsSection(start_s=130.0)}
    (told,) = count_listed_tasks_by_cluster([array], answers, NOON + timedelta(seconds=129), slow)
    assert told.fresh == 3


def test_held_fresh_and_old_waiting_tasks_are_counted_separately() -> None:
    waits = JobStateFact.WAITING
    facts = {
        1: [],
        2: [JobStateFact.RESTARTED],
        3: [JobStateFact.HELD],
        4: [JobStateFact.ERROR],
        5: [JobStateFact.DELETING],
    }
    rows = (job_row(range(place, place + 1), JobState([waits, *more])) for place, more in facts.items())
    answers = {"beta": snapshot_of("beta", *rows)}
    array = released_array(size=5, job_id=7)

    ages = (timedelta(seconds=age_s) for age_s in (10, 299, 301))
    counted = [count_listed_tasks_by_cluster([array], answers, NOON + age)[0] for age in ages]

    assert [(one.waiting, one.held, one.startable_task_count) for one in counted] == [(5, 3, 2)] * 3
    assert [(one.fresh, one.old) for one in counted] == [(2, 0), (0, 0), (0, 2)]
    assert [one.have_tasks_waited_too_long for one in counted] == [False, False, True]


@pytest.mark.parametrize(
    "own",
    [{"alpha": ClusterSection(qmaster_port=1, execd_port=2)}, {"alpha": ClusterSection(kind=ClusterKind.OAR)}, {}],
    ids=["Grid Engine", "OAR", "none"],
)
def test_the_sites_own_cluster_has_capacity_for_campaigns(own: dict[str, ClusterSection]) -> None:
    beta = {"beta": ClusterSection(qmaster_port=3, execd_port=4)}
    policy = made_policy(clusters=own | beta)
    answers = {name: snapshot_of(name) for name in policy.clusters}

    assert campaign_capacity_by_cluster(policy, answers, {}, {}).keys() == {*own, "beta"}
    assert [configured_cluster_access(policy, name).kind for name in own] == [one.kind for one in own.values()]


def stress_of(folder: Path, commands: str) -> dict[str, float]:
    """Return the stress of beta that a script with these commands reports."""
    script = write_program(folder / "script", f"#!/bin/sh\n{commands}\n")
    sections = {"beta": ClusterCampaignsSection(stress_script=str(script))}
    return stress_and_mail_programs.run_cluster_stress_scripts(sections)


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("echo 0.25", 0.25),
        ("echo $1 >&2; [ $1 = beta ] && echo 3", 3.0),
        ("echo high", inf),
        ("echo nan", inf),
        ("echo 0.1; exit 1", inf),
        ("", inf),
    ],
)
def test_a_stress_script_prints_a_number(tmp_path: Path, says: str, told: float) -> None:
    assert stress_of(tmp_path, says) == {"beta": told}


def test_the_error_output_of_a_script_without_number_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stress_of(tmp_path, "echo no such volume >&2")

    assert "why='the script printed no number: script: no such volume'" in caplog.text


def test_a_hanging_stress_script_means_infinite_stress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stress_and_mail_programs, "TIMEOUT_S", 0.1)

    assert stress_of(tmp_path, "sleep 300") == {"beta": inf}


@pytest.mark.parametrize(
    ("says", "expected", "why"),
    [
        ("echo 2.5", {"home": 2.5}, ""),
        ("[ $1 = home ] && echo 0", {"home": 0.0}, ""),
        ("echo -1", {}, "the program printed -1, no load"),
        ("echo inf", {}, "the program printed inf, no load"),
        ("echo high", {}, "the script printed no number"),
        ("echo 3; exit 1", {}, "why='load: 3'"),
    ],
)
def test_a_load_command_prints_a_load_or_the_log_says_why_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, says: str, expected: dict[str, float], why: str
) -> None:
    program = write_program(tmp_path / "load", f"#!/bin/sh\n{says}\n")

    assert stress_and_mail_programs.run_load_commands({"home": str(program)}) == expected
    assert why in caplog.text
    assert ("event=no_load storage=home" in caplog.text) == (not expected)


def test_a_cluster_without_stress_script_has_no_stress() -> None:
    assert stress_and_mail_programs.run_cluster_stress_scripts(
        {"beta": ClusterCampaignsSection(), "gamma": ClusterCampaignsSection(stress_script="/none")}
    ) == {"gamma": inf}
