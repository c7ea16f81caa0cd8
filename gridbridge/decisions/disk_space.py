"""Whether a folder of ours takes more files: without room nobody can tell the service anything."""

from collections.abc import Mapping

from gridbridge.model.site.host_facts import FolderRoom

LEAST_BYTES = 1 << 20  # 256 messages of the largest size
LEAST_FILES = 256
KIB = 1024


def lack(folder: str, room: FolderRoom) -> str:
    """Say what a folder has too little of; empty when it takes more files."""
    if room.free_bytes is not None and room.free_bytes < LEAST_BYTES:
        figures = f"{room.free_bytes // KIB} KiB are free, {LEAST_BYTES // KIB} are needed"
        return f"{folder} is full: {figures}"
    if room.free_files is not None and room.free_files < LEAST_FILES:
        return f"{folder} is full: {room.free_files} files are free, {LEAST_FILES} are needed"
    return f"nothing can be written to {folder}: {room.trouble}" if room.trouble else ""


def lacks(rooms: Mapping[str, FolderRoom]) -> str:
    """Say what the first full one of our folders has too little of."""
    return next(filter(None, (lack(folder, room) for folder, room in rooms.items())), "")
