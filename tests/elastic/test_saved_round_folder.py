"""A folder with what a round looked at."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.elastic import saved_balancer_round_folder
from gridbridge.errors import ParseError
from gridbridge.model.elastic.balance_plan import SavedBalancerRoundInput, SavedBatchProgramOutputs, WaitingJobsHistory
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DOCUMENTS = SavedBatchProgramOutputs(qstat=b"<a/>", qhost=b"<b/>")
KEPT = SavedBalancerRoundInput(
    now=NOON,
    master="m",
    last_change=NOON - timedelta(hours=30),
    nodes=(
        ElasticNode(name="n1", up_since=NOON - timedelta(days=2)),
        ElasticNode(name="n2", state=ElasticNodeState.BOOTING, since=NOON, pool="big", group="big-1"),
        ElasticNode(name="n3", idle_since=NOON, is_kept=True),
        ElasticNode(name="n4", state=ElasticNodeState.FAILED, failed_at=NOON, has_machine=True),
        ElasticNode(name="n5", state=ElasticNodeState.DRAINING, is_drained=True),
    ),
    best_effort=frozenset(("be.q",)),
    eligible_since={7: NOON},
    watched={
        7: WaitingJobsHistory(at=NOON, tasks=3),
        9: WaitingJobsHistory(at=NOON, tasks=1, room_since=NOON - timedelta(hours=1), stuck_since=NOON),
    },
    runtimes={("alice", "job"): 60.0, ("alice", "other"): 5.5},
    elsewhere={"transfer-beta": 90.0},
    elsewhere_free={"transfer-beta": 12},
    failed={"big": NOON},
    spent=12.5,
)


def wrong(folder: Path, state: str) -> str:
    return said(folder, state)[0].removeprefix(f"{folder}/state.json: ")


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    folder = str(tmp_path / "new")
    saved_balancer_round_folder.write_saved_balancer_round(folder, DOCUMENTS, KEPT)

    assert saved_balancer_round_folder.read_saved_balancer_round(folder) == (DOCUMENTS, KEPT)


def test_nothing_is_saved_through_what_somebody_put_there(tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "saved"
    folder.mkdir()
    other.write_text("hers")
    (folder / "qstat.xml").symlink_to(other)
    os.mkfifo(folder / "qhost.xml")
    saved_balancer_round_folder.write_saved_balancer_round(str(folder), DOCUMENTS, KEPT)

    assert (other.read_text(), saved_balancer_round_folder.read_saved_balancer_round(str(folder))) == (
        "hers",
        (DOCUMENTS, KEPT),
    )


def test_no_pipe_is_waited_at(tmp_path: Path) -> None:
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), DOCUMENTS, KEPT)
    (tmp_path / "qhost.xml").unlink()
    os.mkfifo(tmp_path / "qhost.xml")

    with pytest.raises(ParseError, match="no regular file"):
        saved_balancer_round_folder.read_saved_balancer_round(str(tmp_path))


def test_without_a_state_the_moment_is_that_of_the_list(tmp_path: Path) -> None:
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), DOCUMENTS, KEPT)
    os.remove(tmp_path / "state.json")
    os.utime(tmp_path / "qstat.xml", (NOON.timestamp(), NOON.timestamp()))

    assert saved_balancer_round_folder.read_saved_balancer_round(str(tmp_path)) == (
        DOCUMENTS,
        SavedBalancerRoundInput(now=NOON),
    )


@pytest.mark.parametrize("name", ["qstat.xml", "qhost.xml"])
def test_a_document_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), DOCUMENTS, KEPT)
    os.remove(tmp_path / name)

    with pytest.raises(ParseError, match=f"^{tmp_path}/{name}: No such file or directory$"):
        saved_balancer_round_folder.read_saved_balancer_round(str(tmp_path))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("[", "no JSON: "),
        ("[]", "it: []; expected a table with now, master, last_change, nodes, best_effort, "),
        ("{}", "now: null; expected an ISO 8601 time such as "),
        ('{"now": "noon"}', 'now: "noon"; expected an ISO 8601 time such as '),
        ('{"now": "0001-01-01T00:00:00"}', 'now: "0001-01-01T00:00:00"; expected an ISO 8601 time such as '),
        (
            f'{{"now": "2026-01-01T12:00:00Z", "spent": 1{"0" * 400}}}',
            f"spent: 1{'0' * 59}; expected a number of at most 1e+300",
        ),
        ('{"now": 12}', "now: 12; expected an ISO 8601 time such as "),
        ('{"now": "2026-01-01T12:00:00Z", "nodse": {}}', "nodse: unknown; known are now, "),
        ('{"now": "2026-01-01T12:00:00Z", "master": 3}', "master: 3; expected a text"),
        ('{"now": "2026-01-01T12:00:00Z", "nodes": []}', "nodes: []; expected a table of nodes by "),
        ('{"now": "2026-01-01T12:00:00Z", "nodes": {"n": 1}}', "nodes.n: 1; expected a table with up_since"),
        (
            '{"now": "2026-01-01T12:00:00Z", "nodes": {"n": {"state": "on"}}}',
            'nodes.n.state: "on"; expected one of requested, booting, ',
        ),
        (
            '{"now": "2026-01-01T12:00:00Z", "nodes": {"n": {"up_since": "x"}}}',
            'nodes.n.up_since: "x"; expected an ISO 8601 time',
        ),
        ('{"now": "2026-01-01T12:00:00Z", "nodes": {"n": {"up": 1}}}', "nodes.n.up: unknown; "),
        ('{"now": "2026-01-01T12:00:00Z", "nodes": {"n": {"kept": 1}}}', "nodes.n.kept: 1; expected true or false"),
        (
            '{"now": "2026-01-01T12:00:00Z", "eligible": {"x": "2026-01-01T12:00:00Z"}}',
            'eligible: "x"; expected the number of a job',
        ),
        ('{"now": "2026-01-01T12:00:00Z", "failed": {"p": 1}}', "failed.p: 1; expected an ISO 8601 time"),
        ('{"now": "2026-01-01T12:00:00Z", "best_effort": "q"}', 'best_effort: "q"; expected a list of '),
        (
            '{"now": "2026-01-01T12:00:00Z", "runtimes": {"alice": {"job": -1}}}',
            "runtimes.alice.job: -1; expected a number that is not negative",
        ),
        ('{"now": "2026-01-01T12:00:00Z", "spent": NaN}', "spent: NaN; expected a number that is not "),
        (
            '{"now": "2026-01-01T12:00:00Z", "watched": {"x": {"at": "2026-01-01T12:00:00Z"}}}',
            'watched: "x"; expected the number of a job',
        ),
        ('{"now": "2026-01-01T12:00:00Z", "watched": {"7": {}}}', "watched.7.at: null; expected an ISO "),
        (
            '{"now": "2026-01-01T12:00:00Z", "watched": {"7": {"job": 7}}}',
            "watched.7.job: unknown; known are at, tasks, room_since, stuck_since",
        ),
        ('{"now": "2026-01-01T12:00:00Z", "elsewhere": 3}', "elsewhere: 3; expected a table"),
    ],
)
def test_what_is_wrong_is_told_with_its_key_and_what_would_be_right(tmp_path: Path, state: str, expected: str) -> None:
    assert wrong(tmp_path, state).startswith(expected)


def test_a_time_without_a_zone_is_this_machines(tmp_path: Path) -> None:
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), DOCUMENTS, KEPT)
    (tmp_path / "state.json").write_text('{"now": "2026-01-01T12:00:00"}')

    assert (
        saved_balancer_round_folder.read_saved_balancer_round(str(tmp_path))[1].now
        == datetime(2026, 1, 1, 12).astimezone()
    )


def test_all_mistakes_are_told_at_once_each_on_its_line(tmp_path: Path) -> None:
    told = said(tmp_path, '{"now": 5, "mastr": "m", "nodes": {"n1": {"state": "up", "kept": 1}}, "spent": "much"}')

    assert [line.removeprefix(f"{tmp_path}/state.json: ").partition(":")[0] for line in told] == [
        "mastr",
        "now",
        "nodes.n1.state",
        "nodes.n1.kept",
        "spent",
    ]


def test_of_many_mistakes_some_are_told_and_the_others_counted(tmp_path: Path) -> None:
    nodes = ", ".join(f'"n{number}": 1' for number in range(30))
    told = said(tmp_path, f'{{"now": "2026-01-01T12:00:00", "nodes": {{{nodes}}}}}')

    assert len(told) == 21
    assert told[-1] == f"{tmp_path}/state.json: 10 more"


def said(folder: Path, state: str) -> list[str]:
    saved_balancer_round_folder.write_saved_balancer_round(str(folder), DOCUMENTS, KEPT)
    (folder / "state.json").write_text(state)
    with pytest.raises(ParseError) as error:
        saved_balancer_round_folder.read_saved_balancer_round(str(folder))
    return str(error.value).split("\n")
