"""`gridbridge setup order`: sets the sequence numbers (seq_no) of transfer queues."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.decisions.site import transfer_queue_order
from gridbridge.errors import StateError
from gridbridge.model.fixed_paths import ORDERED, PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.published import PublishedClusterAnswer
from gridbridge.model.qconf_attributes import QconfSettings
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    FindingSeverity,
    SetupEdit,
    SetupEditVerb,
    SharedSettingUndo,
)
from gridbridge.model.site.site_section import QueueOrder, RenumberedTransferQueue, TransferQueueWithClusterLoad
from gridbridge.shell.clock import Clock
from gridbridge.site import queue_setup
from gridbridge.site import setup_edits as changes
from gridbridge.site.queue_setup import SetupStep
from gridbridge.site.transfer_queue_request import home_queue_setup_adapter
from gridbridge.state import published_json

ATTRIBUTE = "seq_no"


def plan_queue_sequence_numbers(
    policy: Policy, folder: str = PUBLISHED, former: str = ORDERED
) -> tuple[SetupStep, ...]:
    """Return the steps that change sequence numbers, with a reason for each queue's number."""
    order = policy.site.queue_order
    queue_offers = queues_with_cluster_load(policy, folder)
    if order is QueueOrder.SEQ_NO:
        changed = transfer_queue_order.plan_queue_number_restore(queue_offers, _former(former))
    else:
        changed = transfer_queue_order.plan_queue_renumbering(queue_offers, order)
    return queue_setup.setup_steps_of_findings(policy, (_finding(policy, change) for change in changed))


def check_queue_order(
    policy: Policy, queues: Mapping[str, QconfSettings], folder: str = PUBLISHED, former: str = ORDERED
) -> Iterator[CheckFinding]:
    """Check whether the configured order is set up; a single queue has no order.

    Only root can read the queues' original numbers.
    """
    queue_offers = tuple(_offers(policy, queues, folder))
    with suppress(OSError, StateError):
        if len(queue_offers) > 1:
            yield transfer_queue_order.queue_order_finding(queue_offers, policy.site.queue_order, _former(former))


def _former(path: str) -> dict[str, int]:
    """Return the queues' original numbers, from before any set-up."""
    return {change.undo.name: int(change.undo.value) for change in changes.read_former_settings(path)}


def apply_queue_sequence_numbers(
    steps: Sequence[SetupStep], policy: Policy, report: Callable[[SetupStep], None], former: str = ORDERED
) -> None:
    """Apply the steps; original numbers are recorded until they are restored."""
    is_back = policy.site.queue_order is QueueOrder.SEQ_NO
    if not is_back:
        changes.record_former_settings(tuple(undo for step in steps for undo in step.undo), former)
    plain = [queue_setup.setup_step_without_undo(step) for step in steps]
    queue_setup.apply_setup_steps(plain, policy, report)
    if is_back:
        changes.delete_former_settings(former)


def queues_with_cluster_load(policy: Policy, folder: str = PUBLISHED) -> tuple[TransferQueueWithClusterLoad, ...]:
    """Return the existing transfer queues with their clusters' last answers to the service.

    CommandFailed if home does not answer.
    """
    home = configured_cluster_address(policy, policy.site.cluster)
    return tuple(_offers(policy, home_queue_setup_adapter(home).query_queue_settings(home), folder))


def _offers(
    policy: Policy, queues: Mapping[str, QconfSettings], folder: str = PUBLISHED
) -> Iterator[TransferQueueWithClusterLoad]:
    """Yield the configured transfer queues that exist in the home cell."""
    heard = {cluster.cluster: cluster for cluster in published_json.read_published_cluster_status(folder)}
    stale = timedelta(seconds=2 * policy.poller.stale_s)
    now = Clock().now()
    for name, queue in sorted(policy.queues.items()):
        if name in queues:
            number = queues[name].get(ATTRIBUTE, "")
            yield _offer(policy, name, number, heard.get(queue.cluster), now - stale)


def _offer(
    policy: Policy, name: str, number: str, published: PublishedClusterAnswer | None, since: datetime
) -> TransferQueueWithClusterLoad:
    cluster = policy.queues[name].cluster
    taken_at = published.taken_at if published else None
    return TransferQueueWithClusterLoad(
        queue=name,
        cluster=cluster,
        seq_no=int(number) if number.isdigit() else None,
        is_heard=taken_at is not None and taken_at >= since,
        pending=(published.pending or 0) if published else 0,
        free_slots=(published.free_slots or 0) if published else 0,
        slots=(published.slots or 0) if published else 0,
        cost=policy.clusters[cluster].cost,
    )


def _finding(policy: Policy, change: RenumberedTransferQueue) -> CheckFinding:
    edit, undo = (_edit(policy, change.queue, number) for number in (change.after, change.before))
    return CheckFinding(
        item=f"queue {change.queue}",
        state=FindingSeverity.BROKEN,
        found=f"{ATTRIBUTE} {change.before}",
        right=f"{ATTRIBUTE} {change.after} ({change.why})",
        mend=(edit,),
        undo=(SharedSettingUndo(done=edit, undo=undo),),
    )


def _edit(policy: Policy, queue: str, number: int) -> SetupEdit:
    return SetupEdit(
        verb=SetupEditVerb.REPLACE,
        cell=policy.site.cluster,
        kind="queue",
        name=queue,
        attribute=ATTRIBUTE,
        value=str(number),
    )
