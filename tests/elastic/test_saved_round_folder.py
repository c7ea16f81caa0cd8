"""A folder saves the input of a balancer round and gives the input back."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.elastic.saved_balancer_round_folder import read_saved_balancer_round, write_saved_balancer_round
from gridbridge.errors import ParseError
from gridbridge.model.elastic.balance_plan import SavedBalancerRoundInput, WaitingJobsHistory
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DOCUMENTS = {"qstat.xml": b"<a/>", "qhost.xml": b"<b/>"}
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


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    write_saved_balancer_round(str(tmp_path), DOCUMENTS, KEPT)
    return tmp_path


def mistakes(saved: Path, state: str) -> list[str]:
    """Save a state file in the folder; return the lines of the error about this file, without its path."""
    (saved / "state.json").write_text(state)
    with pytest.raises(ParseError) as error:
        read_saved_balancer_round(str(saved))
    return [line.removeprefix(f"{saved}/state.json: ") for line in str(error.value).split("\n")]


def test_a_round_is_saved_without_following_links_and_pipes(tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "saved"
    folder.mkdir()
    other.write_text("hers")
    (folder / "qstat.xml").symlink_to(other)
    os.mkfifo(folder / "qhost.xml")
    write_saved_balancer_round(str(folder), DOCUMENTS, KEPT)

    assert (other.read_text(), read_saved_balancer_round(str(folder))) == ("hers", (DOCUMENTS, KEPT))


def test_a_pipe_in_place_of_a_document_is_an_error(saved: Path) -> None:
    (saved / "qhost.xml").unlink()
    os.mkfifo(saved / "qhost.xml")

    with pytest.raises(ParseError, match="no regular file"):
        read_saved_balancer_round(str(saved))


def test_without_a_state_file_the_time_of_a_round_is_that_of_its_qstat_file(saved: Path) -> None:
    os.remove(saved / "state.json")
    os.utime(saved / "qstat.xml", (NOON.timestamp(), NOON.timestamp()))

    assert read_saved_balancer_round(str(saved)) == (DOCUMENTS, SavedBalancerRoundInput(now=NOON))


@pytest.mark.parametrize("name", ["qstat.xml", "qhost.xml"])
def test_the_error_about_a_missing_document_names_the_file(saved: Path, name: str) -> None:
    os.remove(saved / name)

    with pytest.raises(ParseError, match=f"^{saved}/{name}: No such file or directory$"):
        read_saved_balancer_round(str(saved))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("[", "no JSON: "),
        ("[]", "the file: []; expected a table with now, master, last_change, nodes, best_effort, "),
        ("{}", "now: missing; expected an ISO 8601 time such as "),
        ('{"now": "noon"}', 'now: "noon"; expected an ISO 8601 time such as '),
        ('{"now": "0001-01-01T00:00:00"}', 'now: "0001-01-01T00:00:00"; expected an ISO 8601 time such as '),
        ('{"now": 12}', "now: 12; expected an ISO 8601 time such as "),
    ],
)
def test_a_state_file_without_a_valid_time_is_refused(saved: Path, state: str, expected: str) -> None:
    assert mistakes(saved, state)[0].startswith(expected)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (f'"spent": 1{"0" * 400}', f"spent: 1{'0' * 59}; expected a number of at most 1e+300"),
        ('"nodse": {}', "nodse: unknown; expected one of now, "),
        ('"master": 3', "master: 3; expected a text"),
        ('"nodes": []', "nodes: []; expected a table"),
        ('"nodes": {"n": 1}', "nodes.n: 1; expected a table with name, up_since"),
        ('"nodes": {"n": {"state": "on"}}', 'nodes.n.state: "on"; expected one of requested, booting, '),
        ('"nodes": {"n": {"up_since": "x"}}', 'nodes.n.up_since: "x"; expected an ISO 8601 time'),
        ('"nodes": {"n": {"up": 1}}', "nodes.n.up: unknown; "),
        ('"nodes": {"n": {"kept": 1}}', "nodes.n.kept: 1; expected true or false"),
        ('"eligible": {"x": "2026-01-01T12:00:00Z"}', 'eligible: "x"; expected the number of a job'),
        ('"failed": {"p": 1}', "failed.p: 1; expected an ISO 8601 time"),
        ('"best_effort": "q"', 'best_effort: "q"; expected a list of '),
        ('"runtimes": {"alice": {"job": -1}}', "runtimes.alice.job: -1; expected a number that is not negative"),
        ('"spent": NaN', "spent: NaN; expected a number that is not "),
        ('"watched": {"x": {"at": "2026-01-01T12:00:00Z"}}', 'watched: "x"; expected the number of a job'),
        ('"watched": {"7": {}}', "watched.7.at: missing; expected an ISO "),
        ('"watched": {"7": {"job": 7}}', "watched.7.job: unknown; expected one of at, tasks, room_since, stuck_since"),
        ('"elsewhere": 3', "elsewhere: 3; expected a table"),
    ],
)
def test_the_error_about_a_wrong_entry_names_key_and_expected_value(saved: Path, entry: str, expected: str) -> None:
    assert mistakes(saved, f'{{"now": "2026-01-01T12:00:00Z", {entry}}}')[0].startswith(expected)


def test_a_time_without_a_zone_is_read_as_local_time(saved: Path) -> None:
    (saved / "state.json").write_text('{"now": "2026-01-01T12:00:00"}')

    assert read_saved_balancer_round(str(saved))[1].now == datetime(2026, 1, 1, 12).astimezone()


def test_all_mistakes_of_a_state_file_are_reported_at_once(saved: Path) -> None:
    found = mistakes(saved, '{"now": 5, "mastr": "m", "nodes": {"n1": {"state": "up", "kept": 1}}, "spent": "much"}')

    assert [line.partition(":")[0] for line in found] == ["mastr", "now", "nodes.n1.state", "nodes.n1.kept", "spent"]


def test_of_many_mistakes_twenty_are_reported_and_the_others_are_counted(saved: Path) -> None:
    nodes = ", ".join(f'"n{number}": 1' for number in range(30))
    found = mistakes(saved, f'{{"now": "2026-01-01T12:00:00", "nodes": {{{nodes}}}}}')

    assert (len(found), found[-1]) == (21, "10 more faults")
