"""Decisions about saved rounds."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.elastic import saved_balancer_round_folder
from gridbridge.elastic.balancer.balance_situation_sources import load_saved_balance_situation
from gridbridge.elastic.balancer.balancer_round_decision import decide_and_report_balance
from gridbridge.errors import ClusterStateUnknown
from gridbridge.model.elastic.balance_plan import SavedBalancerRoundInput, SavedBatchProgramOutputs
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode

GOLDEN = Path(__file__).parents[2] / "golden" / "gridengine-8.1.9"
BUSY = SavedBatchProgramOutputs(qstat=(GOLDEN / "cell.xml").read_bytes(), qhost=(GOLDEN / "hosts.xml").read_bytes())
LATER = datetime(2126, 1, 1, tzinfo=UTC)
IDLE_ROW = b"<job_info><queue_info>%s</queue_info><job_info/></job_info>"
QUEUE = (
    b"<Queue-List><name>all.q@alpha-n%d</name><slots_used>0</slots_used><slots_resv>0</slots_resv>"
    b"<slots_total>2</slots_total></Queue-List>"
)


def kept(*nodes: str) -> SavedBalancerRoundInput:
    since = LATER - timedelta(minutes=50)
    found = tuple(ElasticNode(name=name, up_since=since) for name in nodes)
    return SavedBalancerRoundInput(now=LATER, master="alpha-master", nodes=found)


def test_nodes_are_added_for_a_saved_cell_with_many_jobs(tmp_path: Path) -> None:
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), BUSY, kept("alpha-n1", "alpha-n2"))
    told = decide_and_report_balance(
        load_saved_balance_situation(str(tmp_path)), BalanceSection(max_nodes=4, add_nodes_per_iteration=9)
    )

    assert (told.add, told.remove, told.pool) == (1, (), None)


def test_nodes_are_removed_from_a_saved_cell_without_jobs(tmp_path: Path) -> None:
    idle = SavedBatchProgramOutputs(qstat=IDLE_ROW % b"".join(QUEUE % n for n in (1, 2)), qhost=BUSY.qhost)
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), idle, kept("alpha-n1", "alpha-n2"))

    report = decide_and_report_balance(load_saved_balance_situation(str(tmp_path)), BalanceSection(max_nodes=4))
    assert report.remove == ("alpha-n1", "alpha-n2")


def test_a_saved_round_with_an_incomplete_answer_is_not_an_idle_cell(tmp_path: Path) -> None:
    cut = SavedBatchProgramOutputs(qstat=BUSY.qstat[:2000], qhost=BUSY.qhost)
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), cut, kept("alpha-n1"))

    with pytest.raises(ClusterStateUnknown, match=f"^{tmp_path}: qstat: broken XML"):
        load_saved_balance_situation(str(tmp_path))
