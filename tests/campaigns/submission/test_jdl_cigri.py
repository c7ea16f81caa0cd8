"""Each key of CiGri's JDL has an effect, a warning or a refusal; a stored campaign can be written as a JDL."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import sge_command_line_builders as gridengine
from gridbridge.batch.oar import oar_command_line_builders as oar
from gridbridge.campaigns.submission import jdl_reader, jdl_writer_and_task_files, site_admission_rules
from gridbridge.campaigns.submission.jdl_value_parsers import KEYS, NO_DMTCP
from gridbridge.campaigns.submission.jdl_writer_and_task_files import campaign_to_jdl_table
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.campaign_predecessors import (
    CampaignPredecessor,
    PredecessorCondition,
    PredecessorFailureAction,
)
from gridbridge.model.campaigns.host_property_request_parser import (
    parse_alternative_host_properties,
    parse_required_host_properties,
)
from gridbridge.model.campaigns.jdl import Jdl, JdlDataset, JdlSettingsAtCluster
from gridbridge.model.job_request import JobRequest
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from gridbridge.state.campaign_tables import jdl_from_json
from tests.campaigns.submission.jdl_builder import jdl_text, mistakes_of_jdl, read_jdl, settings_at_beta, wrong_with


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("checkpointing_type", "blcr", 'n:1: checkpointing_type = "blcr": not supported'),
        ("checkpointing_type", "dmtcp", f'n:1: checkpointing_type = "dmtcp": {NO_DMTCP}'),
        ("data_to_transfer", ["in"], 'n:1: data_to_transfer = ["in"]: not supported yet'),
        ("dependencies", [3], "n:1: dependencies = [3]: not supported yet"),
        ("masters", ["a", "b"], 'n:1: masters = ["a", "b"]: not supported yet'),
        ("checkpointing_period", 600, "n:1: checkpointing_period = 600: not supported yet"),
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
    assert far.startswith("n:1: zzz: unknown key; the keys are after, checkpoint_files, ")


def test_cigris_keys_without_effect_cause_warnings() -> None:
    idle = {"test_mode": False, "output_file": "x"}

    assert read_jdl(**idle, jobs_type="Normal").warnings == tuple(f"n:1: {key}: changes nothing yet" for key in idle)


@pytest.mark.parametrize(
    ("resources", "expected"), [("/core=1", (4, 1)), ("/core=3", (12, 1)), ("/nodes=1/core=2", (8, 1))]
)
def test_a_job_has_the_slots_of_all_tasks_side_by_side(resources: str, expected: tuple[int, int]) -> None:
    settings = settings_at_beta(dimensional_grouping=4, temporal_grouping="false", resources=resources)
    table = campaign_to_jdl_table(Jdl(name="n", clusters={"beta": settings}), ("0",))
    again = jdl_reader.parse_jdl("n", json.dumps(table))

    assert (settings.slots, settings.nodes) == expected
    assert (settings.side_by_side, settings.temporal_grouping) == (4, False)
    assert again.jdl.clusters["beta"] == settings


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"dimensional_grouping": True}, "n:1: dimensional_grouping = true: not a number"),
        ({"dimensional_grouping": 1001}, "n:1: dimensional_grouping = 1001: out of range"),
        ({"temporal_grouping": 3}, "n:1: temporal_grouping = 3: not a boolean"),
        (
            {"dimensional_grouping": 2, "resources": "/nodes=2/core=2"},
            "n:1: beta.dimensional_grouping = 2: tasks on several nodes",
        ),
    ],
)
def test_wrong_groups_of_tasks_are_refused(keys: dict[str, object], wrong: str) -> None:
    assert wrong_with(jdl_text(**keys)) == [wrong]


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


ALL = JdlSettingsAtCluster(
    exec_file="echo $1 '{}'",
    exec_directory="$HOME/a b",
    slots=8,
    nodes=2,
    environment="smp",
    walltime_s=90061,
    is_besteffort=False,
    project="p",
    queue="q",
    properties="mem>=2000,gpu=A B;cpu<>x;mem<9,a=1,b~n%,c<>~x_,d==,e<>==",
    prologue="make\n\nls",
    prologue_walltime_s=60,
    epilogue="rm x",
    epilogue_walltime_s=61,
    max_jobs=3,
)

AFTER = (
    CampaignPredecessor(number=12, condition=PredecessorCondition.SAME),
    CampaignPredecessor(name="a:ended", condition=PredecessorCondition.OK),
)
PLAIN = JdlSettingsAtCluster(exec_file="y")
MANY = ",".join(f"a{number}=1;b{number}=2" for number in range(32))


@pytest.mark.parametrize(
    "campaign",
    [
        Jdl(name="a b", clusters={"beta": JdlSettingsAtCluster(exec_file="x")}),
        Jdl(name="é", clusters={"beta": ALL}, outputs=("a", "b/c"), outputs_to="/x y"),
        Jdl(
            name="x", clusters={"b": JdlSettingsAtCluster(exec_file="y")}, may_move=False, max_parallel=7, first_tasks=3
        ),
        Jdl(name="x", clusters={"b": JdlSettingsAtCluster(exec_file="y", is_besteffort=False, is_nightly=True)}),
        Jdl(name="x", clusters={"b": replace(ALL, is_semi_besteffort=True)}),
        Jdl(name="x", clusters={"b": ALL, "c": JdlSettingsAtCluster(exec_file="y")}, is_idempotent=True),
        Jdl(name="x", clusters={"b": JdlSettingsAtCluster(exec_file="y", slots=8, nodes=0)}),
        Jdl(
            name="x",
            clusters={"b": PLAIN},
            checkpoint_files=("s/{1}",),
            checkpoint_signal="USR1",
            checkpoint_s=60,
            may_move=False,
        ),
        Jdl(name="x", clusters={"b": JdlSettingsAtCluster(exec_file="y", properties=MANY)}),
        Jdl(name="x", clusters={"b": ALL}, after=AFTER, on_failure=PredecessorFailureAction.CANCEL),
    ],
    ids=[
        *(
            "plain",
            "every key",
            "not to be moved",
            "nightly",
            "semi-best-effort",
            "two clusters",
            "any nodes",
            "checkpoints",
        ),
        "many conditions",
        "predecessors",
    ],
)
def test_a_written_jdl_is_parsed_as_the_same_campaign(campaign: Jdl) -> None:
    parameters = ("north 1", "north#2 2", "it's")

    said = jdl_reader.parse_jdl("JDL", json.dumps(campaign_to_jdl_table(campaign, parameters)))

    assert (said.jdl, said.parameters, said.warnings) == (campaign, parameters, ())


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


def test_predecessors_are_stored_with_the_campaign() -> None:
    found = load({"after": [12, "reads:same"], "on_failure": "cancel"})

    assert model_value_from_json(model_value_to_json(found), Jdl) == found
    assert jdl_from_json(json.loads(json.dumps(asdict(found)))) == found


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
