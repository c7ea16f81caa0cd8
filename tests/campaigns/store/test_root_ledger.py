"""Root's ledger admits each attempt of a task once, and stores the digest of the campaign's file."""

import fcntl
import os
from contextlib import nullcontext
from pathlib import Path
from time import process_time

import pytest

from gridbridge import errors
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


AGAIN = "was submitted before"


def ledger_with_file(folder: str) -> RootLedgerOfSubmittedTasks:
    ledger = RootLedgerOfSubmittedTasks(12, folder)
    ledger.record_or_verify_campaign_file(1000, "abc")
    return ledger


def test_a_recorded_job_id_is_read_back(folder: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")
        ledger.record_job_id_of_array(1, "77")
        with Path(folder, "c.12").open() as other, pytest.raises(BlockingIOError):  # another process waits
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    with ledger_with_file(folder) as ledger:
        assert ledger.job_id_of_array(1) == "77"
        assert ledger.job_id_of_array(2) == ""
        assert ledger.uid == 1000


def test_an_interrupted_submission_may_be_repeated_with_the_same_tasks(folder: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")

    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")
        with pytest.raises(errors.ArrayTasksAlreadyInLedger, match="array 1 is recorded with other tasks"):
            ledger.record_array(1, "beta", "0-8:1")


@pytest.mark.parametrize(
    ("earlier", "tasks", "why"),
    [
        ("0-9:1", "10-19:1", ""),
        ("0-9:1", "5:2", ""),
        ("0-9:12", "5:2", ""),
        ("5:1,20-29:2", "0-4:1,6-30:1", ""),
        ("0-9:1", "9-12:1", AGAIN),
        ("5:1", "0-9:1", AGAIN),
        ("0-99:1", "50:1", AGAIN),
        ("7:3,20-29:2", "25:2,25:1", AGAIN),
        ("10-19:1", "0-9:1,19:1", AGAIN),
        *(("0:1,0005:01", written, AGAIN) for written in ("5:1", "05:1", "5:01", "4-005:001")),
        ("9:1", "0-4:1,3:2", "a task comes twice"),
    ],
)
def test_an_attempt_is_refused_only_if_an_earlier_range_has_it(folder: str, earlier: str, tasks: str, why: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", earlier)
        with pytest.raises(errors.ArrayTasksAlreadyInLedger, match=why) if why else nullcontext():
            ledger.record_array(2, "beta", tasks)


def test_nested_task_ranges_are_found(folder: str) -> None:
    with ledger_with_file(folder):
        lines = ["file 1000 abc", "array 1 beta 0-99:1", "array 2 beta 50-60:1", ""]
        (Path(folder) / "c.12").write_text("\n".join(lines))

    with RootLedgerOfSubmittedTasks(12, folder) as ledger:
        assert ledger.arrays_with_same_tasks(9, "70:2") == [(1, "beta", "", False, [71])]
        both = [(1, "beta", "", False, [61, 62]), (2, "beta", "", False, [11])]
        assert ledger.arrays_with_same_tasks(9, "60-61:2") == both
        with pytest.raises(errors.ArrayTasksAlreadyInLedger, match=AGAIN):
            ledger.record_array(3, "beta", "99-100:1")


def test_10000_arrays_are_listed_in_5_s(folder: str) -> None:
    with ledger_with_file(folder):
        many = range(1, 10_001)
        lines = (f"array {one} beta {one * 50}-{one * 50 + 49}:1\njob {one} {one + 7}" for one in many)
        (Path(folder) / "c.12").write_text("\n".join(["file 1000 abc", *lines, ""]))

    began_s = process_time()
    with RootLedgerOfSubmittedTasks(12, folder) as ledger:
        listed = ledger.list_submitted_arrays()

    assert listed[-1] == ("10000", "beta", "500000-500049:1", "10007")
    assert process_time() - began_s < 5


@pytest.mark.parametrize(("uid", "digest"), [(1001, "abc"), (1000, "abd")])
def test_a_campaign_file_of_another_owner_or_content_is_refused(folder: str, uid: int, digest: str) -> None:
    changed = pytest.raises(errors.CampaignFileChanged, match="file has changed")
    with ledger_with_file(folder) as ledger, changed:
        ledger.record_or_verify_campaign_file(uid, digest)


def test_a_ledger_file_that_another_process_created_is_not_written(folder: str) -> None:
    with RootLedgerOfSubmittedTasks(12, folder) as late:
        with ledger_with_file(folder) as ledger:
            ledger.record_array(1, "beta", "0:1")
        with pytest.raises(FileExistsError):
            late.record_or_verify_campaign_file(1000, "abc")

    assert Path(folder, "c.12").read_text() == "file 1000 abc\narray 1 beta 0:1\n"


def test_a_ledger_line_cut_by_a_power_failure_is_dropped_and_reported(
    folder: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with ledger_with_file(folder):
        pass
    with Path(folder, "c.12").open("a") as file:
        file.write("array 1 beta 0")

    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
    assert capfd.readouterr().err == "ledger-cut c.12 14\n"


def test_a_ledger_line_on_a_full_disk_is_not_written_partly(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ledger_with_file(folder) as ledger:
        write = os.write
        monkeypatch.setattr(os, "write", lambda end, data: write(end, data[:7]))
        with pytest.raises(OSError, match="No space left"):
            ledger.record_array(1, "beta", "0:1")
        monkeypatch.undo()
        ledger.record_array(1, "gamma", "0:1")

    with ledger_with_file(folder) as ledger:
        assert ledger.list_submitted_arrays() == (("1", "gamma", "0:1", ""),)


def test_a_batch_of_ledger_lines_is_written_with_one_fsync(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    with ledger_with_file(folder) as ledger:
        monkeypatch.setattr(os, "fsync", waits.append)
        with ledger.write_lines_at_once():
            ledger.record_array(1, "beta", "0:1")
            with pytest.raises(errors.ArrayTasksAlreadyInLedger):
                ledger.record_array(2, "beta", "0:1")
            ledger.record_array(2, "beta", "1:1")
            assert Path(folder, "c.12").read_text() == "file 1000 abc\n"
        with ledger.write_lines_at_once():
            assert len(waits) == 1
        assert len(waits) == 1

    with ledger_with_file(folder) as ledger:
        assert [row[0] for row in ledger.list_submitted_arrays()] == ["1", "2"]


def _record_two_arrays(ledger: RootLedgerOfSubmittedTasks) -> None:
    with ledger.write_lines_at_once():
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(2, "beta", "1:1")


def test_a_batch_on_a_full_disk_writes_no_line(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ledger_with_file(folder) as ledger:
        write = os.write
        monkeypatch.setattr(os, "write", lambda end, data: write(end, data[:20]))
        with pytest.raises(OSError, match="No space left"):
            _record_two_arrays(ledger)

    assert Path(folder, "c.12").read_text() == "file 1000 abc\n"


def test_a_withdrawn_array_leaves_its_attempts_free(folder: str) -> None:
    with ledger_with_file(folder) as ledger, ledger.write_lines_at_once():
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(2, "beta", "1:1")
        ledger.withdraw_array(1)
        ledger.withdraw_array(2)

    with ledger_with_file(folder) as ledger:
        assert ledger.list_submitted_arrays() == ()
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(3, "gamma", "1:1")
        assert not ledger.may_be_submitted_twice(1)
    with ledger_with_file(folder) as ledger:
        assert [row[0] for row in ledger.list_submitted_arrays()] == ["1", "3"]


def test_an_array_recorded_twice_may_be_submitted_twice(folder: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(2, "beta", "1:1")
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
        ledger.record_job_id_of_array(1, "71")
        ledger.record_job_id_of_array(2, "72")
        ledger.record_array(2, "beta", "1:1")

    with ledger_with_file(folder) as ledger:
        assert (ledger.may_be_submitted_twice(1), ledger.may_be_submitted_twice(2)) == (True, False)
        assert ledger.list_submitted_arrays() == (("1", "beta", "0:1", "71"), ("2", "beta", "1:1", "72"))


def test_a_ledger_folder_that_other_users_can_open_is_refused(folder: str) -> None:
    Path(folder).mkdir()
    Path(folder).chmod(0o755)

    with pytest.raises(errors.RootLedgerUnreadable, match="not a folder that only its owner can open"):
        ledger_with_file(folder)


@pytest.mark.parametrize("odd", ["folder", "link", b"file 1000 \xff\n"])
def test_an_unreadable_ledger_is_reported_with_its_path(folder: str, odd: str | bytes) -> None:
    path = Path(folder) / "c.12"
    path.parent.mkdir(mode=0o700)
    if odd == "folder":
        path.mkdir()
    elif isinstance(odd, str):
        path.symlink_to("elsewhere")
    else:
        path.write_bytes(odd)

    with pytest.raises(errors.RootLedgerUnreadable, match=f"{path}: "):
        ledger_with_file(folder)


def test_arrays_with_the_same_tasks_are_found_with_their_indices(folder: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "5-9:1,2:1")
        ledger.record_job_id_of_array(1, "71")
        ledger.record_array(2, "gamma", "20-29:1")
        ledger.record_array(3, "gamma", "9:2,7:2")

        assert ledger.arrays_with_same_tasks(4, "7-8:3,2:2") == [
            (1, "beta", "71", False, [3, 4, 6]),
            (3, "gamma", "", False, [2]),
        ]
        assert ledger.arrays_with_same_tasks(3, "7:2,9:2") == [(1, "beta", "71", False, [3, 5])]
        assert ledger.arrays_with_same_tasks(4, "10-19:1") == []


def test_tasks_of_one_job_have_the_jobs_index_also_after_a_restart(folder: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1,20:2", settings=("group=4,300",))
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1,20:2", settings=("group=4,300",))

        assert ledger.list_submitted_arrays() == (("1", "beta", "0-9:1,20:2", "", "group=4,300"),)
        assert ledger.arrays_with_same_tasks(2, "3-4:2,20:3") == [(1, "beta", "", True, [1, 2, 3])]
        with pytest.raises(errors.ArrayTasksAlreadyInLedger):
            ledger.record_array(1, "beta", "0-9:1,20:2", settings=("group=5,300",))


def pulling_ledger(folder: str) -> RootLedgerOfSubmittedTasks:
    """Return a ledger with array 1, of which job 1 has tasks 0 to 3, and job 2 the tasks 4 and 5."""
    ledger = ledger_with_file(folder)
    ledger.record_array(1, "beta", "0-5:1", settings=("group=4,300,60",))
    ledger.record_array(2, "beta", "8-9:1", settings=("group=2,300",))
    for array in (1, 2):
        ledger.record_job_id_of_array(array, f"7{array}")
    return ledger


def test_further_tasks_of_a_job_have_the_jobs_index_also_after_a_restart(folder: str) -> None:
    with pulling_ledger(folder) as ledger:
        ledger.record_tasks_of_running_job(1, "beta", 2, "10-19:1,30:1")
        ledger.record_tasks_of_running_job(1, "beta", 1, "20:1")
        before = ledger.arrays_with_same_tasks(9, "3:2,19:2,30:2"), ledger.arrays_with_same_tasks(9, "20:2")
    with ledger_with_file(folder) as ledger:
        after = ledger.arrays_with_same_tasks(9, "3:2,19:2,30:2"), ledger.arrays_with_same_tasks(9, "20:2")

        assert before == after == ([(1, "beta", "71", False, [1, 2])], [(1, "beta", "71", False, [1])])
        assert ledger.list_submitted_arrays()[0][4:] == ("group=4,300,60", "more=2=10-19:1,30:1", "more=1=20:1")
        with pytest.raises(errors.ArrayTasksAlreadyInLedger):
            ledger.record_array(3, "beta", "20-29:1")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((1, "beta", 2, "3:1"), errors.ArrayTasksAlreadyInLedger),
        ((1, "beta", 2, "10:1,20:1"), errors.ArrayTasksAlreadyInLedger),
        ((1, "beta", 2, "30:2"), errors.ArrayTasksAlreadyInLedger),
        ((1, "beta", 3, "30:1"), errors.RootLedgerUnreadable),
        ((1, "beta", 0, "30:1"), errors.RootLedgerUnreadable),
        ((1, "gamma", 1, "30:1"), errors.RootLedgerUnreadable),
        ((2, "beta", 1, "30:1"), errors.RootLedgerUnreadable),
        ((3, "beta", 1, "30:1"), errors.RootLedgerUnreadable),
    ],
    ids=["submitted", "given", "second attempt", "beyond", "index 0", "elsewhere", "no pull", "unknown"],
)
def test_a_running_job_gets_only_tasks_that_were_never_sent(
    folder: str, words: tuple[int, str, int, str], error: type[Exception]
) -> None:
    with pulling_ledger(folder) as ledger:
        ledger.record_tasks_of_running_job(1, "beta", 1, "20:1")
        with pytest.raises(error):
            ledger.record_tasks_of_running_job(*words)
        ledger.record_campaign_end()
        with pytest.raises(errors.CampaignEndInRootLedger):
            ledger.record_tasks_of_running_job(1, "beta", 1, "31:1")


def test_a_submitted_task_gets_at_most_two_speculative_attempts(folder: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")
        with pytest.raises(errors.SpeculativeCopyRefusal, match="task 10 was never submitted"):
            ledger.record_array(2, "gamma", "9:2,10:2", is_of_copies=True)
        ledger.record_array(2, "gamma", "8-9:2", is_of_copies=True)
        ledger.record_job_id_of_array(2, "44")
        ledger.record_array(3, "delta", "9:3", is_of_copies=True)
        for tasks in ("9:4", "0:2,0:3,0:4"):
            with pytest.raises(errors.SpeculativeCopyRefusal, match="gets 2 copies at most"):
                ledger.record_array(4, "delta", tasks, is_of_copies=True)
        with pytest.raises(errors.ArrayTasksAlreadyInLedger):
            ledger.record_array(4, "delta", "8:2", is_of_copies=True)

        assert [ledger.count_copies_before(number).get(9, 0) for number in (2, 3, 4)] == [0, 1, 2]
        assert ledger.list_submitted_arrays()[1:] == (
            ("2", "gamma", "8-9:2", "44", "copies"),
            ("3", "delta", "9:3", "", "copies"),
        )


def test_an_array_of_speculative_attempts_is_repeated_only_as_such(folder: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
        ledger.record_array(2, "gamma", "0:2", is_of_copies=True)

    with ledger_with_file(folder) as ledger:
        ledger.record_array(2, "gamma", "0:2", is_of_copies=True)
        with pytest.raises(errors.ArrayTasksAlreadyInLedger, match="array 2 is recorded with other tasks"):
            ledger.record_array(2, "gamma", "0:2")


def test_the_ledger_keeps_the_first_settings_of_an_array(folder: str) -> None:
    """A call that repeats a submission may have other settings: the service has a restored state file."""
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0:1", settings=("ordinary", "checkpoint=70"))
        ledger.record_array(2, "beta", "0:2", True, settings=("checkpoint=30",))

    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0:1")
        assert ledger.count_copies_before() == {0: 1}
        assert ledger.list_submitted_arrays() == (
            ("1", "beta", "0:1", "", "ordinary", "checkpoint=70"),
            ("2", "beta", "0:2", "", "copies", "checkpoint=30"),
        )


def test_no_task_of_an_ended_campaign_is_submitted(folder: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_array(1, "beta", "0-9:1")
        ledger.record_campaign_end()
        ledger.record_campaign_end()

    with ledger_with_file(folder) as ledger:
        for array, tasks in ((1, "0-9:1"), (2, "0:2")):
            with pytest.raises(errors.CampaignEndInRootLedger, match="the campaign has ended"):
                ledger.record_array(array, "beta", tasks)
        with pytest.raises(errors.ArrayTasksAlreadyInLedger):
            ledger.record_array(2, "beta", "0:1")
        assert [row[0] for row in ledger.list_submitted_arrays()] == ["1"]


def test_a_request_reopens_a_campaign_once(folder: str) -> None:
    with ledger_with_file(folder) as ledger:
        ledger.record_campaign_end()
        ledger.reopen_campaign("abc")
        ledger.reopen_campaign("abc")
        ledger.record_array(1, "beta", "0:1")
        ledger.record_campaign_end()
        with pytest.raises(errors.CampaignEndInRootLedger):
            ledger.reopen_campaign("abc")
        ledger.reopen_campaign("def")
        ledger.record_array(2, "beta", "0:2")


def test_a_campaign_that_ended_before_its_first_task_stays_ended(folder: str) -> None:
    with RootLedgerOfSubmittedTasks(12, folder) as ledger:
        ledger.record_campaign_end()
        assert ledger.uid == 0

    with ledger_with_file(folder) as ledger:
        assert ledger.uid == 1000
        with pytest.raises(errors.CampaignEndInRootLedger):
            ledger.record_array(1, "beta", "0:1")
        with pytest.raises(errors.CampaignFileChanged):
            ledger.record_or_verify_campaign_file(1000, "other")


def test_a_process_that_has_lost_the_ledgers_lock_records_nothing(folder: str) -> None:
    """A file server forgets the locks of a host that was cut off: here flock's lock is given up unseen."""
    with RootLedgerOfSubmittedTasks(12, folder) as first:
        first.record_array(1, "beta", "0-9:1")
        fcntl.flock(first._end, fcntl.LOCK_UN)
        with RootLedgerOfSubmittedTasks(12, folder) as second:
            second.record_job_id_of_array(1, "77")

        with pytest.raises(OSError, match="in spite of the lock"):
            first.record_job_id_of_array(1, "78")
    with RootLedgerOfSubmittedTasks(12, folder) as third:
        assert third.job_id_of_array(1) == "77"


def test_a_deposed_masters_call_writes_nothing_to_the_ledger(folder: str) -> None:
    def deposed() -> None:
        raise errors.MasterDeposed("another master leads")

    with RootLedgerOfSubmittedTasks(12, folder, deposed) as ledger, pytest.raises(errors.MasterDeposed):
        ledger.record_array(1, "beta", "0-9:1")
    with RootLedgerOfSubmittedTasks(12, folder) as later:
        assert later.list_submitted_arrays() == ()
