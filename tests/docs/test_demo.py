"""The demo detects failures, and without root it plays on embedded clusters."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gridbridge.config import configuration_file
from tests.docs.console import ROOT, lab_module

LIMIT_S = 300  # of both parts, beside other tests


@pytest.fixture(scope="module")
def demo() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "lab"))
        yield lab_module("demo")


@pytest.mark.apart
@pytest.mark.twin
def test_without_root_it_plays_on_embedded_clusters(apart: tuple[str, ...]) -> None:
    argv = (*apart, "sh", "-c", 'cd "$0" && exec make demo', str(ROOT))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=360, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    took_s = re.findall(r"^\d+ (?:jobs|tasks), 0 wrong, (\d+) s$", done.stdout, re.MULTILINE)
    assert len(took_s) == 2
    assert sum(map(int, took_s)) < LIMIT_S
    assert "beta shows it suspended" in done.stdout
    assert "\n300 results are home in /mnt/demo/results\n" in done.stdout
    assert "\n300 tasks, 0 wrong, " in done.stdout
    picture = re.search("^when which of them ended where: (.*)$", done.stdout, re.MULTILINE)
    assert picture
    assert Path(picture[1]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.apart
def test_where_no_namespace_may_be_made_it_says_so_and_does_nothing(apart: tuple[str, ...]) -> None:
    forbid = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    inside = ("unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh")
    argv = (*apart, *inside, str(ROOT / "lab/apart"), "true")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"lab/apart: .* no user namespace .*; nothing was done\n", done.stderr)


@pytest.mark.apart
@pytest.mark.parametrize(
    ("become", "command", "status", "words"),
    [
        ((), ("true",), 2, "lab/apart: run as root, for whom no poller starts; expected an ordinary user\n"),
        (("setpriv", "--reuid=65534"), ("--help",), 0, "usage: lab/apart COMMAND ..., for example lab/apart bash\n"),
    ],
    ids=["root", "help"],
)
@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_lab_apart_refuses_root_and_shows_its_usage(
    become: tuple[str, ...], command: tuple[str, ...], status: int, words: str
) -> None:
    argv = (*become, str(ROOT / "lab/apart"), *command)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (status, words)


@pytest.mark.parametrize(
    ("words", "played"),
    [((), ["transfer", "campaign"]), (("--part", "transfer"), ["transfer"]), (("--part", "campaign"), ["campaign"])],
)
def test_a_part_is_played_alone(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], played: list[str]
) -> None:
    found: list[str] = []

    def play(what: str, _: int = 0) -> int:
        found.append(what)
        return int(what == "campaign")

    monkeypatch.setattr(demo, "Folders", lambda: "transfer")
    monkeypatch.setattr(demo, "FoldersStage", lambda: "campaign")
    monkeypatch.setattr(demo, "play", play)
    monkeypatch.setattr(demo.campaign, "play", play)
    monkeypatch.setattr(sys, "argv", ["demo.py", "--embedded", *words])

    assert demo.main() == int("campaign" in played)
    assert found == played


@pytest.mark.parametrize(
    ("ended", "account", "is_deleted", "wrong"),
    [
        pytest.param({}, "gb.alpha.7.0.1", False, "", id="as it should"),
        pytest.param({"home_status": "137", "away_status": "137"}, "gb.alpha.7.0.1", True, "", id="deleted"),
        pytest.param({"home_status": "4"}, "gb.alpha.7.0.1", False, "exit status 4 at home, not 3", id="home's end"),
        pytest.param({"away_status": "4"}, "gb.alpha.7.0.1", False, "exit status 4 at beta, not 3", id="beta's end"),
        pytest.param({}, "sge", False, "beta accounts job 9 to sge", id="somebody else's remote job"),
    ],
)
def test_an_end_that_differs_is_wrong(
    demo: ModuleType, ended: dict[str, str], account: str, is_deleted: bool, wrong: str
) -> None:
    job = demo.Job(number="7", exit_status="3", state="", cluster="beta", remote_id="9")
    usual = {"home_status": "3", "away_status": "3", "away_host": "beta-n1", "wrong": ""}
    end = demo.End(job=job, **(usual | ended))

    assert demo.fault(end, account, is_deleted=is_deleted) == wrong


AT_BETA = {"remote": "beta", "remote_id": 9, "remote_state": "r", "remote_host": "beta-n1"}


@pytest.mark.parametrize(
    ("cluster", "state", "changes", "expected"),
    [
        pytest.param("beta", "r", {}, ("runs at beta-n1 as 9", "beta", True), id="on a node"),
        pytest.param(
            "beta", "r", {"remote_host": "beta-master"}, ("runs at beta-master as 9", "beta", False), id="bounces"
        ),
        pytest.param("gamma", "r", {"remote_host": "gamma-n2"}, ("runs at gamma-n2 as 9", "gamma", True), id="gamma"),
        pytest.param("gamma", "r", {"remote_id": None}, ("on its way to gamma", "", False), id="on its way"),
        pytest.param("beta", "Rq", {}, ("put back at alpha", "beta", False), id="put back while it is away"),
        pytest.param("", "r", {}, ("runs at alpha-n1", "", False), id="at home after all"),
    ],
)
def test_a_look_tells_where_a_job_is(
    demo: ModuleType, cluster: str, state: str, changes: dict[str, object], expected: tuple[str, str, bool]
) -> None:
    before = demo.Job(number="7", exit_status="3")
    if state == "Rq" or not cluster:  # it was there when we looked last
        before = demo.Job(number="7", exit_status="3", cluster="beta", remote_id="9")
    queue = f"transfer-{cluster}@alpha-master" if cluster else "all.q@alpha-n1"
    transfer = AT_BETA | {"remote": cluster} | changes if cluster else None
    job = demo.seen(before, demo.Row(state=state, queue="" if state == "Rq" else queue), transfer)

    assert (job.where, job.cluster, job.is_on_node) == expected


class Watched:
    """A grid that records what the demo does to its jobs."""

    person = "alice"

    def __init__(self) -> None:
        self.acts: list[tuple[str, str]] = []

    def do(self, verb: str, job: str) -> None:
        self.acts.append((verb, job))


def test_only_jobs_running_on_a_node_are_suspended(demo: ModuleType) -> None:
    """A requeued job would not show the end of its suspension."""
    grid, there = Watched(), {"exit_status": "0", "cluster": "beta", "where": "runs at beta"}
    jobs = {number: demo.Job(number=number, is_on_node=number != "1", **there) for number in "123"}
    demo.act(grid, jobs, demo.Plot())

    assert grid.acts == [("suspend", "3"), ("delete", "2")]


def test_two_jobs_need_not_be_seen_running_at_once(demo: ModuleType) -> None:
    """On a busy machine a job may end before the next job is observed."""

    def job(number: str, where: str = "runs at beta", **more: object) -> object:
        return demo.Job(number=number, **{"exit_status": "0", "cluster": "beta", "where": where} | more)

    grid, plot, over = Watched(), demo.Plot(), {"state": "", "is_on_node": False}
    looks = [
        {"1": job("1", is_on_node=True), "2": job("2")},
        {"1": job("1", **over), "2": job("2", is_on_node=True), "3": job("3")},
        {"2": job("2", "suspended at beta-n1 as 9"), "3": job("3", is_on_node=True)},
    ]
    for jobs in looks:
        demo.act(grid, jobs, plot)

    assert grid.acts == [("suspend", "1"), ("suspend", "2"), ("delete", "3"), ("resume", "2")]


def test_a_plot_that_did_not_happen_is_wrong(demo: ModuleType) -> None:
    assert demo.plot_holes([], demo.Plot()) == [
        "0 of 12 jobs crossed: some should, and some not",
        "no job was seen running at beta: none was suspended",
        "no other job was seen running at beta: none was deleted",
    ]


@pytest.mark.parametrize("words", [(), ("--embedded", "--part", "elastic"), ("--embedded", "--part", "rebalance")])
def test_a_part_of_the_lab_without_root_says_what_it_needs(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["demo.py", *words])

    assert demo.main() == 2
    assert "needs root" in capsys.readouterr().err


LISTED = """\
job-ID  prior   name  user   state submit/start at     queue          slots ja-task-ID
--------------------------------------------------------------------------------------
      7 0.55500 sleep alice  r     05/04/2026 09:00:01 all.q@alpha-n1     1 1
      7 0.55500 sleep alice  t     05/04/2026 09:00:01 all.q@alpha-n3     1 2
      7 0.00000 sleep alice  qw    05/04/2026 09:00:00                    1 3
      8 0.00000 sleep alice  qw    05/04/2026 09:00:00                    1
