"""A policy survives writing and reading; the sample configuration is a written policy."""

from dataclasses import Field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.config import configuration_file
from gridbridge.model.campaigns.campaign_configuration_sections import NIGHTS, TIME_ZONE, ClusterCampaignsSection
from gridbridge.model.config_key_descriptions import (
    ABSOLUTE_PATH,
    ACCOUNT,
    ANY_TEXT,
    CLUSTER_NAME,
    FAR_FOLDER,
    LOGIN_NAME,
    OBJECT_NAME,
    PATH_OR_NONE,
    SSH_PLACE,
    STATE_URL,
    AccountByUser,
    PathByCluster,
    QueueDefaultRequests,
    config_key_description,
)
from gridbridge.model.elastic.balancer_config_sections import MachineProviderSection
from gridbridge.model.job_request import is_home_only_resource
from gridbridge.model.rebalance.rebalance_section import StorageAreaKind, StorageAreaSection
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import (
    MAX_PORT,
    ClusterKind,
    ClusterSection,
    JobClaimKind,
    JobEndPushKind,
    Policy,
)
from gridbridge.model.transfer import request_mapping_rules, transfer_config_sections
from tests.config.policy_text import format_policy

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "conf" / "gridbridge.toml"
EXCLUSIVE = ("drop", "require", "reject")  # with nearly every other key of a rule
NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,20}"
MAPPABLE_NAMES = st.from_regex(NAME, fullmatch=True).filter(lambda name: not is_home_only_resource(name))
TEXTS = {
    transfer_config_sections.AMOUNT_FORMAT.right: st.sampled_from(["", "1:0:0", "2G", "3"]),
    ANY_TEXT.right: st.from_regex(r"[ -~]{0,20}", fullmatch=True),
    transfer_config_sections.MAPPING_RULE_NAME_FORMAT.right: st.just("*") | st.from_regex(NAME, fullmatch=True),
    transfer_config_sections.REMOTE_QUEUE_FORMAT.right: st.just("") | st.from_regex(NAME, fullmatch=True),
    transfer_config_sections.REMOTE_RESOURCE_NAME_FORMAT.right: st.just("") | MAPPABLE_NAMES,
    transfer_config_sections.REMOTE_NAME_FORMAT.right: st.just("") | st.from_regex(NAME, fullmatch=True),
    NIGHTS.right: st.sampled_from(["20:00-06:00", "1:00-24:00, Sat-Sun 0:00-1:00"]),
    TIME_ZONE.right: st.sampled_from(["", "Europe/Paris"]),
    ABSOLUTE_PATH.right: st.from_regex(r"/[ -~]{0,20}", fullmatch=True),
    ACCOUNT.right: st.sampled_from(["gridbridge", "_grid", "g-1"]),
    CLUSTER_NAME.right: st.sampled_from(["alpha", "beta"]),
    LOGIN_NAME.right: st.sampled_from(["alice", "al_delta", "A.b-c"]),
    OBJECT_NAME.right: st.from_regex(NAME, fullmatch=True),
    PATH_OR_NONE.right: st.sampled_from(["", "/a b/accounting"]),
    SSH_PLACE.right: st.sampled_from(["delta-master", "10.0.0.1:2222"]),
    FAR_FOLDER.right: st.sampled_from([".gridbridge/stage", "/scratch/gb"]),
    transfer_config_sections.STAGE_IN_FORMAT.right: st.sampled_from(["", "a:b%2Cc", "/data/x:."]),
    transfer_config_sections.STAGE_OUT_FORMAT.right: st.sampled_from(["", ".", "a b:%22"]),
    STATE_URL.right: st.sampled_from(["sqlite:////x y.db", "postgresql://me@db:5432/grid"]),
}


def values_of(key: Field[Any]) -> st.SearchStrategy[Any]:
    known = config_key_description(key)
    if key.type is bool:
        return st.booleans()
    if key.type is int:
        return st.integers(int(known.low), int(known.high))
    if key.type is float:
        return st.floats(known.low, known.high)
    if key.type is str:
        return TEXTS[known.form.right]
    if key.type is QueueDefaultRequests:  # what every cluster has, an OAR server, too
        return st.builds(QueueDefaultRequests, st.dictionaries(st.just("h_rt"), st.just("1:0:0"), max_size=1))
    if key.type is AccountByUser:
        return st.builds(AccountByUser, st.dictionaries(*[TEXTS[known.form.right]] * 2).filter(is_apart))
    return st.sampled_from(list(key.type))


