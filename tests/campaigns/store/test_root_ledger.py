"""Root's ledger lets each attempt of a task be submitted once, and knows the campaign's file."""

import fcntl
import os
from contextlib import nullcontext
from pathlib import Path
from time import process_time

import pytest

from gridbridge import errors
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.model.campaigns.task_index_and_attempt_texts import Attempts, parse_attempt_ranges


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def brought(folder: str) -> RootLedgerOfSubmittedTasks:
    """Return the ledger of a campaign whose file is there."""
    ledger = RootLedgerOfSubmittedTasks(12, folder)
    ledger.require_campaign_file(1000, "abc")
    return ledger


def test_an_array_is_submitted_once_under_its_id(folder: str) -> None:
    """A call that is repeated finds what the first one noted."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")
        ledger.record_job_id(1, "77")

    with brought(folder) as ledger:
        assert ledger.job_id_of_array(1) == "77"
        assert ledger.job_id_of_array(2) == ""
        assert ledger.uid == 1000


def test_one_call_at_a_time_has_it(folder: str) -> None:
    """Two that send the same attempt would both find that nobody had."""
    with RootLedgerOfSubmittedTasks(12, folder) as ledger:
        ledger.require_campaign_file(1000, "abc")

    with RootLedgerOfSubmittedTasks(12, folder), Path(folder, "c.12").open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_submission_that_was_cut_short_may_be_repeated(folder: str) -> None:
    """The same array with the same tasks alone."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")

    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")
        with pytest.raises(errors.ArrayTasksAlreadyInLedger, match="array 1 has other tasks"):
            ledger.record_array(1, "beta", "0-8:1")


def test_no_attempt_is_in_two_arrays(folder: str) -> None:
    """Not even for the service."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")
        ledger.record_array(2, "gamma", "9:2,10:1")
        with pytest.raises(errors.ArrayTasksAlreadyInLedger, match="was submitted before"):
            ledger.record_array(3, "gamma", "11:1,10:1")


@pytest.mark.parametrize(
    ("earlier", "tasks", "is_refused"),
    [
        ("0-9:1", "10-19:1", False),
        ("0-9:1", "5:2", False),
        ("0-9:12", "5:2", False),
        ("5:1,20-29:2", "0-4:1,6-30:1", False),
        ("0-9:1", "9-12:1", True),
        ("5:1", "0-9:1", True),
        ("0-99:1", "50:1", True),
        ("7:3,20-29:2", "25:2,25:1", True),
        ("10-19:1", "0-9:1,19:1", True),
    ],
)
def test_attempts_meet_by_their_ranges(folder: str, earlier: str, tasks: str, is_refused: bool) -> None:
    """Whoever asks for one of a million that were sent is refused, and for none else."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", earlier)
        refused = pytest.raises(errors.ArrayTasksAlreadyInLedger, match="was submitted before")
        with refused if is_refused else nullcontext():
            ledger.record_array(2, "beta", tasks)


@pytest.mark.parametrize("again", ["5:1", "05:1", "5:01", "4-005:001"])
def test_an_attempt_is_the_same_however_its_number_is_written(folder: str, again: str) -> None:
    """Whoever has stolen the service account submits no attempt twice by a nought."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0:1,0005:01")
        with pytest.raises(errors.ArrayTasksAlreadyInLedger, match="was submitted before"):
            ledger.record_array(2, "beta", again)


def test_runs_that_lie_within_others_are_found(folder: str) -> None:
    """Whatever a ledger has."""
    with brought(folder):
        lines = ["file 1000 abc", "array 1 beta 0-99:1", "array 2 beta 50-60:1", ""]
        (Path(folder) / "c.12").write_text("\n".join(lines))

    with RootLedgerOfSubmittedTasks(12, folder) as ledger:
        assert ledger.arrays_with_same_tasks(9, "70:2") == [(1, "beta", "", False, [71])]
        assert ledger.arrays_with_same_tasks(9, "60-61:2") == [
            (1, "beta", "", False, [61, 62]),
            (2, "beta", "", False, [11]),
        ]
        with pytest.raises(errors.ArrayTasksAlreadyInLedger, match="was submitted before"):
            ledger.record_array(3, "beta", "99-100:1")


def test_an_array_costs_what_it_has_however_many_were_sent(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but its own tasks is listed one by one."""
    with brought(folder) as ledger:
        for number in range(1, 4):
            ledger.record_array(number, "beta", f"{number * 10_000}-{number * 10_000 + 9_999}:1")
    read: list[str] = []

    def counted(text: str) -> Attempts:
        read.append(text)
        return parse_attempt_ranges(text)

    monkeypatch.setattr("gridbridge.campaigns.store.root_ledger.parse_attempt_ranges", counted)
    with brought(folder) as ledger:
        ledger.record_array(4, "beta", "0-9:1")

    assert read == ["0-9:1"]


