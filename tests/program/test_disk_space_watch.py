"""A full folder is noticed and reported once, and so is the return of free space."""

import logging
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from gridbridge.config import configuration_file
from gridbridge.decisions.site.service_fault_findings import first_full_folder_reason
from gridbridge.model.site.site_check_facts import FolderFreeSpace
from gridbridge.program import service_disk_space, status_and_why_reports
from gridbridge.program.threads_and_backoff import OwnerThreadPools
from gridbridge.shell import local_host_facts
from gridbridge.site import site_inspection
from tests.builders.configurations import queue_text, site_text
from tests.builders.mounts import memory_mounted
from tests.builders.programs import write_program
from tests.contract.waiting import until


def test_an_unwritable_folder_is_logged_once_and_so_is_its_recovery(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    time, folder = SimpleNamespace(now_s=1000.0), tmp_path / "spool"
    watch = service_disk_space.FullServiceFolderWatch((str(tmp_path), str(folder)), lambda: time.now_s)
    told = []
    for change in (lambda: None, lambda: None, folder.mkdir, lambda: None, folder.rmdir):
        change()
        told.append(watch.full_folder())
        time.now_s += service_disk_space.LOOK_S

    lacking = f"nothing can be written to {folder}: No such file or directory"
    assert told == [lacking, lacking, "", "", lacking]
    events = [re.sub(r" why=.*", "", line) for line in caplog.messages]
    assert events == ["event=full", "event=room_again", "event=full"]


def test_folders_are_checked_at_intervals_and_left_clean(tmp_path: Path) -> None:
    time = SimpleNamespace(now_s=1000.0)
    watch = service_disk_space.FullServiceFolderWatch((str(tmp_path),), lambda: time.now_s)
    before = watch.full_folder()
    tmp_path.chmod(0o755)
    os.rename(tmp_path, f"{tmp_path}.away")
    time.now_s += service_disk_space.LOOK_S - 1
    soon = watch.full_folder()
    time.now_s += 1
    later = watch.full_folder()
    os.rename(f"{tmp_path}.away", tmp_path)

    assert (before, soon, bool(later), os.listdir(tmp_path)) == ("", "", True, [])


def test_free_space_of_a_folder_is_measured(tmp_path: Path) -> None:
    seen = local_host_facts.free_bytes_and_files_of_folder(str(tmp_path))

    assert seen.free_bytes > 0
    assert seen.free_files is None or seen.free_files > 0
    assert local_host_facts.free_bytes_and_files_of_folder(f"{tmp_path}/none").trouble == "No such file or directory"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_full_tmpdir_of_starters_closes_the_queues(tmp_path: Path) -> None:
    """A missing TMPDIR is execd's problem, and closes no queue."""
    folder, time = tmp_path / "tmp", SimpleNamespace(now_s=1000.0)
    folder.mkdir()
    watch = service_disk_space.FullServiceFolderWatch(
        (str(tmp_path),), lambda: time.now_s, lambda: (str(folder), str(tmp_path / "none"))
    )
    before = watch.full_folder()
    with memory_mounted(folder, "size=64k"):
        time.now_s += service_disk_space.LOOK_S
        full = watch.full_folder()
    time.now_s += service_disk_space.LOOK_S

    assert (before, full) == ("", f"{folder} is full: 64 KiB are free, 1024 are needed")
    assert watch.full_folder() == ""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_full_campaign_filesystem_is_reported_by_check_and_status(tmp_path: Path) -> None:
    """A campaigns folder inside the spool is no filesystem of its own."""
    folder = tmp_path / "campaigns"
    folder.mkdir()

    def reported() -> tuple[dict[str, FolderFreeSpace], str]:
        status = status_and_why_reports.build_site_status_report(
            datetime.now(UTC), str(tmp_path), campaigns=str(folder)
        )
        return site_inspection.free_space_of_state_folders(str(folder)), status.alarm

    before = reported()
    with memory_mounted(folder, "size=64k"):
        seen, alarm = reported()

    full = f"{folder} is full: 64 KiB are free, 1024 are needed"
    assert str(folder) not in before[0]
    assert full not in before[1]
    assert first_full_folder_reason({str(folder): seen[str(folder)]}) == full
    assert full in alarm


QCONF = """#!/bin/sh
case $* in "-sq transfer-beta") printf 'qname transfer-beta\\ntmpdir /var/tmp/sge\\n' ;; esac
"""


def test_the_tmpdirs_of_transfer_queues_are_queried_at_home(tmp_path: Path) -> None:
    write_program(tmp_path / "qconf", QCONF)
    text = site_text("alpha", "beta", binaries=str(tmp_path)) + queue_text("beta")
    policy = configuration_file.parse_configuration("gridbridge.toml", text.encode())
    workers = OwnerThreadPools()
    tmpdirs = service_disk_space.StarterTmpdirQuery(policy, workers, lambda: 0.0)

    assert until(tmpdirs.queried_tmpdir_folders, "the answer") == {"/var/tmp/sge"}
    workers.shut_down_threads()
