"""Of several masters at most one acts, whatever is killed, stopped, cut off or restored."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.master_lease_rules import (
    find_unshared_folder,
    may_act_under_lease,
    may_take_lease,
    renewal_pause_s,
    term_above_all_marks,
)
from gridbridge.model.campaigns.campaign_master_lease import CampaignMasterLease, MasterProgram, SharedFolderMark

LEASE = CampaignMasterLease(
    program=MasterProgram.RUNNER, term=4, host="a/1", left_s=9.0, accepted_term=4, folders={"/c": 7, "/l": 8}
)
MARKS = {"/c": SharedFolderMark(term=4, inode=7), "/l": SharedFolderMark(term=4, inode=8)}


@pytest.mark.parametrize(
    ("changes", "host", "may"),
    [
        ({}, "b/2", False),
        ({"left_s": 0.0}, "b/2", True),
        ({"left_s": 3600.0}, "b/2", True),
        ({"host": ""}, "b/2", True),
        ({}, "a/1", True),
        ({}, "a/2", False),
    ],
    ids=["another leads", "expired", "clock set back", "given up", "the same host", "the same host after a reboot"],
)
def test_a_lease_is_taken_only_from_a_silent_master_or_by_its_own_host(
    changes: dict[str, object], host: str, may: bool
) -> None:
    assert may_take_lease(replace(LEASE, **changes), host) is may  # type: ignore[arg-type]  # a test's table


@pytest.mark.parametrize(
    ("lease", "marks", "unshared"),
    [
        (LEASE, MARKS, ""),
        (LEASE, MARKS | {"/c": SharedFolderMark()}, "/c"),
        (LEASE, MARKS | {"/l": SharedFolderMark(term=3, inode=8)}, "/l"),
        (LEASE, MARKS | {"/l": SharedFolderMark(term=4, inode=9)}, "/l"),
        (LEASE, {path: replace(mark, term=5) for path, mark in MARKS.items()}, ""),
        (replace(LEASE, accepted_term=0, folders={}), {"/c": SharedFolderMark(), "/l": SharedFolderMark()}, ""),
    ],
    ids=["shared", "a folder of this host", "of an earlier master", "a copy", "of a killed master", "the first master"],
)
def test_a_folder_that_the_earlier_master_did_not_use_is_unshared(
    lease: CampaignMasterLease, marks: dict[str, SharedFolderMark], unshared: str
) -> None:
    assert find_unshared_folder(lease, marks) == unshared


@given(st.integers(1, 9), st.lists(st.integers(0, 9), max_size=3))
def test_a_master_leads_under_a_term_above_all_marks(term: int, marks: list[int]) -> None:
    """After a restore of the database from a backup, its terms are behind those of root's ledger."""
    led = term_above_all_marks(term, {str(n): SharedFolderMark(term=mark) for n, mark in enumerate(marks)})

    assert led >= term
    assert all(led > mark for mark in marks)
    assert led == term or led - 1 in marks


@given(st.floats(2, 20), st.floats(0, 1e6), st.floats(0, 60), st.floats(0, 60))
def test_no_master_acts_when_another_may_take_its_lease(
    lease_s: float, renewed_s: float, later_s: float, way_s: float
) -> None:
    """The renewal reaches the database `way_s` after it was sent, so the lease ends there later than here."""
    now_s = renewed_s + later_s
    left_s = renewed_s + way_s + lease_s - now_s

    may_act = may_act_under_lease(now_s, renewed_s, lease_s)
    is_free = may_take_lease(replace(LEASE, left_s=left_s), "b/2")
    assert not (may_act and is_free and left_s < -1e-6)
    assert lease_s + 2 * renewal_pause_s(lease_s) <= 30
