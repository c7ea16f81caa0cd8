"""Command lines of OAR's programs."""

import pytest

from gridbridge.batch.gridengine.request import Request
from gridbridge.batch.oar import commands
from gridbridge.batch.oar.commands import Argv
from gridbridge.model.route import OarServer

SERVER = OarServer(timeout_s=15)
NAME = "gb.alpha.12.0.1"


def request(**hard: str) -> Request:
    """Return a request for these hard resources."""
    asked = "".join(
        f"<CE_name>{name}</CE_name><CE_stringval>{value}</CE_stringval>"
        for name, value in hard.items()
    )
    xml = f"<JB_job_number>1</JB_job_number><JB_hard_resource_list>{asked}</JB_hard_resource_list>"
    return Request(xml.encode())


def program(argv: Argv, name: str) -> Argv:
    """Return the command line of OAR's program inside another."""
    return argv[argv.index(f"/usr/bin/{name}") :]


def test_a_job_is_submitted_held_with_the_transfers_name_as_its_name_and_project() -> None:
    argv = commands.submit_held(SERVER, NAME, request(), "", 1234)

    assert argv[3:7] == ("sh", "submit", "1234", "/usr/bin/oarstat")
    assert program(argv, "oarsub") == (
        *("/usr/bin/oarsub", "--hold", "--name", NAME, "--project", NAME),
        *("-d", "/", "-O", "/dev/null", "-E", "/dev/null", "-l", "/nodes=1/resource_id=1"),
        'exec /usr/bin/perl "$HOME/.gridbridge/job.$OAR_JOB_ID"',
    )


@pytest.mark.parametrize(
    ("parallel", "limit", "expected"),
    [
        ("", "3600", "/nodes=1/resource_id=1,walltime=1:0:0"),
        ("smp 4", "0:10:5", "/nodes=1/resource_id=4,walltime=0:10:5"),
        ("", "100:00:00", "/nodes=1/resource_id=1,walltime=100:0:0"),
        ("", ":90:", "/nodes=1/resource_id=1,walltime=1:30:0"),
        ("", "0", "/nodes=1/resource_id=1,walltime=0:0:1"),
    ],
)
def test_h_rt_becomes_the_walltime_in_hours_minutes_and_seconds(
    parallel: str, limit: str, expected: str
) -> None:
    """A walltime of `3600` would be as many hours (oarsub(1))."""
    assert commands.resources(request(h_rt=limit), parallel) == expected


def test_other_resources_become_properties_and_places_at_home_nothing() -> None:
    asked = request(arch="lx-amd64", owner="it's", h_rt="60", hostname="alpha-n1", remote="true")

    assert commands.properties(asked) == "arch = 'lx-amd64' AND owner = 'it''s'"


def test_a_resource_whose_name_is_no_property_is_refused_here() -> None:
    """It would be SQL."""
    assert commands.refusal(request(arch="x")) == ""
    assert "1 OR 1" in commands.refusal(request(**{"1 OR 1": "1"}))


def test_each_program_has_an_alarm_within_the_limit() -> None:
    """No signal of its caller ends it."""
    argv = commands.show_job(SERVER, "12")

    assert argv[:2] == ("/usr/bin/perl", "-e")
    assert argv[3:] == ("14", "/usr/bin/oarstat", "-f", "-J", "-j", "12")


@pytest.mark.parametrize(
    ("text", "expected"), [("it's", "'it\\'s'"), ("a\\", "'a\\\\'"), ("$x", "'$x'")]
)
def test_a_word_is_quoted_for_perl(text: str, expected: str) -> None:
    assert commands.perl(text) == expected
