"""gridsub --check previews a campaign without storing it; --wait and gridwait end with the campaign's end."""

import json
import os
import pwd
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer

import pytest
from click.testing import CliRunner

from gridbridge.campaigns.cli import gridwait as gridwait_module
from gridbridge.campaigns.cli.gridsub import gridsub
from gridbridge.campaigns.cli.gridsub_campaign_source import choose_clusters_of_campaign
from gridbridge.campaigns.cli.gridsub_check_preview import print_submission_check
from gridbridge.campaigns.cli.gridwait import gridwait
from gridbridge.campaigns.store import campaign_client, published_campaign_files
from gridbridge.campaigns.submission.campaigns_without_jdl import (
    CampaignWithoutJdlOptions,
    campaign_with_task_per_number,
)
from gridbridge.errors import ConfigError
from gridbridge.model import names_offered_by_cluster
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    PublishedCampaign,
    PublishedCampaignList,
    PublishedClusterSlots,
    PublishedClusterSlotsList,
)
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations
from gridbridge.model.campaigns.task_resource_usage import TaskUsageAtCluster
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster
from gridbridge.model.published_status_and_reports import PublishedClusterDrain
from gridbridge.state import drains
from tests.builders.configurations import site_text

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONFIG = site_text("alpha", "beta")
RULES = """
from dataclasses import replace
from gridbridge.model.campaigns.admission import AdmissionRefusal

def calm(candidate):
    clusters = {n: replace(one, max_jobs=2) for n, one in candidate.jdl.clusters.items()}
    return replace(candidate.jdl, clusters=clusters)

def small(candidate):
    return AdmissionRefusal(reason="at most 10 tasks") if candidate.tasks > 10 else None
"""
SWEEP = PublishedCampaign(
    number=7,
    name="sweep",
    owner="bob",
    submitted_at=NOON,
    type=CampaignType.DEFAULT,
    state=CampaignState.IN_TREATMENT,
    clusters=("beta",),
    tasks=20,
    ended=3,
    failed=0,
    waiting=17,
)
JDL = "gridsub: the JDL of -j:1"


def publish(value: object, folder: Path | str) -> None:
    published_campaign_files.publish_campaign_value(value, str(folder))


