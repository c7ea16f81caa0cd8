"""Each check item is broken, reported, and repaired by the very commands that the check prints."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.grid import Grid
from tests.lab.site.breaks import ITEMS, MASTER, NAMES, SLOW, TOML, Played, Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def site(all_open: None) -> Iterator[Site]:
    site = Site(grid=Grid())
    site.sh("gridbridge setup host --apply && gridbridge setup transfer beta --apply")
    site.settle()
    yield site
    site.sh("gridbridge setup host --apply && gridbridge setup transfer beta --apply")
    site.settle()


@pytest.fixture(scope="module")
def played(site: Site) -> Played:
    return Played(site)


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.long if one in SLOW else ()) for one in NAMES])
def test_a_broken_item_is_reported_and_repaired_by_the_printed_command(name: str, played: Played) -> None:
    outcome = played.outcome(name)

    assert outcome.reported
    assert outcome.reported["commands"]
    assert outcome.item not in outcome.left
    assert outcome.left.keys() <= ITEMS  # whose own tests tell


def test_items_hidden_from_an_ordinary_user_are_not_reported_as_broken(site: Site) -> None:
    site.settle()
    done = site.grid.on(MASTER, "gridbridge", "check", "--json", user="alice")

    items = json.loads(done.out)["items"]
    wrong = [each for each in items if each["state"] not in ("ok", "note")]
    assert {each["name"]: (each["state"], each["found"]) for each in wrong} == {
        "user": ("warning", "not root"),
        "sudoers /etc/sudoers.d/gridbridge": ("warning", "not visible to this user"),
    }
    assert done.status == 1


def test_a_tmpdir_into_which_others_write_is_noted_and_changed_by_the_printed_commands(site: Site) -> None:
    """A job's TMPDIR is then in the new folder, where only root can create one."""
    before = site.check()["tmpdir /tmp"]
    wanted = [line for line in before["commands"] if "install" in line or "transfer-beta" in line]
    site.sh("\n".join(wanted))
    site.grid.until(lambda: site.check().get("tmpdir /var/tmp/sge", {}).get("state") == "ok", "it to be right")
    out = site.sh("mktemp -u /home/alice/tmpdir.XXXXXX").strip()
    job = site.grid.transfer("-j", "y", "-o", out, script="sleep 2\nexit 3\n")
    place = site.grid.until(lambda: site.sh("ls /var/tmp/sge").strip(), "its TMPDIR")
    status = site.grid.accounting(job)["exit_status"]
    back = ("qconf", "-rattr", "queue", "tmpdir", "/tmp", "transfer-beta")
    assert site.grid.cell("alpha", *back, user="root").status == 0

    assert before["state"] == "note"
    assert (place, status) == (f"{job}.1.transfer-beta", "3")


def test_setup_of_an_ordinary_user_names_the_items_it_can_not_read(site: Site) -> None:
    done = site.grid.on(MASTER, "gridbridge", "setup", "host", user="alice")

    assert (done.status, done.out) == (2, "")
    assert done.err.endswith("not visible to this user; run this command as root\n")


def test_a_missing_account_is_made_by_the_printed_command(site: Site) -> None:
    account = f"sed -i '/^#service_account/s/.*/service_account = \"gbx\"/' {TOML}"
    with site.changed(account, undo="userdel gbx"):
        (command,) = site.check()["account gbx"]["commands"]
        site.sh(command)

        assert site.check()["account gbx"]["state"] == "ok"


def test_queues_and_configuration_that_disagree_are_reported_and_repaired(site: Site) -> None:
    no_queues = f"sed -i '/^.queue[.]/,/^.poller/{{/^.poller/!d}}' {TOML}"
    with site.changed(no_queues, undo="gridbridge setup transfer beta --apply"):
        both = {f"file {TOML}: transfer queues", "queue transfer-beta"}
        site.grid.until(lambda: both <= site.wrong().keys(), "both findings", 30)
        none, nameless = (site.wrong()[item] for item in sorted(both))
        site.sh(*none["commands"])

        assert (none["state"], nameless["state"]) == ("warning", "broken")
        assert "has no [queue.transfer-beta]: its jobs wait or fail" in nameless["found"]
        site.grid.until(lambda: not both & site.wrong().keys(), "the mend of both", 60)