===
queuename                      qtype resv/used/tot. load_avg arch          states
---------------------------------------------------------------------------------
all.q@alpha-n1                 BIP   0/1/2          0.10     lx-amd64
---------------------------------------------------------------------------------
all.q@alpha-n3                 BIP   0/1/2          0.10     lx-amd64
---------------------------------------------------------------------------------
all.q@alpha-n4                 BIP   0/0/2          -NA-     lx-amd64      d
"""


def test_a_look_at_alpha_counts_its_tasks_and_the_hosts_that_work(demo: ModuleType) -> None:
    found = demo.elastic.look(LISTED, "7")

    assert (found.waiting, found.running, found.hosts) == (1, 2, 2)


def test_alpha_that_did_not_grow_is_wrong(demo: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"")
    story = demo.elastic.Story(most_hosts=2, fewest_after=2, left=["alpha-n3", "alpha-n4"])
    ends = [("alpha-n1", "0")] * 29 + [("alpha-n3", "137")]

    assert demo.elastic.faults(story, ends, tmp_path / "picture") == [
        "alpha had 2 hosts at most, not 5",
        "tasks did not end well at alpha-n3",
        "there is no picture",
        "the balancer has nodes left: alpha-n3 alpha-n4",
    ]


def test_an_elastic_demo_that_went_well_has_no_faults(demo: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG")
    story = demo.elastic.Story(most_hosts=5, fewest_after=2)

    assert demo.elastic.faults(story, [("alpha-n1", "0")] * 30, tmp_path / "picture") == []


def test_the_elastic_parts_sections_take_the_place_of_the_sites(demo: ModuleType) -> None:
    usual = (ROOT / "conf/gridbridge.toml").read_text()
    own = usual + "[pool.usual]\nslots = 9\n"
    policy = configuration_file.parse_configuration("demo.toml", demo.elastic.with_sections(own).encode())

    assert policy.balance.max_nodes == demo.elastic.MOST + 1
    assert {name: pool.provider for name, pool in policy.pools.items()} == {"rented": "rental"}
