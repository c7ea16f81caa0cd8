"""Setting up best-effort queues, and how check judges existing best-effort queues."""

from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.site.setup_findings_and_edits import BestEffortSetupRequest, FindingSeverity
from gridbridge.model.site_configuration import Policy
from gridbridge.site import besteffort_setup
from tests.builders.configurations import site_text

QCONF = """#!/bin/sh
cd "${0%/*}" || exit 1
case "$*" in
-sc) cat complexes ;;
-sq*) for one in queues/*; do echo "qname ${one#*/}"; cat "$one"; echo; done ;;
-spl) echo "no parallel environment defined" ;;
-srqsl) echo "no resource quota set list defined" ;;
*) exit 1 ;;
esac
"""
QSTAT = """#!/bin/sh
echo '<job_info><queue_info><Queue-List><name>all.q@n1</name><qtype>BIP</qtype>'
echo '<slots_used>0</slots_used><slots_resv>0</slots_resv><slots_total>2</slots_total>'
echo '<resource name="slots" type="hc">2</resource>'
echo '</Queue-List></queue_info><job_info></job_info></job_info>'
"""
LOCAL = "hostlist n1\nsubordinate_list NONE\ncomplex_values NONE\n"


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """Return a site of a local cell with one queue, an OAR server, and a cell reached by ssh."""
    (tmp_path / "queues").mkdir()
    (tmp_path / "queues/all.q").write_text(LOCAL)
    (tmp_path / "complexes").write_text("slots s INT <= YES YES 1 1000\n")
    for name, text in (("qconf", QCONF), ("qstat", QSTAT)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    alpha = site_text("alpha", root=str(tmp_path), binaries=str(tmp_path))
    others = '[cluster.gamma]\nkind = "oar"\n[cluster.delta]\nqmaster_port = 1\nexecd_port = 2\nssh = "delta-master"\n'
    return configuration_file.parse_configuration("FILE", f"{alpha}{others}".encode())


def asked(cluster: str = "alpha", like: str | None = None) -> BestEffortSetupRequest:
    return BestEffortSetupRequest(cluster=cluster, like=like)


def test_best_effort_queues_are_modelled_on_the_local_queue(policy: Policy) -> None:
    """A warning names consumables that still keep local jobs waiting."""
    lines = [step.line for step in besteffort_setup.plan_besteffort_setup(policy, asked())]

    assert "qconf -Mc" in lines[0]
    assert ["qconf -sq all.q" in line for line in lines[1:3]] == [True, True]
    assert lines[-1] == "qconf -rattr queue slots 1 gb-be2"
    assert besteffort_setup.plan_besteffort_queue_removal(policy, asked()) == ()
    (told,) = besteffort_setup.besteffort_consumable_warnings(policy, asked())
    assert told.startswith("alpha: consumable slots: best-effort tasks use slots at n1")


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (asked("gamma"), "its own best-effort jobs"),
        (asked("delta"), "reached by ssh"),
        (asked("beta"), r"no \[cluster.beta\]"),
        (asked(like="none.q"), "--like none.q: no local queue; expected one of: all.q"),
    ],
    ids=["OAR", "ssh", "unknown", "no such queue"],
)
def test_a_cluster_without_possible_best_effort_queues_is_refused(
    policy: Policy, wanted: BestEffortSetupRequest, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        besteffort_setup.plan_besteffort_setup(policy, wanted)


def test_a_foreign_queue_of_the_same_name_stops_the_setup(policy: Policy, tmp_path: Path) -> None:
    """The check warns about such a queue, too."""
    (tmp_path / "queues/gb-be1").write_text(LOCAL)

    with pytest.raises(GridbridgeError, match=r"gb-be1 has neither.*then qconf -dq gb-be1"):
        besteffort_setup.plan_besteffort_setup(policy, asked())
    (told,) = besteffort_setup.check_grid_engine_besteffort_queues(policy, "alpha")
    assert (told.item, told.state) == ("alpha: queue gb-be1", FindingSeverity.WARNING)


def test_no_best_effort_queues_is_ok_and_a_partial_setup_is_broken(policy: Policy, tmp_path: Path) -> None:
    """Clusters that this host cannot set up get no finding."""
    (none,) = besteffort_setup.check_grid_engine_besteffort_queues(policy, "alpha")
    assert (none.item, none.state) == ("alpha: best-effort queues", FindingSeverity.OK)

    with (tmp_path / "complexes").open("a") as table:
        table.write("gb_besteffort gb_besteffort BOOL == FORCED NO 0 0\n")
    found = {each.item: each.state for each in besteffort_setup.check_grid_engine_besteffort_queues(policy, "alpha")}
    assert found["queue gb-be1"] is FindingSeverity.BROKEN
    assert found["complex gb_besteffort"] is FindingSeverity.OK
    assert [
        list(besteffort_setup.check_grid_engine_besteffort_queues(policy, name)) for name in ("gamma", "delta")
    ] == [[], []]
