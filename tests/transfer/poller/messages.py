"""A starter's messages, a configuration, and threads that need none, for tests of the poller."""

import pwd
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from gridbridge.errors import GridbridgeError
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer_messages_in_spool import StarterPhase, TransferMessage, TransferMessageKind
from tests.builders.campaigns import made_policy

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


def policy_to_beta(**other: Any) -> Policy:
    """Return the configuration of alpha with a transfer queue to beta."""
    cluster = ClusterSection(qmaster_port=1, execd_port=2)
    queue = TransferQueueSection(cluster="beta", pending_limit=1, slots=1)
    sections = {"clusters": {"alpha": cluster, "beta": cluster}, "queues": {"transfer-beta": queue}}
    return made_policy(**sections | other)


class CallsAtOnce:
    """Threads of owners, where each call has ended before its future is returned."""

    def run_call_in_thread(self, _owner: str, act: Callable[..., Any], *words: object) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(act(*words))
        except GridbridgeError as error:
            future.set_exception(error)
        return future


def without_account(count: int) -> list[int]:
    """Return uids without an account, whose owner is shown as a number."""
    taken = {account.pw_uid for account in pwd.getpwall()}
    return [uid for uid in range(1001, 60_000) if uid not in taken][:count]
