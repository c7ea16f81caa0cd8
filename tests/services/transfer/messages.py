"""What a starter says of its transfer, for the tests of the service."""

from gridbridge.model.message import Kind, Message, Phase

NAME = "gb.alpha.7.0.1"
RECORD = Message(
    kind=Kind.RECORD,
    transfer=NAME,
    at="1767225600.000",
    remote="beta",
    queue="transfer-beta",
    phase=Phase.RELEASED,
    remote_id="40",
    wake="f0",
)
