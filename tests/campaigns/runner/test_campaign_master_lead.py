"""A process takes the lease, marks the shared folders, and stops acting when the lease is lost."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gridbridge.campaigns.runner.campaign_master_lead import CampaignMasterLead
from gridbridge.campaigns.store.leading_master_record import write_master_record
from gridbridge.errors import DatabaseDriverMissing, MasterDeposed, MasterFoldersNotShared
from gridbridge.model.campaigns.campaign_master_lease import MasterProgram
from gridbridge.model.site.site_section import SiteSection
from gridbridge.privileged.master_term_check import record_or_show_master
from gridbridge.shell.clock import Clock
from gridbridge.shell.service_signals_and_heartbeat import ServiceHeartbeat, StopAndReloadSignals

Make = Callable[..., CampaignMasterLead]
CHANGE = sa.text("DELETE FROM campaign_requests")


@pytest.fixture(name="make")
def _make(tmp_path: Path) -> Iterator[Make]:
    """Return a function that makes the runner of a host; all share folders, unless `own` names others."""
    made: list[CampaignMasterLead] = []

    def make(host: str, steady: Callable[[], float] = lambda: 0.0, *, own: str = "", state: str = "state") -> Any:
        folder = tmp_path / (own or "shared")
        folder.mkdir(exist_ok=True)

        def record(program: str, term: int, by: str) -> tuple[int, str, int]:
            recorded, leader, inode = record_or_show_master(
                ["lead", program, str(term), by], f"{folder}/ledger"
            ).split()
            return int(recorded), leader, int(inode)

        site = SiteSection(cluster="alpha", state=f"sqlite:///{tmp_path}/{state}.db", master_lease_s=20)
        folders = (f"{folder}/begun", f"{folder}/published")
        made.append(CampaignMasterLead(MasterProgram.RUNNER, site, Clock(lambda: 0.0, steady), folders, record, host))
        return made[-1]

    yield make
    for lead in made:
        lead.give_up()


def test_a_second_host_leads_after_the_first_gave_the_lease_up_and_the_first_changes_nothing_more(make: Make) -> None:
    first, second = make("a/1"), make("b/2")
    assert first.try_to_lead()
    early = first.open_state()
    early.execute(CHANGE)
    assert not second.try_to_lead()
    before = (first.term, first.term_words(), second.leader)
    first.give_up()
    assert second.try_to_lead()

    assert (before, second.term) == ((1, ("term=runner.1",), "a"), 2)
    with pytest.raises(MasterDeposed, match="the lease of this host has expired"):
        first.term_words()
    with pytest.raises(MasterDeposed, match="another master leads"):
        early.execute(CHANGE)
    early.close()


def test_a_process_leads_at_once_after_an_earlier_process_of_its_host(make: Make) -> None:
    killed, started = make("a/1"), make("a/1")

    assert killed.try_to_lead()
    assert started.try_to_lead()
    assert started.term == 2


def test_a_master_without_renewal_makes_no_call_by_its_own_clock(make: Make) -> None:
    now_s = [0.0]
    lead = make("a/1", lambda: now_s[0])
    assert lead.try_to_lead()
    now_s[0] = 19.0
    assert lead.term_words()
    now_s[0] = 20.0

    with pytest.raises(MasterDeposed):
        lead.term_words()


def test_a_host_with_other_folders_never_leads(make: Make) -> None:
    first, apart = make("a/1"), make("b/2", own="apart")
    assert first.try_to_lead()
    for is_free in (False, True):
        if is_free:
            first.give_up()
        with pytest.raises(
            MasterFoldersNotShared, match="begun: this is not the folder that the master of term 1 used"
        ):
            apart.try_to_lead()

    assert first.try_to_lead()


def test_after_a_restore_of_the_database_the_term_is_above_the_marks(make: Make) -> None:
    for host in ("a/1", "b/2", "a/1"):
        lead = make(host)
        assert lead.try_to_lead()
        lead.give_up()
    restored = make("b/2", state="restored")

    assert restored.try_to_lead()
    assert restored.term == 4


def test_marks_in_a_folder_that_others_can_write_do_not_count(make: Make, tmp_path: Path) -> None:
    """On a new site anybody may make the folder of files in process, and mark a term that root's helper refuses."""
    begun = tmp_path / "shared/begun"
    begun.mkdir(parents=True)
    begun.chmod(0o777)
    write_master_record(str(begun), "runner", 999_999_999, "elsewhere")
    lead = make("a/1")

    assert lead.try_to_lead()
    assert lead.term == 1


def test_a_missing_driver_ends_the_program(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str) -> None:
        raise DatabaseDriverMissing(url)

    monkeypatch.setattr("gridbridge.state.state_file.StateFile.open", missing)
    signals = StopAndReloadSignals.__new__(StopAndReloadSignals)
    signals.is_stopped = False

    with pytest.raises(DatabaseDriverMissing):
        make("a/1").wait_for_lead(signals, ServiceHeartbeat(f"{tmp_path}/lock", {}))
    assert os.listdir(tmp_path) == ["shared"]
