"""Keeps programs' answers for one look, whose parts ask the same questions in parallel.

Only for looks: no program may change anything.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock

from gridbridge.errors import CommandFailed
from gridbridge.model.route import BARE
from gridbridge.shell.runner import CompletedProgram, ask_by

UNNAMED = {"TZ", *BARE}  # variables that don't tell which cell is asked
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
        self._answers: dict[Question, Future[CompletedProgram]] = {}
        self._silences: dict[Question, CommandFailed] = {}  # by program and cell

    def answer(
        self, argv: tuple[str, ...], env: dict[str, str], ask: Callable[[], CompletedProgram]
    ) -> CompletedProgram:
        """Return a program's answer; one that hung at a cell is not asked there again."""
        question = (argv, tuple(sorted(env.items())))
        cell = tuple(variable for variable in question[1] if variable[0] not in UNNAMED)
        at_cell = (argv[:1], cell)
        with self._lock:
            is_new = question not in self._answers
            answer = self._answers.setdefault(question, Future())
        if is_new:
            _settle(answer, lambda: self._ask(at_cell, ask))
        return answer.result()

    def _ask(self, at_cell: Question, ask: Callable[[], CompletedProgram]) -> CompletedProgram:
        if silence := self._silences.get(at_cell):
            raise silence
        try:
            return ask()
        except CommandFailed as error:
            if at_cell[1] and error.status is None:
                self._silences[at_cell] = error
            raise


def _settle(answer: Future[CompletedProgram], ask: Callable[[], CompletedProgram]) -> None:
    try:
        answer.set_result(ask())
    except BaseException as error:  # threads that wait for the answer get the error
        answer.set_exception(error)
