"""Findings about transfer queues, their section of gridbridge.toml, and their order."""

import shlex
from dataclasses import replace

import pytest

from gridbridge.decisions.site import transfer_queue_order
from gridbridge.decisions.site.transfer_queue_findings import (
    MAKE_SAFE_TMPDIR,
    queue_section_finding,
    queue_section_removal_edits,
    total_transfer_slots,
    user_spool_limit_finding,
    writable_tmpdir_findings,
)
from gridbridge.model.fixed_paths import CONFIG, PYTHON
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site.site_section import QueueOrder, SiteSection, TransferQueueWithClusterLoad
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import PollerSection, TransferQueueSection
from gridbridge.site.setup_edits import setup_edit_command
from tests.decisions.site.setups import WANTED

EDIT = (PYTHON, "-I", "-m", "gridbridge.config.edit", CONFIG)
POLICY = Policy(
    site=SiteSection(cluster="alpha"),
    clusters={"alpha": ClusterSection(qmaster_port=1, execd_port=2)},
    queues={
        "transfer-beta": TransferQueueSection(cluster="beta", pending_limit=1, slots=200),
        "transfer-gamma": TransferQueueSection(cluster="gamma", pending_limit=1, slots=300),
    },
    poller=PollerSection(spool_files_per_uid=2000),
)


@pytest.mark.parametrize(("slots", "state"), [(500, FindingSeverity.OK), (501, FindingSeverity.WARNING)])
def test_the_spool_limit_needs_four_messages_per_slot(slots: int, state: FindingSeverity) -> None:
    assert user_spool_limit_finding(POLICY, slots).state == state


def test_a_low_spool_limit_has_its_remedy() -> None:
    found = user_spool_limit_finding(POLICY, 600)

    assert found.found == "2000, too few for 600 transfer slots of one user"
    assert found.right == "at least 2400"
    assert found.hint.startswith("raise the limit in [poller]")


def test_transfer_slots_are_summed_with_the_requested_queue() -> None:
    assert total_transfer_slots(POLICY) == 500
    assert total_transfer_slots(POLICY, WANTED) == 310


@pytest.mark.parametrize("is_wanted", [False, True])
def test_remote_usage_is_written_only_if_it_is_not_the_default(is_wanted: bool) -> None:
    known = replace(POLICY.queues["transfer-beta"], remote_usage=not is_wanted)
    new = queue_section_finding(replace(POLICY, queues={}), replace(WANTED, remote_usage=is_wanted))
    mended = queue_section_finding(
        replace(POLICY, queues={"transfer-beta": known}), replace(WANTED, remote_usage=is_wanted)
    )

    assert ("remote_usage = false" in new.mend[0].value) != is_wanted
    assert f"remote_usage = {str(is_wanted).lower()}" in mended.mend[0].value


def test_a_new_section_has_only_the_required_keys() -> None:
    """Edits keep comments and other keys (tests/config/test_edit.py)."""
    (edit,) = queue_section_finding(replace(POLICY, queues={}), WANTED).mend

    keys = ('cluster = "beta"', f"pending_limit = {WANTED.pending_limit}", f"slots = {WANTED.slots}")
    assert shlex.split(setup_edit_command(edit)) == [*EDIT, "put", "queue", "transfer-beta", *keys]


def test_the_section_of_a_queue_is_removed() -> None:
    (edit,) = queue_section_removal_edits(POLICY, WANTED)

    assert shlex.split(setup_edit_command(edit)) == [*EDIT, "drop", "queue", "transfer-beta"]


def test_keys_that_setup_does_not_manage_need_no_edit() -> None:
    known = TransferQueueSection(
        cluster=WANTED.remote,
        pending_limit=WANTED.pending_limit,
        slots=WANTED.slots,
        stage_out="res%2C1",
        recall_wait_s=5,
    )
    policy = replace(POLICY, queues={WANTED.queue: known})
    kept = queue_section_finding(policy, WANTED)
    mended = queue_section_finding(replace(POLICY, queues={WANTED.queue: replace(known, slots=9)}), WANTED)

    assert kept.state == FindingSeverity.OK
    assert mended.mend[0].value == f"slots = {WANTED.slots}"


