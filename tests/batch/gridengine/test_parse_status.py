"""Tests of the parser of qstat's job list, as printed by several versions."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.batch.gridengine.qstat_xml_parser import count_tasks_in_ranges, parse_cluster_snapshot
from gridbridge.errors import ParseError
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_and_queue_states import QueueStartBlocker
from gridbridge.model.transfer_name import parse_qstat_task_ranges
from tests.builders.golden import CAPTURED, UNSEEN
from tests.builders.qstat import job_list, job_row
from tests.lab.campaigns.faults.reversed_answer import turned

TAKEN_AT = datetime(2026, 11, 20, tzinfo=UTC)
WHOLE_LISTS = ["idle.xml", "mixed.xml", "mixed-plain.xml", "deleting.xml"]


class Everything:
    def __contains__(self, job_id: object) -> bool:
        return True


def parse(data: bytes, wanted: object = None) -> ClusterSnapshot:
    keep = Everything() if wanted is None else wanted
    return parse_cluster_snapshot(data, cluster="beta", taken_at=TAKEN_AT, job_ids=keep, zone=UTC)


def read(path: Path) -> ClusterSnapshot:
    return parse(path.read_bytes())


def rows_of(snapshot: ClusterSnapshot) -> list[ClusterJobListRow]:
    return [row for rows in snapshot.jobs.values() for row in rows]


MIXED = [
    # name, letters, tasks, slots
    ("a<b&c>d", "qw", 1, 1),
    ("gaps", "hqw", 3, 1),
    ("gaps", "qw", 16, 1),
    ("gb.alpha.7.0.1", "r", 1, 1),
    ("gb.alpha.8.0.1", "hqw", 1, 1),
    ("gb.alpha.8.0.2", "qw", 1, 1),
    ("spread", "r", 1, 2),
    ("stepped", "qw", 5, 1),
    ("suspended", "s", 1, 1),
    ("waiting", "qw", 1, 2),
    ("wrong", "Eqw", 1, 1),
]


@pytest.mark.parametrize("name", WHOLE_LISTS)
def test_the_order_of_elements_does_not_change_the_snapshot(name: str) -> None:
    told = (CAPTURED / name).read_text()
    straight, turned_round = (read_text(one) for one in (told, turned(told)))

    assert turned(told) != told or not straight.jobs
    assert turned_round.free_slots == straight.free_slots
    assert turned_round.pending == straight.pending
    assert set(turned_round.queues) == set(straight.queues)
    assert hostless(turned_round) == hostless(straight)


def read_text(told: str) -> ClusterSnapshot:
    return parse(told.encode())


def hostless(snapshot: ClusterSnapshot) -> list[str]:
    return sorted(repr(replace(row, queue="")) for row in rows_of(snapshot))


@pytest.mark.parametrize("name", ["mixed.xml", "mixed-plain.xml"])
def test_qstat_lists_the_same_jobs_with_and_without_queues(name: str) -> None:
    """A user's ~/.sge_qstat may cancel -f."""
    rows = rows_of(read(CAPTURED / name))

    assert sorted((r.name, r.state.text, r.task_count, r.slots) for r in rows) == MIXED


@pytest.mark.parametrize(("name", "hosts"), [("mixed.xml", 2), ("mixed-plain.xml", 0)])
def test_pending_tasks_and_free_slots_of_a_busy_cluster_are_counted(name: str, hosts: int) -> None:
    snapshot = read(CAPTURED / name)

    assert (snapshot.pending, snapshot.free_slots, len(snapshot.queues)) == (24, 0, hosts)


def test_an_idle_cluster_has_free_slots_and_no_jobs() -> None:
    snapshot = read(CAPTURED / "idle.xml")

    assert (snapshot.pending, snapshot.free_slots, snapshot.jobs) == (0, 4, {})
    assert [(q.slots_used, q.slots_total, q.state.text, q.takes_batch) for q in snapshot.queues] == [
        (0, 2, "", True)
    ] * 2


def test_slots_of_a_transfer_queue_are_not_free_slots() -> None:
    data = (CAPTURED / "idle.xml").read_bytes().replace(b"all.q@alpha-n1", b"transfer-beta@n")

    seen = parse_cluster_snapshot(data, cluster="alpha", taken_at=TAKEN_AT, transfer_queues=["transfer-beta"])

    assert (parse(data).free_slots, seen.free_slots) == (4, 2)


