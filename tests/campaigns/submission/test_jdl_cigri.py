"""Each key of CiGri's JDL has an effect, a warning or a refusal."""

import json
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import client_commands as gridengine
from gridbridge.batch.oar import oar_commands as oar
from gridbridge.campaigns.submission import jdl_reader
from gridbridge.campaigns.submission.jdl_value_parsers import KEYS
from gridbridge.campaigns.submission.jdl_writer_and_task_files import campaign_to_jdl_table
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster
from gridbridge.model.campaigns.requested_host_properties import (
    parse_alternative_host_properties,
    parse_required_host_properties,
)
from gridbridge.model.job_request import JobRequest
from tests.campaigns.submission.jdl_builder import jdl_text, mistakes_of_jdl, read_jdl, wrong_with


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("checkpointing_type", "blcr", 'n:1: checkpointing_type = "blcr": not supported yet'),
        ("data_to_transfer", ["in"], 'n:1: data_to_transfer = ["in"]: not supported yet'),
        ("dependencies", [3], "n:1: dependencies = [3]: not supported yet"),
        ("masters", ["a", "b"], 'n:1: masters = ["a", "b"]: not supported yet'),
        ("checkpointing_period", 600, "n:1: checkpointing_period = 600: not supported yet"),
        ("type", "nightly", 'n:1: type = "nightly": not supported yet'),
        ("type", "semi-best-effort", 'n:1: type = "semi-best-effort": not supported yet'),
        ("test_mode", "true", 'n:1: test_mode = "true": not a key of a JDL'),
        ("jobs_type", "desktop_computing", 'n:1: jobs_type = "desktop_computing": not supported'),
        ("exec_directory", "{HOME}/{CAMPAIGN_ID}", 'n:1: exec_directory = "{HOME}/{CAMPAIGN_ID}": {CAMPAIGN_ID} is not expanded in a folder\'s path'),  # noqa: E501
    ],
)  # fmt: skip
def test_unsupported_keys_of_cigris_jdl_are_refused(key: str, value: object, expected: str) -> None:
    assert wrong_with(jdl_text(**{key: value})) == [expected]


def test_missing_keys_have_cigris_default_values() -> None:
    said = read_jdl(nb_jobs=2)
    there = said.jdl.clusters["beta"]

    assert (there.slots, there.walltime_s, there.exec_directory) == (1, 3600, "")
    assert (there.is_besteffort, there.max_jobs, there.project) == (True, 0, "")
    assert (said.jdl.is_idempotent, said.parameters) == (False, ("0", "1"))


def test_an_unknown_key_is_reported_with_the_nearest_known_key() -> None:
    (near,) = mistakes_of_jdl(jdl_text(clusters={"b": {"waltime": "1:0"}}))
    (far,) = mistakes_of_jdl(jdl_text(zzz=1))

    assert near == "n:1: b.waltime: unknown key; walltime is the nearest"
    assert far.startswith("n:1: zzz: unknown key; the keys are clusters, ")


def test_cigris_keys_without_effect_cause_warnings() -> None:
    idle = {"temporal_grouping": "true", "dimensional_grouping": True, "test_mode": False, "output_file": "x"}

    assert read_jdl(**idle, jobs_type="Normal").warnings == tuple(f"n:1: {key}: changes nothing yet" for key in idle)


def test_cigris_macros_are_expanded_in_commands_and_folders() -> None:
    command = "{HOME}/run ${HOME} {CAMPAIGN_ID}.{OAR_JOB_ID} {}"
    text = jdl_text(exec_file=command, exec_directory="{HOME}/x", prologue=["mkdir {CAMPAIGN_ID}"])
    there = jdl_reader.parse_jdl("n", text).jdl.clusters["beta"]
    typed = jdl_reader.parse_jdl("n", text, parameters=("1",)).jdl.clusters["beta"]

    assert there.exec_file == ("${HOME}/run ${HOME} ${CIGRI_CAMPAIGN_ID}.${OAR_JOB_ID:-$JOB_ID} {}")
    assert (there.exec_directory, there.prologue) == ("$HOME/x", "mkdir ${CIGRI_CAMPAIGN_ID}")
    assert typed.exec_file == command


