"""Start a process of the service account: check its account, set up its log."""

import logging
import os
import pwd
import time

from gridbridge.errors import ConfigError
from gridbridge.model.places import CONFIG
from gridbridge.model.policy import Policy
from gridbridge.program.log_file import RotatedLog


def require_service_account(policy: Policy) -> None:
    """Raise ConfigError if the process does not run as the service account.

    Files of another account would be unreadable for the service. Personal sites are exempt.
    """
    account = policy.site.service_account
    runs_as = pwd.getpwuid(os.geteuid()).pw_name
    if not policy.is_personal and runs_as != account:
        words = f'[site] service_account = "{account}": this process is {runs_as}\'s'
        raise ConfigError((f"{CONFIG}: {words}; run it as {account}",))


def start_service_log(policy: Policy) -> None:
    """Log to standard error, one event per line, with times in UTC."""
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        format="%(asctime)sZ level=%(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
        handlers=[RotatedLog()],
    )
    for library in ("alembic", "paramiko"):
        logging.getLogger(library).setLevel(logging.WARNING)
    set_log_level(policy)


def set_log_level(policy: Policy) -> None:
    """Set the log level from the policy."""
    logging.getLogger().setLevel(policy.site.log_level.upper())
