"""Cycles of the service keep people's datasets on real clusters, through processes of the owners."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.campaigns import runner
from tests.lab.configured import configured
from tests.lab.grid import Done, Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

HERE, FAR, ACCOUNT = "alpha-master", "gamma-master", "al_gamma"
AREAS = {  # name: cluster, host, path, KiB/s
    "k-alpha": ("alpha", HERE, "/var/tmp/k-alpha", 0),
    "k-beta": ("beta", HERE, "/home/k-beta", 0),
    "k-gamma": ("gamma", FAR, "/var/tmp/k-gamma", 1500),
    "k-small": ("delta", "delta-master", "/var/tmp/k-small", 0),
}
BIG_BYTES, SOME_BYTES = 8_000_000, 1_000_000
RULES = (
    *("full_free_bytes = 0", "host_rest_s = 0", "replicated_rest_s = 0"),
    *("verify_every_s = 0", "disk_share = 1.0", "level = 0"),  # all areas lie on one disk
)
MADE = f"""\
mkdir -p kept && date >kept/a && date >kept/b
head -c {BIG_BYTES} /dev/urandom >kept.big
mkdir kept.many && cd kept.many && for n in $(seq 300); do printf x >$n; done
"""
AS_USER = "/opt/gridbridge/bin/gridbridge-as-user"


def section(name: str) -> str:
    cluster, _, path, kib = AREAS[name]
    lines = (f"[storage.{name}]", f'cluster = "{cluster}"', f'path = "{path}"')
    return "\\n".join(("", *lines, f"bwlimit_kib_per_s = {kib}"))


@pytest.fixture(scope="module", autouse=True)
def areas(grid: Grid) -> Iterator[None]:
    """Add storage areas to the service's gridbridge.toml; one area holds 1 MB."""
    for _, host, path, _ in AREAS.values():
        grid.sh(host, f"install -d -m 1777 {path}")
    grid.sh("delta-master", "mount -t tmpfs -o size=1m,mode=1777 tmpfs /var/tmp/k-small")
    rules = "\\n".join(RULES)
    added = "".join(map(section, AREAS))
    script = f"/^.storage/,/^$/d; s/^full_free_bytes = 0/{rules}/; $a\\{added}"
    grid.sh(HERE, MADE, user="alice")
    try:
        with configured(grid, script):
            yield
    finally:
        grid.sh("delta-master", "umount /var/tmp/k-small")
        for _, host, path, _ in AREAS.values():
            grid.sh(host, f"rm -rf {path}")
        grid.sh(HERE, "cd ~alice && rm -rf kept kept.* .gridbridge/data")
        grid.sh(HERE, "rm -f /var/spool/gridbridge/campaigns/u.*/data.*")


@pytest.fixture(name="_alone")
def _alone_(grid: Grid) -> Iterator[None]:
    yield
    for name in json.loads(data(grid, "list", "--json").out):
        data(grid, "drop", name["name"], "--lost")


pytestmark.append(pytest.mark.usefixtures("_alone"))


def data(grid: Grid, *words: str, user: str = "alice") -> Done:
    return grid.on(HERE, "gridbridge", "data", *words, user=user, timeout_s=90)


def round_of(grid: Grid) -> dict[str, Any]:
    done = grid.on(HERE, "gridbridge", "rebalance", "data", "--apply", "--json", timeout_s=90)
    assert done.status == 0, done
    told: dict[str, Any] = json.loads(done.out)
    return told


def whole(grid: Grid, name: str) -> set[str]:
    told = json.loads(data(grid, "verify", name, "--json").out)
    return {one["storage"] for one in told["replicas"] if one["whole"]}


def carried(grid: Grid, user: str) -> int:
    """Return how many moves of alice's dataset `gridbridge why` shows to a user.

    Moves of earlier tests count too.
    """
    told = grid.on(HERE, "gridbridge", "why", "alice/kept" if user == "root" else "kept", user=user)
    return told.out.count("the service copied the dataset to")


def let(grid: Grid) -> str:
    """Return alice's file that lets the service manage her dataset."""
    found = grid.sh(HERE, "cd /var/spool/gridbridge/campaigns && ls -d u.*/data.*")
    return found.split()[0]


