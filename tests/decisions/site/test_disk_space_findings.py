"""Findings about folders without free bytes or files."""

import pytest

from gridbridge.decisions.site.service_fault_findings import (
    disk_space_findings,
    first_full_folder_reason,
    full_folder_reason,
)
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_check_facts import FolderFreeSpace

SPOOL = "/var/spool/gridbridge"
WIDE = FolderFreeSpace(free_bytes=5 << 20, free_files=9000)


def test_user_made_folders_are_reported_by_owner() -> None:
    room = FolderFreeSpace(free_bytes=1 << 30, folders={"bob": 100_000, "al": 2, "cy": 2, "uid 9": 1})
    found = {one.item: (one.state, one.found) for one in disk_space_findings({SPOOL: room})}

    told = (FindingSeverity.WARNING, "100000 of bob, 2 of al, 2 of cy")
    assert found[f"folders in {SPOOL}"] == told


@pytest.mark.parametrize(
    ("room", "told"),
    [
        pytest.param(WIDE, "", id="wide"),
        pytest.param(FolderFreeSpace(free_bytes=1 << 20, free_files=256), "", id="just enough"),
        pytest.param(FolderFreeSpace(free_bytes=1 << 30), "", id="files are not counted"),
        pytest.param(
            FolderFreeSpace(free_bytes=(1 << 20) - 1, trouble="No space left on device"),
            f"{SPOOL} is full: 1023 KiB are free, 1024 are needed",
            id="bytes",
        ),
        pytest.param(
            FolderFreeSpace(free_bytes=1 << 30, free_files=255),
            f"{SPOOL} is full: 255 files are free, 256 are needed",
            id="files",
        ),
        pytest.param(
            FolderFreeSpace(trouble="Disk quota exceeded"),
            f"nothing can be written to {SPOOL}: Disk quota exceeded",
            id="tried in vain",
        ),
    ],
)
def test_a_folder_without_bytes_files_or_write_access_is_broken(room: FolderFreeSpace, told: str) -> None:
    [finding] = disk_space_findings({SPOOL: room})

    assert full_folder_reason(SPOOL, room) == first_full_folder_reason({"/wide": WIDE, SPOOL: room}) == told
    assert finding.item == f"room in {SPOOL}"
    assert (finding.state, finding.found) == (
        (FindingSeverity.BROKEN, told) if told else (FindingSeverity.OK, finding.found)
    )


@pytest.mark.parametrize(
    ("folder", "until"), [(SPOOL, "the queues are closed"), (f"{SPOOL}/campaigns", "no campaign can be submitted")]
)
def test_the_hint_of_a_full_folder_names_the_consequence(folder: str, until: str) -> None:
    [finding] = disk_space_findings({folder: FolderFreeSpace(free_bytes=0)})

    assert finding.hint == f"remove files from the folder's filesystem; {until} until then"


def test_free_space_is_shown_in_mib_and_files() -> None:
    [counted], [uncounted] = (
        disk_space_findings({"/a": WIDE}),
        disk_space_findings({"/a": FolderFreeSpace(free_bytes=3 << 20)}),
    )

    assert (counted.found, uncounted.found) == ("5 MiB, 9000 files", "3 MiB")
