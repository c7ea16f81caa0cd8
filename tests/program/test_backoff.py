"""Retries of a failing subject become less frequent, independently of other subjects."""

from gridbridge.program.threads_and_backoff import BackoffBySubject


def tries(backoff: BackoffBySubject, now_s: list[float], until_s: int) -> list[int]:
    """Try a subject every second if allowed; return the seconds at which it was tried."""
    found = []
    for second in range(until_s):
        now_s[0] = float(second)
        if backoff.may_try("x"):
            found.append(second)
    return found


def test_the_backoff_doubles_up_to_its_maximum() -> None:
    now_s = [0.0]

    assert tries(BackoffBySubject(lambda: now_s[0], 5, 30), now_s, 120) == [0, 5, 15, 35, 65, 95]


def test_a_forgotten_subject_begins_with_the_first_pause() -> None:
    now_s = [0.0]
    backoff = BackoffBySubject(lambda: now_s[0], 5, 30)
    backoff.may_try("x")
    backoff.may_try("y")

    backoff.forget_failed_tries("x")

    assert (backoff.may_try("x"), backoff.may_try("y")) == (True, False)


def test_untried_subjects_take_no_memory() -> None:
    now_s = [0.0]
    backoff = BackoffBySubject(lambda: now_s[0], 5, 30)
    for number in range(1000):
        now_s[0] = float(number)
        backoff.may_try(number)

    assert len(backoff._next) <= 5 + 30 + 1
    assert not backoff.may_try(999)
