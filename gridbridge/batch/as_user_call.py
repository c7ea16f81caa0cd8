"""Calls gridbridge-as-user, which root lets the service account run.

A service that is its one person's own (a site of embedded clusters) runs it as itself: there it
acts for that person alone, and keeps the same ledger.
"""

import logging

from gridbridge.errors import RemoteJobNotOurs
from gridbridge.model.places import AS_USER, LEDGER_CUT, NOT_OURS, PYTHON
from gridbridge.model.policy import Policy
from gridbridge.shell.runner import ANSWER_BYTES, CompletedProgram, run

SUDO = ("/usr/bin/sudo", "-n", AS_USER)
ALONE = (PYTHON, "-I", "-m", "gridbridge.privileged.as_user")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
PATIENCE_S = 60.0  # gridbridge-as-user limits each of its own commands

_is_personal = False
_log = logging.getLogger(__name__)


def reach(policy: Policy) -> None:
    """Make this process run it as its site demands; may be repeated."""
    global _is_personal  # of this process, as the connections of shell/ssh
    _is_personal = policy.is_personal


def call(
    *words: str, patience_s: float = PATIENCE_S, most_bytes: int = ANSWER_BYTES
) -> CompletedProgram:
    """Run it with these words; NotOurs when the id that it acts on is another's job by now."""
    way = ALONE if _is_personal else SUDO
    answer = run((*way, *words), ENVIRONMENT, patience_s, b"", most_bytes)
    _log_ledger_cuts(answer.stderr)
    if answer.status == NOT_OURS:
        raise RemoteJobNotOurs(last_words(answer))
    return answer


def _log_ledger_cuts(output: bytes) -> None:
    """Note in the log what root's ledger lacked; it is whole again, and says so once."""
    for line in output.decode("utf-8", "replace").splitlines():
        match line.split():
            case [word, ledger, cut] if word == LEDGER_CUT and cut.isdigit():
                _log.warning("event=ledger_cut ledger=%r bytes=%s", ledger, cut)


def last_words(answer: CompletedProgram) -> str:
    """Return why it did not act."""
    lines = answer.stderr.decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith(LEDGER_CUT)).strip()
