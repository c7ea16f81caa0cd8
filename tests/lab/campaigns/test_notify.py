"""People are notified of their campaigns by mail, and by programs that run as themselves."""

from collections.abc import Iterator

import pytest

from gridbridge.campaigns.cli.command_relay_and_runner_wait import WAITING
from tests.lab.campaigns.runner import HOST, start, stop, submit, until_state
from tests.lab.configured import configured
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

MAILER, MAILS = "/usr/local/bin/gb-mailer", "/var/lib/gridbridge/mails"
CHAT, SAID = "/usr/local/bin/gb-chat", "/var/lib/gridbridge/said"
SERVICE = f"""#!/bin/sh
{{ echo "by $(id -un) to $2"; cat; }} >>{MAILS}
"""
CHATTING = f"""#!/bin/sh
{{ echo "by $(id -un) to $*"; cat; }} >>{SAID}
"""
HERS = """#!/bin/sh
{ echo "by $(id -un)"; cat; } >>~/notify/told
"""
EDIT = f"""/^\\[runner\\]/,/^\\[/s|^#*interval_s = .*|interval_s = 5|
/^\\[notifications\\]/,$s|^#*mail = .*|mail = "{MAILER}"|
/^\\[notifications\\]/,$s|^#*command = .*|command = "{CHAT}"|
/^\\[notifications\\]/,$s|^#*pause_s = .*|pause_s = 1|
"""
MAIL = ("-m", "alice@example.org")
NAME = ("-j", "alice@chat.example.org")
PROGRAM = ("-p", "/home/alice/notify/tell")


@pytest.fixture(scope="module")
def site(site: Grid) -> Iterator[Grid]:
    grid = site
    grid.sh(HOST, f"cat >{MAILER} <<'end'\n{SERVICE}end\nchmod 755 {MAILER}")
    grid.sh(HOST, f"cat >{CHAT} <<'end'\n{CHATTING}end\nchmod 755 {CHAT}")
    script = f"mkdir -p ~/notify && cat >~/notify/tell <<'end'\n{HERS}end\nchmod 755 ~/notify/tell"
    grid.sh(HOST, script, user="alice")
    stop(grid)
    with configured(grid, EDIT):
        start(grid)
        yield grid
        stop(grid)
    start(grid)
    grid.sh(HOST, f"rm -rf {MAILER} {MAILS} {CHAT} {SAID} /home/alice/notify")


@pytest.fixture(scope="module")
def told(site: Grid) -> str:
    """Subscribe in both ways, let a campaign end, and return the words that alice's program received."""
    for options in ((*MAIL, "-s", "high"), (*NAME, "-s", "high"), (*PROGRAM, "-s", "low")):
        done = site.on(HOST, "gridnotify", *options, user="alice", timeout_s=100)
        said = [line for line in done.err.splitlines() if WAITING not in line]  # by a slow machine
        assert (0, []) == (done.status, said)
    jdl = {"name": "told", "nb_jobs": 2, "type": "normal", "exec_file": "true", "walltime": "0:5"}
    number = submit(site, {**jdl, "exec_directory": "~/notify", "clusters": {"beta": {}}})
    until_state(site, number, "terminated")
    end = f"{number} FINISHED_CAMPAIGN - 2"

    def heard() -> str | None:
        text = site.on(HOST, "cat", "/home/alice/notify/told").out
        is_said = "FINISHED" in mails(site) and "FINISHED" in site.on(HOST, "cat", SAID).out
        return text if end in text and is_said else None

    return site.until(heard, "alice to be told", 60) or ""


def mails(site: Grid) -> str:
    return site.on(HOST, "cat", MAILS).out


def test_a_persons_program_runs_as_that_person(told: str) -> None:
    """The program receives numbers and fixed words, once for each event."""
    lines = told.splitlines()

    assert {"by alice"} == {line for line in lines if line.startswith("by")}
    assert ["FINISHED_CAMPAIGN", "NEW_CAMPAIGN"] == sorted(
        line.split()[1] for line in lines if not line.startswith("by")
    )


def test_a_mail_is_handed_to_the_sites_program_by_the_service(site: Grid, told: str) -> None:
    """The chosen severity omits the start."""
    del told
    text = mails(site)

    assert 1 == text.count("by gridbridge to alice@example.org")
    assert "Subject: gridbridge: campaign" in text
    assert "has ended: 2 of 2 tasks, 0 of them failed" in text
    assert "NEW_CAMPAIGN" not in text


def test_a_name_is_handed_to_the_command_that_root_configured(site: Grid, told: str) -> None:
    """The service passes the message on the command's standard input."""
    del told
    said = site.on(HOST, "cat", SAID).out

    assert 1 == said.count("by gridbridge to ")
    assert "alice@chat.example.org" in said.splitlines()[0]
    assert "NEW_CAMPAIGN" not in said


def test_people_list_and_end_only_their_own_subscriptions(site: Grid, told: str) -> None:
    """Nobody sees another person's address."""
    del told
    mine = site.on(HOST, "gridnotify", "-l", user="alice", timeout_s=100).out
    theirs = site.on(HOST, "gridnotify", "-l", user="bob", timeout_s=100).out
    denied = site.on(HOST, "gridnotify", "-u", *MAIL, user="bob", timeout_s=100)

    assert " - mail on alice@example.org with severity high\n" in mine
    assert ("", 1) == (theirs, denied.status)


def test_a_stolen_service_account_runs_no_program_of_its_choice(site: Grid, told: str) -> None:
    """The thief can only make a subscriber's own program run, with numbers and fixed words."""
    del told
    listed = site.sh(HOST, "ls /var/spool/gridbridge/campaigns | grep ^tell")
    helper = "sudo -n /opt/gridbridge/bin/gridbridge-as-user notify-owner"

    for words in (f"{listed.strip()} 'rm -rf /'", "tell.0 1:A:b:1", "../../../etc/passwd 1:A:b:1"):
        done = site.on(HOST, "runuser", "-u", "gridbridge", "--", "sh", "-c", f"{helper} {words}")
        assert 2 == done.status, done
    for way in (MAIL, NAME, PROGRAM):
        assert 0 == site.on(HOST, "gridnotify", "-u", *way, user="alice", timeout_s=100).status
    assert "tell." not in site.sh(HOST, "ls /var/spool/gridbridge/campaigns")
