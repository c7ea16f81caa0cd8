"""The root epilog's work: the remote usage goes into the shepherd's file, nothing else does."""

import os
import pwd
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.methods.usage import record
from gridbridge.model.accounting import RemoteRecord, Source
from gridbridge.model.shown import ShownUsage
from gridbridge.state import published, shown

ME = pwd.getpwuid(os.getuid())
USAGE = """wait_status=1
exit_status=3
ru_wallclock=62
ru_utime=0.041
ru_stime=0.031
ru_maxrss=9117
ru_minflt=610
"""


class Job:
    """Execd's folder of a job of ours that began just now, and what the service published."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "12.1"
        self.folder.mkdir()
        self.shown = str(folder / "published")
        config = f"job_owner={ME.pw_name}\njob_id=12\nja_task_id=1\njob_is_array=0\n"
        (self.folder / "config").write_text(config)
        (self.folder / "usage").write_text(USAGE)

    def publish(self, **values: object) -> None:
        """Show the end of its remote job."""
        known = {
            "transfer": "gb.alpha.12.0.1",
            "cluster": "beta",
            "source": Source.MESSAGE,
            "mark": str(ME.pw_uid),
            "job_id": 34,
            "owner": ME.pw_name,
            "ended_at": datetime.now(UTC),
            "wallclock_s": 60.0,
            "user_s": 77.5,
            "system_s": 1.25,
        }
        path = Path(published.accounting_path(12, 0, self.shown))
        path.parent.mkdir(parents=True, exist_ok=True)
        row = RemoteRecord(**(known | values))  # type: ignore[arg-type]  # the tests' own words
        path.write_bytes(shown.encode(ShownUsage(job="12", records=(row,))))

    def record(self) -> str:
        """Run the epilog's work and return the file as execd will read it."""
        record(str(self.folder), self.shown, service=str(self.folder))
        return (self.folder / "usage").read_text()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_the_remote_figures_take_the_place_of_the_starters(job: Job) -> None:
    job.publish(max_rss_kb=204800.0)

    assert job.record() == (
        "wait_status=1\nexit_status=3\nru_wallclock=60\nru_utime=77.5\nru_stime=1.25\n"
        "ru_maxrss=204800\nru_minflt=610\n"
    )


def test_what_nobody_told_stays(job: Job) -> None:
    job.publish()

    assert "ru_maxrss=9117\n" in job.record()


@pytest.mark.parametrize(
    "values",
    [{"mark": "4711"}, {"ended_at": datetime.now(UTC) - timedelta(hours=1)}],
    ids=["another's", "of an earlier attempt"],
)
def test_no_other_end_is_taken_for_this_jobs(job: Job, values: dict[str, object]) -> None:
    job.publish(**values)

    assert job.record() == USAGE


def test_a_job_without_a_remote_end_keeps_its_own_usage(job: Job) -> None:
    assert job.record() == USAGE


def test_a_file_that_others_may_write_is_not_believed(job: Job) -> None:
    job.publish()
    Path(published.accounting_path(12, 0, job.shown)).chmod(0o666)

    with pytest.raises(GridbridgeError, match="others may write it"):
        job.record()
    assert (job.folder / "usage").read_text() == USAGE


def test_a_link_in_the_place_of_the_usage_is_not_followed(job: Job, tmp_path: Path) -> None:
    job.publish()
    (tmp_path / "victim").write_text(USAGE)
    (job.folder / "usage").unlink()
    (job.folder / "usage").symlink_to(tmp_path / "victim")

    with pytest.raises(OSError, match="symbolic"):
        job.record()
    assert (tmp_path / "victim").read_text() == USAGE
