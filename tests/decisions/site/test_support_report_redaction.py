"""A support report shows gridbridge's own words, names of the site's objects and numbers, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.site.support_report_redaction import ReadableWords, redact_text, words_of_texts

WORDS = words_of_texts(
    ["event=clock_ahead level=INFO host job of was sent to, ssh: connection refused, the owner", "/var/log"]
)
READABLE = ReadableWords(
    words=WORDS,
    names=frozenset({"beta", "beta-n1"}),
    accounts=frozenset({"refused", "host_beta"}),
    phrases=("job was sent",),
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("level=INFO event=clock_ahead host=beta-n1", None, id="a log line"),
        pytest.param("2026-03-01T12:00:00.123Z 14s 3KiB 100% +0.5 (7)", None, id="numbers and units"),
        pytest.param("job 7 of carol was sent to beta", "job 7 of *** was sent to beta", id="an account"),
        pytest.param("owner=host event=sent", "owner=*** event=sent", id="an account named like a word"),
        pytest.param("ssh: sesame connection", "ssh: *** connection", id="a stranger's word"),
        pytest.param("refused host_beta sent-refused", "*** *** ***", id="accounts named like words"),
        pytest.param("/var/log /var/log/thesis", "/var/log ***", id="paths"),
        pytest.param("job-sent job-s3same-sent", "job-sent ***", id="a hidden part hides its chunk"),
        pytest.param("sent-12345678901", "***", id="a long number"),
        pytest.param("7e4f 0xff größe jobß", "*** *** *** ***", id="no word and no number"),
        pytest.param("a-b: job was sent", "***: ***", id="a phrase in gridbridge's own words"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_only_own_words_names_and_numbers_stay(text: str, shown: str | None) -> None:
    assert redact_text(text, READABLE) == (text if shown is None else shown)


@given(st.text(st.sampled_from("ab=,. -/:x1\n\"'ß"), max_size=40), st.text("xyz", min_size=3, max_size=9))
def test_a_word_that_nobody_listed_is_shown_nowhere(around: str, secret: str) -> None:
    text = f"{around}{secret}{around} {secret}={secret}"

    assert secret not in redact_text(text, ReadableWords(words=frozenset({"a", "b"}), names=frozenset()))