QUEUES = {
    "all.q": {"tmpdir": "/tmp,[@big=/scratch],[n1=/tmp]"},
    "transfer-beta": {"tmpdir": "/tmp"},
    "safe.q": {"tmpdir": "/var/tmp/sge"},
    "odd.q": {"tmpdir": "NONE"},
}


def test_a_tmpdir_that_users_may_write_is_noted_with_its_commands() -> None:
    found = tuple(writable_tmpdir_findings("alpha", QUEUES, {"/tmp"}))

    assert {one.item: one.state for one in found} == {
        "tmpdir /tmp": FindingSeverity.NOTE,
        "tmpdir /scratch": FindingSeverity.OK,
        "tmpdir /var/tmp/sge": FindingSeverity.OK,
    }
    assert found[0].found == "all users may write to this tmpdir of all.q, transfer-beta"
    assert [setup_edit_command(edit) for edit in found[0].mend] == [
        MAKE_SAFE_TMPDIR,
        "qconf -rattr queue tmpdir /var/tmp/sge all.q",
        "qconf -rattr queue tmpdir /var/tmp/sge transfer-beta",
    ]


def a_queue(starter: str = "NONE", remote: str = "FALSE") -> dict[str, str]:
    return {"starter_method": starter, "complex_values": f"remote={remote}"}


BETA = TransferQueueWithClusterLoad(queue="transfer-beta", cluster="beta", seq_no=100, free_slots=4, slots=4, cost=2)
DELTA = TransferQueueWithClusterLoad(queue="transfer-delta", cluster="delta", seq_no=200, free_slots=2, slots=2, cost=1)
GAMMA = TransferQueueWithClusterLoad(queue="transfer-gamma", cluster="gamma", seq_no=300, free_slots=4, slots=4, cost=1)
EVERY = (BETA, DELTA, GAMMA)


def busy(offer: TransferQueueWithClusterLoad, pending: int) -> TransferQueueWithClusterLoad:
    return replace(offer, free_slots=0, pending=pending)


@pytest.mark.parametrize(
    ("offer", "expected"),
    [
        pytest.param(BETA, 0, id="a free slot"),
        pytest.param(replace(BETA, pending=3), 0, id="more free slots than tasks"),
        pytest.param(busy(BETA, 0), 0.2, id="full: the next of four slots"),
        pytest.param(busy(BETA, 7), 2, id="eight tasks for four slots"),
        pytest.param(busy(DELTA, 7), 4, id="eight tasks for two slots"),
        pytest.param(replace(BETA, slots=0, free_slots=0), float("inf"), id="no slots"),
        pytest.param(replace(BETA, is_heard=False), float("inf"), id="silent"),
    ],
)
def test_the_expected_wait_is_counted_in_turnovers_of_all_slots(
    offer: TransferQueueWithClusterLoad, expected: float
) -> None:
    assert transfer_queue_order.expected_wait_in_slot_turnovers(offer) == expected


@pytest.mark.parametrize(
    ("offers", "order", "expected"),
    [
        pytest.param(EVERY, QueueOrder.SEQ_NO, "beta delta gamma", id="as it is"),
        pytest.param(EVERY, QueueOrder.WAIT, "beta delta gamma", id="equal waits: as it is"),
        pytest.param((busy(BETA, 7), DELTA, GAMMA), QueueOrder.WAIT, "delta gamma beta", id="beta is full"),
        pytest.param(
            (busy(BETA, 7), busy(DELTA, 1), busy(GAMMA, 7)), QueueOrder.WAIT, "delta beta gamma", id="all are full"
        ),
        pytest.param(EVERY, QueueOrder.COST, "delta gamma beta", id="equal costs: as it is"),
        pytest.param(
            (BETA, busy(DELTA, 9), GAMMA), QueueOrder.COST, "gamma delta beta", id="equal costs: the least wait"
        ),
    ],
)
def test_transfer_queues_are_ranked_by_the_configured_order(
    offers: tuple[TransferQueueWithClusterLoad, ...], order: QueueOrder, expected: str
) -> None:
    for given in (offers, offers[::-1]):
        found = transfer_queue_order.rank_transfer_queues(given, order)

        assert " ".join(one.cluster for one in found) == expected


