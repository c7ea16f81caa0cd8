"""Tests of cluster addresses, routes and mapping rules from a configuration with an OAR server."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.batch import configured_cluster_access_and_routes, load_submit_adapter
from gridbridge.batch.gridengine import job_submission_and_control as gridengine
from gridbridge.batch.oar import job_submission_and_control as oar
from gridbridge.decisions.transfer.request_mapping import MappableJobRequest, map_request_to_remote_cluster
from gridbridge.errors import ConfigError, UnmappableRequest
from gridbridge.model import transfer_route
from gridbridge.model.config_key_descriptions import AccountByUser, QueueDefaultRequests
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, JobEndPushKind, Policy
from gridbridge.model.transfer import request_mapping_rules
from gridbridge.model.transfer import transfer_config_sections as sections
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell import ssh
from gridbridge.shell.ssh_connections_shared_by_threads import IdleSshSessions

MEMORY = sections.ResourceMappingRule(
    to="memnode", unit=sections.RemoteAmountUnit.MEBI, relation=sections.PropertyRelation.AT_LEAST
)
RULES: dict[tuple[str, str], sections.AnyRule] = {
    ("resource", "mem_free"): MEMORY,
    ("resource", "arch"): sections.ResourceMappingRule(),
    ("resource", "gpu"): sections.ResourceMappingRule(to="/gpu"),
    ("resource", "soft"): sections.ResourceMappingRule(drop=True),
    ("project", "*"): sections.ProjectMappingRule(to="foreign"),
}


def a_policy() -> Policy:
    users = AccountByUser({"alice": "al_gamma", "gridbridge": "gb_gamma"})
    gamma = ClusterSection(kind=ClusterKind.OAR, ssh="far", users=users, push=JobEndPushKind.OAR)
    return Policy(
        site=SiteSection(cluster="alpha"),
        clusters={"alpha": ClusterSection(qmaster_port=1, execd_port=2), "gamma": gamma},
        queues={"transfer-gamma": sections.TransferQueueSection(cluster="gamma", pending_limit=1, slots=1)},
        maps={"gamma": RULES},
    )


def rules_of(policy: Policy, queue: str) -> request_mapping_rules.RequestMapping:
    built = configured_cluster_access_and_routes.build_request_mapping(policy, "gamma", queue)
    return request_mapping_rules.decode_request_mapping(request_mapping_rules.encode_request_mapping(built))


def asked(hard: dict[str, str], soft: dict[str, str] | None = None) -> MappableJobRequest:
    rules = rules_of(a_policy(), "transfer-gamma")
    request = MappableJobRequest(hard=tuple(hard.items()), soft=tuple((soft or {}).items()))
    return map_request_to_remote_cluster(request, rules, "gamma")


def asked_of_queue(queue: sections.TransferQueueSection, *queues: str) -> MappableJobRequest:
    """Translate a parallel job's request for the home queues `queues` by the rules of `queue`."""
    rules = dict(RULES)
    rules["queue", "long.q"], rules["pe", "mpi"] = (
        sections.QueueMappingRule(to="long"),
        sections.PeMappingRule(spread="4"),
    )
    policy = replace(a_policy(), queues={"transfer-gamma": queue}, maps={"gamma": rules})
    request = MappableJobRequest(queues=queues, pe="mpi", slots=8)
    return map_request_to_remote_cluster(request, rules_of(policy, "transfer-gamma"), "gamma")


def test_a_transfer_queue_sets_the_oar_queue_and_types_of_its_jobs() -> None:
    """A mapped queue of the job takes precedence."""
    usual = a_policy().queues["transfer-gamma"]
    best = replace(usual, oar_queue="best", oar_type="besteffort timesharing=user,*")
    plain, typed, own = asked_of_queue(usual), asked_of_queue(best), asked_of_queue(best, "long.q")

    assert (plain.queues, plain.types) == ((), ())
    assert (typed.queues, typed.types) == (("best",), ("besteffort", "timesharing=user,*"))
    assert (own.queues, own.types) == (("long",), typed.types)
    assert asked_of_queue(best, "all.q").queues == ("best",)
    assert {one.spread for one in (plain, typed, own)} == {"4"}


def test_a_starter_logs_in_to_an_oar_server_as_the_mapped_user() -> None:
    route = configured_cluster_access_and_routes.build_transfer_queue_route(a_policy(), "transfer-gamma")
    told = transfer_route.decode_transfer_route(transfer_route.encode_transfer_route(route))
    there = told.remote_cluster_access_as_user("alice")

    assert isinstance(there, OarServerAccessSettings)
    assert (there.login.user, there.binaries, there.timeout_s) == ("al_gamma", "/usr/bin", 15)
    assert there.ends == there.with_time_limit(3).ends == "/tmp/gridbridge.gb_gamma/ends"
    assert (load_submit_adapter(there), load_submit_adapter(told.home_cluster_access)) == (oar, gridengine)


