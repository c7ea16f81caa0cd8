"""Free space of gridbridge's folders, which receive messages as files."""

from collections.abc import Iterator, Mapping

from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity
from gridbridge.model.site.transfer_host_facts import FolderFreeSpace

MIN_FREE_BYTES = 1 << 20  # 256 messages of the largest size
MIN_FREE_FILES = 256
KIB = 1024


def why_folder_takes_no_files(folder: str, room: FolderFreeSpace) -> str:
    """Say why a folder accepts no more files; empty if it does."""
    if room.free_bytes is not None and room.free_bytes < MIN_FREE_BYTES:
        figures = f"{room.free_bytes // KIB} KiB are free, {MIN_FREE_BYTES // KIB} are needed"
        return f"{folder} is full: {figures}"
    if room.free_files is not None and room.free_files < MIN_FREE_FILES:
        return f"{folder} is full: {room.free_files} files are free, {MIN_FREE_FILES} are needed"
    return f"nothing can be written to {folder}: {room.trouble}" if room.trouble else ""


def why_a_folder_takes_no_files(rooms: Mapping[str, FolderFreeSpace]) -> str:
    """Say why the first full folder accepts no more files; empty if no folder is full."""
    return next(filter(None, (why_folder_takes_no_files(folder, room) for folder, room in rooms.items())), "")


OWNERS_SHOWN = 3
NO_CAMPAIGNS = "no campaign can be submitted until then"


def disk_space_findings(rooms: Mapping[str, FolderFreeSpace]) -> Iterator[CheckFinding]:
    """Check the free bytes and inodes of each folder, and report alien folders."""
    for folder, room in rooms.items():
        item = f"room in {folder}"
        if lacking := why_folder_takes_no_files(folder, room):
            right = f"{MIN_FREE_BYTES // KIB} KiB and {MIN_FREE_FILES} files"
            until = NO_CAMPAIGNS if folder == CAMPAIGNS else "the queues are closed until then"
            hint = f"remove what fills its filesystem; {until}"
            yield CheckFinding(item=item, state=FindingSeverity.BROKEN, found=lacking, right=right, hint=hint)
        else:
            yield CheckFinding(item=item, state=FindingSeverity.OK, found=_shown(room))
        if room.folders:
            yield _strange(folder, room.folders)


def _strange(folder: str, folders: Mapping[str, int]) -> CheckFinding:
    """Report folders that users made in a folder for messages."""
    ranked = sorted(folders.items(), key=lambda owner_count: (-owner_count[1], owner_count[0]))
    ranking = ", ".join(f"{count} of {owner}" for owner, count in ranked[:OWNERS_SHOWN])
    item, right = f"folders in {folder}", "messages alone"
    hint = "only root can remove these folders; the service lists the folders in each round"
    return CheckFinding(item=item, state=FindingSeverity.WARNING, found=ranking, right=right, hint=hint)


def _shown(room: FolderFreeSpace) -> str:
    files = "" if room.free_files is None else f", {room.free_files} files"
    return f"{(room.free_bytes or 0) // KIB // KIB} MiB{files}"
