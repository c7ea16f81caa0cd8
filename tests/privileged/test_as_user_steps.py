"""Root reads prologue lines and resource requests from the owner's campaign file."""

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gridbridge.batch.gridengine import sge_command_line_builders as gridengine
from gridbridge.batch.oar import oar_command_line_builders as oar
from gridbridge.campaigns.store.campaign_file_verification import RootVerifiedCampaignFiles
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.campaigns.submission import jdl_reader
from gridbridge.model.campaigns.campaign_file_and_array_names import CampaignArrayId
from gridbridge.model.job_request import JobSpec
from gridbridge.model.transfer_route import GridEngineCellAccessSettings, OarServerAccessSettings
from gridbridge.privileged import campaign_array_job_spec
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal
from gridbridge.privileged.campaign_array_job_spec import VerifiedCampaignTasks

AT: dict[str, Any] = {"exec_file": "run", "slots": 8, "nodes": 1, "environment": "mpi", "walltime_s": 60}
PROPERTIES = {"properties": "mem>=2,arch=lx-*,a=1;b=2"}
ASKED = (("mem>=", "2"), ("arch", "lx-*"))
STEPS = {"prologue": "make\nls", "prologue_walltime_s": 900, "epilogue": ""}
BETA = AT | STEPS | PROPERTIES
HEADER: dict[str, Any] = {"name": "n", "token": "1", "is_idempotent": True}


def read(
    folder: Path,
    *tasks: str,
    is_of_copies: bool = False,
    is_ordinary: bool = False,
    line: str = "a 1",
    header: Any = HEADER,
    **asked: object,
) -> tuple[JobSpec, ...]:
    header = HEADER | header | {"clusters": {"gamma": AT, "beta": BETA | asked}}
    (folder / "c.12").write_text(f"{json.dumps(header)}\n{line}\n")
    arrays = tuple(CampaignArrayId("alpha", 12, number) for number, _ in enumerate(tasks, start=1))
    order = SimpleNamespace(
        arrays=arrays,
        tasks=tasks,
        cluster="beta",
        campaign=12,
        file="c.12",
        section={},
        is_of_copies=is_of_copies,
        is_ordinary=is_ordinary,
        checkpoint_s=77,
        group=(1, 0, 0),
    )
    with RootLedgerOfSubmittedTasks(12, str(folder / "ledger")) as ledger:
        found = VerifiedCampaignTasks(
            cast("AsUserArrayArguments", order), RootVerifiedCampaignFiles(12, str(folder)), ledger
        )
        return tuple(
            found.array_job_spec(array, found.script_tasks_of_array(place), "alice")
            for place, array in enumerate(arrays)
        )


def test_a_prologue_is_one_task_of_one_slot(tmp_path: Path) -> None:
    prologue, tasks = read(tmp_path, "990000000:2", "0:1")

    assert (prologue.slots, prologue.pe, tasks.slots, tasks.pe) == (1, "", 8, "mpi")
    assert prologue.request.hard == (("h_rt", "900"), *ASKED)
    assert tasks.request.hard == (("h_rt", "60"), *ASKED)
    assert prologue.request.either == tasks.request.either == ((("a", "1"), ("b", "2")),)
    assert b"gb_number=prologue gb_attempt=2 gb_copy=0 gb_name='prologue'" in prologue.script
    assert b"set -- 'make\nls'" in prologue.script
    assert b"gb_number=0 gb_attempt=1" in tasks.script


@pytest.mark.parametrize(("seconds", "expected"), [(60, b"gb_checkpoint_s='60'\n"), (0, b"gb_checkpoint_s='77'\n")])
@pytest.mark.parametrize("files", [["state"], ["{1}.state"]])
def test_tasks_get_the_interval_of_the_jdl_or_of_the_service(
    tmp_path: Path, files: list[str], seconds: int, expected: bytes
) -> None:
    """A prologue makes no checkpoints."""
    header = {"checkpoint_files": files, "checkpoint_signal": "USR1", "checkpoint_s": seconds}
    prologue, tasks = read(tmp_path, "990000000:2", "0:1", header=header)

    assert b"gb_signal='USR1'\n" in tasks.script
    assert expected in tasks.script
    assert (b"gb_checkpoints='state'" if files == ["state"] else b"gb_checkpoints='a.state'") in tasks.script
    assert b"take_checkpoint()" in tasks.script
    assert b"take_checkpoint()" not in prologue.script


SERVER = OarServerAccessSettings(timeout_s=15)
CELL = GridEngineCellAccessSettings(root="/r", cell="b", qmaster_port="1", execd_port="2", binaries="/b", timeout_s=1)


