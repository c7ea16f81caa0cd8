"""An administrator makes and removes the balancer's account and rights on alpha's master."""

import json
import re
from collections.abc import Iterator

import pytest

from gridbridge.decisions.site.balancer_setup_requirements import CRON_LINE, SUDOERS_LINE
from gridbridge.model.fixed_paths import AS_ROOT, BALANCE_CRON, BALANCE_HOME, BALANCE_SUDOERS
from tests.lab.grid import Grid
from tests.lab.grid import unprepared_grid as unprepared_grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

HOST, ACCOUNT = "alpha-master", "gridbridge-admin"
SETUP = ("gridbridge", "setup", "balance")


@pytest.fixture(autouse=True)
def without(grid: Grid) -> Iterator[None]:
    grid.on(HOST, *SETUP, "--remove", "--apply")
    yield
    grid.on(HOST, *SETUP, "--remove", "--apply")


def judged(grid: Grid) -> dict[str, str]:
    items = json.loads(grid.on(HOST, "gridbridge", "check", "--json").out)["items"]
    ours = re.compile(r"balance|gridbridge-admin")
    return {one["name"]: one["state"] for one in items if ours.search(one["name"])}


def test_setup_makes_the_balancers_account_once_and_removes_its_rights(grid: Grid) -> None:
    printed = grid.sh(HOST, f"{' '.join(SETUP)} --script")
    made = grid.sh(HOST, f"{' '.join(SETUP)} --apply")
    again = grid.sh(HOST, f"{' '.join(SETUP)} --apply")

    assert f"qconf -am {ACCOUNT}" in printed
    assert CRON_LINE in printed
    assert f"alpha: manager {ACCOUNT}: not admitted -> admitted" in made
    assert "nothing to do" in again
    assert f"{CRON_LINE}\n" == grid.sh(HOST, f"tail -n 1 {BALANCE_CRON}")
    assert f"{SUDOERS_LINE}\n" == grid.sh(HOST, f"cat {BALANCE_SUDOERS}")
    assert {"ok", "note"} >= set(judged(grid).values())
    assert "711\n" == grid.sh(HOST, f"stat -c %a {BALANCE_HOME}")

    grid.sh(HOST, f"{' '.join(SETUP)} --remove --apply")

    assert ACCOUNT not in grid.sh(HOST, "qconf -sm").split()
    assert "" == grid.sh(HOST, f"ls -d {BALANCE_CRON} {BALANCE_SUDOERS} {BALANCE_HOME} 2>/dev/null || true")
    assert "nothing to do\n" == grid.sh(HOST, f"! getent passwd {ACCOUNT} && {' '.join(SETUP)} --remove")
    assert {} == judged(grid)


def test_only_the_balancers_account_may_call_gridbridge_as_root(grid: Grid) -> None:
    grid.sh(HOST, f"{' '.join(SETUP)} --apply")
    asked = ("sudo", "-n", AS_ROOT, "unname", "alpha-n99")

    assert 0 == grid.on(HOST, "setpriv", *as_(ACCOUNT), *asked).status
    assert 0 != grid.on(HOST, "setpriv", *as_(ACCOUNT), "sudo", "-n", "id").status
    assert 0 != grid.on(HOST, "setpriv", *as_("gridbridge"), *asked).status
    assert 0 != grid.on(HOST, "setpriv", *as_("alice"), *asked).status


def test_the_balancers_cron_line_logs_its_plan(grid: Grid) -> None:
    grid.sh(HOST, f"{' '.join(SETUP)} --apply")
    command = CRON_LINE.split(ACCOUNT, 1)[1].partition(">>")[0].split()

    done = grid.on(HOST, "setpriv", *as_(ACCOUNT), *command, "--max-nodes", "9")

    assert 0 == done.status, done.err
    assert "no node is added or removed" in done.out


def as_(account: str) -> tuple[str, ...]:
    return ("--reuid", account, "--regid", account, "--init-groups", "--")
