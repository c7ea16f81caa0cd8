"""Runs a process that carries out root's requests, one after another, as a campaign's owner.

Root records each answer before the next request, so root's ledger has all acts of the process.
"""

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from gridbridge.errors import GridbridgeError, RemoteJobNotOurs
from gridbridge.model.fixed_paths import NO_OWNER, NOT_NOW, NOT_OURS, REFUSED_THERE
from gridbridge.privileged import as_user_refusals_and_user_switch
from gridbridge.privileged.process_scope import UserProcessScope
from gridbridge.shell.program_runs import ANSWER_BYTES, remaining_ms_until_deadline

Answers = Callable[[list[str]], str]  # takes the words of a request, and returns the answer
Begin = Callable[[str], Answers]  # takes the owner's login name, and returns an Answers function

ANSWERED: dict[int, type[GridbridgeError]] = {
    as_user_refusals_and_user_switch.REFUSED: as_user_refusals_and_user_switch.AsUserRequestRefusal,
    NOT_OURS: RemoteJobNotOurs,
    REFUSED_THERE: as_user_refusals_and_user_switch.JobNeverAcceptedByCluster,
    NOT_NOW: as_user_refusals_and_user_switch.OwnerRequestNotYetPossible,
    NO_OWNER: as_user_refusals_and_user_switch.OwnerAccountUnavailable,
}


class OwnerWorkerLoss(GridbridgeError):
    """Raised when the owner's process has ended; the outcome of its last request is unknown."""


class CampaignOwnerWorker:
    """A process of a campaign's owner that answers requests until root has no more requests."""

    def __init__(self, uid: int, begin: Begin, limit_s: float = as_user_refusals_and_user_switch.LIMIT_S) -> None:
        """Start the owner's process, which the owner can suspend; so root ends the process after `limit_s`."""
        asks, self._ask = os.pipe()
        self._answers, tells = os.pipe()
        self._deadline = time.monotonic() + limit_s
        self._limit_s = limit_s
        self.scope = UserProcessScope(limit_s)
        if not self.scope.pid:
            os.close(self._ask)
            os.close(self._answers)
            _answer_requests_as_owner(uid, begin, asks, tells)
        os.close(asks)
        os.close(tells)

    def send_request_to_owner_process(self, *words: str) -> str:
        """Send a request to the owner's process; return its answer or raise its error."""
        with suppress(BrokenPipeError):  # the owner's process may have sent an error and ended
            os.write(self._ask, f"{' '.join(words)}\n".encode())
        status, _, answer = self._read_answer_line_of_owner_process().partition(" ")
        if status != "0":
            raise ANSWERED.get(int(status), GridbridgeError)(answer)
        return answer

    def _read_answer_line_of_owner_process(self) -> str:
        read = bytearray()
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        while not read.endswith(b"\n"):
            ready = []
            with suppress(TimeoutError):
                ready = poll.poll(remaining_ms_until_deadline(self._deadline))
            if not ready:
                self.scope.kill_scope_processes()
                raise OwnerWorkerLoss(f"the request was not done within {self._limit_s:g} s")
            if not (chunk := os.read(self._answers, 65536)):
                raise OwnerWorkerLoss("the owner's process ended")
            read += chunk
            if len(read) > ANSWER_BYTES:
                self.scope.kill_scope_processes()
                raise OwnerWorkerLoss(f"the answer of the owner's process exceeds {ANSWER_BYTES >> 20} MiB")
        return read.decode("utf-8", "replace").rstrip("\n")


def _answer_requests_as_owner(uid: int, begin: Begin, asks: int, tells: int) -> NoReturn:
    def encode_answer_or_error(answers: Answers, words: list[str]) -> bytes:
        try:
            return f"0 {answers(words)}\n".encode()
        except (GridbridgeError, OSError) as error:
            return _error_answer_line(error)

    try:
        answers = begin(as_user_refusals_and_user_switch.switch_to_user(uid))
        with os.fdopen(asks) as requests:
            for line in requests:
                os.write(tells, encode_answer_or_error(answers, line.split()))
        os._exit(0)
    except as_user_refusals_and_user_switch.MissingUserAccount as error:
        os.write(tells, _error_answer_line(as_user_refusals_and_user_switch.OwnerAccountUnavailable(str(error))))
    except (GridbridgeError, OSError) as error:
        os.write(tells, _error_answer_line(error))
    finally:
        os._exit(as_user_refusals_and_user_switch.FAILED)


def _error_answer_line(error: Exception) -> bytes:
    status = as_user_refusals_and_user_switch.exit_status_of_as_user_error(error)
    return f"{status} {as_user_refusals_and_user_switch.limited_error_line(error)}\n".encode("utf-8", "replace")