def jdl_of(text: dict[str, str]) -> dict[str, Any]:
    table = {"name": "n", "nb_jobs": 1, "clusters": {"b": {"exec_file": "x", **text}}}
    return asdict(jdl_reader.parse_jdl("n.json", json.dumps(table)).jdl.clusters["b"])


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (jdl_of({"resources": "/nodes=2/core=4"}), "/nodes=2/resource_id=4"),
        (jdl_of({"resources": "/nodes=1/core=4"}), "/nodes=1/resource_id=4"),
        (jdl_of({"resources": "/core=8"}), "/resource_id=8"),
    ],
)
def test_oar_gets_the_slots_with_their_nodes(tmp_path: Path, kept: dict[str, Any], expected: str) -> None:
    specs = read(tmp_path, "990000000:2", "0:1", **kept | STEPS)

    prologue, tasks = (oar.oarsub_argv(SERVER, one) for one in specs)

    asked = tasks[tasks.index("-l") + 1]
    assert asked.partition(",")[0] == expected
    assert prologue[prologue.index("-l") + 1] == "/nodes=1/resource_id=1,walltime=0:15:0"


@pytest.mark.parametrize("nodes", [3, -1, "2", 16])
def test_slots_that_nodes_do_not_divide_are_refused(tmp_path: Path, nodes: object) -> None:
    """A JDL never has such a number, but a forged campaign file may."""
    with pytest.raises(AsUserRequestRefusal, match="nodes"):
        read(tmp_path, "0:1", nodes=nodes)


def test_grid_engine_gets_all_slots_and_alternative_values(tmp_path: Path) -> None:
    """In properties a comma binds less than OR."""
    asked = {"resources": "/nodes=2/core=4", "pe": "mpi"}
    asked["properties"] = "arch=lx-amd64, os=deb12 OR os=deb13"
    (spec,) = read(tmp_path, "0:1", **jdl_of(asked))

    words = gridengine.submit_held_job_argv(CELL, spec)

    assert gridengine.explain_request_refusal(spec.request) == ""
    assert words[words.index("-pe") :][:3] == ("-pe", "mpi", "8")
    assert words[-6:] == ("-hard", "-l", "arch=lx-amd64", "-hard", "-l", "os=deb12|deb13")


YIELDS = ("besteffort",)


@pytest.mark.parametrize(
    ("type_", "is_ordinary", "types"),
    [
        ("normal", False, ()),
        ("nightly", False, ()),
        ("best-effort", False, YIELDS),
        ("best-effort", True, YIELDS),
        ("semi-best-effort", False, YIELDS),
        ("semi-best-effort", True, ()),
    ],
)
def test_requests_of_a_jdl_reach_the_cluster(
    tmp_path: Path, type_: str, is_ordinary: bool, types: tuple[str, ...]
) -> None:
    """The service can't make ordinary jobs of best-effort tasks."""
    asked = {"project": "physics", "queue": "long.q", "walltime": "0:10", "type": type_}
    (spec,) = read(tmp_path, "0:1", is_ordinary=is_ordinary, **jdl_of(asked))

    wish = spec.request
    assert (wish.project, wish.targets, wish.types) == ("physics", "long.q", types)
    assert dict(wish.hard)["h_rt"] == "600"


@pytest.mark.parametrize(
    "tasks",
    ["990000002:1", "990000001:1", "990000000:1,0:1", "990000000-990000001:1", "999999999:1"],
    ids=["another cluster's", "none there", "with a task", "two", "no cluster's"],
)
def test_tasks_that_the_campaign_file_lacks_are_refused(tmp_path: Path, tasks: str) -> None:
    with pytest.raises(AsUserRequestRefusal):
        read(tmp_path, tasks)
    with pytest.raises(AsUserRequestRefusal, match="no prologue at beta"):
        read(tmp_path, "990000000:1", is_of_copies=True)


def test_root_does_not_split_task_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Splitting crafted lines takes minutes, so the owner's process splits."""
    split = list[str]()
    really = campaign_array_job_spec.split_task_parameters
    monkeypatch.setattr(
        campaign_array_job_spec, "split_task_parameters", lambda line: split.append(line) or really(line)
    )
    monkeypatch.setattr(VerifiedCampaignTasks, "array_job_spec", lambda *_: [*split])

    first, second = cast("tuple[Any, ...]", read(tmp_path, "0:1", "0:2"))

    assert (first, second) == (["a 1"], ["a 1", "a 1"])


@pytest.mark.parametrize("name", ["MOST_OF_TASK", "MOST_OF_ARRAY"])
def test_overlong_task_parameters_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Root would need several times their size in memory."""
    monkeypatch.setattr(campaign_array_job_spec, name, 9)

    assert read(tmp_path, "0:1", line="a 1234567")
    with pytest.raises(AsUserRequestRefusal, match="a task's parameters are too large"):
        read(tmp_path, "0:1", line="a 12345678")
