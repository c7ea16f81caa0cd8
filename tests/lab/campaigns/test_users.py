"""Campaign commands of users on real Grid Engine and real OAR: job scripts, states and outputs."""

import json

import pytest

from tests.lab.campaigns.runner import HOST
from tests.lab.campaigns.together import Brought
from tests.lab.grid import Done, Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

RULES = "/etc/gridbridge/admission.d"
RULE = """
import os
from gridbridge.model.campaigns.admission import AdmissionRefusal

def not_by_the_service(candidate):
    return AdmissionRefusal(reason="seen by the service") if os.getuid() == {uid} else None
"""

SHORTENED = """
from dataclasses import replace

def shortened(candidate):
    known = candidate.jdl.clusters.items()
    short = {name: replace(one, walltime_s=120) for name, one in known}
    return replace(candidate.jdl, clusters=short)
"""


@pytest.fixture(scope="module")
def waited(brought: Brought) -> Done:
    return brought.waited()


@pytest.fixture(scope="module")
def number(brought: Brought) -> str:
    return str(brought.numbers["users"])


def ask(site: Grid, *argv: str, user: str = "alice") -> Done:
    return site.on(HOST, *argv, user=user, timeout_s=120)


def test_waiting_ends_with_1_where_a_task_failed(site: Grid, waited: Done, number: str) -> None:
    """Both gridsub and gridwait also print how many tasks failed."""
    assert number == waited.out.rpartition("CAMPAIGN_ID=")[2].strip()
    assert (1, f"gridsub: campaign {number} is terminated: 10 of 10 tasks ended, 1 of them failed") == (
        waited.status,
        waited.err.strip().splitlines()[-1],
    )
    assert 1 == ask(site, "gridwait", number).status


def test_every_user_sees_states_and_only_the_owner_sees_outputs(site: Grid, number: str) -> None:
    """The uid of the campaign's file decides who the owner is."""
    mine = json.loads(ask(site, "gridstat", number, "-f", "-d").out)["jobs"]
    theirs = json.loads(ask(site, "gridstat", number, "-f", "-d", user="bob").out)["jobs"]

    assert ["success"] * 3 + ["program_error"] + ["success"] * 6 == [one["state"] for one in theirs]
    assert {"beta", "gamma"} == {one["cluster"] for one in theirs}
    assert [str(n) for n in range(10, 20)] == [one["parameters"] for one in mine]
    assert not any("parameters" in one for one in theirs)
    for options in (("-J", number), ("-j", f"{number}.3", "-E")):
        assert 1 == ask(site, "gridstat", *options, user="bob").status


def test_an_owner_reads_why_a_task_failed(site: Grid, number: str) -> None:
    failed = ask(site, "gridstat", "-H", "--failed", number).out

    assert "bad luck" in failed
    assert "bad luck" not in ask(site, "gridstat", "--failed", number, user="bob").out
    assert "bad luck\n" == ask(site, "gridstat", "-j", f"{number}.3", "-E").out
    assert "exit status 3" in ask(site, "gridbridge", "why", f"{number}.3", user="bob").out


def test_outputs_are_fetched_from_every_cluster(site: Grid, number: str) -> None:
    done = ask(site, "gridfetch", number, "users/fetched")
    texts = site.sh(HOST, "cat users/fetched/*.out", user="alice").splitlines()

    assert (0, "") == (done.status, done.err)
    assert [f"{n} of 19 at" for n in range(10, 20)] == sorted(text[:11] for text in texts)
    assert {"beta: it's $HOME", "gamma: it's $HOME"} == {text[12:] for text in texts}
    assert 1 == ask(site, "gridfetch", number, user="bob").status


def test_a_picture_is_drawn(site: Grid, number: str) -> None:
    """Any user may draw the picture, because it shows only numbers."""
    done = ask(site, "gridstat", number, "--plot", "/tmp/users.png", user="bob")
    kind = site.sh(HOST, "head -c 4 /tmp/users.png | tail -c 3; rm /tmp/users.png")

    assert (0, "PNG") == (done.status, kind)


