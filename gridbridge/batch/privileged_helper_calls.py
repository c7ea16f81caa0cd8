"""Runs the verbs of gridbridge-as-root and gridbridge-as-user through sudo."""

import logging
import os
from collections.abc import Callable

from gridbridge.errors import MasterDeposed, RemoteJobNotOurs
from gridbridge.model.fixed_paths import AS_ROOT, AS_USER, DEPOSED, LEDGER_CUT, NOT_OURS, PYTHON
from gridbridge.model.site_configuration import Policy
from gridbridge.shell.program_runs import ANSWER_BYTES, BackgroundProgram, CompletedProgram, run_program

SUDO = ("/usr/bin/sudo", "-n")
SUDO_AS_USER = (*SUDO, AS_USER)
ALONE = (PYTHON, "-I", "-m", "gridbridge.privileged.as_user")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
PATIENCE_S = 60.0  # longer than gridbridge-as-user's limit for any command
_is_personal = False
_term_words: Callable[[], tuple[str, ...]] = tuple
_log = logging.getLogger(__name__)


def run_gridbridge_as_root(*words: str) -> None:
    """Run a request of gridbridge-as-root by sudo; raise CommandFailed if the request fails."""
    sudo = SUDO if os.geteuid() else ()
    run_program((*sudo, AS_ROOT, *words), ENVIRONMENT, PATIENCE_S).require_success()


def choose_sudo_or_direct_user_call(policy: Policy) -> None:
    """Make this process run gridbridge-as-user by sudo, or directly as the current user."""
    global _is_personal
    _is_personal = policy.is_single_user_site


def call_under_master_term(term_words: Callable[[], tuple[str, ...]]) -> None:
    """Begin each later call of gridbridge-as-user with the words of `term_words`, which raises MasterDeposed."""
    global _term_words
    _term_words = term_words


def record_master_at_root(program: str, term: int, host: str) -> tuple[int, str, int]:
    """Record a leading master; return the recorded term and host, and the inode number; term 0 changes nothing.

    Raises MasterDeposed if another master leads.
    """
    way = ALONE if _is_personal else SUDO_AS_USER
    answer = run_program((*way, "lead", program, str(term), host), ENVIRONMENT, PATIENCE_S)
    if answer.status == DEPOSED:
        raise MasterDeposed(gridbridge_as_user_error_text(answer))
    recorded, leader, inode = answer.require_success().stdout.decode("ascii").split()
    return int(recorded), leader, int(inode)


def run_gridbridge_as_user(
    *words: str, patience_s: float = PATIENCE_S, most_bytes: int = ANSWER_BYTES
) -> CompletedProgram:
    """Run gridbridge-as-user; raise RemoteJobNotOurs if the remote job id was reused."""
    way = ALONE if _is_personal else SUDO_AS_USER
    answer = run_program((*way, *_term_words(), *words), ENVIRONMENT, patience_s, b"", most_bytes)
    for line in answer.stderr.decode("utf-8", "replace").splitlines():
        match line.split():
            case [word, ledger, cut] if word == LEDGER_CUT and cut.isdigit():
                _log.warning("event=ledger_cut ledger=%r bytes=%s", ledger, cut)
    if answer.status == NOT_OURS:
        raise RemoteJobNotOurs(gridbridge_as_user_error_text(answer))
    if answer.status == DEPOSED:
        raise MasterDeposed(gridbridge_as_user_error_text(answer))
    return answer


def start_gridbridge_as_user(*words: str) -> BackgroundProgram:
    """Start gridbridge-as-user, which may run for a day; raise ProgramNotStarted."""
    way = ALONE if _is_personal else SUDO_AS_USER
    return BackgroundProgram((*way, *_term_words(), *words), ENVIRONMENT)


def gridbridge_as_user_error_text(answer: CompletedProgram) -> str:
    lines = answer.stderr.decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith(LEDGER_CUT)).strip()
