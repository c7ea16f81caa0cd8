"""A cluster with waiting tasks and data is drained: tasks and data both leave it, in simultaneous rounds."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.campaigns.full.test_nikita import NIKITA, QUEUE, RUN, closed_queue, filled
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, published, submit, until_state
from tests.lab.configured import configured
from tests.lab.gamma import ACCOUNT, FAR, NODES
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(500)]

TASKS, SETS = 4, 3
AREAS = (  # cluster, host, path, KiB/s: what leaves beta takes some seconds
    ("alpha", HOST, "/var/tmp/d-alpha", 500),
    ("beta", HOST, "/home/d-beta", 0),
    ("gamma", FAR, "/var/tmp/d-gamma", 500),
)
RULES = "full_free_bytes = 0\\nreplicated_rest_s = 0\\ndisk_share = 1.0\\nlevel = 0"
NAMES = [f"left{n}" for n in range(SETS)]
MADE = "".join(f"head -c 2000000 /dev/urandom >{name};" for name in NAMES)


@pytest.fixture(scope="module")
def areas(site: Grid) -> Iterator[Grid]:
    for _, host, path, _ in AREAS:
        site.sh(host, f"install -d -m 1777 {path}")
    sections = "".join(
        f'\\n\\n[storage.d-{cluster}]\\ncluster = "{cluster}"\\npath = "{path}"\\nbwlimit_kib_per_s = {kib}'
        for cluster, _, path, kib in AREAS
    )
    script = f"/^.storage/,/^$/d; s/^full_free_bytes = 0/{RULES}/; $a\\{sections}"
    site.sh(HOST, MADE, user="alice")
    with configured(site, script):
        for name in NAMES:
            site.sh(HOST, f"gridbridge data add {name} {name} --replicas 1 --later", user="alice")
            site.sh(HOST, f"gridbridge data replicate {name} --to d-beta", user="alice")
        yield site
        for name in NAMES:
            site.sh(HOST, f"gridbridge data drop {name} --lost", user="alice")
    site.sh(HOST, f"rm -f ~/flooded {' '.join(NAMES)}", user="alice")
    site.sh(FAR, "rm -f ~/flooded", user=ACCOUNT)
    for _, host, path, _ in AREAS:
        site.sh(host, f"rm -rf {path}")


def waiting_at_beta(site: Grid) -> int:
    """Return a campaign whose tasks wait at beta, because gamma had no slot when they were sent."""
    clusters = {"beta": {"queue": QUEUE}, "gamma": {}}
    known = {"name": "drained", "type": "normal", "exec_file": RUN, "walltime": "0:5"}
    with filled(site, *NODES):
        number = submit(site, {**known, "clusters": clusters, "nb_jobs": TASKS})
        site.until(
            lambda: sum(one["waiting"] for one in published(site, number)["at"]) > 1,
            "tasks to wait at beta",
            CAMPAIGN_S,
        )
    return number


def side_by_side(site: Grid) -> dict[str, Any]:
    words = {"tasks": "gridbridge rebalance fail beta", "data": "gridbridge rebalance data"}
    told: dict[str, Any] = {}

    def ask(what: str) -> None:
        told[what] = json.loads(site.sh(HOST, f"{words[what]} --apply --json", timeout_s=120))

    asked = [threading.Thread(target=ask, args=(what,)) for what in words]
    for one in asked:
        one.start()
    for one in asked:
        one.join()
    site.sh(HOST, NIKITA, timeout_s=120)
    return told


def whole(site: Grid, name: str) -> set[str]:
    told = json.loads(site.sh(HOST, f"gridbridge data verify {name} --json", user="alice"))
    return {one["storage"] for one in told["replicas"] if one["whole"]}


def test_tasks_and_data_leave_a_drained_cluster_at_the_same_time(areas: Grid) -> None:
    site = areas
    with closed_queue(site):
        number = waiting_at_beta(site)
        site.sh(HOST, "gridbridge drain beta --reason 'it goes'")
        try:
            rounds = [side_by_side(site) for _ in range(SETS)]
            found = until_state(site, number, "terminated")
            kept = [whole(site, name) for name in NAMES]
            left = site.sh(HOST, "cd /home/d-beta && find . -name 'left*'")
        finally:
            site.sh(HOST, "gridbridge undrain beta")
    ran = site.sh(HOST, "cat ~/flooded 2>/dev/null; :", user="alice").split()
    ran += site.sh(FAR, "cat ~/flooded 2>/dev/null; :", user=ACCOUNT).split()

    assert all(rounds[0][what]["moved"] > 0 for what in ("tasks", "data")), rounds
    assert (found["ended"], found["failed"]) == (TASKS, 0)
    assert sorted(ran) == [f"{number}.{n}" for n in range(TASKS)]
    assert left == ""
    assert all(kept), kept
    assert not any("d-beta" in areas for areas in kept)
