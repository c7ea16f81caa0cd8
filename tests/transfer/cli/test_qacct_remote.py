"""qacct_remote joins local accounting, published usage and readable accounting files."""

import os
import pwd
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gridbridge.model import published_status_and_reports as reports
from gridbridge.model.jobs_and_accounting import RemoteJobRunAccounting, RemoteUsageSource
from gridbridge.state import published_file_formats
from gridbridge.state import published_json as files
from gridbridge.transfer import remote_usage_and_cursor_rows
from gridbridge.transfer.cli.qacct_remote import (
    ANYBODY,
    NoAccountedJob,
    read_accounting_of_named_jobs,
    read_home_remote_accounting,
    sum_remote_usage,
)
from gridbridge.transfer.cli.remote_tool_arguments import UsageChoice
from tests.builders.golden import CAPTURED
from tests.builders.programs import write_program
from tests.shown import NOW, ago, history, publish, shown, transfer
from tests.transfer.cli.test_remote_tools import CONFIG, REMOTE

ENDED = transfer(transfer="gb.alpha.2.0.1", closed_at=ago(5), remote_id=34)
OURS = replace(REMOTE, transfer="gb.alpha.2.0.1")


class Here:
    def __init__(self, folder: Path) -> None:
        binaries = folder / "bin"
        binaries.mkdir()
        found = f'[ "$2" = 2 ] && exec cat "{CAPTURED}/qacct-ok.txt"'
        write_program(binaries / "qacct", f'#!/bin/sh\n{found}\necho "error: job id $2 not found" >&2\nexit 1\n')
        self.accounting = folder / "accounting"
        self.config = folder / "gridbridge.toml"
        beta = f'[cluster.beta]\naccounting = "{self.accounting}"\n'
        self.config.write_text(CONFIG.replace("/nonexistent", str(binaries)).replace("[cluster.beta]\n", beta))
        (folder / "published").mkdir()
        self.folder = str(folder / "published")

    def publish(self, *records: RemoteJobRunAccounting, job: int = 2, trouble: str = "") -> None:
        """Publish a job's usage records, and the progress of reading beta's accounting."""
        path = Path(published_file_formats.remote_usage_path(job, 0, self.folder))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files.encode_published_value(reports.PublishedRemoteUsage(job=str(job), records=records)))
        reading = reports.PublishedAccountingProgress(cluster="beta", path="/a", read_at=ago(60), trouble=trouble)
        data = files.encode_published_value(reports.PublishedAccountingPositions(readings=(reading,)))
        Path(self.folder, remote_usage_and_cursor_rows.ACCOUNTING_PROGRESS_FILE).write_bytes(data)

    def account(self, job: str = "2") -> tuple[object, ...]:
        """Return owner and id of each local and each remote record, and the notes."""
        (told,), notes = read_home_remote_accounting(job, NOW, self.folder, str(self.config))
        local = [(one.owner, one.job_id) for one in told.local]
        return local, [(one.owner, one.job_id) for one in told.remote], notes


@pytest.fixture
def here(tmp_path: Path) -> Here:
    here = Here(tmp_path)
    publish(Path(here.folder), shown())
    return here


MESSAGE = replace(OURS, source=RemoteUsageSource.MESSAGE, mark="1001", failed=None)
RETRY = replace(OURS, transfer="gb.alpha.2.0.2", mark="01", job_id=35)


@pytest.mark.parametrize(
    ("records", "jobs", "notes"),
    [
        ([OURS], [34], ()),
        ([replace(OURS, failed=25), replace(OURS, mark="02"), RETRY], [34, 34, 35], ()),
        ([MESSAGE], [34], ()),
        ([MESSAGE, OURS], [34], ()),
        ([OURS, replace(OURS, mark="01", owner="bob")], [34], ("job 2: other owners' records left out: 1",)),
    ],
    ids=["a run", "every attempt and run", "an end message", "accounting replaces the message", "another owner's"],
)
def test_qacct_remote_shows_the_local_record_and_each_remote_run_of_the_owner(
    here: Here, records: list[RemoteJobRunAccounting], jobs: list[int], notes: tuple[str, ...]
) -> None:
    here.publish(*records)

    assert here.account() == ([("alice", 2)], [("alice", job) for job in jobs], notes)


@pytest.mark.parametrize("job", ["2", "7"])
def test_records_of_other_owners_in_the_accounting_file_are_not_shown(here: Here, job: str) -> None:
    line = next(line for line in (CAPTURED / "accounting.txt").read_text().splitlines() if ":gb." in line)
    theirs = line.replace("gb.alpha.7.0.1", f"gb.alpha.{job}.0.1").replace("alice:", "bob:")
    here.accounting.write_text(f"{theirs}\n")

    with pytest.raises(NoAccountedJob):
        here.account(job)


