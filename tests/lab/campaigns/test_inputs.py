"""Input files are at a task's cluster before the task starts, and its outputs are home when the campaign ends.

The clusters are Grid Engine and OAR, with a shared home and by ssh.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter

import pytest

from tests.lab import delta
from tests.lab.campaigns import runner
from tests.lab.gamma import ACCOUNT, FAR
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

PER_CLUSTER = 2  # tasks at a cluster at once, so that each cluster gets some
MAKE = (
    "mkdir -p ~/inputs/reads && cd ~/inputs && echo genome >ref.fa &&"
    ' for n in 0 1 2 3 4 5; do echo "read $n" >"reads/$n it\'s.fq"; done'
)
COMMAND = "sh -c 'sleep 3; cat ref.fa \"reads/$0 it'\\''s.fq\" >out/$0.txt'"
CARRIED = "ls -d ~/.gridbridge/carried* ~/.gridbridge/inputs 2>/dev/null; :"


def jdl(*clusters: str, tasks: int) -> dict[str, object]:
    return {
        "name": "reads",
        "nb_jobs": tasks,
        "exec_file": COMMAND,
        "inputs": ["/home/alice/inputs/./reads/{} it's.fq", "/home/alice/inputs/ref.fa"],
        "outputs": ["out/{}.txt"],
        "outputs_to": "/home/alice/results",
        "clusters": {name: {"max_jobs": PER_CLUSTER} for name in clusters},
    }


@pytest.fixture
def reads(site: Grid) -> Iterator[Grid]:
    site.sh(runner.HOST, MAKE, user="alice")
    yield site
    what = "the carried files to be removed"
    site.until_none(lambda: site.sh(FAR, CARRIED, user=ACCOUNT).split(), what, runner.CAMPAIGN_S)
    site.sh(runner.HOST, "rm -rf ~/inputs ~/results", user="alice")


def test_each_task_has_its_input_files_at_every_cluster_and_its_output_comes_home(reads: Grid) -> None:
    """After the campaign's end no copy stays, because no other campaign of alice needs the files."""
    number = runner.submit(reads, jdl("beta", "gamma", "delta", tasks=6))

    found = runner.until_state(reads, number, "terminated")

    assert (6, 0) == (found["ended"], found["failed"])
    assert {"beta", "gamma", "delta"} == runner.clusters_of(reads, number)
    assert ["out"] == reads.sh(runner.HOST, "ls -A ~/results", user="alice").split()
    read = "cd ~/results/out && for n in 0 1 2 3 4 5; do cat $n.txt; done"
    assert "".join(f"genome\nread {n}\n" for n in range(6)) == reads.sh(runner.HOST, read, user="alice")


