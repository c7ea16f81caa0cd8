"""A job stays at the cluster it was sent to, whatever the queues there say of sending on."""

import pytest

from gridbridge.decisions.transfer.transfer_queue_admission import find_local_only_queues
from gridbridge.model.cluster_snapshot import QueueInstanceStatus
from gridbridge.model.job_request import JobRequest
from gridbridge.model.names_offered_by_cluster import NonForwardingQueues

AWAY = "transfer-alpha"
YIELDS = "gb-be1"


def queue(name: str, remote: str = "", host: str = "n1") -> QueueInstanceStatus:
    return QueueInstanceStatus(
        name=f"{name}@{host}",
        slots_used=0,
        slots_reserved=0,
        slots_total=2,
        sends_away=remote == "TRUE",
        says_stay=remote == "FALSE",
        is_besteffort=name == YIELDS,
    )


@pytest.mark.parametrize(
    ("queues", "kept", "all_say"),
    [
        ([queue("all.q", "FALSE")], None, ""),
        ([queue("all.q")], None, ""),
        ([queue(AWAY, "TRUE")], None, ""),
        ([queue("all.q", "FALSE"), queue(AWAY, "TRUE"), queue("big.q", "FALSE")], "all.q,big.q", "yes"),
        ([queue("all.q", "FALSE"), queue(AWAY, "TRUE"), queue("big.q")], "all.q,big.q", ""),
        ([queue("all.q"), queue(AWAY, "TRUE")], "all.q", ""),
        ([queue("all.q", "FALSE"), queue("all.q", host="n2"), queue(AWAY, "TRUE")], "all.q", ""),
        ([queue("all.q", "FALSE"), queue(AWAY), queue(AWAY, "TRUE", "n2")], "all.q", "yes"),
        ([queue("all.q", "FALSE"), queue(AWAY, "TRUE"), queue(YIELDS)], "all.q", "yes"),
        ([queue("all.q", "FALSE"), queue("out")], "all.q", "yes"),
    ],
    ids=[
        *("no queue back", "nothing said", "nothing else", "all others say so", "some do"),
        *("none does", "a host does not", "a host sends on", "best-effort", "our own transfer queue"),
    ],
)
def test_a_job_is_kept_from_queues_that_send_it_on(
    queues: list[QueueInstanceStatus], kept: str | None, all_say: str
) -> None:
    expected = kept and NonForwardingQueues(queues=kept, all_say=all_say)

    assert find_local_only_queues(queues, ("out",)) == expected


@pytest.mark.parametrize(
    ("all_say", "targets", "mapped", "requested"),
    [
        ("yes", "", ("", True), ("", True)),
        ("", "", ("all.q,big.q", False), ("all.q,big.q", False)),
        ("yes", "big.q", ("big.q", True), ("big.q", True)),
        ("", "big.q@n1,transfer-alpha", ("big.q@n1", False), ("big.q@n1", False)),
        ("yes", "big.q,transfer-alpha", ("big.q,transfer-alpha", True), ("big.q,transfer-alpha", True)),
        ("yes", "transfer-alpha", ("transfer-alpha", False), None),
        ("", "transfer-alpha", ("transfer-alpha", False), None),
        ("yes", "*@@fast", ("*@@fast", False), ("*@@fast", True)),
        ("", "*@@fast", ("*@@fast", False), None),
    ],
    ids=[
        *("by remote", "by queue", "both", "of several", "one sends on", "nothing else"),
        *("nor there", "a pattern", "a pattern that may mean any"),
    ],
)
def test_the_requested_queues_are_asked_for_as_far_as_they_keep_the_job(
    all_say: str, targets: str, mapped: tuple[str, bool], requested: tuple[str, bool] | None
) -> None:
    """A job with a request for a queue that it cannot get would wait for ever.

    A JDL that names only such a queue is therefore refused.
    """
    queues = NonForwardingQueues(queues="all.q,big.q", all_say=all_say)
    found = queues.restrict_request_or_none(JobRequest(targets=targets))

    assert queues.restrict_targets(targets) == mapped
    assert (found and (found.targets, found.stays)) == requested
