"""A running service reloads gridbridge.toml, seen from the file to the user's commands."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apart import PYTHON, Site

pytestmark = [pytest.mark.apart, pytest.mark.twin]

TOML = "/etc/gridbridge/gridbridge.toml"
LOG = "/var/lib/gridbridge/poller.log"
PUBLISHED = "/var/lib/gridbridge/published"
POLLER = "$(pgrep -o -f transfer.poller.program)"
GRIDBRIDGE = f"{PYTHON} -I -c 'from gridbridge.cli.main import main; main()'"
ITEM = "poller: gridbridge.toml"
OLDER = "the service uses an older gridbridge.toml"
SECOND = """
{python} -I -m gridbridge.batch.embedded /mnt/gamma create --slots=2
{python} -I -m gridbridge.batch.embedded /mnt/alpha queue transfer-gamma --slots=2 --remote=gamma
cat {toml} - >{toml}.new <<'END'
[cluster.gamma]
kind = "embedded"
folder = "/mnt/gamma"
[queue.transfer-gamma]
cluster = "gamma"
slots = 2
pending_limit = 4
END
mv {toml}.new {toml}
"""


class Reloaded(Site):
    """A site whose gridbridge.toml changes while its service runs."""

    def edit(self, sed: str) -> None:
        self.sh(f"sed '{sed}' {TOML} >{TOML}.new && mv {TOML}.new {TOML}")

    def is_in_force(self) -> bool:
        return self.sh(f"sha256sum {TOML}").split()[0] == self.shown()["sha256"]

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.sh(f"cat {PUBLISHED}/service.json"))
        return found["configuration"]

    def checked(self) -> list[str]:
        items = json.loads(self.type(f"{GRIDBRIDGE} check --json")[0])["items"]
        return [f"{each['name']}: {each['found']}" for each in items if each["state"] != "ok"]

    def log(self) -> list[str]:
        return [line.partition(" ")[2] for line in self.sh(f"cat {LOG}").splitlines()]


@pytest.fixture
def site(apart: tuple[str, ...]) -> Iterator[Reloaded]:
    made = Reloaded(apart)
    made.until(lambda: made.type(f"test -e {PUBLISHED}/load")[1] == "0", "the service")
    yield made
    made.close()


def test_a_second_queue_opens_without_a_restart(site: Reloaded) -> None:
    pid = site.sh(f"echo {POLLER}")
    site.sh(SECOND.format(python=PYTHON, toml=TOML))
    site.until(site.is_in_force, "the new file to be in force")
    job = site.submit("exit 7", "--queue=transfer-gamma")

    assert site.until_ended(job).exit_status == "7"
    assert site.end("gamma", "1")
    assert (site.sh(f"echo {POLLER}"), site.checked()) == (pid, [])
    assert len([line for line in site.log() if "event=configured" in line]) == 1


def test_a_wrong_file_is_reported_and_the_old_configuration_stays_in_force(site: Reloaded) -> None:
    site.edit("s/^slots = 4/slots = 0/")
    site.until(lambda: site.shown()["refused"], "the file to be refused")
    status, checked = site.sh(f"{GRIDBRIDGE} status").splitlines()[0], site.checked()
    job = site.submit("exit 3")
    ended = site.until_ended(job).exit_status
    site.edit("s/^slots = 0/slots = 4/")
    site.until(lambda: not site.shown()["refused"], "the refusal to be over")

    wrong = "[queue.transfer-beta] slots = 0: out of range; expected a whole number, 1 to 9999999 slots"
    told = f"{TOML}: {wrong}"
    assert status == f"{OLDER}, because it refuses the new file: {told}"
    assert (checked, ended) == ([f"file {told}", f"{ITEM}: {OLDER}"], "3")
    (line,) = [line for line in site.log() if "misconfigured" in line]
    assert line.startswith("level=ERROR event=misconfigured sha256=")
    assert line.endswith(f" why={told!r}")
    assert site.checked() == []


def test_a_file_that_needs_a_restart_is_refused_as_a_whole(site: Reloaded) -> None:
    site.edit('s/^slots = 4/slots = 3/; s|^cluster = .alpha.|&\\nservice_account = "me"|')
    site.until(lambda: site.shown()["refused"], "the file to be refused")

    (told,) = [line for line in site.checked() if line.startswith(ITEM)]
    assert told.startswith(f"{ITEM}: {OLDER}; the service refuses the new file: {TOML}: [site] service_account")
    assert '"slots": 4' in site.sh(f"cat {PUBLISHED}/service.json")


def test_sighup_reloads_a_file_that_never_stops_changing(site: Reloaded) -> None:
    """Two SIGHUPs have the effect of one."""
    pid = site.sh(f"echo {POLLER}")
    site.sh(f"(while :; do echo '# more' >>{TOML}; sleep 0.1; done) >/dev/null & echo $! >writer")
    site.edit("s/^slots = 4/slots = 3/")
    site.sh(f"kill -HUP {POLLER}; kill -HUP {POLLER}")
    site.until(lambda: '"slots": 3' in site.sh(f"cat {PUBLISHED}/service.json"), "SIGHUP")
    site.sh("kill $(cat writer)")

    assert site.sh(f"echo {POLLER}") == pid


def test_check_of_a_stopped_service_has_no_configuration_finding(site: Reloaded) -> None:
    site.sh(f"kill {POLLER}; while kill -0 {POLLER} 2>/dev/null; do sleep 0.1; done")
    site.edit("s/^slots = 4/slots = 3/")
    site.sh(f"sed -i '1s/^[0-9]*/1/' {PUBLISHED}/load")

    assert not any(ITEM in line for line in site.checked())
