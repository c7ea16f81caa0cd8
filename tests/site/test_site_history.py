"""The history of queues and nodes comes from what the state files keep."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.site.site_section import SiteSection
from gridbridge.site.site_history import counts_over_time, read_node_history, read_queue_history
from gridbridge.state.cluster_query_tables import ClusterQueryLog
from gridbridge.state.decision_journal import DecisionJournal, make_journal_entry
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.builders.campaigns import made_policy
from tests.state_files import NOON, made_transfer

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("spans", "counts"),
    [
        pytest.param((), (0, 0), id="nothing"),
        pytest.param(((0, 4),), (1, 1), id="all the time"),
        pytest.param(((1, 3), (2, 4)), (0, 1, 2, 1, 1), id="overlapping"),
        pytest.param(((1, 2), (2, 3)), (0, 1, 1, 0, 0), id="one after the other"),
    ],
)
def test_open_spans_are_counted_at_each_change(spans: tuple[tuple[int, int], ...], counts: tuple[int, ...]) -> None:
    def at(hours: int) -> datetime:
        return NOON + hours * HOUR

    found = counts_over_time([(at(begin), at(end)) for begin, end in spans], NOON, at(4))

    assert [count for _, count in found] == list(counts)


def test_a_silent_cluster_has_no_numbers_and_old_queries_are_left_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    database = StateFile.open(url)
    log, said = ClusterQueryLog(database), {"pending": 3, "free_slots": 1}
    for hours, ok in ((-2, True), (1, True), (2, False)):
        log.record_query(cluster="beta", taken_at=NOON + hours * HOUR, ok=ok, took=HOUR, summary=said)
    for number, closed in ((1, -1), (2, 2), (3, None)):
        closed_at = None if closed is None else NOON + closed * HOUR
        transfer = made_transfer(name=f"gb.alpha.{number}.0.1", created_at=NOON - 3 * HOUR, closed_at=closed_at)
        TransferRows(database).insert_or_update_transfer(transfer)
    database.close()

    history = read_queue_history(
        made_policy(site=SiteSection(cluster="alpha", state=url, service_account="nobody-here")), NOON, NOON + 4 * HOUR
    )

    assert [(query.pending, query.free_slots) for query in history.queries["beta"]] == [(3, 1), (None, None)]
    assert history.in_progress == {"transfer-beta": [(NOON, 2), (NOON + 2 * HOUR, 1), (NOON + 4 * HOUR, 1)]}


def test_nodes_are_counted_by_state_at_each_round_of_the_balancer(tmp_path: Path) -> None:
    path = f"{tmp_path}/state.db"
    database = StateFile.open(f"sqlite:///{path}")
    for program, hours in (("balance", -1), ("balance", 1), ("poller", 2)):
        world = {"kept": [{"state": "ready"}, {"state": "ready"}, {"state": "failed"}, {"state": "of another version"}]}
        entry = make_journal_entry(program, NOON + hours * HOUR, {"world": world}, ["x"])
        DecisionJournal(database).store_decision(entry)
    database.close()

    (found,) = read_node_history(NOON, path)

    assert (found.at, found.nodes) == (NOON + HOUR, {ElasticNodeState.READY: 2, ElasticNodeState.FAILED: 1})
