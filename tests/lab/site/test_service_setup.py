"""gridbridge setup makes and removes what the service, campaigns and datasets need, also after a kill."""

from collections.abc import Iterator

import pytest

from gridbridge.model.fixed_paths import CAMPAIGN_CRON, DATASET_CRON
from tests.lab.configured import configured
from tests.lab.grid import Grid
from tests.lab.installed import installed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

MASTER, BARE = "alpha-master", "gamma-master"
BIN = "/opt/gridbridge/bin/gridbridge"
CAMPAIGNS, DATA, SERVICE = (f"{BIN} setup {name}" for name in ("campaigns", "data", "host"))
AREA = "/var/new-data"
STORAGE = f'$a [storage.new-data]\\ncluster = "alpha"\\npath = "{AREA}"'
AS_SERVICE = "setpriv --reuid gridbridge --regid gridbridge --init-groups --"
HUB = '[site]\ncluster = "hub"\n\n[cluster.gamma]\nkind = "oar"\n'
OF_SERVICE = """getent passwd gridbridge
ls -d /var/lib/gridbridge* /etc/*/gridbridge* /etc/systemd/system/gridbridge* /var/log/gridbridge* 2>/dev/null
ls -d /var/spool/gridbridge /etc/gridbridge/*; true"""


def killed_once(command: str, reached: str) -> str:
    """Return the script that kills a command as soon as a condition holds, and ends once the command is gone."""
    return f"{command} >/dev/null 2>&1 & until {reached}; do :; done; kill -9 $!; ! wait $!"


@pytest.fixture
def without(grid: Grid) -> Iterator[Grid]:
    yield grid
    grid.sh(MASTER, f"{DATA} --apply; rm -rf {CAMPAIGN_CRON} {DATASET_CRON} {AREA}")  # the lab's own areas are empty


def test_setup_campaigns_starts_both_programs_by_cron_and_keeps_peoples_lines(without: Grid) -> None:
    shown = without.sh(MASTER, f"{CAMPAIGNS}; test ! -e {CAMPAIGN_CRON}")
    without.sh(MASTER, f"{CAMPAIGNS} --apply && sed -i '1i # ours' {CAMPAIGN_CRON} && sed -i /nikita/d {CAMPAIGN_CRON}")
    items = without.sh(MASTER, f"{BIN} check --all; true")
    without.sh(MASTER, f"{CAMPAIGNS} --apply")
    lines = without.sh(MASTER, f"cat {CAMPAIGN_CRON}").splitlines()
    commands = [line.split(None, 6)[6].partition(">>")[0] for line in lines[1:]]
    planned = [without.on(MASTER, *f"{AS_SERVICE} {command} --dry-run".split()).status for command in commands]

    assert f"+++ {CAMPAIGN_CRON}\n" in shown
    assert f"file {CAMPAIGN_CRON}" in items
    assert lines[0] == "# ours"
    assert [command.strip() for command in commands] == [
        f"/opt/gridbridge/oar-hooks/{name}" for name in ("runner", "nikita")
    ]
    assert planned == [0, 0]
    assert without.sh(MASTER, CAMPAIGNS) == "nothing to do\n"

    without.sh(MASTER, f"{CAMPAIGNS} --remove --apply")

    assert without.sh(MASTER, f"ls {CAMPAIGN_CRON} 2>/dev/null; {CAMPAIGNS} --remove") == "nothing to do\n"


def test_setup_data_makes_the_folder_of_an_area_and_the_rounds(without: Grid) -> None:
    with configured(without, STORAGE):
        shown = without.sh(MASTER, DATA)
        without.sh(MASTER, f"{DATA} --apply")
        made = without.sh(MASTER, f"stat -c '%U %a' {AREA}; tail -n 1 {DATASET_CRON}; {DATA}")
        round_of_datasets = without.sh(MASTER, f"{AS_SERVICE} {BIN} rebalance data")
        without.sh(MASTER, f"{DATA} --remove --apply")
        left = without.sh(MASTER, f"ls -d {AREA} {DATASET_CRON} 2>/dev/null; {DATA} --remove")

    assert f"storage new-data: folder {AREA}: missing -> a folder, mode 1777" in shown
    assert made.splitlines()[0::2] == ["root 1777", "nothing to do"]
    assert "rebalance data --apply" in made
    assert "areas and" in round_of_datasets
    assert left == "nothing to do\n"


@pytest.mark.long
def test_a_killed_setup_is_completed_by_the_next_and_removal_leaves_no_trace(grid: Grid) -> None:
    with installed(grid, BARE):
        grid.on(BARE, "tee", "/etc/gridbridge/gridbridge.toml", stdin=HUB)
        before = grid.sh(BARE, f"rmdir /var/spool/gridbridge; {OF_SERVICE}")
        grid.sh(BARE, killed_once(f"{CAMPAIGNS} --apply", "getent passwd gridbridge >/dev/null"))
        partial = grid.sh(BARE, CAMPAIGNS)
        grid.sh(BARE, f"{CAMPAIGNS} --apply")
        whole = grid.sh(BARE, CAMPAIGNS)
        refused = grid.on(BARE, *f"{SERVICE} --remove".split())
        grid.sh(BARE, f"{CAMPAIGNS} --remove --apply")
        grid.sh(BARE, killed_once(f"{SERVICE} --remove --apply", "test ! -e /etc/sudoers.d/gridbridge"))
        grid.sh(BARE, f"{SERVICE} --remove --apply")
        after = grid.sh(BARE, OF_SERVICE)

    assert "in this order:" in partial
    assert whole == "nothing to do\n"
    assert (refused.status, "setup campaigns --remove" in refused.err) == (2, True)
    assert after == before
