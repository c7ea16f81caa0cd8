"""Root reads a campaign's files as its owner submitted them, unchanged since their first use."""

import hashlib
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from gridbridge.campaigns.store import campaign_file_verification, campaign_files_of_owners
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.errors import CampaignFileChanged, CampaignFileUnreadable
from gridbridge.model.campaigns.campaign_file_and_array_names import ADDS_TO, UNIQUE
from gridbridge.model.fixed_paths import NO_FILE
from gridbridge.privileged.as_user_refusals_and_user_switch import exit_status_of_as_user_error


class Files:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "campaigns"
        self.folder.mkdir()
        self.ledger = RootLedgerOfSubmittedTasks(12, str(folder / "ledger"))
        self.put("c.12", {"name": "sweep"}, "a", "b")
        self.put("c.12.1", {ADDS_TO: 12, "token": "1"}, "c", "d")
        self.put("c.12.2", {ADDS_TO: 12, "token": "2"}, "e")

    def put(self, name: str, header: object, *lines: str) -> None:
        (self.folder / name).write_bytes(campaign_files_of_owners.encode_campaign_file(header, lines))

    def lines(self, *tasks: int) -> dict[int, bytes]:
        """Return the parameters of tasks, as root reads them for one array."""
        brought = campaign_file_verification.RootVerifiedCampaignFiles(12, str(self.folder))
        brought.record_file_in_ledger(self.ledger)
        return brought.parameters_of_tasks(set(tasks), self.ledger)


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_added_tasks_follow_the_tasks_of_the_first_file(files: Files) -> None:
    assert files.lines(0, 4, 1, 2) == {0: b"a", 1: b"b", 2: b"c", 4: b"e"}
    assert files.lines(3) == {3: b"d"}


def test_a_recorded_file_of_added_tasks_is_read_only_for_its_tasks(files: Files) -> None:
    files.lines(4)
    (files.folder / "c.12.1").unlink()

    assert files.lines(4, 0) == {0: b"a", 4: b"e"}


@pytest.mark.parametrize("tasks", [(5,), (2, 99)])
def test_a_task_number_beyond_the_last_task_is_an_error(files: Files, tasks: tuple[int, ...]) -> None:
    with pytest.raises(CampaignFileUnreadable, match=r"c\.12\.3"):
        files.lines(*tasks)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.rename(path.with_name("aside")),
        lambda path: path.with_name("backup").hardlink_to(path),
        lambda path: path.chmod(0o666),
    ],
    ids=["gone", "two links", "writable"],
)
@pytest.mark.parametrize("name", ["c.12", "c.12.1"])
def test_an_unreadable_campaign_file_is_a_temporary_error(
    files: Files, spoil: Callable[[Path], object], name: str
) -> None:
    spoil(files.folder / name)

    with pytest.raises(CampaignFileUnreadable, match=name) as raised:
        files.lines(2)
    assert exit_status_of_as_user_error(raised.value) == NO_FILE


def test_a_file_of_added_tasks_that_changed_after_its_first_use_is_refused(files: Files) -> None:
    files.lines(4)
    files.put("c.12.1", {ADDS_TO: 12, "token": "1"}, "c", "evil")

    with pytest.raises(CampaignFileChanged, match="file 1 of added tasks has changed"):
        files.lines(3)
    assert files.lines(4) == {4: b"e"}


def test_a_first_file_that_differs_from_the_register_is_refused(files: Files) -> None:
    given = campaign_file_verification.CampaignFileRegister(str(files.folder))
    given.register_campaign_file(12, os.geteuid(), "0" * 64)

    with pytest.raises(CampaignFileChanged, match=r"c\.12: the file has changed since the service accepted it"):
        files.lines(0)
    assert not files.ledger.has_campaign_file


def test_a_file_of_added_tasks_that_differs_from_the_register_is_refused(files: Files) -> None:
    whole = (files.folder / "c.12").read_bytes()
    given = campaign_file_verification.CampaignFileRegister(str(files.folder))
    given.register_campaign_file(12, os.geteuid(), hashlib.sha256(whole).hexdigest())
    given.register_campaign_file(12, os.geteuid(), "0" * 64, part=2)

    assert files.lines(0, 2) == {0: b"a", 2: b"c"}
    with pytest.raises(CampaignFileChanged, match=r"c\.12\.2: the file has changed since"):
        files.lines(4)


