"""Calls gridbridge-as-user, which root lets the service account run."""

from gridbridge.errors import NotOurs
from gridbridge.model.places import AS_USER, NOT_OURS
from gridbridge.shell.runner import Completed, run

SUDO = ("/usr/bin/sudo", "-n", AS_USER)
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
PATIENCE_S = 60.0  # gridbridge-as-user limits each of its own commands


def call(*words: str) -> Completed:
    """Run it with these words; NotOurs when the id that it acts on is another's job by now."""
    done = run((*SUDO, *words), ENVIRONMENT, PATIENCE_S)
    if done.status == NOT_OURS:
        raise NotOurs(last_words(done))
    return done


def last_words(done: Completed) -> str:
    """Return why it did not act."""
    return done.stderr.decode("utf-8", "replace").strip()
