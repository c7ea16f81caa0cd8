"""Decides which of several masters leads: the rules of leases, terms and shared folders.

Only one process leads a term, because the database grants each term once. A deposed master may still act for a moment,
so the database and root's ledger refuse the acts of earlier terms.
"""

from collections.abc import Mapping

from gridbridge.model.campaigns.campaign_master_lease import CampaignMasterLease, SharedFolderMark
from gridbridge.model.site.site_section import LONGEST_LEASE_S

RENEWALS = 5  # tries to renew a lease before the lease expires; a waiting master checks the lease equally often


def may_take_lease(lease: CampaignMasterLease, host: str) -> bool:
    """Say whether a process may take the lease; a lock file allows only one such process on `host`.

    A lease that seems longer than any lease was renewed before the database's clock was set back.
    """
    return not lease.host or lease.host == host or not 0 < lease.left_s <= LONGEST_LEASE_S


def may_act_under_lease(now_s: float, renewed_s: float, lease_s: float) -> bool:
    """Say whether a master may still act, by its own steady clock; `renewed_s` is when the last renewal was sent.

    The lease runs from the renewal's arrival: renewed_s + lease_s <= the lease's end on the database's clock.
    """
    return now_s - renewed_s < lease_s


def renewal_pause_s(lease_s: float) -> float:
    return lease_s / RENEWALS


def find_unshared_folder(lease: CampaignMasterLease, marks: Mapping[str, SharedFolderMark]) -> str:
    """Return the first folder that this master does not share with the earlier master; "" if there is none.

    A copy of a folder has another inode number. A mark above `accepted_term` proves a shared folder: its master was
    killed before it recorded its marks, or wrote it after the database's backup.
    """
    for path, mark in marks.items():
        if mark.term < lease.accepted_term:
            return path
        if mark.term == lease.accepted_term and mark.inode != lease.folders.get(path, mark.inode):
            return path
    return ""


def term_above_all_marks(term: int, marks: Mapping[str, SharedFolderMark]) -> int:
    """Return the term under which a master leads: `term`, or a later term if the database is behind the marks."""
    highest = max((mark.term for mark in marks.values()), default=0)
    return term if term > highest else highest + 1