@pytest.mark.skipif(os.geteuid() != 0, reason="anybody else asks as themselves")
def test_root_logs_in_as_the_service_account() -> None:
    there = configured_cluster_access_and_routes.configured_cluster_access(a_policy(), "gamma")

    assert (there.login.user, there.login.person) == ("gb_gamma", "gridbridge")


def test_mapping_rules_translate_resources_for_oar() -> None:
    """Amounts are converted, other values become properties or levels, and a walltime needs no rule."""
    there = asked({"mem_free": "1.5G", "arch": "lx-amd64", "gpu": "2", "h_rt": "0:1:0", "soft": "1"}).hard

    assert set(there) == {("memnode>=", "1536"), ("arch=", "lx-amd64"), ("/gpu", "2"), ("h_rt", "0:1:0")}


def test_a_resource_without_rule_is_refused_by_rule_name() -> None:
    with pytest.raises(UnmappableRequest, match=r"no virtual_free: \[map\.gamma\.resource\.NAME\]"):
        asked({"virtual_free": "1M"})


def test_soft_requests_are_dropped_with_a_note() -> None:
    there = asked({}, {"mem_free": "1G", "nonesuch": "1", "soft": "1"})

    assert (there.soft, there.project) == ((), "foreign")
    assert ["accepts no soft requests" in note for note in there.notes] == [True, False]


@pytest.mark.parametrize(
    ("hard", "expected"),
    [
        ({}, [("memnode>=", "65536"), ("h_rt", "3600")]),
        ({"mem_free": "1G"}, [("memnode>=", "1024"), ("h_rt", "3600")]),
        ({"mem_free": "INFINITY"}, [("memnode>=", "65536"), ("h_rt", "3600")]),
    ],
    ids=["nothing", "the same", "no limit"],
)
def test_a_queues_default_requests_are_translated(hard: dict[str, str], expected: list[tuple[str, str]]) -> None:
    """The defaults are resources of the home cluster."""
    rules = rules_of(with_big_queue({"mem_free": "64G", "h_rt": "3600"}), "transfer-big")
    request = MappableJobRequest(hard=tuple(hard.items()))

    assert sorted(map_request_to_remote_cluster(request, rules, "gamma").hard) == sorted(expected)


def with_big_queue(asks: dict[str, str]) -> Policy:
    policy = a_policy()
    queue = replace(policy.queues["transfer-gamma"], asks=QueueDefaultRequests(asks))
    return replace(policy, queues={**policy.queues, "transfer-big": queue})


def test_default_requests_apply_only_to_jobs_of_their_queue() -> None:
    policy = with_big_queue({"mem_free": "64G"})

    assert rules_of(policy, "transfer-gamma") == rules_of(a_policy(), "transfer-gamma")


def test_a_cluster_missing_from_the_configuration_is_an_error() -> None:
    with pytest.raises(ConfigError) as refused:
        configured_cluster_access_and_routes.configured_cluster_access(a_policy(), "beta")

    assert str(refused.value) == "/etc/gridbridge/gridbridge.toml has no [cluster.beta]"


def test_persistent_ssh_connections_are_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "_carrier", ssh.OpenSshClient())
    configured_cluster_access_and_routes.keep_ssh_connections_open(a_policy())
    first = ssh._carrier
    configured_cluster_access_and_routes.keep_ssh_connections_open(a_policy())

    assert (ssh.uses_persistent_ssh(), ssh._carrier) == (True, first)


def test_paramiko_is_imported_by_the_first_ssh_request() -> None:
    program = """
import sys
from gridbridge.batch import configured_cluster_access_and_routes
from gridbridge.errors import HostNotReached
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import ssh
from tests.batch.test_clusters import a_policy
configured_cluster_access_and_routes.keep_ssh_connections_open(a_policy())
print("paramiko" in sys.modules)
try:
    ssh.run_over_ssh(SshLogin(host="127.0.0.1", port="1"), ("true",), {}, 5)
except HostNotReached:
    print("paramiko" in sys.modules)
"""
    root = Path(__file__).parents[2]
    argv = (sys.executable, "-c", program)
    ran = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True)

    assert ran.stdout.split() == ["False", "True"]


def test_a_short_program_logs_in_to_each_ssh_cluster_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[str]()
    monkeypatch.setattr(ssh, "_carrier", ssh.OpenSshClient())
    monkeypatch.setattr(IdleSshSessions, "begin_ssh_login", lambda _, login: begun.append(login.host))

    configured_cluster_access_and_routes.log_in_to_ssh_clusters(a_policy())

    assert begun == ["far"]
    assert isinstance(ssh._carrier, IdleSshSessions)
