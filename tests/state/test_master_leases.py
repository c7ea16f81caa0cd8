"""Two masters, one database and one ledger of root: hypothesis stops, delays and cuts off the masters as it likes."""

import os
import tempfile
import threading
from functools import partial

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from gridbridge.campaigns.store.leading_master_record import write_master_record
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.decisions.campaigns.master_lease_rules import may_act_under_lease, may_take_lease
from gridbridge.errors import MasterDeposed, StateError
from gridbridge.model.campaigns.campaign_master_lease import MasterProgram
from gridbridge.privileged.master_term_check import MasterTermCheck
from gridbridge.state.campaign_master_leases import MasterLeaseRows, require_term_in_transaction, session_name
from gridbridge.state.state_file import StateFile
from tests.state.postgresql import Server

RUNNER = MasterProgram.RUNNER
LEASE_S = 15.0
HOSTS = ("a/1", "b/2")
NOW = "(SELECT s FROM test_clock)"
ANY = sa.text("DELETE FROM campaign_requests")


class OneMaster:
    """A master as its process sees it: its term, and the sends that it has decided or begun."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.rows = MasterLeaseRows(StateFile.open(url), NOW)
        self.database = self.rows._database
        self.term = 0
        self.renewed_s = 0.0
        self.decided: list[int] = []
        self.begun: list[tuple[str, int]] = []  # the word with the term, and the array

    def open_state(self) -> None:
        require = partial(require_term_in_transaction, program=RUNNER, term=self.term)
        self.database = StateFile.open(self.url, require_lead=require)


class TwoMasters(RuleBasedStateMachine):
    """The model: `leader` is the last host that took the lease; only this host may change or send anything."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = f"{self.folder.name}/ledger"
        os.mkdir(self.ledger, 0o700)
        self.url = f"sqlite:///{self.folder.name}/state.db"
        self.clock = StateFile.open(self.url)
        self.clock.execute(sa.text("CREATE TABLE test_clock AS SELECT 1000.0 AS s"))
        self.clock.execute(sa.text("CREATE TABLE test_sends (task INTEGER PRIMARY KEY)"))
        self.masters = {host: OneMaster(self.url) for host in HOSTS}
        self.now_s, self.expires_s = 1000.0, 0.0
        self.leader = ""
        self.sent: dict[int, str] = {}

    def teardown(self) -> None:
        for database in (self.clock, *(master.database for master in self.masters.values())):
            database.close()
        self.folder.cleanup()

    @rule(seconds=st.sampled_from([1.0, 4.0, 16.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.clock.execute(sa.text("UPDATE test_clock SET s = :s"), {"s": self.now_s})

    @rule(host=st.sampled_from(HOSTS))
    def a_master_tries_to_lead(self, host: str) -> None:
        master = self.masters[host]
        lease = master.rows.read_master_lease(RUNNER)
        is_free = self.now_s >= self.expires_s or self.leader == host
        assert may_take_lease(lease, host) is is_free
        term = master.rows.take_master_lease(lease, host, LEASE_S)
        assert bool(term) is is_free
        if term:
            write_master_record(self.ledger, RUNNER, term, host)
            master.term, master.renewed_s = term, self.now_s
            master.open_state()
            self.leader, self.expires_s = host, self.now_s + LEASE_S

    @rule(host=st.sampled_from(HOSTS))
    def a_master_renews_its_lease(self, host: str) -> None:
        master = self.masters[host]
        is_renewed = bool(master.term) and master.rows.renew_master_lease(RUNNER, master.term, LEASE_S)
        assert is_renewed is (self.leader == host)
        if is_renewed:
            master.renewed_s, self.expires_s = self.now_s, self.now_s + LEASE_S

    @rule(host=st.sampled_from(HOSTS))
    def a_master_decides_to_send(self, host: str) -> None:
        """Decide, even as a master that was stopped for hours and has noticed nothing yet."""
        master = self.masters[host]
        if master.term:
            before = self.clock.rows(sa.text("SELECT count(*) AS n FROM test_sends"))[0]["n"]
            try:
                master.database.execute(sa.text("INSERT INTO test_sends VALUES (:task)"), {"task": before})
            except MasterDeposed:
                assert self.leader != host
            else:
                assert self.leader == host
                master.decided.append(before)

    @rule(host=st.sampled_from(HOSTS))
    def a_master_begins_a_send(self, host: str) -> None:
        master = self.masters[host]
        if master.decided and may_act_under_lease(self.now_s, master.renewed_s, LEASE_S):
            assert self.leader == host
            master.begun.append((f"term=runner.{master.term}", master.decided.pop()))

    @rule(host=st.sampled_from(HOSTS))
    def the_leader_sends_what_an_earlier_master_had_decided(self, host: str) -> None:
        if self.leader == host and may_act_under_lease(self.now_s, self.masters[host].renewed_s, LEASE_S):
            tasks = {row["task"] for row in self.clock.rows(sa.text("SELECT task FROM test_sends"))} - self.sent.keys()
            self.masters[host].begun += [(f"term=runner.{self.masters[host].term}", task) for task in sorted(tasks)]

    @precondition(lambda self: any(master.begun for master in self.masters.values()))
    @rule(host=st.sampled_from(HOSTS), at=st.integers(0, 9))
    def a_begun_send_reaches_root(self, host: str, at: int) -> None:
        """Any time may have passed since the master checked its lease."""
        if not (begun := self.masters[host].begun):
            return
        word, task = begun.pop(at % len(begun))
        check = MasterTermCheck(word, self.ledger)
        number, was_sent = task + 1, task in self.sent
        with RootLedgerOfSubmittedTasks(1, self.ledger, check.require_current_term) as ledger:
            try:
                check.require_current_term()
                ledger.record_array(number, "beta", f"{task}:1")
                if not ledger.job_id_of_array(number):
                    assert not was_sent
                    ledger.record_job_id_of_array(number, "7")
                    self.sent[task] = host
            except MasterDeposed:
                assert word != f"term=runner.{self.masters[self.leader].term}"
            else:
                assert self.leader == host


TestTwoMasters = TwoMasters.TestCase
TestTwoMasters.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


def test_a_deposed_master_finds_its_transaction_refused(state_url: str) -> None:
    rows = MasterLeaseRows(StateFile.open(state_url))
    first = rows.take_master_lease(rows.read_master_lease(RUNNER), "a/1", 0.0)
    state = StateFile.open(state_url, require_lead=partial(require_term_in_transaction, program=RUNNER, term=first))
    state.execute(ANY)
    second = rows.take_master_lease(rows.read_master_lease(RUNNER), "b/2", LEASE_S)

    with pytest.raises(MasterDeposed, match="another master leads; nothing was stored"):
        state.execute(ANY)
    assert state.rows(sa.text("SELECT 1 AS n"))[0]["n"] == 1
    assert (first, second, rows.renew_master_lease(RUNNER, first, 1.0)) == (1, 2, False)
    assert rows.take_master_lease(rows.read_master_lease(RUNNER), "a/1", 1.0) == 0
    assert rows.give_up_lease(RUNNER, second)
    assert rows.take_master_lease(rows.read_master_lease(RUNNER), "a/1", 1.0) == 3
    state.close()
    rows._database.close()


def test_a_database_whose_clock_was_set_back_delays_no_takeover(state_url: str) -> None:
    database = StateFile.open(state_url)
    before, after = (MasterLeaseRows(database, f"CAST({now_s} AS FLOAT)") for now_s in (5000, 1000))
    before.take_master_lease(before.read_master_lease(RUNNER), "a/1", LEASE_S)

    lease = after.read_master_lease(RUNNER)
    assert may_take_lease(lease, "b/2")
    assert after.take_master_lease(lease, "b/2", LEASE_S) == 2
    database.close()


@pytest.mark.root
def test_a_stopped_masters_open_transaction_delays_no_takeover_and_is_undone(postgresql: Server) -> None:
    """A renewal passes a long transaction of the same master."""
    url = postgresql.new()
    rows, other = (MasterLeaseRows(StateFile.open(url)) for _ in range(2))
    term = rows.take_master_lease(rows.read_master_lease(RUNNER), "a/1", LEASE_S)
    require = partial(require_term_in_transaction, program=RUNNER, term=term)
    state = StateFile.open(url, require_lead=require, session=session_name(RUNNER, term))
    has_begun, wakes = threading.Event(), threading.Event()
    failures: list[Exception] = []

    def stopped() -> None:
        try:
            with state.transaction():
                state.execute(sa.text("INSERT INTO campaign_requests VALUES ('x', 1, 'now')"))
                has_begun.set()
                wakes.wait(30)
                state.execute(ANY)
        except StateError as error:
            failures.append(error)

    master = threading.Thread(target=stopped)
    master.start()
    has_begun.wait(30)
    assert rows.renew_master_lease(RUNNER, term, 0.0)
    with pytest.raises(StateError, match="lock timeout"):
        other.take_master_lease(other.read_master_lease(RUNNER), "b/2", LEASE_S)
    other.end_database_sessions_of_term(RUNNER, term)
    assert other.take_master_lease(other.read_master_lease(RUNNER), "b/2", LEASE_S) == 2
    wakes.set()
    master.join()

    assert len(failures) == 1
    assert other._database.rows(sa.text("SELECT * FROM campaign_requests")) == []
    for database in (state, rows._database, other._database):
        database.close()