def test_a_transfer_queue_of_another_site_is_recognized_by_its_resource() -> None:
    seen = read(CAPTURED / "transfer-queue.xml")

    assert seen.free_slots == 4
    assert [queue.queue_name for queue in seen.queues if queue.sends_away] == ["transfer-alpha"]
    assert [queue.queue_name for queue in seen.queues if queue.says_stay] == ["all.q", "all.q"]


@pytest.mark.parametrize(
    ("shown", "free"),
    [
        (b'<resource name="remote" type="qf">TRUE</resource>', 2),
        (b'<resource name="remote" type="qf">FALSE</resource>', 4),
        (b'<resource name="remote" type="qf"></resource>', 4),
        (b'<resource name="licence" type="gc">1.000000</resource>', 4),
        (b'<resource name="remote" type="qf">1</resource><resource name="licence">3</resource>', 2),
        (b'<resource name="remote" type="qc">1.000000</resource>', 4),
        (b'<resource name="remote" type="hf">1.000000</resource>', 4),
    ],
    ids=["a word", "false", "empty", "another", "among others", "a consumable", "of the host"],
)
def test_only_a_true_queue_resource_remote_makes_a_transfer_queue(shown: bytes, free: int) -> None:
    idle = (CAPTURED / "idle.xml").read_bytes()

    assert parse(idle.replace(b"</Queue-List>", shown + b"</Queue-List>", 1)).free_slots == free


def test_a_deleted_job_that_has_not_ended_keeps_its_slot() -> None:
    snapshot = read(CAPTURED / "deleting.xml")
    (forced,) = (row for row in rows_of(snapshot) if row.name == "forced")

    assert (forced.state.is_deleting, forced.state.is_running) == (True, True)
    assert snapshot.free_slots < 4


@pytest.mark.parametrize("name", ["mixed.xml", "mixed-plain.xml"])
def test_a_running_job_has_a_queue_and_a_waiting_job_has_none(name: str) -> None:
    queues = {row.name: row.queue for row in rows_of(read(CAPTURED / name))}

    assert queues["gb.alpha.7.0.1"].startswith("all.q@alpha-n")
    assert queues["waiting"] == ""


def test_a_snapshot_has_only_requested_jobs_and_transfers() -> None:
    everything = read(CAPTURED / "mixed.xml")
    (suspended,) = (row for row in rows_of(everything) if row.name == "suspended")
    ours = parse((CAPTURED / "mixed.xml").read_bytes(), wanted={suspended.job_id})

    assert {row.name for row in rows_of(ours)} == {"suspended", "gb.alpha.7.0.1", "gb.alpha.8.0.1", "gb.alpha.8.0.2"}
    assert (ours.pending, ours.free_slots) == (everything.pending, everything.free_slots)


def test_printed_times_are_parsed_in_the_given_zone() -> None:
    data = (CAPTURED / "mixed.xml").read_bytes()
    tokyo = timezone(timedelta(hours=9))
    there = parse_cluster_snapshot(data, cluster="beta", taken_at=TAKEN_AT, zone=tokyo)

    for row in rows_of(there):
        here = parse(data).find_job_list_row(row.job_id)
        assert here.since is not None
        assert row.since == here.since - timedelta(hours=9)


def test_qstat_output_of_6_2u5_is_parsed() -> None:
    snapshot = read(UNSEEN / "6.2u5-status.xml")

    assert (snapshot.pending, snapshot.free_slots) == (9, 3)
    assert snapshot.jobs[11][0].state.is_restarted


def test_qstat_output_of_open_cluster_scheduler_is_parsed() -> None:
    snapshot = read(UNSEEN / "ocs-9.2-status.xml")
    held = snapshot.jobs[12][0]

    assert (snapshot.pending, snapshot.free_slots) == (0, 2)
    assert held.since == datetime(2025, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)


def test_an_unreachable_host_has_no_free_slots() -> None:
    snapshot = read(UNSEEN / "unreachable.xml")

    assert QueueStartBlocker.UNREACHABLE in snapshot.queues[0].state.facts
    assert snapshot.free_slots == 0