def test_many_arrays_are_listed_in_one_pass(folder: str) -> None:
    """A campaign of a million tasks may have ten thousand; looked up one by one that is minutes."""
    with brought(folder):
        many = range(1, 10_001)
        lines = (f"array {one} beta {one * 50}-{one * 50 + 49}:1\njob {one} {one + 7}" for one in many)
        (Path(folder) / "c.12").write_text("\n".join(["file 1000 abc", *lines, ""]))

    began_s = process_time()
    with RootLedgerOfSubmittedTasks(12, folder) as ledger:
        listed = ledger.list_arrays()

    assert listed[-1] == ("10000", "beta", "500000-500049:1", "10007")
    assert process_time() - began_s < 5


@pytest.mark.parametrize(("uid", "digest"), [(1001, "abc"), (1000, "abd")])
def test_another_file_is_refused(folder: str, uid: int, digest: str) -> None:
    """What is run is what was brought, and its owner's."""
    with brought(folder):
        pass

    with (
        RootLedgerOfSubmittedTasks(12, folder) as ledger,
        pytest.raises(errors.CampaignFileChanged, match="file has changed"),
    ):
        ledger.require_campaign_file(uid, digest)


def test_a_ledger_that_another_call_began_meanwhile_is_not_written(folder: str) -> None:
    """What this one knew of it is old: it may be asked again."""
    with RootLedgerOfSubmittedTasks(12, folder) as late:
        with brought(folder) as ledger:
            ledger.record_array(1, "beta", "0:1")
        with pytest.raises(FileExistsError):
            late.require_campaign_file(1000, "abc")

    assert Path(folder, "c.12").read_text() == "file 1000 abc\narray 1 beta 0:1\n"


