"""Campaigns are submitted and inspected by ssh from a login node, as the same person."""

from collections.abc import Iterator

import pytest

from tests.lab.campaigns.runner import HOST
from tests.lab.grid import Done, Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

LOGIN = "alpha-n1"  # it has neither the spool nor gridbridge.toml
CONFIG = "/etc/gridbridge/gridbridge.toml"
START = "mkdir -p /run/sshd && /usr/sbin/sshd -o PidFile=/run/login.pid"
KNOW = (
    f"cd ~/.ssh && cp id_ed25519.pub authorized_keys &&"
    f" echo {HOST} $(cat /etc/ssh/ssh_host_ed25519_key.pub) >known_hosts"
)
JDL = '{"name": "login", "type": "normal", "exec_file": "true", "clusters": {"beta": {}}, "%s": %s}'


@pytest.fixture(name="login", scope="module")
def _login(site: Grid) -> Iterator[Grid]:
    site.sh(HOST, START)
    site.sh(HOST, KNOW, user="alice")
    told = site.sh(HOST, f"sed '/^.site.$/a transfer_host = \"{HOST}\"' {CONFIG}")
    site.sh(LOGIN, f"mkdir -p /etc/gridbridge && cat >{CONFIG} <<'end'\n{told}\nend")
    yield site
    site.sh(LOGIN, "rm -r /etc/gridbridge /tmp/login.*")
    site.sh(HOST, "cd ~/.ssh && rm authorized_keys known_hosts", user="alice")
    site.sh(HOST, "kill $(cat /run/login.pid)")


def ask(grid: Grid, *argv: str, user: str = "alice", stdin: str = "") -> Done:
    return grid.on(LOGIN, *argv, user=user, stdin=stdin, timeout_s=200)


def test_a_login_node_without_ssh_access_reports_the_missing_setting_in_one_line(site: Grid) -> None:
    """The commands that submit and the commands that read behave alike."""
    brought = ask(site, "gridsub", "-", stdin=JDL % ("nb_jobs", "1"))
    read = ask(site, "gridstat")

    assert (75, 2) == (brought.status, read.status)
    for done in (brought, read):
        (line,) = done.err.strip().splitlines()
        assert f"name the transfer host in {CONFIG} ([site] transfer_host)" in line


def test_a_campaign_is_submitted_with_files_of_the_login_node(login: Grid) -> None:
    """`gridsub --wait` returns the exit status of the campaign."""
    login.sh(LOGIN, "printf 'a 1\\nb 2\\n' >/tmp/login.lines", user="alice")
    text = JDL % ("param_file", '"login.lines"')
    login.sh(LOGIN, f"cat >/tmp/login.json <<'end'\n{text}\nend", user="alice")
    done = ask(login, "gridsub", "--wait", "-f", "/tmp/login.json")
    number = done.out.rpartition("CAMPAIGN_ID=")[2].strip()

    assert (0, "") == (done.status, done.err)
    shown = ask(login, "gridstat", number, "-f", "-H").out
    assert ["a 1", "b 2"] == [line[-3:] for line in shown.splitlines() if "success" in line]
    _is_brought(login, number)
    assert 1 == ask(login, "gridsub", "-c", number, "-F", "-", stdin="c\n").status
    assert 0 == ask(login, "griddel", "--purge", number).status
    assert 1 == ask(login, "gridstat", number).status


def _is_brought(login: Grid, number: str) -> None:
    fetched = ask(login, "gridfetch", number, "/tmp/login.out")
    drawn = ask(login, "gridstat", number, "--plot", "/tmp/login.png")

    assert (0, "beta: 4 files\n") == (fetched.status, fetched.out), fetched
    assert 4 == len(login.sh(LOGIN, "ls /tmp/login.out").split())
    assert (0, "/tmp/login.png\n") == (drawn.status, drawn.out), drawn
    assert "PNG" in login.sh(LOGIN, "head -c 4 /tmp/login.png | tail -c 3")


def test_a_person_without_access_gets_the_reason(login: Grid) -> None:
    """First ssh refuses the person, then the command does."""
    done = ask(login, "gridsub", "-", user="bob", stdin=JDL % ("nb_jobs", "1"))

    assert 75 == done.status
    assert f"gridsub: {HOST} was not reached" in done.err
