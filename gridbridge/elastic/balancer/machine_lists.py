"""Asks each pool's provider once for its list of machines, for the plan and for the check.

usage: python3 -I -m gridbridge.elastic.balancer.machine_lists CONFIG; prints that by pool
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from gridbridge.config import policy_file
from gridbridge.elastic.providers import provider_registry
from gridbridge.elastic.providers.provider_protocol import MachineListing
from gridbridge.errors import GridbridgeError
from gridbridge.model.places import BALANCE_ACCOUNT
from gridbridge.model.policy import Policy
from gridbridge.shell import host

AT_ONCE = 16


def may_ask() -> bool:
    """Say whether providers obey this account as they do the balancer."""
    return host.uid_of(BALANCE_ACCOUNT) in (0, os.geteuid())


def troubles(policy: Policy) -> dict[str, str]:
    """Return of each pool why its provider gives no whole list; empty: it gives one."""
    makers = provider_registry.makers(policy)
    with ThreadPoolExecutor(AT_ONCE, "provider") as threads:
        return dict(zip(makers, threads.map(_trouble, makers.values()), strict=True))


def _trouble(provider: MachineListing) -> str:
    try:
        provider.machines()
    except GridbridgeError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    print(json.dumps(troubles(policy_file.load(sys.argv[1]))))  # noqa: T201 - for the check