@pytest.mark.skipif(os.getuid() != 0, reason="another person's file")
def test_a_register_of_another_user_is_ignored(files: Files) -> None:
    campaign_file_verification.CampaignFileRegister(str(files.folder)).register_campaign_file(
        12, os.geteuid(), "0" * 64
    )
    os.chown(files.folder / campaign_file_verification.NAME, 12345, -1)

    assert files.lines(0) == {0: b"a"}


def test_reading_few_task_lines_needs_little_memory() -> None:
    whole = b"{}\n" + b"a\n" * 300_000 + b"b\nno line"
    tracemalloc.start()
    found = campaign_file_verification._select_task_lines(whole, [3, 300_000, 300_001])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found == {3: b"a", 300_000: b"b"}
    assert peak_bytes < 1 << 20


def test_a_too_long_first_line_is_not_parsed(files: Files) -> None:
    files.put("c.12", "x" * campaign_file_verification.MAX_FIRST_BYTES, "a")

    with pytest.raises(ValueError, match="the first line is missing or longer than"):
        campaign_file_verification.RootVerifiedCampaignFiles(12, str(files.folder)).header_line()


def test_one_file_cannot_serve_as_two_files_of_added_tasks(files: Files) -> None:
    files.lines(2)
    os.rename(files.folder / "c.12.1", files.folder / "c.12.2")

    with pytest.raises(CampaignFileChanged, match="file 2 of added tasks has changed"):
        files.lines(4)


def test_one_file_cannot_serve_two_campaigns(tmp_path: Path, files: Files) -> None:
    files.put("c.12", {"name": "sweep", UNIQUE: "1"}, "a")
    files.lines(0)
    files.put("c.13", {"name": "sweep", UNIQUE: "2"}, "a")
    os.rename(files.folder / "c.12", files.folder / "c.5000")

    with RootLedgerOfSubmittedTasks(5000, str(tmp_path / "ledger")) as ledger:
        with pytest.raises(CampaignFileChanged, match=r"c\.5000: the campaign's file already belongs to c\.12"):
            campaign_file_verification.RootVerifiedCampaignFiles(5000, str(files.folder)).record_file_in_ledger(ledger)
        assert ledger.uid == 0
    with RootLedgerOfSubmittedTasks(13, str(tmp_path / "ledger")) as ledger:
        campaign_file_verification.RootVerifiedCampaignFiles(13, str(files.folder)).record_file_in_ledger(ledger)
    os.rename(files.folder / "c.5000", files.folder / "c.12")
    assert files.lines(0) == {0: b"a"}


def test_a_campaign_interrupted_after_its_file_was_linked_continues(tmp_path: Path, files: Files) -> None:
    files.put("c.12", {"name": "sweep", UNIQUE: "1"}, "a")
    files.lines(0)
    files.ledger.__exit__(None, None, None)
    (tmp_path / "ledger" / "c.12").write_text("")
    files.ledger = RootLedgerOfSubmittedTasks(12, str(tmp_path / "ledger"))

    assert files.lines(0) == {0: b"a"}


@pytest.mark.parametrize("header", [{ADDS_TO: 13}, {"name": "sweep"}, [], {ADDS_TO: "12"}])
def test_a_file_of_another_campaign_adds_no_tasks(files: Files, header: object) -> None:
    files.put("c.12.1", header, "c", "d")

    with pytest.raises(CampaignFileChanged, match="not a file of tasks that the campaign's owner added"):
        files.lines(2)


@pytest.mark.skipif(os.getuid() != 0, reason="another person's file")
def test_another_users_file_of_added_tasks_is_refused(files: Files) -> None:
    os.chown(files.folder / "c.12.1", 1, -1)

    with pytest.raises(CampaignFileChanged, match="not a file of tasks that the campaign's owner added"):
        files.lines(2)
