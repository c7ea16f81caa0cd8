"""Root refuses the calls of a master whose term is over, and of a service that names no term."""

from pathlib import Path

import pytest

from gridbridge.errors import MasterDeposed, RootLedgerUnreadable
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal
from gridbridge.privileged.master_term_check import MasterTermCheck, record_or_show_master


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def lead(folder: str, term: int, host: str, program: str = "runner") -> list[str]:
    return record_or_show_master(["lead", program, str(term), host], folder).split()


def test_only_a_later_term_or_the_same_host_is_recorded_and_the_record_keeps_its_inode(folder: str) -> None:
    first, again, later = (lead(folder, *call) for call in ((3, "a-long-name/1"), (3, "a-long-name/1"), (4, "b/2")))
    for term, host in ((3, "a-long-name/1"), (4, "c/3")):
        with pytest.raises(MasterDeposed, match=f"term {term} of {host} may not lead, because b/2 leads, term 4"):
            lead(folder, term, host)

    assert first == again
    assert (first[:2], later[:2], first[2]) == (["3", "a-long-name/1"], ["4", "b/2"], later[2])
    assert lead(folder, 0, "c/3") == later


@pytest.mark.parametrize(
    ("word", "refusal"),
    [
        ("term=runner.4", ""),
        ("term=runner.3", "term 3 of runner may not act, because b/2 leads, term 4"),
        ("term=runner.5", "term 5 of runner may not act"),
        ("term=nikita.1", "term 1 of nikita may not act, because - leads, term 0"),
        ("", "a service without a term may not act, because b/2 leads, term 4"),
    ],
)
def test_only_the_recorded_term_may_act(folder: str, word: str, refusal: str) -> None:
    lead(folder, 4, "b/2")

    if refusal:
        with pytest.raises(MasterDeposed, match=refusal):
            MasterTermCheck(word, folder).require_current_term()
    else:
        MasterTermCheck(word, folder).require_current_term()


def test_a_site_without_masters_needs_no_term(folder: str) -> None:
    MasterTermCheck("", folder).require_current_term()


@pytest.mark.parametrize("word", ["term=", "term=runner", "term=runner.x", "term=root.1", "term=runner.-1"])
def test_a_word_that_is_no_term_is_refused(folder: str, word: str) -> None:
    with pytest.raises(AsUserRequestRefusal, match=r"expected term=runner\|nikita.NUMBER"):
        MasterTermCheck(word, folder)


@pytest.mark.parametrize(
    "words",
    [(), ("runner", "1"), ("poller", "1", "a"), ("runner", "x", "a"), ("runner", "1", "a b"), ("runner", "1", "é")],
)
def test_a_wrong_request_to_lead_is_refused(folder: str, words: tuple[str, ...]) -> None:
    with pytest.raises(AsUserRequestRefusal, match="usage: gridbridge-as-user lead"):
        record_or_show_master(["lead", *words], folder)


def test_a_ledger_folder_that_others_can_open_takes_no_record(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    with pytest.raises(RootLedgerUnreadable):
        lead(str(tmp_path), 1, "a/1")