@pytest.mark.parametrize("name", WHOLE_LISTS)
def test_a_truncated_qstat_list_is_a_parse_error(name: str) -> None:
    """A truncated list must never look like an idle cluster or an ended job."""
    data = (CAPTURED / name).read_bytes().rstrip()
    for end in range(len(data)):
        with pytest.raises(ParseError):
            parse(data[:end])


@pytest.mark.parametrize("name", WHOLE_LISTS)
@given(data=st.data())
def test_a_damaged_qstat_list_raises_only_parse_error(name: str, data: st.DataObject) -> None:
    whole = (CAPTURED / name).read_bytes()
    begin = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(begin + 1, len(whole)))
    try:
        snapshot = parse(whole[:begin] + whole[end:])
    except ParseError:
        return
    assert snapshot.pending >= 0


@pytest.mark.parametrize(
    "name",
    [
        b"\x1b[1m\x07",
        b"caf\xe9",
        b"a & b",
        b"x</JB_name><><n>1</n></><JB_name>",
        b"x</JB_name><T:  3.>1</T:  3.><JB_name>",
    ],
    ids=["control characters", "latin-1", "bare &", "nameless tag", "tag with blanks"],
)
def test_known_errors_in_grid_engines_xml_are_repaired(name: bytes) -> None:
    snapshot = parse(job_list(job_row(5, JB_name="NAME", JB_owner="a")).replace(b"NAME", name))

    assert (snapshot.pending, list(snapshot.jobs)) == (1, [5])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n",
        b"error: commlib error: got select error (Connection refused)\n",
        b"<?xml version='1.0'?>\n",
        b"<job_info/>",
        b"<job_info><queue_info/></job_info>",
        b"<job_info><job_info/></job_info>",
        b"<queue_info/>",
        b"<html><body>502\nBad Gateway</body></html>",
        job_list() * 2,
        job_list("<job_list/>"),
        job_list(job_row("five", JB_owner="a")),
        job_list(job_row(5, JB_owner="a")).replace(b"<state>qw</state>", b""),
        job_list(job_row(5, JB_owner="a", tasks="1-")),
        job_list(job_row(5, JB_owner="a", tasks="9-1:1")),
        job_list(queues=["<Queue-List><name>all.q@n</name></Queue-List>"]),
        b"\x00\xff\xfe",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]>" + job_list(job_row(5, JB_owner="a", tasks="&b;")),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_output_that_is_no_job_list_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(ParseError) as refused:
        parse(data)

    assert len(str(refused.value).splitlines()) == 1


def test_a_parse_error_repeats_the_programs_message() -> None:
    with pytest.raises(ParseError, match="unable to contact qmaster"):
        read(UNSEEN / "no-connection.xml")


RANGES = st.lists(
    st.builds(
        lambda first, steps, step: (first, first + steps * step, step),
        st.integers(1, 500),
        st.integers(0, 50),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=5,
)


@given(RANGES)
def test_counted_tasks_equal_expanded_tasks(ranges: list[tuple[int, int, int]]) -> None:
    text = ",".join(f"{first}-{last}:{step}" for first, last, step in ranges)
    expanded = [task for a, b, step in ranges for task in range(a, b + 1, step)]

    assert [task for tasks in parse_qstat_task_ranges(text) for task in tasks] == expanded
    assert count_tasks_in_ranges(text) == len(expanded)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 1),
        ("7", 1),
        ("1-10:2", 5),
        ("1-10", 10),
        ("1-10:2,14", 6),
        ("1-9999999999:1", 10**10 - 1),
        ("-6--1:1", 6),
        ("2147483647--2147483648:1", 2),
        ("-1", 1),
        ("1-3:-2147483648", 1),
    ],
)
def test_a_huge_task_range_is_counted_without_expansion(text: str, expected: int) -> None:
    assert count_tasks_in_ranges(text) == expected


@pytest.mark.parametrize(("state", "counted"), [("hqw", False), ("qw", True)])
def test_other_users_jobs_are_only_counted(state: str, counted: bool) -> None:
    for many in (1_000, 10_000):
        array = parse(job_list(job_row(7, state, tasks=f"1-{many}:1")), ())
        single = parse(job_list(job_row(7, state) * many), ())

        assert (array.jobs, single.jobs) == ({}, {})
        assert array.pending == single.pending == (many if counted else 0)