def jdl(**keys: object) -> str:
    return json.dumps({"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"beta": {}}} | keys)


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("published", "rules"):
        (tmp_path / name).mkdir(mode=0o755)
    (tmp_path / "gridbridge.toml").write_text(CONFIG)
    (tmp_path / "rules/10.py").write_text(RULES)
    published = str(tmp_path / "published")
    publish(PublishedTaskSendExplanations(at=NOON, free_slots={"beta": 3}), published)
    publish(PublishedCampaignList(at=NOON, campaigns=(SWEEP,)), published)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def offer(site: Path, **names: set[str]) -> None:
    folder = site / "published/vocabularies"
    folder.mkdir(exist_ok=True)
    known = NamesOfferedByCluster(**{kind: frozenset(of_kind) for kind, of_kind in names.items()})
    (folder / "beta").write_bytes(names_offered_by_cluster.encode_offered_names(known))


def sub(*options: str) -> tuple[int, list[str]]:
    done = CliRunner().invoke(gridsub, options, obj=site_paths(), standalone_mode=False)
    return done.return_value, [*done.stdout.splitlines(), *done.stderr.splitlines()]


def site_paths() -> FixedPaths:
    """Return the paths of the site, which is the working directory."""
    site = os.getcwd()
    return FixedPaths(
        configuration=f"{site}/gridbridge.toml",
        published=f"{site}/published",
        campaigns=site,
        admission=f"{site}/rules",
        admission_owner=os.getuid(),
    )


@pytest.mark.usefixtures("site")
def test_gridsub_check_prints_rule_changes_and_tasks_by_cluster() -> None:
    """The numbers are those of the last cycle; tasks of earlier campaigns go first."""
    status, lines = sub("--check", "--array", "1-9", "--clusters", "alpha,beta", "--", "run")

    assert (status, lines) == (
        0,
        [
            "rule 10.py:calm changes clusters.alpha.max_jobs: 0 -> 2",
            "rule 10.py:calm changes clusters.beta.max_jobs: 0 -> 2",
            "run: 9 tasks, nothing is stored",
            "alpha: the free slots are not known yet",
            "beta: 3 free slots, 2 tasks would go there now",
            "7 would wait for free slots",
            "17 tasks of earlier campaigns wait as well, and go first",
        ],
    )


def test_gridsub_check_warns_from_the_owners_last_campaign_of_the_same_name(site: Path) -> None:
    """A later campaign without ended tasks, and others' campaigns, say nothing."""
    short = TaskUsageAtCluster(campaign=4, cluster="beta", ended=9, overruns=9, longest_s=3600)
    own = replace(SWEEP, number=4, name="n", owner=pwd.getpwuid(os.getuid()).pw_name, usage=(short,))
    earlier = replace(own, number=3, usage=(replace(short, failed=9),))
    foreign = replace(earlier, number=5, owner="bob")
    later = replace(own, number=6, usage=())
    publish(PublishedCampaignList(at=NOON, campaigns=(earlier, own, foreign, later)), site / "published")
    warnings = [
        [line for line in sub("--check", "-j", text)[1] if "warning" in line] for text in (jdl(), jdl(name="m"))
    ]

    assert warnings == [["warning: campaign 4 at beta: a task ran 1:00:00; the walltime is 1:00:00"], []]


@pytest.mark.usefixtures("site")
def test_gridsub_check_says_that_tasks_wait_for_the_prologue() -> None:
    _, lines = sub("--check", "-j", jdl(nb_jobs=2, prologue=["make"]))

    assert "beta: 3 free slots, 2 tasks would go there once its prologue has ended there" in lines
    assert not any("would wait" in line for line in lines)


@pytest.mark.parametrize(
    ("wish", "told", "waits"),
    [
        ({"queue": "long"}, "beta has no queue long: no task goes there", "has the resources that its tasks request"),
        ({"queue": "all.q"}, "beta: 3 free slots, 1 task would go there now", ""),
        ({"project": "none"}, "beta has no project none: no task goes there", "for ever"),
        (
            {"pe": "open", "resources": "/core=2", "queue": "long"},
            "beta has no parallel environment open, no queue long: no task goes there",
            "for ever",
        ),
        ({"resources": "/nodes=1/core=2"}, "beta: 3 free slots, 1 task would go there now", ""),
        (
            {"resources": "/nodes=2/core=1"},
            "beta has no parallel environment with allocation_rule 1 (slots a host: 1): no task goes there",
            "for ever",
        ),
    ],
)
def test_gridsub_check_names_queues_and_environments_that_a_cluster_lacks(
    site: Path, wish: dict[str, str], told: str, waits: str
) -> None:
    """The names come from the published vocabulary; without a vocabulary nothing is said."""
    normal = jdl(type="normal", clusters={"beta": wish})
    before = sub("--check", "-j", normal)
    offer(site, queue={"all.q"}, pe={"smp"}, rule={"smp=$pe_slots"})

    status, lines = sub("--check", "-j", normal)

    assert (before[0], status) == (0, 0)
    assert not any(" has no " in line for line in before[1])
    assert told in lines
    assert waits in "".join(line for line in lines if "would wait" in line)


def test_best_effort_tasks_ignore_the_jdl_queue_at_a_cluster_with_best_effort_queues(site: Path) -> None:
    for queues, is_told in (({"all.q"}, True), ({"all.q", "gb-be1"}, False)):
        offer(site, queue=queues)
        lines = sub("--check", "-j", jdl(clusters={"beta": {"queue": "long"}}))[1]

        assert ("beta has no queue long: no task goes there" in lines) is is_told


@pytest.mark.parametrize(("type_", "free"), [("best-effort", 1), ("normal", 3)])
def test_gridsub_check_counts_free_slots_by_campaign_type(site: Path, type_: str, free: int) -> None:
    """Ordinary tasks preempt best-effort tasks, so more slots are free for them."""
    cycle = PublishedTaskSendExplanations(at=NOON, free_slots={"beta": 3}, besteffort_slots={"beta": 1})
    publish(cycle, site / "published")
    array = ("--array", "1-9", "--clusters", "beta", "--type", type_)

    _, lines = sub("--check", *array, "--", "run")

    assert lines[2].startswith(f"beta: {free} free slot{'s' * (free > 1)}, ")


def test_gridsub_check_names_a_cluster_too_small_for_one_task(site: Path) -> None:
    small = PublishedClusterSlots(name="beta", kind="gridengine", answered_at=NOON, slots=2)
    publish(PublishedClusterSlotsList(at=NOON, clusters=(small,)), site / "published")

    _, lines = sub("--check", "--array", "1-9", "--clusters", "beta", "-l", "/core=3", "--", "run")

    assert lines[2:4] == [
        "beta: a task needs 3 slots, and the cluster has 2: no task goes there",
        "9 would wait for ever: no cluster of the campaign is large enough for a task",
    ]


@pytest.mark.parametrize(
    ("is_drained", "words"),
    [
        (True, "no task goes there while the cluster is drained"),
        (False, "no task goes there while the cluster is under stress"),
    ],
)
def test_gridsub_check_sends_nothing_to_a_drained_or_stressed_cluster(site: Path, is_drained: bool, words: str) -> None:
    published = str(site / "published")
    if is_drained:
        drains.make_cluster_drains_folder(published)
        drains.drain_cluster("beta", PublishedClusterDrain(by="root", at=NOON, reason="Monday"), published)
    cycle = PublishedTaskSendExplanations(at=NOON, free_slots={"beta": 3}, stressed=() if is_drained else ("beta",))
    publish(cycle, published)

    _, lines = sub("--check", "--array", "1-9", "--clusters", "beta", "--", "run")

    assert lines[2:4] == [f"beta: {words}", "9 would wait for free slots"]


@pytest.mark.parametrize(
    ("nights", "words"),
    [
        ("00:00-24:00", "3 free slots, 2 tasks would go there now"),
        (
            "00:00-00:30",
            "no night of the cluster is as long as the walltime of the nightly tasks; request a shorter walltime",
        ),
    ],
)
def test_gridsub_check_says_when_nightly_tasks_start(site: Path, nights: str, words: str) -> None:
    publish(PublishedTaskSendExplanations(at=NOON, free_slots={"beta": 3}), site / "published")
    toml = site / "gridbridge.toml"
    toml.write_text(f'{toml.read_text()}\n[campaigns.beta]\nnights = "{nights}"\n')

    _, lines = sub("--check", "--type", "nightly", "--array", "1-9", "--clusters", "beta", "--", "run")

    assert f"beta: {words}" in lines


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("check", [["--check"], []])
def test_properties_that_grid_engine_cannot_request_are_refused(check: list[str]) -> None:
    """Each cluster gets its own line, before anything is stored."""
    clusters = {"alpha": {"properties": "mem > 2"}, "beta": {}}
    status, lines = sub(*check, "-j", jdl(properties="a=1 OR b=2", clusters=clusters))

    assert (status, lines[-2:]) == (
        1,
        [
            f"{JDL}: alpha.properties: Grid Engine accepts only requests NAME=VALUE, not mem>2",
            f"{JDL}: beta.properties: Grid Engine accepts no choice between resources, such as a=1 or b=2",
        ],
    )


@pytest.mark.parametrize("named", [("BETA",), ("beta", "x y")])
def test_a_misspelt_cluster_is_refused_with_the_list_of_clusters(site: Path, named: tuple[str, ...]) -> None:
    config = str(site / "gridbridge.toml")
    unknown = "--clusters: no cluster .* here; the clusters are alpha, beta$"

    with pytest.raises(ConfigError, match=unknown):
        choose_clusters_of_campaign(CampaignWithoutJdlOptions(clusters=named), config)
    said = choose_clusters_of_campaign(CampaignWithoutJdlOptions(clusters=("beta", "alpha")), config)
    assert said.clusters == ("beta", "alpha")


def test_grid_engine_resources_are_requested_at_grid_engine_clusters_only(site: Path) -> None:
    """OAR does not know Grid Engine's names; without a configuration a warning names all clusters."""
    path = site / "gridbridge.toml"
    path.write_text(f'{CONFIG}[cluster.gamma]\nkind = "oar"\n')
    wishes = CampaignWithoutJdlOptions(clusters=("beta", "gamma"), resources=("h_vmem=2G",))

    known, unknown = (
        campaign_with_task_per_number("1", ("run",), choose_clusters_of_campaign(wishes, str(config)))
        for config in (path, site / "none.toml")
    )

    found = [{name: at.properties for name, at in one.jdl.clusters.items()} for one in (known, unknown)]
    assert found == [{"beta": "h_vmem=2G", "gamma": ""}, {"beta": "", "gamma": ""}]
    assert [one.warnings[0].rpartition(" at ")[2] for one in (known, unknown)] == ["gamma", "beta, gamma"]


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("check", [["--check"], []])
def test_a_campaign_that_an_admission_rule_refuses_is_not_submitted(check: list[str]) -> None:
    status, lines = sub(*check, "--array", "1-11", "--clusters", "beta", "--", "run")

    assert (status, lines[-1]) == (1, "gridsub: 10.py:small: at most 10 tasks")


@pytest.mark.usefixtures("site")
def test_gridsub_check_refuses_an_unknown_cluster_from_a_login_node() -> None:
    campaign = campaign_with_task_per_number("1", ("run",), CampaignWithoutJdlOptions(clusters=("omega",)))

    with pytest.raises(ConfigError, match=r"^no cluster omega here; the clusters are alpha, beta$"):
        print_submission_check(campaign, site_paths())


@pytest.mark.parametrize(
    ("after", "status", "told"),
    [
        ("7:ended", 0, "the campaign first waits for campaign 7 (sweep): 3 of 20 tasks succeeded"),
        ("sweep", 0, "the campaign first waits for campaign 7 (sweep): 3 of 20 tasks succeeded"),
        ("sweep:same", 1, "gridsub: after sweep:same: its 20 tasks and these 9 differ; expected equal numbers"),
        ("6", 1, "gridsub: after 6:ok: no campaign of yours has this number"),
        ("reads", 1, "gridsub: after reads:ok: no campaign of yours has this name"),
    ],
)
def test_gridsub_check_tells_for_what_the_campaign_waits(site: Path, after: str, status: int, told: str) -> None:
    own = replace(SWEEP, owner=pwd.getpwuid(os.getuid()).pw_name)
    publish(PublishedCampaignList(at=NOON, campaigns=(own,)), site / "published")

    found, lines = sub("--check", "--after", after, "--array", "1-9", "--clusters", "beta", "--", "run")

    assert (status, True) == (found, told in lines)


@pytest.mark.usefixtures("site")
def test_all_mistakes_of_a_jdl_are_reported_at_once() -> None:
    text = '{"name": "a", "nb_jobs": 0, "exec_file": "run", "clusters": {"beta": {}, "btea": {}}}'
    status, lines = sub("--check", "-j", text)

    assert status == 1
    assert [one.partition(": ")[2].partition(":1: ")[2] for one in lines] == [
        "clusters.btea: unknown cluster; expected alpha or beta",
        "nb_jobs = 0: out of range; expected a number from 1 to 10000000",
    ]


def test_admission_rules_that_others_can_write_stop_gridsub(site: Path) -> None:
    """The error line has the command that corrects the mode."""
    (site / "rules").chmod(0o777)

    status, lines = sub("--array", "1", "--clusters", "beta", "--", "run")

    assert (status, lines[-1].rpartition(": ")[2]) == (1, f"chmod go-w {site}/rules")


def test_gridsub_submits_the_campaign_as_changed_by_the_rules(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del site
    brought = []
    monkeypatch.setattr(campaign_client, "submit_campaign", lambda campaign, _: brought.append(campaign))
    monkeypatch.setattr(gridwait_module, "wait_for_campaign_end", lambda *_: 1)

    status, _ = sub("--wait", "--array", "1", "--clusters", "beta", "--", "run")

    assert status == 1
    assert [one.jdl.clusters["beta"].max_jobs for one in brought] == [2]


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (replace(SWEEP, state=CampaignState.TERMINATED, ended=20), 0),
        (replace(SWEEP, state=CampaignState.TERMINATED, ended=20, failed=1), 1),
        (replace(SWEEP, state=CampaignState.TERMINATED, ended=20, cancelled=1), 1),
        (replace(SWEEP, state=CampaignState.CANCELLED, ended=3), 1),
    ],
    ids=["well", "failed", "a task cancelled", "cancelled"],
)
def test_waiting_for_a_campaign_returns_0_only_if_every_task_succeeded(
    tmp_path: Path, last: PublishedCampaign, status: int
) -> None:
    """A paused campaign has not ended."""
    publish(PublishedCampaignList(at=NOON, campaigns=(SWEEP,)), tmp_path)
    steps = [(SWEEP,), (replace(SWEEP, state=CampaignState.PAUSED),), (last,)]

    def pause(_: float) -> None:
        shown = PublishedCampaignList(at=NOON, campaigns=steps.pop(0))
        publish(shown, tmp_path)

    assert gridwait_module.wait_for_campaign_end("gridwait", 7, str(tmp_path), pause) == status
    assert steps == []


def test_gridwait_refuses_an_unknown_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gridwait_module, "SHOWN_S", 0)

    done = CliRunner().invoke(gridwait, ["7", "--published", str(tmp_path)], standalone_mode=False)

    assert (done.return_value, done.output) == (1, "gridwait: no campaign 7\n")