def is_apart(users: dict[str, str]) -> bool:
    """Return True if all accounts differ."""
    return len(set(users.values())) == len(users)


def sections_of(kind: type, /, **fixed: object) -> st.SearchStrategy[Any]:
    free = {key.name: values_of(key) for key in fields(kind) if key.name not in fixed}
    chosen = {name: value if isinstance(value, st.SearchStrategy) else st.just(value) for name, value in fixed.items()}
    return st.builds(kind, **free, **chosen)


def read_again(policy: Policy) -> Policy:
    with TemporaryDirectory() as folder:
        path = Path(folder, "gridbridge.toml")
        path.write_text(format_policy(policy))
        return configuration_file.load_configuration(str(path))


def rules_of(kind: str) -> st.SearchStrategy[dict[tuple[str, str], Any]]:
    """Return a strategy for at most one mapping rule; two rules could give two resources one name."""
    rule, form = transfer_config_sections.KINDS[kind]
    names = st.tuples(st.just(kind), MAPPABLE_NAMES if kind == request_mapping_rules.RESOURCE else TEXTS[form.right])
    plain = {key.name: getattr(rule(), key.name) for key in fields(rule) if key.name in EXCLUSIVE}
    plain |= (
        {"relation": transfer_config_sections.PropertyRelation.AS_USUAL}
        if rule is transfer_config_sections.ResourceMappingRule
        else {}
    )
    plain |= {"spread": ""} if rule is transfer_config_sections.PeMappingRule else {}  # of OAR alone
    rules = sections_of(rule, **plain) | st.just(rule(reject="why"))
    return st.dictionaries(names, rules, min_size=1, max_size=1)


POLLERS = sections_of(transfer_config_sections.PollerSection).filter(lambda poller: poller.stale_s > poller.interval_s)
PORTS = st.integers(1, MAX_PORT)
CELL: dict[str, object] = {
    **{"kind": ClusterKind.GRIDENGINE, "qmaster_port": PORTS, "execd_port": PORTS},
    "push": st.sampled_from([JobEndPushKind.NONE, JobEndPushKind.QEVENT]),
    "folder": "",
    **dict.fromkeys(("api", "api_login", "api_reader"), ""),
}
USUAL = ClusterSection()
HERE = sections_of(ClusterSection, **CELL, ssh="", users=AccountByUser(), claim=JobClaimKind.NONE)
SHARED = sections_of(ClusterSection, **CELL, ssh="", users=AccountByUser(), spool_shared=True, claim=JobClaimKind.FILE)
BY_SSH = sections_of(
    ClusterSection, **{**CELL, "push": JobEndPushKind.NONE}, spool_shared=False, claim=JobClaimKind.NONE
)
OF_OAR = sections_of(
    ClusterSection,
    kind=ClusterKind.OAR,
    folder="",
    root=USUAL.root,
    cell="",
    qmaster_port=0,
    execd_port=0,
    spool_shared=False,
    remote_spool_dir=USUAL.remote_spool_dir,
    push=st.sampled_from([JobEndPushKind.NONE, JobEndPushKind.OAR]),
    claim=JobClaimKind.NONE,
    api="",
    api_login="",
    api_reader="",
)
FOLDERS = sections_of(
    ClusterSection,
    kind=ClusterKind.EMBEDDED,
    folder="/x y",
    root=USUAL.root,
    cell="",
    qmaster_port=0,
    execd_port=0,
    binaries="",
    ssh="",
    api="",
    api_login="",
    api_reader="",
    users=AccountByUser(),
    accounting="",
    push=JobEndPushKind.NONE,
    claim=JobClaimKind.NONE,
)
NOT_STAGED = {"staged": False, "stage_in": "", "stage_out": ""}  # only clusters by ssh may be
NOT_OF_OAR = {"oar_queue": "", "oar_type": ""}
POLICIES = st.builds(
    Policy,
    site=sections_of(SiteSection, cluster="alpha"),
    clusters=st.fixed_dictionaries({"alpha": HERE, "beta": HERE | SHARED | BY_SSH | OF_OAR})
    | st.fixed_dictionaries({"alpha": FOLDERS, "beta": FOLDERS}),
    queues=st.dictionaries(
        TEXTS[OBJECT_NAME.right],
        sections_of(transfer_config_sections.TransferQueueSection, cluster="beta", **NOT_STAGED, **NOT_OF_OAR),
        max_size=2,
    ),
    poller=POLLERS,
    breaker=sections_of(transfer_config_sections.BreakerSection),
    retention=sections_of(transfer_config_sections.RetentionSection),
    maps=st.dictionaries(st.just("beta"), st.one_of(map(rules_of, transfer_config_sections.KINDS)), max_size=1),
)


