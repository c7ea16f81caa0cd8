"""Tests of the table of adapters: each kind of cluster has an adapter with its abilities."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from gridbridge.batch import load_job_recaller, load_refused_job_marker, load_submit_adapter
from gridbridge.batch.batch_adapter_table import ADAPTERS, BatchSystemAdapter, batch_adapter_of_cluster
from gridbridge.config.site import OF_KIND
from gridbridge.decisions.site.running_site_findings import JUDGES
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.site_configuration import ClusterKind
from gridbridge.model.transfer_route import (
    ACCESS,
    AnyClusterAccessSettings,
    EmbeddedClusterAccessSettings,
    GridEngineCellAccessSettings,
    OarServerAccessSettings,
)

CELL = GridEngineCellAccessSettings(root="/r", cell="c", qmaster_port="1", execd_port="2", binaries="/b", timeout_s=1)
OAR = OarServerAccessSettings(timeout_s=15)
FOLDER = EmbeddedClusterAccessSettings(folder="/c", python="/usr/bin/python3", timeout_s=5)
SPEC = JobSpec(transfer="gb.alpha.1.0.1", request=JobRequest(), cwd="/work")
OPTIONAL = tuple(field.name for field in fields(BatchSystemAdapter) if field.default is None)


def test_every_cluster_kind_has_an_adapter_and_an_address() -> None:
    assert set(ADAPTERS) == set(ACCESS) == set(ClusterKind)
    assert set(OF_KIND) == set(JUDGES) == set(ClusterKind)


def comparisons(source: str) -> Iterator[str]:
    """Yield each line of code that compares the kind of a cluster."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare | ast.Match) and names(node) & (KINDS | FIELDS):
            yield f"{node.lineno}: {ast.unparse(node).splitlines()[0]}"
        elif isinstance(node, ast.Call) and names(node.func) <= {"isinstance"} and names(node) & CLASSES:
            yield f"{node.lineno}: {ast.unparse(node)}"


def names(code: ast.AST) -> set[str]:
    """Return the names and constants in code, without members of JobEndPushKind."""
    nodes = tuple(ast.walk(code))
    pushes = {id(node) for node in nodes if ast.unparse(node).startswith("JobEndPushKind.")}
    return (
        {node.attr for node in nodes if isinstance(node, ast.Attribute) and id(node) not in pushes}
        | {node.id for node in nodes if isinstance(node, ast.Name)}
        | {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    )


ROOT = Path(__file__).parents[2] / "gridbridge"
ASKING = [path for path in ROOT.rglob("*.py") if path.parent.parent.name != "batch"]
KINDS = {name for kind in ClusterKind for name in (kind.name, kind.value)}
FIELDS = {"local_kind", "remote_kind"}
CLASSES = {"GridEngineCellAccessSettings", "OarServerAccessSettings", "EmbeddedClusterAccessSettings"}


def test_no_code_outside_the_tables_compares_cluster_kinds() -> None:
    found = {str(path.relative_to(ROOT)): list(comparisons(path.read_text())) for path in ASKING}

    assert {name: told for name, told in found.items() if told} == {}
    assert len(found) > 200


@pytest.mark.parametrize(
    "code",
    [
        "if cluster.kind is Kind.OAR: pass",
        "x = route.local_kind in (GRIDENGINE, EMBEDDED)",
        "x = section.get('kind') != 'oar'",
        "x = route.remote_kind == other",
        "match cluster.kind:\n    case Kind.EMBEDDED: pass",
        "x = isinstance(where, GridEngineCellAccessSettings)",
    ],
)
def test_a_comparison_of_cluster_kinds_is_detected(code: str) -> None:
    assert len(list(comparisons(code))) == 1


@pytest.mark.parametrize("where", [CELL, OAR, FOLDER], ids=["gridengine", "oar", "embedded"])
def test_services_and_starters_use_the_same_submit_module_and_recaller(where: AnyClusterAccessSettings) -> None:
    assert batch_adapter_of_cluster(where).submit is load_submit_adapter(where)
    assert load_job_recaller(where) is batch_adapter_of_cluster(where).recalls


@pytest.mark.parametrize(
    ("where", "abilities"),
    [
        (
            CELL,
            {
                *("at_home", "guards_tasks", "sets_up", "makes_queues", "keeps_tags", "shows_crowd", "recalls"),
                *("accounts", "array_ends", "user_jobs", "end_watcher_argv", "query_job_accounts"),
                *("reads_demand", "changes_hosts", "shell_environment_line"),
            },
        ),
        (
            OAR,
            {
                *("sets_up", "listen_for_job_ends", "array_ends", "keeps_tags", "reads_demand"),
                *("changes_hosts", "require_power_control", "complete_mapping_rules", "require_root_login"),
            },
        ),
        (FOLDER, {"at_home", "guards_tasks", "array_ends", "list_transfer_queues"}),
    ],
    ids=["gridengine", "oar", "embedded"],
)
def test_each_adapter_has_the_abilities_of_its_batch_system(
    where: AnyClusterAccessSettings, abilities: set[str]
) -> None:
    adapter = batch_adapter_of_cluster(where)

    assert {name for name in OPTIONAL if getattr(adapter, name)} == abilities


def test_each_home_adapter_has_task_guards_and_a_marker() -> None:
    homes = {kind for kind, adapter in ADAPTERS.items() if adapter.at_home}

    assert homes == {kind for kind, adapter in ADAPTERS.items() if adapter.guards_tasks}
    assert homes == {kind for kind, access in ACCESS.items() if access.CAN_BE_HOME}
    for home in (CELL, FOLDER):
        assert load_refused_job_marker(home).__name__.startswith(f"gridbridge.batch.{home.kind}.")


@pytest.mark.parametrize(("where", "program"), [(CELL, "/b/qsub"), (OAR, "/usr/bin/oarsub"), (FOLDER, "submit")])
def test_each_adapter_builds_its_submission_command(where: AnyClusterAccessSettings, program: str) -> None:
    argv = batch_adapter_of_cluster(where).build_submission_command(where, SPEC)

    assert program in argv
    assert batch_adapter_of_cluster(where).explain_request_refusal(SPEC.request) == ""