@pytest.mark.long
def test_each_file_that_tasks_share_is_carried_once_to_each_cluster(reads: Grid) -> None:
    """Delta's line is slow, and beta sees the files. 97 % of a task's bytes are those of a file of five tasks."""
    parameters = [f"{task} {'ab'[task // 5]}" for task in range(10)]
    make = "for n in 0 1 2 3 4 5 6 7 8 9; do head -c 50K /dev/urandom >own.$n; done; for n in a b; do head -c 1500K"
    reads.sh(runner.HOST, f"cd ~/inputs && {make} /dev/urandom >shared.$n; done", user="alice")
    table = jdl("beta", "gamma", "delta", tasks=10) | {
        "params": parameters,
        "inputs": ["/home/alice/inputs/./own.{1}", "/home/alice/inputs/./shared.{2}"],
        "outputs": ["out/{1}.txt"],
        "exec_file": "sh -c 'sleep 3; cat own.$0 shared.$1 | sha256sum >out/$0.txt'",
    }
    del table["nb_jobs"]
    reads.lab("net", delta.FAR, "slow")
    try:
        number = runner.submit(reads, table)
        found = runner.until_state(reads, number, "terminated")
    finally:
        reads.lab("net", delta.FAR, "heal")
    ended = json.loads(reads.on(runner.HOST, "gridstat", str(number), "-f", "-d", user="alice").out)["jobs"]
    log = reads.sh(runner.HOST, f"grep -a 'event=carried array={number}[.]' {runner.LOG}")
    carried = Counter[str]()
    for cluster, copied_bytes in re.findall(r" at=(\w+) bytes=(\d+) ", log):
        carried[cluster] += int(copied_bytes)

    assert (10, 0) == (found["ended"], found["failed"])
    assert {"beta", "gamma", "delta"} == {task["cluster"] for task in ended}
    for cluster in ("gamma", "delta"):
        tasks = [task["task"] for task in ended if task["cluster"] == cluster]
        assert carried[cluster] == 51_200 * len(tasks) + 1_536_000 * len({task // 5 for task in tasks})
    assert "beta" not in carried
    read = "for n in 0 1 2 3 4 5 6 7 8 9; do [ $n -lt 5 ] && x=a || x=b; cat own.$n shared.$x | sha256sum; done"
    sums = reads.sh(runner.HOST, f"cd ~/inputs && {read}; cd ~/results/out && cat ?.txt", user="alice").split("\n")
    assert sums[:10] == sums[10:20]


@pytest.mark.long
def test_links_and_rights_of_outputs_come_alike_from_every_cluster(reads: Grid) -> None:
    """An output that is a link becomes a file, a link in an output folder stays, and nothing is setuid at home."""
    folder = "mkdir d$0 && echo x >d$0/file && chmod 6755 d$0/file && ln -s file d$0/link && ln -s d$0/file l$0"
    table = jdl("beta", "gamma", "delta", tasks=6) | {"exec_file": f"sh -c 'sleep 3; {folder}'"}
    number = runner.submit(reads, table | {"inputs": [], "outputs": ["d{}", "l{}"]})

    assert 6 == runner.until_state(reads, number, "terminated")["ended"]
    assert {"beta", "gamma", "delta"} == runner.clusters_of(reads, number)
    home = reads.sh(runner.HOST, "cd ~/results && stat -c '%A %N' d* d*/* l*", user="alice").replace("'", "")
    rows = Counter(re.sub("[0-5]", "N", line) for line in home.splitlines())
    kinds = ("drwxr-xr-x dN", "-rwxr-xr-x dN/file", "lrwxrwxrwx dN/link -> file", "-rwxr-xr-x lN")
    assert dict.fromkeys(kinds, 6) == rows


@pytest.mark.long
def test_a_carry_whose_connection_is_lost_goes_on(reads: Grid) -> None:
    """The copy continues the file that has come in part; `gridsub --check` tells what is there."""
    reads.sh(runner.HOST, "head -c 300M /dev/urandom >~/inputs/big", user="alice")
    table = jdl("delta", tasks=2) | {
        "inputs": ["/home/alice/inputs/./big"],
        "exec_file": "sh -c 'sha256sum <big >out/$0.txt'",
    }
    part = "cat ~/.gridbridge/carried.part/* 2>/dev/null | head -c 1; :"
    number = runner.submit(reads, table)
    reads.until(lambda: bool(reads.sh(delta.FAR, part, user=delta.ACCOUNT)), "a part of the file at delta")
    reads.sh(runner.HOST, "pkill -u alice -x rsync")

    assert (2, 0) == itemgetter("ended", "failed")(runner.until_state(reads, number, "terminated"))
    sums = reads.sh(runner.HOST, "sha256sum <~/inputs/big && cat ~/results/out/*.txt", user="alice")
    assert 1 == len({*sums.splitlines()})
    checked = reads.on(runner.HOST, "gridsub", "--check", "-j", json.dumps(table), user="alice")
    assert re.search("inputs at delta: [01] of 1 file", checked.out), checked


@pytest.mark.long
def test_a_task_whose_input_file_is_gone_fails_and_the_other_tasks_succeed(reads: Grid) -> None:
    reads.on(runner.HOST, "gridbridge", "drain", "gamma")
    try:
        number = runner.submit(reads, jdl("gamma", tasks=3))
        reads.sh(runner.HOST, 'cd ~/inputs/reads && rm 1* && echo READ 2 >"2 it\'s.fq"', user="alice")
    finally:
        reads.on(runner.HOST, "gridbridge", "drain", "--off", "gamma")

    found = runner.until_state(reads, number, "terminated")

    assert (3, 2) == (found["ended"], found["failed"])
    event = runner.events_by_code(reads, number)["INPUT_ERROR"]
    assert (2, "gamma") == (event["tasks"], event["cluster"])
    assert event["why"].startswith("/home/alice/inputs/reads/")
