"""Messages of a starter, for tests of the poller."""

import pwd

from gridbridge.model.transfer_messages_in_spool import StarterPhase, TransferMessage, TransferMessageKind

NAME = "gb.alpha.7.0.1"
RECORD = TransferMessage(
    kind=TransferMessageKind.RECORD,
    transfer=NAME,
    at="1767225600.000",
    remote="beta",
    queue="transfer-beta",
    phase=StarterPhase.RELEASED,
    remote_id="40",
    wake="f0",
)


def without_account(count: int) -> list[int]:
    """Return uids without an account, whose owner is shown as a number."""
    taken = {account.pw_uid for account in pwd.getpwall()}
    return [uid for uid in range(1001, 60_000) if uid not in taken][:count]
