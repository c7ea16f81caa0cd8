"""What CiGri's users have in their JDLs is done here, told as idle, or refused: never ignored."""

import json

import pytest

from gridbridge.config.submission import jdl
from gridbridge.errors import ConfigError
from tests.config.test_jdl_lines import wrong_with


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("temporal_grouping", True, 'n:1: temporal_grouping = true: not yet'),
        ("checkpointing_type", "blcr", 'n:1: checkpointing_type = "blcr": not yet'),
        ("data_to_transfer", ["in"], 'n:1: data_to_transfer = ["in"]: not yet'),
        ("dependencies", [3], "n:1: dependencies = [3]: not yet"),
        ("masters", ["a", "b"], 'n:1: masters = ["a", "b"]: not yet'),
        ("checkpointing_period", 600, "n:1: checkpointing_period = 600: not yet"),
        ("dimensional_grouping", True, "n:1: dimensional_grouping = true: not yet"),
        ("type", "nightly", 'n:1: type = "nightly": not yet'),
        ("type", "semi-best-effort", 'n:1: type = "semi-best-effort": not yet'),
        ("test_mode", "true", 'n:1: test_mode = "true": not in a JDL'),
        ("jobs_type", "desktop_computing", 'n:1: jobs_type = "desktop_computing": not here'),
        ("exec_directory", "{HOME}/{CAMPAIGN_ID}", 'n:1: exec_directory = "{HOME}/{CAMPAIGN_ID}": {CAMPAIGN_ID} is not known there'),  # noqa: E501
    ],
)  # fmt: skip
def test_what_is_not_there_yet_is_refused(key: str, value: object, expected: str) -> None:
    """A campaign that needs it would do something else."""
    known = {"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"b": {}}, key: value}

    assert wrong_with(json.dumps(known)) == [expected]


def test_what_is_not_said_is_as_in_cigri() -> None:
    """One slot, an hour, the home, best-effort, and any number of tasks at once."""
    known = {"name": "n", "nb_jobs": 2, "exec_file": "x", "clusters": {"b": {}}}
    said = jdl.load("n", json.dumps(known))
    there = said.jdl.clusters["b"]

    assert (there.slots, there.walltime_s, there.exec_directory) == (1, 3600, "")
    assert (there.is_besteffort, there.max_jobs, there.project) == (True, 0, "")
    assert (said.jdl.is_idempotent, said.parameters) == (False, ("0", "1"))


def test_an_unknown_key_is_told_with_the_nearest_that_there_is() -> None:
    """Or with all of them."""
    known = {"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"b": {"waltime": "1:0"}}}

    with pytest.raises(
        ConfigError, match=r"^n:1: b\.waltime: unknown key; walltime is the nearest$"
    ):
        jdl.load("n", json.dumps(known))
    with pytest.raises(ConfigError, match=r"^n:1: zzz: unknown key; the keys are clusters, "):
        jdl.load("n", json.dumps(known | {"clusters": {"b": {}}, "zzz": 1}))


def test_keys_of_cigris_that_ask_for_nothing_here_are_warned_of() -> None:
    """Most of its JDLs have some."""
    idle = {
        "temporal_grouping": "false",
        "test_mode": False,
        "output_file": "x",
        "jobs_type": "Normal",
    }
    known = {"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"b": {}}, **idle}

    assert jdl.load("n", json.dumps(known)).warnings == tuple(
        f"n:1: {key}: changes nothing yet" for key in idle if key != "jobs_type"
    )


def test_cigris_macros_are_known_in_commands_and_folders() -> None:
    """In a command that somebody typed they are words as any other."""
    known = {
        "name": "n",
        "nb_jobs": 1,
        "exec_file": "{HOME}/run ${HOME} {CAMPAIGN_ID}.{OAR_JOB_ID} {}",
        "exec_directory": "{HOME}/x",
        "prologue": ["mkdir {CAMPAIGN_ID}"],
        "clusters": {"beta": {}},
    }
    text = json.dumps(known)
    there = jdl.load("n", text).jdl.clusters["beta"]
    typed = jdl.load("n", text, parameters=("1",)).jdl.clusters["beta"]

    assert there.exec_file == ("${HOME}/run ${HOME} ${CIGRI_CAMPAIGN_ID}.${OAR_JOB_ID:-$JOB_ID} {}")
    assert (there.exec_directory, there.prologue) == ("$HOME/x", "mkdir ${CIGRI_CAMPAIGN_ID}")
    assert typed.exec_file == known["exec_file"]
