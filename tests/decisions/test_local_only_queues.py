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
    ("queues", "expected"),
    [
        ([queue("all.q", "FALSE")], None),
        ([queue("all.q")], None),
        ([queue(AWAY, "TRUE")], None),
        (
            [queue("all.q", "FALSE"), queue(AWAY, "TRUE"), queue("big.q", "FALSE")],
            NonForwardingQueues(queues="all.q,big.q", all_say="yes"),
        ),
        ([queue("all.q", "FALSE"), queue(AWAY, "TRUE"), queue("big.q")], NonForwardingQueues(queues="all.q,big.q")),
        ([queue("all.q"), queue(AWAY, "TRUE")], NonForwardingQueues(queues="all.q")),
        (
            [queue("all.q", "FALSE"), queue("all.q", host="n2"), queue(AWAY, "TRUE")],
            NonForwardingQueues(queues="all.q"),
        ),
        ([queue("all.q", "FALSE"), queue(AWAY), queue(AWAY, "TRUE", "n2")], "all.q"),
        ([queue("all.q", "FALSE"), queue(AWAY, "TRUE"), queue(YIELDS)], "all.q"),
    ],
    ids=[
        *("no queue back", "nothing said", "nothing else", "all others say so", "some do"),
        *("none does", "a host does not", "a host sends on", "best-effort"),
    ],
)
def test_a_job_is_kept_from_queues_that_send_it_on(
    queues: list[QueueInstanceStatus], expected: NonForwardingQueues | str | None
) -> None:
    if isinstance(expected, str):
        expected = NonForwardingQueues(queues=expected, all_say="yes")

    assert find_local_only_queues(queues) == expected


@pytest.mark.parametrize(
    ("all_say", "targets", "expected"),
    [
        ("yes", "", ("", True)),
        ("", "", ("all.q,big.q", False)),
        ("yes", "big.q", ("big.q", True)),
        ("", "big.q@n1,transfer-alpha", ("big.q@n1", False)),
        ("yes", "transfer-alpha", ("transfer-alpha", False)),
        ("", "*@@fast", ("*@@fast", False)),
    ],
    ids=["by remote", "by queue", "both", "of several", "nothing else", "a pattern"],
)
def test_the_queues_that_a_mapping_names_are_asked_for_as_far_as_they_keep_it(
    all_say: str, targets: str, expected: tuple[str, bool]
) -> None:
    """A job with a request for a queue that it cannot get would wait for ever."""
    assert NonForwardingQueues(queues="all.q,big.q", all_say=all_say).restrict_targets(targets) == expected


def test_our_own_transfer_queues_send_jobs_on_whatever_they_say() -> None:
    found = find_local_only_queues([queue("all.q", "FALSE"), queue("out")], ("out",))

    assert found == NonForwardingQueues(queues="all.q", all_say="yes")


@pytest.mark.parametrize(
    ("all_say", "targets", "expected"),
    [
        ("yes", "", ("", True)),
        ("", "", ("all.q,big.q", False)),
        ("yes", "big.q", ("big.q", True)),
        ("", "big.q@n1,transfer-alpha", ("big.q@n1", False)),
        ("yes", "big.q,transfer-alpha", ("big.q,transfer-alpha", True)),
        ("yes", "transfer-alpha", None),
        ("", "transfer-alpha", None),
        ("yes", "*@@fast", ("*@@fast", True)),
        ("", "*@@fast", None),
    ],
    ids=[
        *("by remote", "by queue", "both", "of several", "one sends on", "nothing else"),
        *("nor there", "a pattern", "a pattern that may mean any"),
    ],
)
def test_a_campaigns_tasks_get_no_queue_that_sends_them_on(
    all_say: str, targets: str, expected: tuple[str, bool] | None
) -> None:
    """A JDL that names only such a queue is refused, because its tasks would wait for ever."""
    found = NonForwardingQueues(queues="all.q,big.q", all_say=all_say).restrict_request_or_none(
        JobRequest(targets=targets)
    )

    assert (found and (found.targets, found.stays)) == expected
