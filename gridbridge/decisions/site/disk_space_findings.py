"""What the check says of the room in our folders, and of strange ones among the messages."""

from collections.abc import Iterator, Mapping

from gridbridge.decisions.disk_space import KIB, LEAST_BYTES, LEAST_FILES, lack
from gridbridge.model.places import CAMPAIGNS
from gridbridge.model.site.host_facts import FolderRoom
from gridbridge.model.site.setup_findings import CheckFinding, FindingState

OWNERS_SHOWN = 3
NO_CAMPAIGNS = "nobody can bring a campaign until then"


def findings(rooms: Mapping[str, FolderRoom]) -> Iterator[CheckFinding]:
    """Judge the room of each folder."""
    for folder, room in rooms.items():
        item = f"room in {folder}"
        if lacking := lack(folder, room):
            right = f"{LEAST_BYTES // KIB} KiB and {LEAST_FILES} files"
            until = NO_CAMPAIGNS if folder == CAMPAIGNS else "the queues are closed until then"
            hint = f"remove what fills its filesystem; {until}"
            yield CheckFinding(
                item=item, state=FindingState.BROKEN, found=lacking, right=right, hint=hint
            )
        else:
            yield CheckFinding(item=item, state=FindingState.OK, found=_shown(room))
        if room.folders:
            yield _strange(folder, room.folders)


def _strange(folder: str, folders: Mapping[str, int]) -> CheckFinding:
    """Report the folders that people have made among the messages."""
    ranked = sorted(folders.items(), key=lambda owner_count: (-owner_count[1], owner_count[0]))
    ranking = ", ".join(f"{count} of {owner}" for owner, count in ranked[:OWNERS_SHOWN])
    item, right = f"folders in {folder}", "messages alone"
    hint = "the service can't remove what is in them, and lists them in each round: root can"
    return CheckFinding(
        item=item, state=FindingState.WARNING, found=ranking, right=right, hint=hint
    )


def _shown(room: FolderRoom) -> str:
    files = "" if room.free_files is None else f", {room.free_files} files"
    return f"{(room.free_bytes or 0) // KIB // KIB} MiB{files}"
