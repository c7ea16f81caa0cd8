"""The balancer publishes complete figures for all users, and failures to publish stop no round."""

import logging
from pathlib import Path

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import BalancerRoundNodeChanges, count_balancer_round_figures
from gridbridge.elastic.balancer import balancer_statistics_and_publication
from gridbridge.elastic.balancer.balancer_statistics_and_publication import (
    publish_balancer_round,
    publish_round_without_cell_answer,
)
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanReason
from gridbridge.model.elastic.published_balance import RecentlyEndedTasks
from tests.decisions.elastic.cells import NOON, instance, situation
from tests.measured import FIGURES

SEEN = situation(instance("n1", (1,)))
PLAN = BalancePlan(verdict=BalancePlanReason.WAITS, figures=FIGURES)


def publish(folder: Path, done: BalancerRoundNodeChanges) -> None:
    counted = count_balancer_round_figures(SEEN, RecentlyEndedTasks(), "all.q")
    publish_balancer_round("alpha", SEEN, PLAN, counted, done, str(folder))


def test_the_figures_of_successive_rounds_are_published_for_all_users(tmp_path: Path) -> None:
    folder = tmp_path / "published"
    publish(folder, BalancerRoundNodeChanges(added={"usual": 2}))
    publish(folder, BalancerRoundNodeChanges(added={"usual": 1}))
    publish_round_without_cell_answer("alpha", NOON, "no answer", folder=str(folder))

    found = balancer_statistics_and_publication.read_published_balance(str(folder))
    assert found is not None
    assert (found.rounds, found.blind_rounds, found.pools[0].added) == (3, 1, 3)
    assert (folder / "balance.json").stat().st_mode & 0o777 == 0o644
    assert folder.stat().st_mode & 0o005 == 0o005


def test_an_unreadable_published_file_resets_the_counters(tmp_path: Path) -> None:
    (tmp_path / "balance.json").write_text("{")
    publish(tmp_path, BalancerRoundNodeChanges(added={"usual": 2}))

    found = balancer_statistics_and_publication.read_published_balance(str(tmp_path))
    assert found is not None
    assert (found.rounds, found.pools[0].added) == (1, 2)


def test_a_folder_that_cannot_be_created_stops_no_round(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        publish(tmp_path / "file" / "in", BalancerRoundNodeChanges())

    assert "event=not_shown" in caplog.text
