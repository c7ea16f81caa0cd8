"""Tests of the state letters of jobs and queue instances."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.batch.gridengine import qstat_xml_parser
from gridbridge.batch.qstat_state_letters import (
    parse_job_state_letters,
    parse_queue_state_letters,
    render_job_state_letters,
    render_queue_state_letters,
)
from gridbridge.model.job_and_queue_states import JobStateFact, QueueInstanceState, QueueStartBlocker

QSTAT = " qw hqw Rq hRq Eqw EhRq t r hr hRr s hs ds dhRs dr dhqw"
WORDS = {
    JobStateFact.WAITING: "qw Rq Rqw",
    JobStateFact.HELD: "hqw hRwq hRq hq",
    JobStateFact.RUNNING: "t r hr Rr Rt hRr ht",
    JobStateFact.SUSPENDED: "s ts S tS T tT Rs Rts RS RtS RT RtT hs",
    JobStateFact.ERROR: "Eqw Ehqw EhRqw",
    JobStateFact.DELETING: "dr dt dRr dRt ds dS dT dRs dRS dRT dqw",
    JobStateFact.FINISHED: "z",
}


@pytest.mark.parametrize(
    ("letters", "expected"),
    [(letters, word) for word, group in WORDS.items() for letters in group.split()],
    ids=lambda value: str,
)
def test_every_letter_combination_of_sge_status_has_a_state_word(letters: str, expected: str) -> None:
    """See sge_status(5)."""
    assert parse_job_state_letters(letters).most_important_fact == expected


@pytest.mark.parametrize(
    ("letters", "facts"),
    [
        ("qw", "is_waiting can_start"),
        ("qwX", "is_waiting can_start"),
        ("Rq", "is_waiting can_start is_restarted is_put_back"),
        ("hRwq", "is_waiting is_held is_restarted is_put_back"),
        ("EhRqw", "is_waiting is_held is_error is_restarted is_put_back"),
        ("hr", "is_running has_begun is_held"),
        ("t", "is_running"),
        ("tS", "is_running is_suspended"),
        ("dRr", "is_running has_begun is_deleting is_restarted"),
        ("dT", "is_running has_begun is_suspended is_deleting"),
        ("dqw", "is_waiting is_deleting"),
    ],
)
def test_a_state_may_have_several_facts(letters: str, facts: str) -> None:
    state = parse_job_state_letters(letters)
    names = (
        "is_waiting can_start is_running has_begun is_held is_suspended is_deleting is_error is_restarted is_put_back"
    )

    assert {name for name in names.split() if getattr(state, name)} == set(facts.split())


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("r", set()),
        ("s", {JobStateFact.BY_HAND}),
        ("tS", {JobStateFact.BY_QUEUE}),
        ("dT", {JobStateFact.BY_THRESHOLD}),
        ("sST", {JobStateFact.BY_HAND, JobStateFact.BY_QUEUE, JobStateFact.BY_THRESHOLD}),
    ],
)
def test_the_cause_of_a_suspension_is_parsed(letters: str, expected: set[str]) -> None:
    suspenders = {JobStateFact.BY_HAND, JobStateFact.BY_QUEUE, JobStateFact.BY_THRESHOLD}

    assert parse_job_state_letters(letters).facts & suspenders == expected


@pytest.mark.parametrize("letters", ["", "X", "qwX", "P"])
def test_unknown_state_letters_are_logged_once(letters: str, caplog: pytest.LogCaptureFixture) -> None:
    qstat_xml_parser.parse_job_state_log_unknown.cache_clear()
    with caplog.at_level(logging.WARNING):
        words = {qstat_xml_parser.parse_job_state_log_unknown(letters).most_important_fact for _ in range(2)}

    assert words == {JobStateFact.UNKNOWN}
    assert caplog.messages == [f"event=unknown_job_state letters={letters!r}"]


@given(st.text(max_size=8))
def test_any_letters_are_parsed_without_error(letters: str) -> None:
    assert parse_job_state_letters(letters).text == letters
    assert parse_job_state_letters(letters).is_listed


@pytest.mark.parametrize(
    ("letters", "facts"),
    [
        ("", set()),
        ("au", {QueueStartBlocker.LOADED, QueueStartBlocker.UNREACHABLE}),
        ("dE", {QueueStartBlocker.DISABLED, QueueStartBlocker.ERROR}),
        ("DA", {QueueStartBlocker.OFF_HOURS, QueueStartBlocker.OVERLOADED}),
        ("s", {QueueStartBlocker.SUSPENDED, QueueStartBlocker.BY_HAND}),
        ("S", {QueueStartBlocker.SUSPENDED}),
        ("C", {QueueStartBlocker.SUSPENDED, QueueStartBlocker.OFF_HOURS}),
        ("c?", {QueueStartBlocker.UNKNOWN}),
    ],
)
def test_queue_state_letters_become_facts(letters: str, facts: set[str]) -> None:
    assert parse_queue_state_letters(letters) == QueueInstanceState(facts, letters)


@pytest.mark.parametrize("letters", QSTAT.split(" "))
def test_job_facts_are_rendered_as_qstats_letters(letters: str) -> None:
    assert render_job_state_letters(parse_job_state_letters(letters).facts) == letters


def test_queue_facts_are_rendered_as_qstats_letters() -> None:
    assert [render_queue_state_letters(parse_queue_state_letters(one).facts) for one in ("", "u", "d", "ud")] == [
        *("", "u", "d", "ud")
    ]
