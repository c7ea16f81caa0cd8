"""Reads messages that a shell has written into a spool."""

from gridbridge.model.transfer_messages_in_spool import TransferMessage, decode_transfer_message


def decode_in_place(data: bytes) -> TransferMessage:
    """Decode a message that was written in place: an empty line ends the message."""
    assert data.endswith(b"\n\n"), data
    return decode_transfer_message(data[:-1])
