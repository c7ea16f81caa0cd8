"""Keeps programs' answers for one look, whose parts ask the same questions in parallel.

Only for looks: no program may change anything.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock

from gridbridge.shell.runner import Completed, ask_by

Question = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]  # a program, and its environment


@contextmanager
def kept() -> Iterator[None]:
    """Run each program once, in the first thread that asks; a failure is an answer, too."""
    ask_by(_Answers().answer)
    try:
        yield
    finally:
        ask_by(None)


class _Answers:
    def __init__(self) -> None:
        self._lock = Lock()
        self._answers: dict[Question, Future[Completed]] = {}

    def answer(
        self, argv: tuple[str, ...], env: dict[str, str], ask: Callable[[], Completed]
    ) -> Completed:
        question = (argv, tuple(sorted(env.items())))
        with self._lock:
            is_new = question not in self._answers
            answer = self._answers.setdefault(question, Future())
        if is_new:
            _settle(answer, ask)
        return answer.result()


def _settle(answer: Future[Completed], ask: Callable[[], Completed]) -> None:
    try:
        answer.set_result(ask())
    except BaseException as error:  # threads that wait for the answer get the error
        answer.set_exception(error)
