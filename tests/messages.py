"""Reading what a shell has written into a spool."""

from gridbridge.model.message import Message, decode


def decode_in_place(data: bytes) -> Message:
    """Read a message that was written where it stays: an empty line ends it."""
    assert data.endswith(b"\n\n"), data
    return decode(data[:-1])
