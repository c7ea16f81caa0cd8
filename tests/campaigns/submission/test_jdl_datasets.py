"""A JDL names datasets of the campaign; the key for a task's own input data is not supported yet."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from gridbridge.campaigns.submission import jdl_reader, jdl_writer_and_task_files, site_admission_rules
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.jdl import Jdl, JdlDataset
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from gridbridge.state.campaign_tables import jdl_from_json
from tests.campaigns.submission.jdl_builder import read_jdl


def load(said: dict[str, object], folder: str = "/jdl") -> Jdl:
    return read_jdl(folder, **said).jdl


@pytest.mark.parametrize(
    ("path", "whole"), [("reads", "/jdl/reads"), ("../x", "/x"), ("/data/x", "/data/x"), ("~/x", "HOME/x")]
)
def test_a_dataset_path_starts_at_the_jdls_folder_or_the_home_directory(path: str, whole: str) -> None:
    found = load({"datasets": {"reads": {"path": path, "replicas": 2}}})

    home = str(Path("~").expanduser())
    assert found.datasets == {"reads": JdlDataset(path=whole.replace("HOME", home), replicas=2)}


def test_a_dataset_has_one_replica_by_default() -> None:
    assert load({"datasets": {"a": {"path": "a"}}}).datasets["a"].replicas == 1


@pytest.mark.parametrize(
    "value",
    [
        {},
        "reads",
        {"reads": "path"},
        {"reads": {}},
        {"reads": {"path": ""}},
        {"reads": {"path": 3}},
        {"reads": {"path": "a\nb"}},
        {"reads": {"path": "a", "replicas": 0}},
        {"reads": {"path": "a", "replicas": 101}},
        {"reads": {"path": "a", "replicas": True}},
        {"reads": {"path": "a", "copies": 2}},
        {"../reads": {"path": "a"}},
        {f"d{n}": {"path": "a"} for n in range(101)},
    ],
)
def test_an_invalid_dataset_is_refused_with_the_expected_form(value: object) -> None:
    with pytest.raises(ConfigError, match=r'\{"NAME": \{"path": "FILE or FOLDER"'):
        load({"datasets": value})


def test_a_dataset_for_a_single_cluster_is_refused() -> None:
    own = {"datasets": {"a": {"path": "a"}}}

    with pytest.raises(ConfigError, match="for the whole campaign, outside of clusters"):
        load({"clusters": {"beta": own}})


def test_datasets_are_stored_with_the_campaign_and_written_into_its_jdl() -> None:
    found = load({"datasets": {"reads": {"path": "reads", "replicas": 2}}})

    assert model_value_from_json(model_value_to_json(found), Jdl) == found
    assert jdl_from_json(json.loads(json.dumps(asdict(found)))) == found
    said = jdl_writer_and_task_files.campaign_to_jdl_table(found, ["0"])
    assert jdl_reader.parse_jdl("n", json.dumps(said)).jdl.datasets == found.datasets


@pytest.mark.parametrize(
    ("name", "wish"),
    [
        ("reads", JdlDataset(path="reads")),
        ("reads", JdlDataset(path="/a\nb")),
        ("reads", JdlDataset(path="/a", replicas=0)),
        ("-rf", JdlDataset(path="/a")),
    ],
)
def test_an_invalid_dataset_in_a_campaign_file_of_another_program_is_refused(name: str, wish: JdlDataset) -> None:
    right = load({})

    assert site_admission_rules.jdl_limit_violation(right) == ""
    assert site_admission_rules.jdl_limit_violation(Jdl(name="n", datasets={name: wish})).startswith("datasets.")
