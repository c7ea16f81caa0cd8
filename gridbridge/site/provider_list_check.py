"""Whether providers give the balancer their lists of machines, for the check.

A program of the balancer's asks them, as its account: credentials are that account's.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping

from gridbridge.errors import CommandFailed
from gridbridge.model.places import BALANCE_ACCOUNT, BALANCE_HOME, CONFIG
from gridbridge.model.policy import Policy
from gridbridge.model.site.setup_findings import CheckFinding, FindingState
from gridbridge.shell import host
from gridbridge.shell.account import words_as
from gridbridge.shell.runner import run

LIMIT_S = 30.0
MODULE = ("-I", "-m", "gridbridge.elastic.balancer.machine_lists")
ITEM = "lists of providers"


def findings(policy: Policy, path: str = CONFIG) -> Iterator[CheckFinding]:
    """Judge whether each pool's provider gives its list, asked once."""
    pools = [name for name, pool in policy.pools.items() if pool.provider]
    if not pools:
        return
    if os.geteuid() not in (0, host.uid_of(BALANCE_ACCOUNT)):
        yield CheckFinding(item=ITEM, state=FindingState.NOTE, found="not asked: run it as root")
        return
    try:
        troubles = _troubles(path)
    except CommandFailed as error:
        yield CheckFinding(
            item=ITEM, state=FindingState.WARNING, found=f"not judged: {error.words}"
        )
        return
    yield from (_finding(pool, troubles.get(pool)) for pool in pools)


def _finding(pool: str, trouble: str | None) -> CheckFinding:
    item = f"pool {pool}: its provider's list"
    if trouble is None:  # another gridbridge.toml is checked
        return CheckFinding(
            item=item, state=FindingState.NOTE, found=f"not asked: {CONFIG} lacks the pool"
        )
    if not trouble:
        return CheckFinding(item=item, state=FindingState.OK, found="it gives one")
    hint = "no node of the pool is added or removed"
    right = "a list of its machines"
    return CheckFinding(item=item, state=FindingState.BROKEN, found=trouble, right=right, hint=hint)


def _troubles(path: str) -> Mapping[str, str]:
    """Return of each pool why there is no list; CommandFailed without an answer in time."""
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": BALANCE_HOME}
    argv = (*words_as(BALANCE_ACCOUNT), sys.executable, *MODULE, path)
    printed = run(argv, environment, LIMIT_S).checked().stdout
    try:
        return dict(json.loads(printed.splitlines()[-1]))
    except (ValueError, IndexError) as error:
        raise CommandFailed(argv, 0, printed) from error