SITE = SiteSection(cluster="alpha")
HOME = {"alpha": ClusterSection(qmaster_port=1, execd_port=2)}


@pytest.mark.parametrize("types", ["", "besteffort", "besteffort timesharing=user,*"])
def test_oar_settings_survive_writing_and_reading(types: str) -> None:
    queue = transfer_config_sections.TransferQueueSection(
        cluster="gamma", pending_limit=1, slots=1, oar_queue="long", oar_type=types
    )
    policy = Policy(
        site=SITE,
        clusters=HOME | {"gamma": ClusterSection(kind=ClusterKind.OAR, ssh="far")},
        queues={"transfer-gamma": queue},
        maps={
            "gamma": {
                ("pe", "mpi"): transfer_config_sections.PeMappingRule(spread="4"),
                ("pe", "x"): transfer_config_sections.PeMappingRule(spread="fill_up"),
            }
        },
    )

    assert policy == read_again(policy)


DISK = StorageAreaSection(cluster="alpha", path="/a b", max_bytes=7, copies_at_once=1)


SHARED = StorageAreaSection(clusters=PathByCluster({"alpha": "/a b"}))


STORE = StorageAreaSection(kind=StorageAreaKind.COMMAND, program="/x", prefix="s3:a", timeout_s=5.0)


@pytest.mark.parametrize("disk", [DISK, SHARED, STORE], ids=["of one cluster", "shared", "object store"])
def test_a_storage_area_survives_writing_and_reading(disk: StorageAreaSection) -> None:
    policy = Policy(site=SITE, clusters=HOME, queues={}, storage={"disk": disk})

    assert policy == read_again(policy)


@given(POLICIES)
def test_any_policy_survives_writing_and_reading(policy: Policy) -> None:
    assert policy == read_again(policy)


def test_the_sample_equals_the_written_policy() -> None:
    """The sample therefore has every key with its meaning, unit and default."""
    assert format_policy(configuration_file.parse_configuration(str(SAMPLE), SAMPLE.read_bytes())) == SAMPLE.read_text()


def test_the_sample_has_the_clusters_of_the_lab() -> None:
    assert configuration_file.parse_configuration(str(SAMPLE), SAMPLE.read_bytes()) == Policy(
        site=SiteSection(cluster="alpha"),
        clusters={
            "alpha": ClusterSection(qmaster_port=6444, execd_port=6445),
            "beta": ClusterSection(qmaster_port=6454, execd_port=6455, spool_shared=True),
        },
        queues={
            "transfer-beta": transfer_config_sections.TransferQueueSection(cluster="beta", pending_limit=10, slots=100)
        },
        campaigns={"beta": ClusterCampaignsSection()},
        providers={"lab": MachineProviderSection(program="/opt/gridlab/power-node")},
        maps={
            "beta": {
                ("resource", "h_rt"): transfer_config_sections.ResourceMappingRule(),
                ("pe", "smp"): transfer_config_sections.PeMappingRule(),
                ("project", "*"): transfer_config_sections.ProjectMappingRule(),
                ("queue", "all.q"): transfer_config_sections.QueueMappingRule(),
            }
        },
    )


def test_uncommenting_the_sample_changes_nothing(tmp_path: Path) -> None:
    lines = SAMPLE.read_text().splitlines()
    path = tmp_path / "gridbridge.toml"
    path.write_text("\n".join(line.removeprefix("#") for line in lines if line[:2] != "# "))

    assert configuration_file.load_configuration(str(path)) == configuration_file.parse_configuration(
        str(SAMPLE), SAMPLE.read_bytes()
    )