@pytest.mark.parametrize(
    ("offers", "order", "expected"),
    [
        ((busy(BETA, 7), DELTA, GAMMA), QueueOrder.WAIT, {"beta": 300, "delta": 100, "gamma": 200}),
        ((BETA, busy(DELTA, 9), busy(GAMMA, 99)), QueueOrder.WAIT, {}),
        (tuple(replace(queue, seq_no=100) for queue in EVERY), QueueOrder.COST, {"gamma": 101, "beta": 102}),
        ((BETA, DELTA, replace(GAMMA, seq_no=None, cost=0)), QueueOrder.COST, {"delta": 100, "beta": 200}),
        (EVERY, QueueOrder.SEQ_NO, {}),
    ],
    ids=["exchanged", "in order already", "equal numbers", "numbers of hosts are kept", "no order"],
)
def test_queues_out_of_order_get_other_sequence_numbers(
    offers: tuple[TransferQueueWithClusterLoad, ...], order: QueueOrder, expected: dict[str, int]
) -> None:
    changes = transfer_queue_order.plan_queue_seq_no_changes(offers, order)

    assert {change.queue.removeprefix("transfer-"): change.after for change in changes} == expected


def test_order_seq_no_restores_former_numbers() -> None:
    former = {"transfer-beta": 300, "transfer-delta": 200}

    (change,) = transfer_queue_order.plan_queue_seq_no_restore(EVERY, former)
    assert (change.queue, change.before, change.after) == ("transfer-beta", 100, 300)


def test_the_queue_order_is_described_with_its_numbers() -> None:
    told = transfer_queue_order.describe_queue_order((busy(BETA, 7), DELTA), QueueOrder.WAIT)
    cheap = transfer_queue_order.describe_queue_order((replace(BETA, cost=0.5), DELTA), QueueOrder.COST)

    assert told == (
        "tried in this order, the shortest expected wait first: transfer-delta (0 waiting, 2 of 2"
        " slots free), then transfer-beta (7 waiting, 0 of 4 slots free); the queues' seq_no"
        " follow another order until `gridbridge setup order --apply`"
    )
    assert cheap == (
        "tried in this order, the least cost first: transfer-beta (cost 0.5, 0 waiting, 4 of 4"
        " slots free), then transfer-delta (cost 1, 0 waiting, 2 of 2 slots free)"
    )


AT_FIRST = {"transfer-beta": 200, "transfer-delta": 100}


@pytest.mark.parametrize(
    ("offers", "order", "former", "is_set_up"),
    [
        pytest.param(EVERY, QueueOrder.SEQ_NO, {}, True, id="nothing was ever changed"),
        pytest.param(EVERY, QueueOrder.SEQ_NO, AT_FIRST, False, id="not taken back"),
        pytest.param(EVERY, QueueOrder.COST, {}, False, id="costs that were never set up"),
        pytest.param(EVERY, QueueOrder.COST, AT_FIRST, False, id="costs changed in the file"),
        pytest.param((busy(BETA, 7), DELTA), QueueOrder.WAIT, {}, False, id="waits, never set up"),
        pytest.param((busy(BETA, 7), DELTA), QueueOrder.WAIT, AT_FIRST, True, id="waits change"),
        pytest.param(
            (replace(DELTA, seq_no=1), replace(GAMMA, seq_no=2, pending=9), replace(BETA, seq_no=3)),
            QueueOrder.COST,
            AT_FIRST,
            True,
            id="of equal costs waits change",
        ),
    ],
)
def test_a_queue_order_that_was_never_set_up_is_a_warning(
    offers: tuple[TransferQueueWithClusterLoad, ...], order: QueueOrder, former: dict[str, int], is_set_up: bool
) -> None:
    """Expected waits change every minute; configured costs do not."""
    found = transfer_queue_order.queue_order_finding(offers, order, former)

    assert found.state is (FindingSeverity.OK if is_set_up else FindingSeverity.WARNING)
    assert found.hint == ("" if is_set_up else "run gridbridge setup order --apply")
