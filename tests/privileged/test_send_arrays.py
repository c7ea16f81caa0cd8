"""Each intent is on disk before its submission, and each job id before the release.

The fake cluster is a file to which the owner's process appends each request.
"""

import os
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.errors import GridbridgeError
from gridbridge.privileged import as_user_array_arguments, as_user_refusals_and_user_switch, send_arrays
from gridbridge.privileged.as_user_array_arguments import ArraySendProgress, AsUserArrayArguments
from gridbridge.privileged.campaign_array_job_spec import VerifiedCampaignTasks
from gridbridge.privileged.send_arrays import CampaignArraySender

MANY = 20
CONFIG: dict[str, dict[str, object]] = {"site": {"cluster": "alpha"}, "cluster": {"beta": {"qmaster_port": 1}}}


class Cluster:
    """Records the requests to a cluster, with the content of root's ledger at that time."""

    def __init__(self, folder: Path) -> None:
        self._file, self.ledger = folder / "asked", folder / "ledger" / "c.12"
        self._file.touch()
        self.refused = ""  # the name of the array that it does not take
        self.held = ""  # what it finds under any name

    def asked(self) -> list[tuple[str, int, int]]:
        rows = (line.split() for line in self._file.read_text().splitlines())
        return [(word, int(intents), int(ids)) for word, intents, ids in rows]

    def find_held_array(self, _name: str) -> str:
        self._note("find")
        return self.held

    def submit_held_array(self, name: str) -> str:
        """Accept an array; its id is its number plus 100."""
        self._note("submit")
        if name == self.refused:
            raise GridbridgeError("not this one")
        return str(100 + int(name.rpartition(".")[2]))

    def release_new_arrays(self, jobs: list[str]) -> None:
        self._note(f"release:{','.join(jobs)}")

    def release_or_delete_array(self, _name: str, job: str, is_repeated: bool) -> str:
        self._note(f"act:{job}:{is_repeated:d}")
        return ""

    def array_job_spec(self, array: object, _tasks: object, _person: str) -> str:
        """Return the submitted name, in place of a job specification."""
        return str(array)

    def script_tasks_of_array(self, _place: int) -> None:
        """Return nothing."""

    def _note(self, word: str) -> None:
        lines = self.ledger.read_text().splitlines()
        ids = sum(line.startswith("job ") for line in lines)
        with self._file.open("a") as file:
            file.write(f"{word} {sum(line.startswith('array ') for line in lines)} {ids}\n")


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster(tmp_path)
    monkeypatch.setattr(
        as_user_array_arguments.as_user_refusals_and_user_switch, "read_root_configuration", lambda _: CONFIG
    )
    monkeypatch.setattr(as_user_refusals_and_user_switch, "switch_to_user", lambda uid: f"person {uid}")
    monkeypatch.setattr(send_arrays, "CampaignOwnerClusterCalls", lambda *_: cluster)
    return cluster


def send(cluster: Cluster, count: int = MANY) -> list[ArraySendProgress]:
    words = (f"{number} {number}:1" for number in range(1, count + 1))
    asked = AsUserArrayArguments(f"send-arrays c.12 beta {' '.join(words)}".split())
    with RootLedgerOfSubmittedTasks(12, str(cluster.ledger.parent)) as ledger:
        ledger.record_or_verify_campaign_file(os.getuid(), "digest")
        one = CampaignArraySender(asked, ledger, cast("VerifiedCampaignTasks", cluster))
        sent = one.submit_held_arrays()
        one.release_submitted_arrays(sent)
        one._worker.scope.kill_scope_processes()  # it has the ledger, too; after a call its process ends with us
        os.waitpid(one._worker.scope.pid, 0)
    return sent


def fill_disk(monkeypatch: pytest.MonkeyPatch, lines: bytes) -> None:
    """Let lines of the ledger that begin like this find a full disk."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda end, data: write(end, data[:7] if data.startswith(lines) else data))


@pytest.mark.parametrize("count", [1, MANY])
def test_one_call_syncs_the_disk_twice_for_any_number_of_arrays(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    with RootLedgerOfSubmittedTasks(12, str(cluster.ledger.parent)) as ledger:
        ledger.record_or_verify_campaign_file(os.getuid(), "digest")
    sync = Mock(wraps=os.fsync)
    monkeypatch.setattr(os, "fsync", sync)

    assert [sent.printed_result_line() for sent in send(cluster, count)] == [f"0 {101 + n} " for n in range(count)]
    assert sync.call_count == 2


def test_intents_are_synced_before_submission_and_ids_before_release(cluster: Cluster) -> None:
    send(cluster, 3)

    assert cluster.asked() == [*(("submit", 3, 0) for _ in range(3)), ("release:101,102,103", 3, 3)]


def test_an_array_beyond_the_time_limit_leaves_no_intent(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as late:
        late.setattr(send_arrays, "BEGINS_S", -1.0)
        assert len(send(cluster, 3)) == 1
    with RootLedgerOfSubmittedTasks(12, str(cluster.ledger.parent)) as ledger:
        assert [row[0] for row in ledger.list_submitted_arrays()] == ["1"]
    send(cluster, 3)

    assert [word for word, _, _ in cluster.asked()[2:]] == [*("submit", "submit"), *("release:102,103", "act:101:0")]


def test_arrays_stay_held_while_the_disk_has_no_room_for_their_ids(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call finds the held arrays, and submits none twice."""
    with monkeypatch.context() as disk:
        fill_disk(disk, b"job ")
        told = [sent.printed_result_line() for sent in send(cluster, 2)]
    assert [line.partition("No space")[0] for line in told] == ["1 0 "] * 2
    assert [word for word, _, _ in cluster.asked()] == ["submit", "submit"]
    cluster.held = "101"
    send(cluster, 1)

    assert [word for word, _, _ in cluster.asked()[2:]] == ["find", "act:101:1"]


def test_an_intent_that_cannot_be_written_prevents_the_submission(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RootLedgerOfSubmittedTasks(12, str(cluster.ledger.parent)) as ledger:
        ledger.record_or_verify_campaign_file(os.getuid(), "digest")
    fill_disk(monkeypatch, b"array ")

    assert all("No space" in sent.printed_result_line() for sent in send(cluster, 2))
    assert cluster.asked() == []
    assert "array" not in cluster.ledger.read_text()


def test_a_refused_array_does_not_stop_other_arrays(cluster: Cluster) -> None:
    cluster.refused = "gc.alpha.12.2"

    assert [sent.printed_result_line() for sent in send(cluster, 3)] == ["0 101 ", "1 0 not this one", "0 103 "]
    assert cluster.asked()[-1] == ("release:101,103", 3, 2)
