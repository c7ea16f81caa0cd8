"""What CiGri's users have in their JDLs is done here, told as idle, or refused: never ignored."""

import json
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import client_commands as gridengine
from gridbridge.batch.oar import oar_commands as oar
from gridbridge.campaigns.submission import jdl_reader
from gridbridge.campaigns.submission.jdl_value_parsers import KEYS
from gridbridge.campaigns.submission.jdl_writer_and_task_files import campaign_to_jdl_table
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster
from gridbridge.model.campaigns.requested_host_properties import (
    parse_alternative_host_properties,
    parse_required_host_properties,
)
from gridbridge.model.job_request import JobRequest
from tests.campaigns.submission.test_jdl_lines import wrong_with


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
        ("test_mode", "true", 'n:1: test_mode = "true": no key of a JDL'),
        ("jobs_type", "desktop_computing", 'n:1: jobs_type = "desktop_computing": not supported'),
        ("exec_directory", "{HOME}/{CAMPAIGN_ID}", 'n:1: exec_directory = "{HOME}/{CAMPAIGN_ID}": {CAMPAIGN_ID} is not expanded in a folder\'s path'),  # noqa: E501
    ],
)  # fmt: skip
def test_unsupported_keys_of_cigris_jdl_are_refused(key: str, value: object, expected: str) -> None:
    known = {"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"b": {}}, key: value}

    assert wrong_with(json.dumps(known)) == [expected]


def test_missing_keys_have_cigris_default_values() -> None:
    known = {"name": "n", "nb_jobs": 2, "exec_file": "x", "clusters": {"b": {}}}
    said = jdl_reader.parse_jdl("n", json.dumps(known))
    there = said.jdl.clusters["b"]

    assert (there.slots, there.walltime_s, there.exec_directory) == (1, 3600, "")
    assert (there.is_besteffort, there.max_jobs, there.project) == (True, 0, "")
    assert (said.jdl.is_idempotent, said.parameters) == (False, ("0", "1"))


def test_an_unknown_key_is_reported_with_the_nearest_known_key() -> None:
    known = {"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"b": {"waltime": "1:0"}}}

    with pytest.raises(ConfigError, match=r"^n:1: b\.waltime: unknown key; walltime is the nearest$"):
        jdl_reader.parse_jdl("n", json.dumps(known))
    with pytest.raises(ConfigError, match=r"^n:1: zzz: unknown key; the keys are clusters, "):
        jdl_reader.parse_jdl("n", json.dumps(known | {"clusters": {"b": {}}, "zzz": 1}))


def test_cigris_keys_without_effect_cause_warnings() -> None:
    idle = {
        "temporal_grouping": "true",
        "dimensional_grouping": True,
        "test_mode": False,
        "output_file": "x",
        "jobs_type": "Normal",
    }
    known = {"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"b": {}}, **idle}

    assert jdl_reader.parse_jdl("n", json.dumps(known)).warnings == tuple(
        f"n:1: {key}: changes nothing yet" for key in idle if key != "jobs_type"
    )


def test_cigris_macros_are_expanded_in_commands_and_folders() -> None:
    known = {
        "name": "n",
        "nb_jobs": 1,
        "exec_file": "{HOME}/run ${HOME} {CAMPAIGN_ID}.{OAR_JOB_ID} {}",
        "exec_directory": "{HOME}/x",
        "prologue": ["mkdir {CAMPAIGN_ID}"],
        "clusters": {"beta": {}},
    }
    text = json.dumps(known)
    there = jdl_reader.parse_jdl("n", text).jdl.clusters["beta"]
    typed = jdl_reader.parse_jdl("n", text, parameters=("1",)).jdl.clusters["beta"]

    assert there.exec_file == ("${HOME}/run ${HOME} ${CIGRI_CAMPAIGN_ID}.${OAR_JOB_ID:-$JOB_ID} {}")
    assert (there.exec_directory, there.prologue) == ("$HOME/x", "mkdir ${CIGRI_CAMPAIGN_ID}")
    assert typed.exec_file == known["exec_file"]


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
    known = {"name": "n", "nb_jobs": 2, "exec_file": "x", "clusters": {"b": {}}}

    assert wrong_with(json.dumps(known | {key: ""}))


def test_numbers_and_booleans_may_be_written_as_text() -> None:
    """CiGri's own examples have such texts."""
    own = {"max_jobs": "3", "walltime": "2"}
    known = {"name": "n", "nb_jobs": " 10 ", "exec_file": "x", "clusters": {"b": own}}
    text = json.dumps(known | {"idempotent": "True", "rebalance": "false"})

    said = jdl_reader.parse_jdl("n", text)

    there = said.jdl.clusters["b"]
    assert (there.max_jobs, there.walltime_s, len(said.parameters)) == (3, 7200, 10)
    assert (said.jdl.is_idempotent, said.jdl.may_move) == (True, False)
    for wrong in ("x", "3.5", "-3", "0"):
        assert wrong_with(json.dumps(known | {"nb_jobs": wrong}))


@pytest.mark.parametrize("path", ["~/p", "$HOME/p", "${HOME}/p", "{HOME}/p", "$PLACE/p", "p"])
def test_a_param_file_path_may_have_cigris_macros_and_variables(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLACE", str(tmp_path))
    (tmp_path / "p").write_text("a\nb\nc\n")
    known = {"name": "n", "param_file": path, "exec_file": "x", "clusters": {"b": {}}}

    assert jdl_reader.parse_jdl("n", json.dumps(known), folder=str(tmp_path)).parameters == ("a", "b", "c")


@pytest.mark.parametrize(
    "text", ["core=2,walltime=1:30:0", "/nodes=1/core=2, walltime=1:30", "core=2,walltime=01:30:00"]
)
def test_resources_may_include_a_walltime_as_in_oarsub(text: str) -> None:
    known = {"name": "n", "nb_jobs": 1, "exec_file": "x", "walltime": "9:0:0"}
    whole = known | {"clusters": {"b": {"resources": text}}}
    there = jdl_reader.parse_jdl("n", json.dumps(whole)).jdl.clusters["b"]

    assert (there.slots, there.walltime_s) == (2, 5400)
    twice = whole | {"clusters": {"b": {"resources": text, "walltime": "2:0:0"}}}
    told = 'n:1: b.walltime = "2:0:0": resources have another walltime; expected one of the two'
    assert wrong_with(json.dumps(twice)) == [told.partition(";")[0]]


def test_an_unclosed_quotation_mark_causes_a_warning() -> None:
    """The task gets different words than the line seems to have."""
    params = ["it's 5", "it's", "'a b' c", 'say "a b']
    known = {"name": "n", "params": params, "exec_file": "x", "clusters": {"b": {}}}

    (note, *_) = (each for each in jdl_reader.parse_jdl("n", json.dumps(known)).warnings if "mark" in each)
    assert note.startswith("n:1: params: 2 tasks with an unclosed quotation mark: ")


def test_empty_lists_and_blank_texts_give_the_default_value() -> None:
    """CiGri reads empty values in the same way."""
    empty = {"prologue": [], "epilogue": [""], "properties": " ", "outputs": [], "datasets": []}
    known = {"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"b": {"properties": "a=1"}}}
    own = {"b": {"prologue": [" "], "properties": "\t"}}

    said = [
        jdl_reader.parse_jdl("n", json.dumps(known | empty | {"clusters": clusters})).jdl
        for clusters in ({"b": {}}, own)
    ]

    assert [one.clusters["b"] for one in said] == [JdlSettingsAtCluster(exec_file="x")] * 2
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
    known = {"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"b": {"properties": text}}}
    said = jdl_reader.parse_jdl("n", json.dumps(known))
    asked = JobRequest(hard=parse_required_host_properties(kept), either=parse_alternative_host_properties(kept))

    assert said.jdl.clusters["b"].properties == kept
    again = jdl_reader.parse_jdl("n", json.dumps(campaign_to_jdl_table(said.jdl, said.parameters)))
    assert again.jdl.clusters["b"].properties == kept
    assert "gpu = ''" in (sql := oar.oarsub_property_condition(asked)) or "gpu <> ''" in sql
    assert "gpu=''" in (why := gridengine.explain_request_refusal(asked)) or "gpu<>''" in why
