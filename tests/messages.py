"""Reading what a shell has written into a spool."""

from gridbridge.model.message import StarterMessage, decode_message


def decode_in_place(data: bytes) -> StarterMessage:
    """Read a message that was written where it stays: an empty line ends it."""
    assert data.endswith(b"\n\n"), data
    return decode_message(data[:-1])
