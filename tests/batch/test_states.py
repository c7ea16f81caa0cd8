"""State letters of sge_status(5) become facts; what nobody knows becomes UNKNOWN."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.model.states import JobState, SuspendedBy, read_letters

WORDS = {
    JobState.WAITING: "qw Rq Rqw",
    JobState.HELD: "hqw hRwq hRq hq",
    JobState.RUNNING: "t r hr Rr Rt hRr ht",
    JobState.SUSPENDED: "s ts S tS T tT Rs Rts RS RtS RT RtT hs",
    JobState.ERROR: "Eqw Ehqw EhRqw",
    JobState.DELETING: "dr dt dRr dRt ds dS dT dRs dRS dRT dqw",
    JobState.FINISHED: "z",
}


@pytest.mark.parametrize(
    ("letters", "expected"),
    [(letters, word) for word, group in WORDS.items() for letters in group.split()],
    ids=lambda value: value if isinstance(value, str) else value.value,
)
def test_every_combination_of_sge_status_has_its_word(letters: str, expected: JobState) -> None:
    assert read_letters(letters).word is expected


@pytest.mark.parametrize(
    ("letters", "facts"),
    [
        ("qw", "is_pending can_start"),
        ("Rq", "is_pending can_start is_restarted is_put_back"),
        ("hRwq", "is_pending is_held is_restarted is_put_back"),
        ("EhRqw", "is_pending is_held is_error is_restarted is_put_back"),
        ("hr", "is_running has_begun is_held"),
        ("t", "is_running"),
        ("tS", "is_running is_suspended"),
        ("dRr", "is_running has_begun is_deleting is_restarted"),
        ("dT", "is_running has_begun is_suspended is_deleting"),
        ("dqw", "is_pending is_deleting"),
    ],
)
def test_several_facts_may_hold_at_once(letters: str, facts: str) -> None:
    """A held running job runs on; a deleted suspended one still occupies its host."""
    state = read_letters(letters)
    names = (
        "is_pending can_start is_running has_begun is_held is_suspended is_deleting is_error"
        " is_restarted is_put_back"
    )

    assert {name for name in names.split() if getattr(state, name)} == set(facts.split())


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("r", SuspendedBy.NOBODY),
        ("s", SuspendedBy.USER),
        ("tS", SuspendedBy.QUEUE),
        ("dT", SuspendedBy.THRESHOLD),
        ("sST", SuspendedBy.USER),
    ],
)
def test_who_suspended_is_kept(letters: str, expected: SuspendedBy) -> None:
    assert read_letters(letters).suspended_by is expected


@pytest.mark.parametrize("letters", ["", "X", "qwX", "P"])
def test_unknown_letters_warn_once(letters: str, caplog: pytest.LogCaptureFixture) -> None:
    read_letters.cache_clear()
    with caplog.at_level(logging.WARNING):
        words = {read_letters(letters).word for _ in range(2)}

    assert words == {JobState.UNKNOWN}
    assert caplog.messages == [f"event=unknown_job_state letters={letters!r}"]


def test_a_pending_job_with_an_unknown_letter_still_counts_as_load() -> None:
    """Busier than it is does less harm than idler than it is."""
    assert read_letters("qwX").can_start


@given(st.text(max_size=8))
def test_no_letters_raise(letters: str) -> None:
    assert read_letters(letters).letters == letters