def asked(grid: Grid, *words: str) -> Done:
    return grid.on(HERE, "sudo", "-n", AS_USER, *words, user="gridbridge", timeout_s=60)


def test_a_registered_dataset_gets_its_replicas_and_why_reports_them(grid: Grid) -> None:
    """The replicas belong to their owner. The plan and the picture show areas beside clusters."""
    before = carried(grid, "root")  # the service's journal outlives the owner's record
    added = data(grid, "add", "kept", "kept", "--replicas", "2", "--later")
    planned = grid.on(HERE, "gridbridge", "rebalance", "plan", "--plot", "/tmp/k.png", "--json")
    rounds = [round_of(grid) for _ in range(3)]
    of_alice, of_root = carried(grid, "alice"), carried(grid, "root")
    picture = grid.sh(HERE, "head -c 4 /tmp/k.png; rm /tmp/k.png")

    assert (added.status, planned.status) == (0, 0), planned
    assert [one["job"] for one in json.loads(planned.out)["moves"]] == ["alice/kept"]
    assert "PNG" in picture
    assert [len(one["moves"]) for one in rounds] == [1, 1, 0]
    assert len(whole(grid, "kept")) == 2
    assert (of_alice, of_root) == (2, before + 2)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_campaigns_datasets_get_their_replicas_also_when_it_has_ended(grid: Grid) -> None:
    """The campaign's tasks do not wait for replicas."""
    named = {"kept": {"path": "~/kept", "replicas": 2}}
    jdl = {"name": "reads", "nb_jobs": 1, "exec_file": "true", "clusters": {"beta": {}}}
    runner.start(grid)
    try:
        number = runner.submit(grid, jdl | {"datasets": named})
        ended = runner.until_state(grid, number, "terminated")
    finally:
        runner.stop(grid)
    before = whole(grid, "kept")
    rounds = [round_of(grid) for _ in range(3)]

    assert ended["ended"] == 1
    assert before == set()
    assert [len(one["moves"]) for one in rounds] == [1, 1, 0]
    assert len(whole(grid, "kept")) == 2


@pytest.mark.parametrize(
    "spoil", ["echo x >{}/b", *(pytest.param(one, marks=pytest.mark.long) for one in ("rm -r {}", "rm {}/a"))]
)
def test_a_replica_that_was_changed_or_removed_is_repaired(grid: Grid, spoil: str) -> None:
    """One cycle finds the change, and the next one repairs it."""
    data(grid, "add", "kept", "kept", "--replicas", "4")
    grid.sh(FAR, spoil.format(f"/var/tmp/k-gamma/{ACCOUNT}/kept"), user=ACCOUNT)
    found = round_of(grid)
    done = round_of(grid)

    assert found["moves"] == []
    assert [one["to"] for one in done["moves"]] == ["k-gamma"]
    assert whole(grid, "kept") == set(AREAS)


def test_a_drained_clusters_data_is_copied_before_it_is_removed(grid: Grid) -> None:
    data(grid, "add", "kept", "kept", "--replicas", "3")
    data(grid, "replicate", "kept", "--to", "k-gamma")
    grid.on(HERE, "gridbridge", "drain", "gamma", "--reason", "it goes")
    try:
        done = round_of(grid)
        there = grid.sh(FAR, f"ls -A -I .gridbridge.area /var/tmp/k-gamma/{ACCOUNT}")
        again = round_of(grid)
    finally:
        grid.on(HERE, "gridbridge", "undrain", "gamma")

    assert "k-gamma is drained" in done["sentence"]
    assert (done["moved"], done["dropped"]) == (1, [])
    assert there == ""
    assert whole(grid, "kept") == {"k-alpha", "k-beta", "k-small"}
    assert again["moves"] == []


