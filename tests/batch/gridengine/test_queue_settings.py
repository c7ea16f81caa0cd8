"""Tests of queue settings, and of a queue's restrictions on users and jobs."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine import cell_object_queries, user_job_queries
from gridbridge.errors import CommandFailed
from gridbridge.model.jobs_and_accounting import QueueJobAndUserRestrictions
from gridbridge.model.transfer_route import GridEngineCellAccess
from tests.batch.gridengine.cells import cell_of_scripts

QCONF = """\
cat "$0.$1" 2>/dev/null && exit
case $1 in
-sq) echo 'No cluster queue or queue instance matches the phrase "*"' >&2 ;;
-sql) echo 'no cluster queue list defined' >&2 ;;
esac
exit 1
"""


@pytest.fixture
def cell(tmp_path: Path) -> GridEngineCellAccess:
    """Return a cell whose qconf prints files beside it."""
    return cell_of_scripts(tmp_path, qconf=QCONF)


def test_queue_settings_are_indexed_by_queue_name(cell: GridEngineCellAccess, tmp_path: Path) -> None:
    shown = "qname a.q\nslots 1,[n1=2]\n\nqname b.q\nslots 3\n"
    (tmp_path / "qconf.-sq").write_text(shown)

    found = cell_object_queries.query_queue_settings(cell)

    assert found == {"a.q": {"qname": "a.q", "slots": "1,[n1=2]"}, "b.q": {"qname": "b.q", "slots": "3"}}


def test_a_cell_without_queues_has_no_queue_settings(cell: GridEngineCellAccess) -> None:
    assert cell_object_queries.query_queue_settings(cell) == {}


def test_queues_without_printed_settings_are_a_failure(cell: GridEngineCellAccess, tmp_path: Path) -> None:
    (tmp_path / "qconf.-sql").write_text("a.q\n")

    with pytest.raises(CommandFailed, match="No cluster queue"):
        cell_object_queries.query_queue_settings(cell)


@pytest.mark.parametrize(
    ("queue", "found"),
    [
        ("hostlist t1\nslots 4", QueueJobAndUserRestrictions(slots=4)),
        ("hostlist t1\nslots 0,[t1=4]", QueueJobAndUserRestrictions(slots=4)),
        ("hostlist t1\nslots 2,[t2=4]", QueueJobAndUserRestrictions(slots=2)),
        ("hostlist t1\nslots 2,[@big=9],[T1=4]", QueueJobAndUserRestrictions(slots=4)),
        ("hostlist t1\npe_list NONE,[t1=smp mpi]", QueueJobAndUserRestrictions(environments=("smp", "mpi"))),
        ("hostlist t1\nuser_lists NONE,[t1=staff]", QueueJobAndUserRestrictions(people=("bob", "@physics"))),
        ("hostlist t1\nslots 2,[@big=9]", QueueJobAndUserRestrictions()),
        ("hostlist t1 t2\nslots 2,[t1=4]", QueueJobAndUserRestrictions()),
        ("hostlist @all\nslots 2,[t1=4]", QueueJobAndUserRestrictions()),
        ("hostlist t1 t2\nslots 2", QueueJobAndUserRestrictions(slots=2)),
    ],
)
def test_queue_limits_count_only_on_the_queues_single_host(
    cell: GridEngineCellAccess, tmp_path: Path, queue: str, found: QueueJobAndUserRestrictions
) -> None:
    (tmp_path / "qconf.-sq").write_text(f"qname far\n{queue}\n")
    (tmp_path / "qconf.-su").write_text("name staff\nentries bob,@physics\n")

    assert user_job_queries.query_queue_admission(cell, "far") == found