def test_a_line_that_was_cut_short_is_none(folder: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Power went while it was written: what it noted had not been done. That is told once."""
    with brought(folder):
        pass
    with Path(folder, "c.12").open("a") as file:
        file.write("array 1 beta 0")

    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
    assert capfd.readouterr().err == "ledger-cut c.12 14\n"


def test_a_line_for_which_there_is_no_room_is_none(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the part of it for which there was: nothing is submitted without its line."""
    with brought(folder) as ledger:
        write = os.write
        monkeypatch.setattr(os, "write", lambda end, data: write(end, data[:7]))
        with pytest.raises(OSError, match="No space left"):
            ledger.record_array(1, "beta", "0:1")
        monkeypatch.undo()
        ledger.record_array(1, "gamma", "0:1")

    with brought(folder) as ledger:
        assert ledger.list_arrays() == (("1", "gamma", "0:1", ""),)


def test_a_batch_is_one_write_and_one_wait_for_the_disk(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of its lines lasts before; in memory each holds at once."""
    waits: list[int] = []
    with brought(folder) as ledger:
        monkeypatch.setattr(os, "fsync", waits.append)
        with ledger.write_lines_at_once():
            ledger.record_array(1, "beta", "0:1")
            with pytest.raises(errors.ArrayTasksAlreadyInLedger):
                ledger.record_array(2, "beta", "0:1")
            ledger.record_array(2, "beta", "1:1")
            assert Path(folder, "c.12").read_text() == "file 1000 abc\n"
        assert len(waits) == 1
        with ledger.write_lines_at_once():
            pass
        assert len(waits) == 1

    with brought(folder) as ledger:
        assert [row[0] for row in ledger.list_arrays()] == ["1", "2"]


def _intend_two(ledger: RootLedgerOfSubmittedTasks) -> None:
    with ledger.write_lines_at_once():
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(2, "beta", "1:1")


def test_of_a_batch_for_which_there_is_no_room_nothing_lasts(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the lines for which there was."""
    with brought(folder) as ledger:
        write = os.write
        monkeypatch.setattr(os, "write", lambda end, data: write(end, data[:20]))
        with pytest.raises(OSError, match="No space left"):
            _intend_two(ledger)

    assert Path(folder, "c.12").read_text() == "file 1000 abc\n"


def test_a_withdrawn_array_is_as_if_it_had_not_been_intended(folder: str) -> None:
    """Nobody was asked to submit it: its attempts may be in another array, or in it again."""
    with brought(folder) as ledger, ledger.write_lines_at_once():
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(2, "beta", "1:1")
        ledger.withdraw_array(1)
        ledger.withdraw_array(2)

    with brought(folder) as ledger:
        assert ledger.list_arrays() == ()
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(3, "gamma", "1:1")
        assert not ledger.may_be_submitted_twice(1)
    with brought(folder) as ledger:
        assert [row[0] for row in ledger.list_arrays()] == ["1", "3"]


def test_it_knows_of_which_array_an_answer_may_have_been_lost(folder: str) -> None:
    """What else bears its name at the cluster is nobody's then."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(2, "beta", "1:1")
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
        ledger.record_job_id(1, "71")
        ledger.record_job_id(2, "72")
        ledger.record_array(2, "beta", "1:1")

    with brought(folder) as ledger:
        assert (ledger.may_be_submitted_twice(1), ledger.may_be_submitted_twice(2)) == (True, False)
        assert ledger.list_arrays() == (("1", "beta", "0:1", "71"), ("2", "beta", "1:1", "72"))


def test_a_folder_that_others_can_open_is_refused(folder: str) -> None:
    """It would not be root's alone."""
    Path(folder).mkdir()
    Path(folder).chmod(0o755)

    with pytest.raises(errors.RootLedgerUnreadable, match="not a folder that only its owner can open"):
        brought(folder)


@pytest.mark.parametrize("odd", ["folder", "link", b"file 1000 \xff\n"])
def test_a_ledger_that_can_not_be_read_is_told_by_its_path(folder: str, odd: str | bytes) -> None:
    """None is begun in its place."""
    path = Path(folder) / "c.12"
    path.parent.mkdir(mode=0o700)
    if odd == "folder":
        path.mkdir()
    elif isinstance(odd, str):
        path.symlink_to("elsewhere")
    else:
        path.write_bytes(odd)

    with pytest.raises(errors.RootLedgerUnreadable, match=f"{path}: "):
        brought(folder)


def test_which_arrays_have_tasks_and_at_which_places(folder: str) -> None:
    """Whichever attempts of them they have."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "5-9:1,2:1")
        ledger.record_job_id(1, "71")
        ledger.record_array(2, "gamma", "20-29:1")
        ledger.record_array(3, "gamma", "9:2,7:2")

        assert ledger.arrays_with_same_tasks(4, "7-8:3,2:2") == [
            (1, "beta", "71", False, [3, 4, 6]),
            (3, "gamma", "", False, [2]),
        ]
        assert ledger.arrays_with_same_tasks(3, "7:2,9:2") == [(1, "beta", "71", False, [3, 5])]
        assert ledger.arrays_with_same_tasks(4, "10-19:1") == []


def test_no_array_has_a_task_twice(folder: str) -> None:
    """They would run at the same time."""
    with brought(folder) as ledger, pytest.raises(errors.ArrayTasksAlreadyInLedger, match="a task comes twice"):
        ledger.record_array(1, "beta", "0-4:1,3:2")


def test_a_copy_is_of_a_task_that_was_submitted_and_the_second_is_the_last(folder: str) -> None:
    """Whatever the service asks for; each attempt is submitted once all the same."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")
        with pytest.raises(errors.SpeculativeCopyRefusal, match="task 10 was not submitted before"):
            ledger.record_array(2, "gamma", "9:2,10:2", is_of_copies=True)
        ledger.record_array(2, "gamma", "8-9:2", is_of_copies=True)
        ledger.record_job_id(2, "44")
        ledger.record_array(3, "delta", "9:3", is_of_copies=True)
        for tasks in ("9:4", "0:2,0:3,0:4"):
            with pytest.raises(errors.SpeculativeCopyRefusal, match="gets 2 copies at most"):
                ledger.record_array(4, "delta", tasks, is_of_copies=True)
        with pytest.raises(errors.ArrayTasksAlreadyInLedger):
            ledger.record_array(4, "delta", "8:2", is_of_copies=True)

        assert [ledger.count_copies_before(number).get(9, 0) for number in (2, 3, 4)] == [0, 1, 2]
        assert ledger.list_arrays()[1:] == (
            ("2", "gamma", "8-9:2", "44", "copies"),
            ("3", "delta", "9:3", "", "copies"),
        )


def test_an_array_of_copies_is_no_array_of_other_attempts(folder: str) -> None:
    """Asked for once more it has to be the same."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(2, "gamma", "0:2", is_of_copies=True)

    with brought(folder) as ledger:
        ledger.record_array(2, "gamma", "0:2", is_of_copies=True)
        with pytest.raises(errors.ArrayTasksAlreadyInLedger, match="array 2 has other tasks"):
            ledger.record_array(2, "gamma", "0:2")


def test_nothing_of_a_campaign_that_has_ended_is_submitted(folder: str) -> None:
    """Nor what was begun before; what it has was submitted before, as ever."""
    with brought(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")
        ledger.record_campaign_end()
        ledger.record_campaign_end()

    with brought(folder) as ledger:
        for array, tasks in ((1, "0-9:1"), (2, "0:2")):
            with pytest.raises(errors.CampaignEndInRootLedger, match="the campaign has ended"):
                ledger.record_array(array, "beta", tasks)
        with pytest.raises(errors.ArrayTasksAlreadyInLedger):
            ledger.record_array(2, "beta", "0:1")
        assert [row[0] for row in ledger.list_arrays()] == ["1"]


def test_an_owners_request_takes_a_campaign_up_once(folder: str) -> None:
    """The same request does so no more after the next end; what is repeated before is no harm."""
    with brought(folder) as ledger:
        ledger.record_campaign_end()
        ledger.reopen_campaign("abc")
        ledger.reopen_campaign("abc")
        ledger.record_array(1, "beta", "0:1")
        ledger.record_campaign_end()
        with pytest.raises(errors.CampaignEndInRootLedger):
            ledger.reopen_campaign("abc")
        ledger.reopen_campaign("def")
        ledger.record_array(2, "beta", "0:2")


def test_a_campaign_that_ended_before_anything_was_sent_stays_so(folder: str) -> None:
    """Its file is noted then as ever, and whose it is."""
    with RootLedgerOfSubmittedTasks(12, folder) as ledger:
        ledger.record_campaign_end()
        assert ledger.uid == 0

    with brought(folder) as ledger:
        assert ledger.uid == 1000
        with pytest.raises(errors.CampaignEndInRootLedger):
            ledger.record_array(1, "beta", "0:1")
        with pytest.raises(errors.CampaignFileChanged):
            ledger.require_campaign_file(1000, "other")
