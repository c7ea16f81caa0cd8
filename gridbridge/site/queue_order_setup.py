"""gridbridge setup order: gives transfer queues the numbers by which the scheduler tries them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from gridbridge.batch.clusters import away
from gridbridge.decisions.site import queue_order_rules
from gridbridge.errors import StateError
from gridbridge.model.attributes import Settings
from gridbridge.model.places import ORDERED, PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.published import ShownCluster
from gridbridge.model.site.queue_order import QueueOffer, RenumberedQueue
from gridbridge.model.site.setup_findings import (
    CheckFinding,
    EditVerb,
    FindingState,
    SetupEdit,
    SharedSettingUndo,
)
from gridbridge.model.site.site_section import QueueOrder
from gridbridge.shell.clock import Clock
from gridbridge.site import queue_setup
from gridbridge.site import setup_edits as changes
from gridbridge.site.queue_request import makes_queues
from gridbridge.site.queue_setup import SetupStep
from gridbridge.state import published_json

ATTRIBUTE = "seq_no"


def steps(policy: Policy, folder: str = PUBLISHED, former: str = ORDERED) -> tuple[SetupStep, ...]:
    """Return the numbers that are to be changed, each with the reason for its queue's place."""
    order = policy.site.queue_order
    queue_offers = offers(policy, folder)
    if order is QueueOrder.SEQ_NO:
        changed = queue_order_rules.restored(queue_offers, _former(former))
    else:
        changed = queue_order_rules.renumbered(queue_offers, order)
    return queue_setup.steps(policy, (_finding(policy, change) for change in changed))


def findings(
    policy: Policy,
    queues: Mapping[str, Settings],
    folder: str = PUBLISHED,
    former: str = ORDERED,
) -> Iterator[CheckFinding]:
    """Judge whether the order in the file was set up; a single queue has no order.

    Root alone may read the queues' first numbers.
    """
    queue_offers = tuple(_offers(policy, queues, folder))
    with suppress(OSError, StateError):
        if len(queue_offers) > 1:
            yield queue_order_rules.finding(queue_offers, policy.site.queue_order, _former(former))


def _former(path: str) -> dict[str, int]:
    """Return the first numbers of queues, from before any set-up, by queue."""
    return {change.undo.name: int(change.undo.value) for change in changes.recall(path)}


def apply(
    steps: Sequence[SetupStep],
    policy: Policy,
    report: Callable[[SetupStep], None],
    former: str = ORDERED,
) -> None:
    """Make them; the numbers that queues had at first are kept, until they have them again."""
    is_back = policy.site.queue_order is QueueOrder.SEQ_NO
    if not is_back:
        changes.remember(tuple(undo for step in steps for undo in step.undo), former)
    plain = [queue_setup.without_undo(step) for step in steps]
    queue_setup.apply(plain, policy, report)
    if is_back:
        changes.forget(former)


def offers(policy: Policy, folder: str = PUBLISHED) -> tuple[QueueOffer, ...]:
    """Return the transfer queues that there are, with what the service last heard.

    CommandFailed when home does not answer.
    """
    home = away(policy, policy.site.cluster)
    return tuple(_offers(policy, makes_queues(home).queues(home), folder))


def _offers(
    policy: Policy, queues: Mapping[str, Settings], folder: str = PUBLISHED
) -> Iterator[QueueOffer]:
    """Give the transfer queues of the file that the home cell has."""
    heard = {cluster.cluster: cluster for cluster in published_json.clusters(folder)}
    stale = timedelta(seconds=2 * policy.poller.stale_s)
    now = Clock().now()
    for name, queue in sorted(policy.queues.items()):
        if name in queues:
            number = queues[name].get(ATTRIBUTE, "")
            yield _offer(policy, name, number, heard.get(queue.cluster), now - stale)


def _offer(
    policy: Policy, name: str, number: str, published: ShownCluster | None, since: datetime
) -> QueueOffer:
    cluster = policy.queues[name].cluster
    taken_at = published.taken_at if published else None
    return QueueOffer(
        queue=name,
        cluster=cluster,
        seq_no=int(number) if number.isdigit() else None,
        is_heard=taken_at is not None and taken_at >= since,
        pending=(published.pending or 0) if published else 0,
        free_slots=(published.free_slots or 0) if published else 0,
        slots=(published.slots or 0) if published else 0,
        cost=policy.clusters[cluster].cost,
    )


def _finding(policy: Policy, change: RenumberedQueue) -> CheckFinding:
    edit, undo = (_edit(policy, change.queue, number) for number in (change.after, change.before))
    return CheckFinding(
        item=f"queue {change.queue}",
        state=FindingState.BROKEN,
        found=f"{ATTRIBUTE} {change.before}",
        right=f"{ATTRIBUTE} {change.after} ({change.why})",
        mend=(edit,),
        undo=(SharedSettingUndo(done=edit, undo=undo),),
    )


def _edit(policy: Policy, queue: str, number: int) -> SetupEdit:
    return SetupEdit(
        verb=EditVerb.REPLACE,
        cell=policy.site.cluster,
        kind="queue",
        name=queue,
        attribute=ATTRIBUTE,
        value=str(number),
    )
