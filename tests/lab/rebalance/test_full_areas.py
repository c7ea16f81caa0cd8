"""Each storage area is a small filesystem that another user fills during a copy."""

import json
import threading
from collections.abc import Iterator

import pytest

from tests.lab.grid import Done, Grid
from tests.lab.rebalance.areas import storage_section, write_areas

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

HERE, FAR = "alpha-master", "gamma-master"
AREAS = {  # name: cluster, host, path, account
    "f-alpha": ("alpha", HERE, "/var/tmp/f-alpha", "alice"),
    "f-beta": ("beta", HERE, "/home/f-beta", "alice"),
    "f-gamma": ("gamma", FAR, "/var/tmp/f-gamma", "al_gamma"),
}
BIG_BYTES, AREA_MB, KIB_PER_S = 4_000_000, 8, 2000
TOML = "/tmp/f.toml"


@pytest.fixture(scope="module", autouse=True)
def areas(grid: Grid) -> Iterator[None]:
    for _, host, path, _ in AREAS.values():
        options = f"size={AREA_MB}m,mode=1777"
        grid.sh(host, f"mkdir -p {path} && mount -t tmpfs -o {options} tmpfs {path}")
    told = (storage_section(name, cluster, path, KIB_PER_S) for name, (cluster, _, path, _) in AREAS.items())
    write_areas(grid, TOML, "".join(told))
    grid.sh(HERE, f"head -c {BIG_BYTES} /dev/urandom >f.big", user="alice")
    yield
    data(grid, "drop", "full", "--lost")
    for _, host, path, _ in AREAS.values():
        grid.sh(host, f"umount {path}; rmdir {path}")
    grid.sh(HERE, f"rm -f {TOML} ~alice/f.big")


def data(grid: Grid, *words: str) -> Done:
    argv = ("gridbridge", "data", *words, "--config", TOML)
    return grid.on(HERE, *argv, user="alice", timeout_s=90)


def fill(grid: Grid, name: str) -> None:
    _, host, path, account = AREAS[name]
    came = ("test", "-s", f"{path}/{account}/.full.part/f.big")
    grid.until(lambda: grid.on(host, *came).status == 0, f"a copy to begin in {name}")
    grid.sh(host, f"cat /dev/zero >{path}/filler || :")


def there(grid: Grid, name: str) -> list[str]:
    _, host, path, account = AREAS[name]
    return grid.sh(host, f"ls -A -I .gridbridge.area {path}/{account}").split()


@pytest.mark.long
def test_areas_that_fill_during_a_copy_keep_no_part_of_it(grid: Grid) -> None:
    fills = [threading.Thread(target=fill, args=(grid, name)) for name in AREAS]
    for one in fills:
        one.start()
    added = data(grid, "add", "full", "f.big", "--replicas", "3")
    for one in fills:
        one.join()
    left = {name: there(grid, name) for name in AREAS}
    for _, host, path, _ in AREAS.values():
        grid.sh(host, f"rm {path}/filler")
    again = data(grid, "replicate", "full")
    found = json.loads(data(grid, "verify", "full", "--json").out)["replicas"]

    reasons = [line for line in added.out.splitlines() if "No space left on device" in line]
    assert (1, sorted(AREAS)) == (added.status, sorted(line.split()[1][:-1] for line in reasons))
    assert {name: [] for name in AREAS} == left
    assert 0 == again.status, again
    assert sorted(AREAS) == [one["storage"] for one in found if one["whole"]]