def test_a_spool_too_small_for_the_slots_is_a_warning_with_its_remedy(site: Site) -> None:
    with site.changed(f"sed -i 's/^#spool_files_per_uid.*/spool_files_per_uid = 799/' {TOML}"):
        found = site.only_finding()
        setup = site.grid.on(MASTER, "gridbridge", "setup", "transfer", "beta")

    assert (found["state"], found["right"]) == ("warning", "at least 1200")
    assert "[poller]" in found["hint"]
    assert (setup.status, setup.err.count("\n")) == (0, 1)
    assert setup.err.startswith(f"warning: file {TOML}: spool_files_per_uid: 799, too few for 300")


def test_a_wrong_clock_is_a_warning(site: Site) -> None:
    site.sh("labctl stop qmaster && labctl start qmaster --faketime +2h", "beta-master")
    try:
        found = site.grid.until(lambda: site.wrong().get("beta: clock"), "beta's clock", 40)

        assert (found["state"], found["where"]) == ("warning", "beta-master")
        assert found["found"].startswith(("+71", "+72"))
    finally:
        site.sh("labctl restart qmaster", "beta-master")
    site.settle()


BY_HAND = f"""set -e
sed -i 's/^qmaster_port = 6454/qmaster_port = 6464/' {TOML}
printf '[cluster.omega]\nkind = "oar"\nssh = "gamma-master:1"\n' >>{TOML}
echo 'SGE_QMASTER_PORT=6454; export SGE_QMASTER_PORT' >/var/lib/gridengine/beta/common/settings.sh
chmod 644 ~bob/.ssh/id_*
qconf -rattr queue seq_no 400 all.q
"""
BACK = """
rm /var/lib/gridengine/beta/common/settings.sh
chmod 600 ~bob/.ssh/id_*; chmod 644 ~bob/.ssh/id_*.pub
qconf -rattr queue seq_no 0 all.q
"""


def test_manual_changes_of_the_site_are_reported_for_what_they_are(site: Site) -> None:
    """The changes: a port, a key's mode, a cluster without a queue, and the queue order, which is kept."""
    with site.changed(BY_HAND, undo=BACK):
        wrong = site.wrong()

    assert wrong["beta: qmaster"]["right"] == "qmaster_port = 6454, if this qmaster belongs to the cell"
    assert (wrong["beta: qmaster"]["commands"], wrong["beta: qmaster"]["where"]) == ([], "")
    assert "chmod 600 /home/bob/.ssh/id_" in wrong["delta: key of bob"]["found"]
    assert "can't reach gamma-master" in wrong["omega: OAR server"]["found"]
    assert not [name for name in wrong if name.endswith("seq_no")]


def test_an_untried_version_is_a_warning(site: Site) -> None:
    fake = '[ "$1" = -help ] && { echo GE 6.2u5; exit; }; exec /usr/lib/gridengine/qconf "$@"'
    old = (
        "cp -as /usr/lib/gridengine /tmp/other && rm /tmp/other/qconf &&"
        f" printf '%s\\n' '#!/bin/sh' '{fake}' >/tmp/other/qconf && chmod 755 /tmp/other/qconf &&"
        f" sed -i '0,/^#binaries/s|^#binaries.*|binaries = \"/tmp/other\"|' {TOML}"
    )
    with site.changed(old, undo="rm -r /tmp/other"):
        assert site.wrong()["alpha: version"]["found"] == "GE 6.2u5"


def test_an_unreadable_configuration_leaves_the_previous_one_in_force(site: Site) -> None:
    with site.changed(f"echo 'nonsense' >>{TOML}"):
        found = site.check()

    assert list(found) == [f"file {TOML}", "poller: gridbridge.toml"]
