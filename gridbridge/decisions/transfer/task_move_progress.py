"""How far a task that is moved from a remote cluster has come, and whether it still can be."""

from datetime import timedelta

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.situation import TransferSituation, row_at_home
from gridbridge.model.message import DesiredJobState
from gridbridge.model.transfer.transfer_row import Transfer

LATEST = timedelta(seconds=120)  # what was not begun by then is looked at anew
KEPT_OFF = timedelta(seconds=600)  # a task that starts nowhere by then may go back


def why_not(transfer: Transfer, situation: TransferSituation) -> str:
    """Say why a task is not moved any more, whatever comes; empty where it may be."""
    if transfer.is_over or transfer.verdict:
        return "it has ended there"
    if transfer.desired not in ("", DesiredJobState.RUNNING):
        return f"it is to be {transfer.desired}"
    row = situation.row(transfer)
    if row is not None and row.state.has_begun:
        return "it has started there"
    return ""


def is_ready(transfer: Transfer, situation: TransferSituation) -> bool:
    """Say whether its starter can bring it home now."""
    return recall_policy.still_waits(transfer, situation)


def is_listed(transfer: Transfer, situation: TransferSituation) -> bool:
    """Say whether home lists its task."""
    return situation.at_home(transfer) is not None


def ended_at_home(transfer: Transfer, situation: TransferSituation) -> str:
    """Say what became of a task that came home and was not sent on; empty while it waits."""
    local = situation.snapshots.get(situation.home)
    if local is None or transfer.closed_at is None or local.taken_at <= transfer.closed_at:
        return ""
    row = row_at_home(transfer, local)
    if row is None:
        return "it has ended here"
    if row.state.is_running and row.queue.partition("@")[0] not in situation.queues:
        return "it runs here"
    if situation.now - transfer.closed_at > KEPT_OFF:
        return f"nothing took it within {KEPT_OFF.total_seconds():g} s: it may go back"
    return ""
