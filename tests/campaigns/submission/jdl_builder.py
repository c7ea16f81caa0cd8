"""Builds JDLs for the tests of their parsers."""

import json
from typing import Any

import pytest

from gridbridge.campaigns.submission import jdl_reader
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster

PLAIN = {"name": "n", "nb_jobs": 1, "exec_file": "x", "clusters": {"beta": {}}}


def jdl_text(without: str = "", **keys: Any) -> str:
    """Return a JDL of one task at beta with these keys, but without the key `without`."""
    return json.dumps({key: value for key, value in (PLAIN | keys).items() if key != without})


def read_jdl(folder: object = ".", without: str = "", **keys: Any) -> ParsedJdl:
    return jdl_reader.parse_jdl("n", jdl_text(without, **keys), folder=str(folder))


def settings_at_beta(**keys: Any) -> JdlSettingsAtCluster:
    """Return beta's settings from a JDL that sets these keys for beta."""
    return read_jdl(clusters={"beta": keys}).jdl.clusters["beta"]


def mistakes_of_jdl(text: str, folder: object = ".", known: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        jdl_reader.parse_jdl("n", text, folder=str(folder), site_clusters=known)
    return list(refused.value.problems)


def wrong_with(text: str, folder: object = ".") -> list[str]:
    """Return the mistakes of a JDL, each without the expected value."""
    return [problem.partition(";")[0] for problem in mistakes_of_jdl(text, folder)]