def test_failed_tasks_are_submitted_again_as_a_new_campaign(site: Grid, number: str) -> None:
    told = ask(site, "gridsub", "--check", "--retry-failed", number)
    again = ask(site, "gridsub", "--wait", "--retry-failed", number)
    failed = ask(site, "gridstat", "--failed", again.out.rpartition("CAMPAIGN_ID=")[2].strip())

    assert (0, "users: 1 task, nothing is stored") == (told.status, told.out.splitlines()[0])
    assert (1, True) == (again.status, "1 of 1 task ended, 1 of them failed" in again.err)
    assert "bad luck" in failed.out


def test_each_line_of_a_parameter_file_is_one_argument_of_a_task(site: Grid, number: str) -> None:
    del number  # so that the folder is there
    lines = ["plain", 'it\'s $(touch evil) "two" *', ";rm -rf x"]
    site.on(HOST, "sh", "-c", "cat >users/lines", user="alice", stdin="\n".join(lines) + "\n\n")
    each = ("sh", "-c", 'printf "%s\\n" "$1" >users/line.$CIGRI_JOB_ID', "sh", "{}")
    options = ("--each-line", "users/lines", "--clusters", "beta", "--wait")
    done = ask(site, "gridsub", *options, "--", *each)
    ran = site.sh(HOST, "cat users/line.*; ls evil users/evil 2>/dev/null; :", user="alice")

    assert 0 == done.status, done
    assert sorted(lines) == sorted(ran.splitlines())


def test_the_service_applies_admission_rules_too(site: Grid) -> None:
    """The service refuses a campaign that gridsub accepted without the rules."""
    uid = site.sh(HOST, "id -u gridbridge").strip()
    rule = RULE.format(uid=uid)
    site.sh(HOST, f"mkdir -p {RULES} && cat >{RULES}/10-tests.py <<'end'\n{rule}end")
    argv = ("gridsub", "--array", "1", "--clusters", "beta", "--", "true")
    try:
        checked = ask(site, *argv[:1], "--check", *argv[1:])
        brought = ask(site, *argv)
        site.sh(HOST, f"chmod g+w {RULES}/10-tests.py")
        loose = ask(site, *argv)
    finally:
        site.sh(HOST, f"rm -r {RULES}")

    assert (0, 1, 1) == (checked.status, brought.status, loose.status)
    assert "10-tests.py:not_by_the_service: seen by the service" in brought.err
    assert f"chmod go-w {RULES}/10-tests.py" in loose.err


def test_a_rule_changes_a_submitted_campaign_and_the_service_accepts_it(site: Grid) -> None:
    site.sh(HOST, f"mkdir -p {RULES} && cat >{RULES}/20-tests.py <<'end'\n{SHORTENED}end")
    run = 'echo "$CIGRI_WALLTIME_SECONDS" >users/shortened'
    argv = ("--array", "1", "--clusters", "beta", "-l", "h_rt=600", "--", "sh", "-c", run)
    try:
        checked = ask(site, "gridsub", "--check", *argv)
        brought = ask(site, "gridsub", "--wait", *argv)
    finally:
        site.sh(HOST, f"rm -r {RULES}")
    number = brought.out.rpartition("CAMPAIGN_ID=")[2].strip()
    known = json.loads(ask(site, "gridstat", "-J", number).out)

    assert "20-tests.py:shortened" in checked.out
    assert 0 == brought.status, brought
    assert "0:02:00" in json.dumps(known)
    assert "120\n" == site.sh(HOST, "cat users/shortened", user="alice")


def test_a_decision_of_the_runner_is_made_again_from_the_journal(site: Grid, number: str) -> None:
    del number  # so that some were sent
    listed = json.loads(site.sh(HOST, "gridbridge replay --json"))
    sent = [one["decision"] for one in listed if "sent: " in one["sentence"]]

    assert sent, [one["sentence"] for one in listed]
    done = site.on(HOST, "gridbridge", "replay", str(sent[-1]))
    assert 0 == done.status, done


def test_a_purged_campaign_is_gone(site: Grid, number: str) -> None:
    theirs = ask(site, "griddel", "--purge", number, user="bob")
    mine = ask(site, "griddel", "--purge", number)

    assert (1, 0) == (theirs.status, mine.status)
    assert 1 == ask(site, "gridstat", number).status
    assert site.sh(HOST, f"ls ~/campaign.{number}", user="alice")