def test_waiting_begins_before_the_campaign_is_published(tmp_path: Path) -> None:
    shown = PublishedCampaignList(at=NOON, campaigns=(replace(SWEEP, state=CampaignState.CANCELLED),))
    Timer(0.5, publish, [shown, str(tmp_path)]).start()

    assert gridwait_module.wait_for_campaign_end("gridsub", 7, str(tmp_path)) == 1
    assert published_campaign_files.read_published_campaign_value(PublishedCampaignList, str(tmp_path))


def test_waiting_ends_with_1_when_the_campaign_was_purged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(PublishedCampaignList(at=NOON, campaigns=(SWEEP,)), tmp_path)

    def pause(_: float) -> None:
        publish(PublishedCampaignList(at=NOON, campaigns=()), tmp_path)

    assert gridwait_module.wait_for_campaign_end("gridwait", 7, str(tmp_path), pause) == 1
    assert capsys.readouterr().err.startswith("gridwait: campaign 7 no longer exists: it was purged")


@pytest.mark.parametrize(("failed", "status"), [(0, 0), (1, 1)])
def test_gridwait_returns_1_if_a_task_of_any_campaign_failed(tmp_path: Path, failed: int, status: int) -> None:
    good = replace(SWEEP, state=CampaignState.TERMINATED, ended=SWEEP.tasks)
    other = replace(good, number=8, failed=failed)
    publish(PublishedCampaignList(at=NOON, campaigns=(good, other)), tmp_path)

    asked = ["8", "7", "--published", str(tmp_path)]
    done = CliRunner().invoke(gridwait, asked, standalone_mode=False)

    assert done.return_value == status