def test_the_caller_sees_usage_of_an_own_job_without_local_accounting(here: Here) -> None:
    line = next(line for line in (CAPTURED / "accounting.txt").read_text().splitlines() if ":gb." in line)
    me = pwd.getpwuid(os.getuid()).pw_name
    here.accounting.write_text(line.replace("alice:", f"{me}:") + "\n")

    assert here.account("7")[1] == [(me, 2)]


def test_each_run_in_the_accounting_file_is_shown_once(here: Here) -> None:
    """Anybody may submit with `-A gb.alpha.2.junk`; a rotated file is read from its beginning."""
    line = next(line for line in (CAPTURED / "accounting.txt").read_text().splitlines() if ":gb." in line)
    ours = line.replace("gb.alpha.7.0.1", "gb.alpha.2.0.1")
    theirs = line.replace("gb.alpha.7.0.1", "gb.alpha.2.junk")
    here.accounting.write_text(f"{theirs}\n{ours}\n{ours}\n")

    local, remote, notes = here.account()

    assert (local, remote) == ([("alice", 2)], [("alice", 2)])
    assert f"found in {here.accounting}; the service does not know the job" in notes


def test_a_note_names_the_cluster_without_readable_accounting(here: Here) -> None:
    publish(Path(here.folder), shown(), history(ENDED))

    assert here.account()[2] == (
        "beta's accounting is not readable here ([cluster.beta] accounting): only end messages are shown",
    )


def test_a_note_names_the_age_of_an_accounting_file_that_is_unreadable_now(here: Here) -> None:
    here.publish(OURS, trouble="/a: Stale file handle")

    assert here.account()[2] == ("beta's accounting was last read 60 s ago: /a: Stale file handle",)


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ("2", "job 2: no transfer is known; qacct -j shows the local usage"),
        ("3", "job 3: no accounting record, at home or away"),
        ("2.1", "job 2.1: no transfer is known"),
    ],
)
def test_a_job_without_transfer_and_usage_is_an_error(here: Here, job: str, told: str) -> None:
    with pytest.raises(NoAccountedJob, match=told):
        here.account(job)


def test_usage_totals_are_per_owner_and_cluster_and_limited_to_recent_days(here: Here) -> None:
    old = replace(OURS, mark="01", job_id=33, ended_at=NOW - timedelta(days=9), failed=25)
    here.publish(old, OURS)
    here.publish(replace(OURS, transfer="gb.alpha.3.0.1", owner="bob", user_s=1), job=3)

    everybody, _ = sum_remote_usage(ANYBODY, None, NOW, here.folder, str(here.config))
    recent, _ = sum_remote_usage("alice", 7, NOW, here.folder, str(here.config))
    nobody, _ = sum_remote_usage("carol", None, NOW, here.folder, str(here.config))

    assert [(one.owner, one.jobs, one.user_s) for one in everybody] == [("alice", 2, 100), ("bob", 1, 1)]
    assert [(one.jobs, one.wallclock_s, one.max_rss_kb) for one in recent] == [(1, 56, 204800)]
    assert nobody == ()


def test_usage_is_summed_by_remote_queue_and_in_a_period(here: Here) -> None:
    runs = (replace(OURS, queue="all.q", started_at=ago(60)), replace(RETRY, queue="long.q", started_at=ago(7200)))
    here.publish(*runs)

    def summed(**choice: Any) -> list[tuple[str, int]]:
        rows, _ = sum_remote_usage(ANYBODY, None, NOW, here.folder, str(here.config), UsageChoice(**choice))
        return [(row.queue, row.jobs) for row in rows]

    assert summed() == [("", 2)]
    assert summed(queue="") == [("all.q", 1), ("long.q", 1)]
    assert summed(queue="l*") == [("long.q", 1)]
    assert summed(begin=ago(3600)) == [("", 1)]
    assert summed(end=ago(3600), queue="all.*") == []


def test_jobs_are_found_by_name_in_home_accounting_and_among_open_transfers(here: Here) -> None:
    here.publish(OURS)
    write_program(
        here.config.parent / "bin" / "qacct",
        (here.config.parent / "bin" / "qacct").read_text().replace('[ "$2" = 2 ]', '[ "$2" = 2 ] || [ "$2" = "fit*" ]'),
    )
    named = transfer(transfer="gb.alpha.7.0.1", name="render")
    publish(Path(here.folder), shown(named), history(named))
    here.publish(OURS)

    def jobs(name: str) -> list[str]:
        tasks, _ = read_accounting_of_named_jobs(name, NOW, here.folder, str(here.config))
        return [task.job for task in tasks]

    assert jobs("render") == ["7"]
    assert jobs("fit*") == ["2"]
    with pytest.raises(NoAccountedJob, match="job name 'dock': no transfer is known"):
        jobs("dock")
