"""A site's script prints a cluster's stress; without a number the stress is infinite."""

from math import inf
from pathlib import Path

import pytest

from gridbridge.campaigns.runner import stress_and_mail_programs
from gridbridge.model.campaigns.campaign_configuration_sections import ClusterCampaignsSection
from tests.builders.programs import write_program


def stress_of(folder: Path, commands: str) -> dict[str, float]:
    """Return the stress of beta that a script with these commands reports."""
    script = write_program(folder / "script", f"#!/bin/sh\n{commands}\n")
    sections = {"beta": ClusterCampaignsSection(stress_script=str(script))}
    return stress_and_mail_programs.run_cluster_stress_scripts(sections)


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("echo 0.25", 0.25),
        ("echo $1 >&2; [ $1 = beta ] && echo 3", 3.0),
        ("echo high", inf),
        ("echo nan", inf),
        ("echo 0.1; exit 1", inf),
        ("", inf),
    ],
)
def test_a_stress_script_prints_a_number(tmp_path: Path, says: str, told: float) -> None:
    assert stress_of(tmp_path, says) == {"beta": told}


def test_the_error_output_of_a_script_without_number_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stress_of(tmp_path, "echo no such volume >&2")

    assert "why='the script printed no number: script: no such volume'" in caplog.text


def test_a_hanging_stress_script_means_infinite_stress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stress_and_mail_programs, "TIMEOUT_S", 0.1)

    assert stress_of(tmp_path, "sleep 300") == {"beta": inf}


def test_a_cluster_without_stress_script_has_no_stress() -> None:
    assert stress_and_mail_programs.run_cluster_stress_scripts(
        {"beta": ClusterCampaignsSection(), "gamma": ClusterCampaignsSection(stress_script="/none")}
    ) == {"gamma": inf}
