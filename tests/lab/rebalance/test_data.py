"""People's dataset replicas on real clusters: by ssh, interrupted, resumed, full, corrupted, unreachable."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.grid import Done, Grid
from tests.lab.rebalance.areas import storage_section, write_areas

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

HERE, FAR, ACCOUNT = "alpha-master", "gamma-master", "al_gamma"
AREAS = {  # name: cluster, host, path, KiB/s
    "t-alpha": ("alpha", HERE, "/var/tmp/t-alpha", 0),
    "t-beta": ("beta", HERE, "/home/t-beta", 0),
    "t-gamma": ("gamma", FAR, "/var/tmp/t-gamma", 0),
    "t-slow": ("gamma", FAR, "/var/tmp/t-slow", 1500),
    "t-small": ("gamma", FAR, "/var/tmp/t-small", 0),
    "t-taken": ("alpha", HERE, "/var/tmp/t-taken", 0),
    "t-taken-far": ("gamma", FAR, "/var/tmp/t-taken-far", 0),
}
TAKEN = ("t-taken", "t-taken-far")  # in which somebody else makes the accounts' names first
SITES = {  # name of a gridbridge.toml: the areas in it
    "all": tuple(name for name in AREAS if name not in TAKEN),
    "taken": TAKEN,
    "three": ("t-alpha", "t-beta", "t-gamma"),
    "far": ("t-gamma", "t-slow"),
    "small": ("t-small",),
    "cut": ("t-alpha", "t-gamma"),
}
BIG_BYTES, SOME_BYTES = 6_000_000, 1_000_000
CUT = f'sed -i \'s/^ssh = "{FAR}"/ssh = "{FAR}:1"/\' /tmp/t-cut.toml'  # nobody listens there
MADE = f"""\
head -c {BIG_BYTES} /dev/urandom >big
mkdir -p tree/many only && date >tree/a && date >only/one
mkdir -m 700 private && date >private/x
cd tree/many && for n in $(seq 300); do printf x >$n; done
"""


@pytest.fixture(scope="module", autouse=True)
def areas(grid: Grid) -> Iterator[None]:
    """Make storage areas that alice configures in her own files; one area holds 1 MB."""
    for _, host, path, _ in AREAS.values():
        grid.sh(host, f"install -d -m 1777 {path}")
    grid.sh(FAR, "mount -t tmpfs -o size=1m,mode=1777 tmpfs /var/tmp/t-small")
    for site, names in SITES.items():
        told = (storage_section(name, AREAS[name][0], *AREAS[name][2:]) for name in names)
        write_areas(grid, f"/tmp/t-{site}.toml", "".join(told))
    grid.sh(HERE, CUT)
    grid.sh(HERE, MADE, user="alice")
    yield
    grid.sh(FAR, "umount /var/tmp/t-small")
    for _, host, path, _ in AREAS.values():
        grid.sh(host, f"rm -rf {path}")
    mine = "big tree only private apart .gridbridge/data"
    grid.sh(HERE, f"rm -rf /tmp/t-*.toml; cd ~alice && rm -rf {mine}")


def data(grid: Grid, *words: str, site: str = "all", user: str = "alice") -> Done:
    argv = ("gridbridge", "data", *words, "--config", f"/tmp/t-{site}.toml")
    return grid.on(HERE, *argv, user=user, timeout_s=90)


def seen(grid: Grid, name: str, site: str = "all") -> dict[str, dict[str, Any]]:
    done = data(grid, "verify", name, "--json", site=site)
    return {one["storage"]: one for one in json.loads(done.out)["replicas"]}


def test_a_tree_has_whole_replicas_at_three_clusters(grid: Grid) -> None:
    """Each replica belongs to its owner, and no other user can read it."""
    done = data(grid, "add", "tree", "tree", "--replicas", "3", site="three")
    found = seen(grid, "tree")

    assert (0, "") == (done.status, done.err), done
    assert {"t-alpha": True, "t-beta": True, "t-gamma": True} == {name: one["whole"] for name, one in found.items()}
    own = f"/var/tmp/t-gamma/{ACCOUNT}"
    facts = grid.sh(FAR, f"stat -c '%U %a' {own}; stat -c %U {own}/tree/a").splitlines()
    assert [f"{ACCOUNT} 700", ACCOUNT] == facts


@pytest.mark.long
def test_a_copy_whose_rsync_is_killed_goes_on_and_does_not_count_before(grid: Grid) -> None:
    """Rsync is killed at both ends. The copy resumes in the same partial file."""
    place = f"/var/tmp/t-slow/{ACCOUNT}"
    part = f"{place}/.big.part/big"
    data(grid, "add", "big", "big", site="three")
    grown = [killed(grid, host, part) for host in (HERE, FAR)]
    done = data(grid, "replicate", "big", "--to", "t-slow")
    whole = grid.sh(FAR, f"stat -c '%i %s' {place}/big/big").split()

    assert 0 == done.status, done
    assert {whole[0]} == {inode for inode, _ in grown}
    assert SOME_BYTES < int(grown[0][1]) <= int(grown[1][1]) < BIG_BYTES == int(whole[1])


def killed(grid: Grid, host: str, part: str) -> list[str]:
    """Kill rsync at a host during a copy; return inode and size of the partial file."""
    ended: list[Done] = []
    words = ("replicate", "big", "--to", "t-slow")
    copying = threading.Thread(target=lambda: ended.append(data(grid, *words)))
    copying.start()
    came = f"[ $(stat -c %s {part} 2>/dev/null || echo 0) -gt {SOME_BYTES} ] && pgrep -x rsync"
    grid.until(lambda: grid.on(FAR, "sh", "-c", came).status == 0, "some of it to arrive")
    grid.on(host, "pkill", "-KILL", "-x", "rsync")
    copying.join()

    assert 1 == ended[0].status, ended
    assert "not t-slow: " in ended[0].out
    return grid.sh(FAR, f"stat -c '%i %s' {part}; ls {part}").split()[:2]


def test_an_area_that_fills_gets_no_replica(grid: Grid) -> None:
    """The 300 files of one byte need 300 pages, and the area has 256."""
    done = data(grid, "add", "many", "tree/many", site="small")
    whole = seen(grid, "many")
    dropped = data(grid, "drop", "many", site="small")

    assert 1 == done.status
    assert "No space left on device" in done.out
    assert {} == whole
    assert 0 == dropped.status


@pytest.mark.long
def test_an_altered_replica_is_restored_from_another_area(grid: Grid) -> None:
    """The original is gone. The copy goes by ssh between two other areas."""
    data(grid, "add", "only", "only", "--replicas", "2", site="far")
    grid.sh(HERE, "rm -r only", user="alice")
    grid.sh(FAR, f"echo x >>/var/tmp/t-slow/{ACCOUNT}/only/one", user=ACCOUNT)

    found = seen(grid, "only", "far")
    mended = data(grid, "replicate", "only", site="far")
    relayed = grid.sh(HERE, "ls -A .gridbridge/data | grep relay || :", user="alice")
    dropped = data(grid, "drop", "only", site="far")

    assert (True, False) == (found["t-gamma"]["whole"], found["t-slow"]["whole"])
    assert "one has another checksum" == found["t-slow"]["why"]
    assert (0, True) == (mended.status, "2 of 2 replicas whole" in mended.out), mended
    assert (0, "") == (dropped.status, relayed)
    assert "" == grid.sh(FAR, f"find /var/tmp/t-slow/{ACCOUNT} -name '*only*'")


def test_nobody_can_read_or_change_another_persons_dataset(grid: Grid) -> None:
    home = grid.sh(HERE, "pwd", user="alice").strip()

    verified = data(grid, "verify", "tree", user="bob")
    added = data(grid, "add", "hers", f"{home}/private/x", user="bob")
    records = data(grid, "drop", "tree", "--records", f"{home}/.gridbridge/data", user="bob")
    as_root = data(grid, "list", user="root")

    told = "gridbridge: tree: no dataset of yours; your datasets: none\n"
    assert (2, told) == (verified.status, verified.err)
    assert (2, 1) == (added.status, len(added.err.splitlines()))
    assert "Permission denied" in added.err
    assert (2, 1) == (records.status, len(records.err.splitlines()))
    assert (2, True) == (as_root.status, "root has no datasets" in as_root.err)


def test_nobody_can_keep_another_person_out_of_an_area(grid: Grid) -> None:
    """Bob, and his account at the other cluster, first create a folder of alice's name."""
    apart = ("--records", "taken")
    grid.sh(HERE, "mkdir -m 755 /var/tmp/t-taken/alice", user="bob")
    grid.sh(FAR, f"ln -s /home/{ACCOUNT} /var/tmp/t-taken-far/{ACCOUNT}", user="bo_gamma")
    added = data(grid, "add", "tree", "tree", "--replicas", "2", *apart, site="taken")
    verified = data(grid, "verify", "tree", *apart, site="taken")
    own = [
        grid.sh(host, f"stat -c '%U %a' /var/tmp/{name}/{account}.*").strip()
        for host, name, account in ((HERE, "t-taken", "alice"), (FAR, "t-taken-far", ACCOUNT))
    ]
    left = grid.sh(HERE, "ls -A /var/tmp/t-taken/alice")
    dropped = data(grid, "drop", "tree", *apart, site="taken")
    grid.sh(HERE, "rm -r taken", user="alice")

    assert (0, "") == (added.status, added.err), added
    assert (0, 0) == (verified.status, dropped.status), (verified, dropped)
    assert ["alice 700", f"{ACCOUNT} 700"] == own
    assert "" == left


@pytest.mark.long
def test_an_unreachable_area_is_reported_and_its_data_copied_to_another(grid: Grid) -> None:
    apart = ("--records", "apart")  # what is drained has this dataset alone
    data(grid, "add", "safe", "tree/a", *apart, site="far")
    data(grid, "replicate", "safe", "--to", "t-gamma", *apart)

    done = data(grid, "replicate", "safe", *apart, site="cut")
    shown = data(grid, "verify", "safe", "--json", *apart, site="cut")
    drained = data(grid, "drain", "t-gamma", *apart, site="cut")
    back = data(grid, "drain", "t-gamma", *apart)

    told = {one["storage"]: one for one in json.loads(shown.out)["replicas"]}
    assert 0 == done.status, done
    assert (True, False) == (told["t-alpha"]["whole"], told["t-gamma"]["whole"])
    assert f"can't reach {FAR}" in told["t-gamma"]["why"]
    assert 1 == drained.status
    assert "--lost forgets the replica" in drained.out
    assert (0, False) == (back.status, "t-gamma" in back.out), back