@pytest.mark.long
def test_a_round_that_is_killed_in_mid_copy_goes_on_in_the_next(grid: Grid) -> None:
    """Root's helper, the owner's process and rsync are killed too. No byte is copied twice."""
    part = f"/var/tmp/k-gamma/{ACCOUNT}/.big.part/kept.big"
    data(grid, "add", "big", "kept.big", "--replicas", "3")
    grid.sh(FAR, f"rm -r /var/tmp/k-gamma/{ACCOUNT}/big", user=ACCOUNT)
    data(grid, "verify", "big")
    ended: list[Done] = []
    words = ("gridbridge", "rebalance", "data", "--apply")
    moving = threading.Thread(target=lambda: ended.append(grid.on(HERE, *words, timeout_s=90)))
    moving.start()
    came = f"[ $(stat -c %s {part} 2>/dev/null || echo 0) -gt {SOME_BYTES} ]"
    grid.until(lambda: grid.on(FAR, "sh", "-c", came).status == 0, "some of it to arrive", 60)
    grid.sh(HERE, "pkill -KILL -f 'gridbridge [r]ebalance data'; pkill -KILL -f '[o]wner_program copy'")
    grid.sh(HERE, "pkill -KILL -x rsync || :")
    moving.join()
    inode = grid.sh(FAR, f"stat -c %i {part}").strip()
    done = round_of(grid)

    assert [one["to"] for one in done["moves"]] == []
    assert done["moved"] == 1
    at = grid.sh(FAR, f"stat -c %i /var/tmp/k-gamma/{ACCOUNT}/big/kept.big").strip()
    assert (at, len(whole(grid, "big"))) == (inode, 3)


@pytest.mark.long
def test_a_full_area_is_reported_and_its_partial_replica_does_not_count(grid: Grid) -> None:
    """300 files of one byte need 300 pages, and the area has 256. The next attempt comes after a pause."""
    data(grid, "add", "many", "kept.many", "--replicas", "4", "--later")
    with configured(grid, "s/^replicated_rest_s = 0/replicated_rest_s = 900/"):
        rounds = [round_of(grid) for _ in range(4)]
    reasons = [each["reason"] for one in rounds for each in one["dropped"]]

    assert any("No space left on device" in one for one in reasons), reasons
    assert whole(grid, "many") == {"k-alpha", "k-beta", "k-gamma"}


@pytest.mark.long
def test_an_area_that_is_missing_or_read_only_gets_nothing_and_a_taken_name_keeps_nobody_out(grid: Grid) -> None:
    data(grid, "add", "kept", "kept", "--replicas", "4", "--later")
    grid.sh(FAR, "mv /var/tmp/k-gamma /var/tmp/k-away")
    grid.sh("delta-master", "rm -rf /var/tmp/k-small/*; mount -o remount,ro /var/tmp/k-small")
    grid.sh(HERE, "rm -rf /home/k-beta/alice && install -d -o bob -m 755 /home/k-beta/alice")
    try:
        rounds = [round_of(grid) for _ in range(2)]
    finally:
        grid.sh(FAR, "mv /var/tmp/k-away /var/tmp/k-gamma")
        grid.sh("delta-master", "mount -o remount,rw /var/tmp/k-small")
        grid.sh(HERE, "rmdir /home/k-beta/alice || :")
    told = json.dumps(rounds)

    assert whole(grid, "kept") == {"k-alpha", "k-beta"}
    assert "k-small is read-only" in told


def test_neither_bob_nor_the_service_can_have_her_data_removed(grid: Grid) -> None:
    data(grid, "add", "kept", "kept", "--replicas", "2")
    here = whole(grid, "kept")
    file = let(grid)
    hers = [asked(grid, "drop", file, name) for name in sorted(here)]
    path = asked(grid, "drop", file, f"../{ACCOUNT}")
    name = file.partition("/")[2]
    bobs = "/var/spool/gridbridge/campaigns/u.$(id -u bob)"
    grid.sh(HERE, f"install -d -o bob -g gridbridge -m 2770 {bobs}")
    grid.sh(HERE, f"cp -p /var/spool/gridbridge/campaigns/{file} {bobs}/{name}")
    planted = asked(grid, "drop", f"u.{grid.sh(HERE, 'id -u bob').strip()}/{name}", min(here))
    grid.sh(HERE, f"rm -f {bobs}/{name}")

    assert {one.status for one in hers} == {1}
    assert all("the replica stays" in one.out for one in hers)
    assert (path.status, planted.status) == (2, 2), planted
    assert whole(grid, "kept") == here