@pytest.mark.parametrize("check", [["--check"], []])
@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("mem <> 3", "mem<>3"),
        ("NOT gpu = 'TRUE'", "gpu<>TRUE"),
        ("mem IN (1, 2)", "mem=1, mem=2"),
        ("mem = 1 AND mem <> 1G", "mem=1, mem<>1G"),
        ("gpu IS NOT NULL", "gpu IS NOT NULL"),
    ],
)
def test_a_number_or_boolean_is_requested_by_equality_only(
    site: Path, check: list[str], wanted: str, told: str
) -> None:
    """The qsub of beta would refuse the tasks; the resource types come from beta's vocabulary."""
    offer(site, resource={"mem", "gpu", "arch"}, string={"arch"})

    status, lines = sub(*check, "-j", jdl(properties=f"arch <> 'x' AND {wanted}"))
    fine, _ = sub("--check", "-j", jdl(properties="mem = 3, gpu = TRUE AND mem = 3"))

    start = f"{JDL}: beta.properties: expected NAME = VALUE for resources that are no strings at this cluster: "
    assert (status, lines[-1], fine) == (1, f"{start}{told}", 0)


@pytest.mark.usefixtures("site")
def test_two_values_of_one_resource_are_refused_without_a_vocabulary() -> None:
    status, lines = sub("-j", jdl(properties="mem = 2G AND mem = 3G"))

    why = "Grid Engine accepts only one value of a resource, not mem=2G and mem=3G"
    assert (status, lines) == (1, [f"gridsub: the JDL of -j:1: beta.properties: {why}"])


@pytest.mark.parametrize(
    ("wish", "is_told"), [({"resources": "/nodes=1/core=2"}, True), ({"resources": "/core=2"}, False), ({}, False)]
)
def test_gridsub_check_warns_while_a_cluster_has_published_no_parallel_environments(
    site: Path, wish: dict[str, str], is_told: bool
) -> None:
    """Without a known parallel environment the slots of a task may be spread over hosts."""
    spread = "beta: the parallel environments are not known yet"
    check = ("--check", "-j", jdl(clusters={"beta": wish}))

    assert any(line.startswith(spread) for line in sub(*check)[1]) is is_told
    offer(site, rule={"smp=$pe_slots"})
    assert not any(line.startswith(spread) for line in sub(*check)[1])
