"""Tests of a cell's queues, requestable names and array limits, as printed by qconf, and of its reservations."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import cell_object_queries, user_job_queries
from gridbridge.batch.gridengine.cell_configuration_reader import (
    parse_advance_reserved_slots,
    query_advance_reserved_slots,
)
from gridbridge.batch.gridengine.status import query_array_limits, query_requestable_names
from gridbridge.errors import CommandFailed, ParseError
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits, QueueJobAndUserRestrictions
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from tests.batch.gridengine.cells import cell_of_scripts, fake_cell


@pytest.fixture
def cell(tmp_path: Path) -> GridEngineCellAccessSettings:
    """Return a cell whose qconf prints files of the same folder."""
    return cell_of_scripts(tmp_path, qconf=fake_cell("qconf_of_files"))


def test_queue_settings_are_indexed_by_queue_name(cell: GridEngineCellAccessSettings, tmp_path: Path) -> None:
    shown = "qname a.q\nslots 1,[n1=2]\n\nqname b.q\nslots 3\n"
    (tmp_path / "qconf.-sq").write_text(shown)

    found = cell_object_queries.query_queue_settings(cell)

    assert found == {"a.q": {"qname": "a.q", "slots": "1,[n1=2]"}, "b.q": {"qname": "b.q", "slots": "3"}}


def test_a_cell_without_queues_has_no_queue_settings(cell: GridEngineCellAccessSettings) -> None:
    assert cell_object_queries.query_queue_settings(cell) == {}


def test_queues_without_printed_settings_are_a_failure(cell: GridEngineCellAccessSettings, tmp_path: Path) -> None:
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
    cell: GridEngineCellAccessSettings, tmp_path: Path, queue: str, found: QueueJobAndUserRestrictions
) -> None:
    (tmp_path / "qconf.-sq").write_text(f"qname far\n{queue}\n")
    (tmp_path / "qconf.-su").write_text("name staff\nentries bob,@physics\n")

    assert user_job_queries.query_queue_restrictions(cell, "far") == found


def test_the_request_vocabulary_has_all_requestable_names(tmp_path: Path) -> None:
    cell = cell_of_scripts(tmp_path, qconf=fake_cell("qconf_of_vocabulary"))

    assert query_requestable_names(cell) == NamesOfferedByCluster(
        resource=frozenset({"arch", "a", "licence", "lic"}),
        string=frozenset({"arch", "a"}),
        pe=frozenset({"mpi", "smp", "far", "none"}),
        queue=frozenset({"all.q"}),
        rule=frozenset({"mpi=2", "smp=$pe_slots"}),
    )
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == len(set(asked))


def cell_of_conf(folder: Path, said: str, status: int = 0) -> GridEngineCellAccessSettings:
    """Return a cell whose qconf prints `said` as the global configuration."""
    (folder / "said").write_text(said)
    return cell_of_scripts(folder, qconf=f'[ "$*" = -sconf ] || exit 9; cat {folder}/said; exit {status}')


@pytest.mark.parametrize(
    ("told", "limits"),
    [
        ((2000, 75000, 0, 0), ClusterArrayLimits(tasks=2000)),
        ((0, 500, 10, 0), ClusterArrayLimits(tasks=500, of_person=10)),
        ((0, 0, 0, 9), ClusterArrayLimits(of_all=9)),
        (("none", "", "-1", "x"), ClusterArrayLimits()),
    ],
    ids=["usual", "small", "none of an array's", "odd"],
)
def test_an_array_limit_of_zero_means_no_limit(
    tmp_path: Path, told: tuple[object, ...], limits: ClusterArrayLimits
) -> None:
    """The smaller of an array's two limits counts."""
    words = dict(zip(("instances", "tasks", "person", "everybody"), told, strict=True))

    found = query_array_limits(cell_of_conf(tmp_path, fake_cell("global_configuration").format(**words)))

    assert found == replace(limits, told_within_s=15.0)


@pytest.mark.parametrize(
    ("reporting", "seconds"),
    [
        ("accounting=true flush_time=00:00:10 accounting_flush_time=00:00:00", 0),
        ("accounting=true flush_time=00:01:10 joblog=false", 70),
        ("accounting=true accounting_flush_time=01:00:05", 3605),
        ("accounting=true accounting_flush_time=soon", 15),
        ("accounting=true", 15),
    ],
)
def test_accounting_flush_time_is_parsed_with_the_default_of_sge_conf(
    tmp_path: Path, reporting: str, seconds: float
) -> None:
    found = query_array_limits(cell_of_conf(tmp_path, f"reporting_params   {reporting}\n"))

    assert found.told_within_s == seconds


def test_a_failed_qconf_is_not_taken_for_missing_limits(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed):
        query_array_limits(cell_of_conf(tmp_path, "", status=1))


def test_reserved_slots_of_several_reservations_are_added() -> None:
    assert parse_advance_reserved_slots(fake_cell("qrstat.xml").encode()) == {"all.q@n3": 3, "all.q@n4": 2}


def test_invalid_output_of_qrstat_is_refused() -> None:
    with pytest.raises(ParseError):
        parse_advance_reserved_slots(b"error: commlib error")


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("", []),
        ('echo "$*" >>"$0.log"; echo "<qrstat/>"', ["-u * -xml"]),
        (
            """echo "$*" >>"$0.log"
[ "$1" = -u ] && exec echo '<qrstat><ar_summary><id>7</id></ar_summary></qrstat>'
printf 'Following advance reservations do not exist:\\n7\\n'; exit 1""",
            ["-u * -xml", "-ar 7 -xml"],
        ),
    ],
    ids=["no qrstat", "no reservation", "the reservation ended meanwhile"],
)
def test_a_cell_without_reservations_has_no_reserved_slots(tmp_path: Path, body: str, calls: list[str]) -> None:
    log = tmp_path / "qrstat.log"
    cell = cell_of_scripts(tmp_path, **({"qrstat": body} if body else {}))

    assert query_advance_reserved_slots(cell) == {}
    assert (log.read_text().splitlines() if log.exists() else []) == calls


def test_a_failed_qrstat_does_not_mean_no_reservation(tmp_path: Path) -> None:
    cell = cell_of_scripts(tmp_path, qrstat="echo 'unable to contact qmaster' >&2; exit 1")

    with pytest.raises(CommandFailed):
        query_advance_reserved_slots(cell)
