"""Makes a process the leading master of its program, while processes on other hosts wait to take over.

A thread renews the lease. Without the lease the process calls neither root nor a campaign's owner, and changes nothing
in the database. A process that was stopped for a while is deposed: the database and root's ledger refuse its term.
"""

import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Event, Thread

from gridbridge.batch import privileged_helper_calls
from gridbridge.campaigns.store import leading_master_record
from gridbridge.decisions.campaigns import master_lease_rules
from gridbridge.errors import DatabaseDriverMissing, GridbridgeError, MasterDeposed, MasterFoldersNotShared, StateError
from gridbridge.model.campaigns.campaign_master_lease import CampaignMasterLease, MasterProgram, SharedFolderMark
from gridbridge.model.fixed_paths import LEDGER, MARKED_FOLDERS, MASTER_TERM
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.shell.service_signals_and_heartbeat import ServiceHeartbeat, StopAndReloadSignals
from gridbridge.state import campaign_master_leases, published_files
from gridbridge.state.campaign_master_leases import MasterLeaseRows
from gridbridge.state.state_file import StateFile

RecordAtRoot = Callable[[str, int, str], tuple[int, str, int]]
_log = logging.getLogger(__name__)


class CampaignMasterLead:
    """The lease of this process: waits for the lease, holds it, and detects its loss."""

    def __init__(
        self,
        program: MasterProgram,
        site: SiteSection,
        clock: Clock,
        folders: tuple[str, ...] = MARKED_FOLDERS,
        record_at_root: RecordAtRoot = privileged_helper_calls.record_master_at_root,
        host: str = "",
    ) -> None:
        self._program = program
        self._url = site.state
        self.lease_s = site.master_lease_s  # length of the lease from its next renewal
        self._clock = clock
        self._folders = folders
        self._record_at_root = record_at_root
        self._host = host or f"{socket.gethostname()}/{clock.read_host_clocks().boot}"
        self._rows: MasterLeaseRows | None = None
        # steady clock of this process when the last successful renewal was sent, and the length of that lease
        self._renewed_s, self._renewed_for_s = 0.0, 0.0
        self._renewing: Thread | None = None
        self._given_up = Event()
        self._checked_term = 0  # term of the earlier master whose marks were found in the shared folders
        self._reported = ""
        self.term = 0  # 0: this process does not lead
        self.leader = ""  # host of the leading master, when this process found that it does not lead

    @property
    def pause_s(self) -> float:
        """Pause between two tries to take or to renew the lease, in seconds."""
        return master_lease_rules.renewal_pause_s(self.lease_s)

    def open_state(self) -> StateFile:
        """Open the state for as long as this process leads; later changes raise MasterDeposed."""
        require = partial(campaign_master_leases.require_term_in_transaction, program=self._program, term=self.term)
        session = campaign_master_leases.session_name(self._program, self.term)
        return StateFile.open(self._url, require_lead=require, session=session)

    def term_words(self) -> tuple[str, ...]:
        """Return the first word of calls of gridbridge-as-user; raise MasterDeposed without a valid lease."""
        term, now_s = self.term, self._clock.steady_s()
        if not term or not master_lease_rules.may_act_under_lease(now_s, self._renewed_s, self._renewed_for_s):
            raise MasterDeposed(f"{self._program}: the lease of this host has expired; no call is made")
        return (f"{MASTER_TERM}{self._program}.{term}",)

    def wait_for_lead(self, signals: StopAndReloadSignals, life_sign: ServiceHeartbeat) -> bool:
        """Wait until this process leads; return False if a signal stops the process.

        Raises MasterFoldersNotShared if this host does not see the folders of the earlier master, and
        DatabaseDriverMissing.
        """
        while not signals.is_stopped:
            life_sign.send_heartbeat()
            try:
                if self.try_to_lead():
                    return True
                self._log_lead_change_once("event=waits_for_lead program=%s leader=%s", self._program, self.leader)
            except (MasterFoldersNotShared, DatabaseDriverMissing):
                raise
            except (GridbridgeError, OSError) as error:
                self._log_lead_change_once("event=lease_unknown program=%s why=%r", self._program, str(error))
            signals.wait_for_signal(self.pause_s)
        return False

    def try_to_lead(self) -> bool:
        """Take the lease if it is free, mark the shared folders, and renew the lease from then on."""
        rows = self._rows = self._rows or MasterLeaseRows(StateFile.open(self._url))
        lease = rows.read_master_lease(self._program)
        self.leader = lease.host_name
        if lease.accepted_term != self._checked_term:
            self._require_shared_folders(lease)
        if not master_lease_rules.may_take_lease(lease, self._host):
            return False
        self._renewed_s, self._renewed_for_s = self._clock.steady_s(), self.lease_s
        try:
            term = rows.take_master_lease(lease, self._host, self._renewed_for_s)
        except StateError:  # a transaction of the silent master blocks the change
            rows.end_database_sessions_of_term(self._program, lease.term)
            term = rows.take_master_lease(lease, self._host, self._renewed_for_s)
        return bool(term) and self._begin_to_lead(rows, lease, term)

    def _begin_to_lead(self, rows: MasterLeaseRows, lease: CampaignMasterLease, term: int) -> bool:
        try:
            marks = self._require_shared_folders(lease)
            higher = master_lease_rules.term_above_all_marks(term, marks)
            if higher != term and not rows.raise_term_of_lease(self._program, term, higher):
                return False
            term = higher
            folders = self._mark_shared_folders(term)
            if not rows.record_marked_folders(self._program, term, folders):
                return False
        except BaseException:
            rows.give_up_lease(self._program, term)
            raise
        self.term, self._checked_term = term, term
        self._given_up.clear()
        self._renewing = Thread(target=self._renew_lease_until_lost, args=(rows, term), name="lease", daemon=True)
        self._renewing.start()
        _log.warning("event=leads program=%s host=%s term=%d", self._program, self._host.partition("/")[0], term)
        self._reported = ""
        return True

    def _require_shared_folders(self, lease: CampaignMasterLease) -> Mapping[str, SharedFolderMark]:
        with suppress(FileNotFoundError):  # the folder above is missing, and so are the marks
            safe_files.make_private_folder(self._folders[0])
        marks = {}
        for folder in self._folders:
            term, _, inode = leading_master_record.read_master_record(folder, self._program)
            marks[folder] = SharedFolderMark(term=term, inode=inode)
        term, _, inode = self._record_at_root(self._program, 0, self._host)
        marks[LEDGER] = SharedFolderMark(term=term, inode=inode)
        if path := master_lease_rules.find_unshared_folder(lease, marks):
            words = f"this is not the folder that the master of term {lease.accepted_term} used"
            raise MasterFoldersNotShared(f"{path}: {words}; expected a filesystem that all masters share")
        self._checked_term = lease.accepted_term
        return marks

    def _mark_shared_folders(self, term: int) -> dict[str, int]:
        safe_files.make_private_folder(self._folders[0])
        published_files.make_published_folder(self._folders[-1])
        write = leading_master_record.write_master_record
        inodes = {folder: write(folder, self._program, term, self._host) for folder in self._folders}
        return inodes | {LEDGER: self._record_at_root(self._program, term, self._host)[2]}

    def _renew_lease_until_lost(self, rows: MasterLeaseRows, term: int) -> None:
        while not self._given_up.wait(self.pause_s):
            began_s, lease_s = self._clock.steady_s(), self.lease_s
            try:
                is_renewed = rows.renew_master_lease(self._program, term, lease_s)
            except StateError as error:
                self._log_lead_change_once("event=lease_unknown program=%s why=%r", self._program, str(error))
                continue
            if not is_renewed:
                self.term = 0
                _log.error("event=deposed program=%s term=%d", self._program, term)
                return
            self._renewed_s, self._renewed_for_s, self._reported = began_s, lease_s, ""

    def signals_while_leading(self, signals: StopAndReloadSignals) -> "SignalsWhileLeading":
        return SignalsWhileLeading(signals, self)

    def give_up(self) -> None:
        """Stop to lead, so that another master can lead at once; may be called twice."""
        term, self.term = self.term, 0
        self._given_up.set()
        if self._renewing:
            self._renewing.join()
        with suppress(StateError):  # without the database the lease ends by itself
            if self._rows and term:
                self._rows.give_up_lease(self._program, term)

    def _log_lead_change_once(self, words: str, *values: object) -> None:
        if words % values != self._reported:
            self._reported = words % values
            _log.warning(words, *values)


class SignalsWhileLeading:
    """The signals of a service, and the loss of the lease, which ends the service's cycles like a signal."""

    def __init__(self, signals: StopAndReloadSignals, lead: CampaignMasterLead) -> None:
        self._signals = signals
        self._lead = lead

    @property
    def is_stopped(self) -> bool:
        return self._signals.is_stopped or not self._lead.term

    def wait_for_signal(self, limit_s: float) -> bool:
        return self._signals.wait_for_signal(limit_s) or not self._lead.term


def make_master_lead(program: MasterProgram, policy: Policy, clock: Clock) -> CampaignMasterLead:
    """Return the lease of this process; from now on calls of gridbridge-as-user need the lease."""
    lead = CampaignMasterLead(program, policy.site, clock)
    privileged_helper_calls.call_under_master_term(lead.term_words)
    return lead