def test_an_empty_text_gives_each_key_its_default_value(tmp_path: Path) -> None:
    keys = dict.fromkeys(("idempotent", "outputs", "datasets", "rebalance", "jobs_type"), "")
    own = {key: "" for key in KEYS if key != "exec_file"}
    known = {"name": "n", "nb_jobs": 2, "params": "", "param_file": "", "exec_file": "x"} | keys
    other = {"resources": "/nodes=2/core=2", "walltime": "3:0:0", "properties": "a=1"}
    text = json.dumps(known | other | {"clusters": {"beta": own, "gamma": {}}})

    said = jdl_reader.parse_jdl("n", text, folder=str(tmp_path))

    assert said.jdl.clusters["beta"] == JdlSettingsAtCluster(exec_file="x")
    assert said.jdl.clusters["gamma"].slots == 4
    assert (said.parameters, said.jdl.may_move) == (("0", "1"), True)


@pytest.mark.parametrize("key", ["name", "exec_file", "nb_jobs", "clusters"])
def test_a_required_key_with_an_empty_text_is_missing(key: str) -> None:
    assert wrong_with(jdl_text(**{key: ""}))


def test_numbers_and_booleans_may_be_written_as_text() -> None:
    """CiGri's own examples have such texts."""
    own = {"beta": {"max_jobs": "3", "walltime": "2"}}
    said = read_jdl(nb_jobs=" 10 ", idempotent="True", rebalance="false", clusters=own)
    there = said.jdl.clusters["beta"]

    assert (there.max_jobs, there.walltime_s, len(said.parameters)) == (3, 7200, 10)
    assert (said.jdl.is_idempotent, said.jdl.may_move) == (True, False)
    for wrong in ("x", "3.5", "-3", "0"):
        assert wrong_with(jdl_text(nb_jobs=wrong))


@pytest.mark.parametrize("path", ["~/p", "$HOME/p", "${HOME}/p", "{HOME}/p", "$PLACE/p", "p"])
def test_a_param_file_path_may_have_cigris_macros_and_variables(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLACE", str(tmp_path))
    (tmp_path / "p").write_text("a\nb\nc\n")

    assert read_jdl(tmp_path, "nb_jobs", param_file=path).parameters == ("a", "b", "c")


@pytest.mark.parametrize(
    "text", ["core=2,walltime=1:30:0", "/nodes=1/core=2, walltime=1:30", "core=2,walltime=01:30:00"]
)
def test_resources_may_include_a_walltime_as_in_oarsub(text: str) -> None:
    there = read_jdl(walltime="9:0:0", clusters={"b": {"resources": text}}).jdl.clusters["b"]
    twice = jdl_text(clusters={"b": {"resources": text, "walltime": "2:0:0"}})

    assert (there.slots, there.walltime_s) == (2, 5400)
    assert wrong_with(twice) == ['n:1: b.walltime = "2:0:0": resources have a different walltime']


def test_an_unclosed_quotation_mark_causes_a_warning() -> None:
    """The task gets different words than the line seems to have."""
    said = read_jdl(without="nb_jobs", params=["it's 5", "it's", "'a b' c", 'say "a b'])

    (note,) = (each for each in said.warnings if "mark" in each)
    assert note.startswith(
        "n:1: params: 2 tasks with an unclosed quotation mark, which is kept; each blank separates words: "
    )


def test_empty_lists_and_blank_texts_give_the_default_value() -> None:
    """CiGri reads empty values in the same way."""
    empty = {"prologue": [], "epilogue": [""], "properties": " ", "outputs": [], "datasets": []}
    own = {"beta": {"prologue": [" "], "properties": "	"}}
    said = [read_jdl(**empty, clusters=clusters).jdl for clusters in ({"beta": {}}, own)]

    assert [one.clusters["beta"] for one in said] == [JdlSettingsAtCluster(exec_file="x")] * 2
    assert (said[0].outputs, said[0].datasets) == ((), {})


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("gpu = ''", "gpu="),
        ("gpu <> ''", "gpu<>"),
        ("NOT gpu = ''", "gpu<>"),
        ("gpu IN ('', 'A')", "gpu=;gpu=A"),
        ("gpu = '' AND mem > 2", "gpu=,mem>2"),
    ],
)
def test_a_host_condition_may_compare_with_an_empty_value(text: str, kept: str) -> None:
    """OAR's properties are empty if nobody has set them; Grid Engine has no such request."""
    said = read_jdl(properties=text)
    asked = JobRequest(hard=parse_required_host_properties(kept), either=parse_alternative_host_properties(kept))

    assert said.jdl.clusters["beta"].properties == kept
    again = jdl_reader.parse_jdl("n", json.dumps(campaign_to_jdl_table(said.jdl, said.parameters)))
    assert again.jdl.clusters["beta"].properties == kept
    assert "gpu = ''" in (sql := oar.oarsub_property_condition(asked)) or "gpu <> ''" in sql
    assert "gpu=''" in (why := gridengine.explain_request_refusal(asked)) or "gpu<>''" in why
