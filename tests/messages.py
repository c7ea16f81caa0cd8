"""Reads messages that a shell has written into a spool."""

from gridbridge.model.transfer_messages_in_spool import TransferMessage, decode_transfer_message


def decode_in_place(data: bytes) -> TransferMessage:
    """Read a message at its final place: an empty line ends it."""
    assert data.endswith(b"\n\n"), data
    return decode_transfer_message(data[:-1])
