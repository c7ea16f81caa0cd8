"""Spool messages survive encoding and decoding; malformed messages are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.errors import ParseError
from gridbridge.model.transfer_messages_in_spool import (
    MAX_BYTES,
    TransferMessage,
    TransferMessageKind,
    decode_transfer_message,
    encode_transfer_message,
)

# What os.environ and decoded file names hold: any text, bytes that are not UTF-8 as surrogates.
ANY_TEXT = st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@given(ANY_TEXT, ANY_TEXT)
def test_a_spool_message_survives_encoding_and_decoding(reason: str, host: str) -> None:
    message = TransferMessage(kind=TransferMessageKind.ENDED, reason=reason, host=host)

    assert decode_transfer_message(encode_transfer_message(message)) == message


def test_a_spool_message_consists_of_lines_that_sh_can_write() -> None:
    message = TransferMessage(kind=TransferMessageKind.ENDED, transfer="gb.alpha.1.0.1", reason="50% of\nit")

    assert encode_transfer_message(message) == b"kind=ended\ntransfer=gb.alpha.1.0.1\nreason=50%25 of%0Ait\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"kind=record",
        b"kind\n",
        b"colour=red\n",
        b"kind=record\nkind=ended\n",
        b"reason=%zz\n",
        b"reason=%\n",
        b"reason=" + b"x" * MAX_BYTES + b"\n",
    ],
    ids=["empty", "cut", "no value", "unknown key", "twice", "not hex", "bare %", "too long"],
)
def test_a_malformed_spool_message_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        decode_transfer_message(data)


def test_a_changed_message_copy_leaves_the_original_unchanged() -> None:
    message = TransferMessage(kind=TransferMessageKind.RECORD, phase="held")

    assert message.with_changes(phase="released") == TransferMessage(kind=TransferMessageKind.RECORD, phase="released")
    assert message.phase == "held"
