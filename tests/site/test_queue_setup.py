"""A transfer queue is removed at home even if its remote cluster no longer answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridbridge.config import configuration_file
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import local_host_facts
from gridbridge.site import transfer_queue_request
from gridbridge.site.transfer_queue_request import TransferQueueOptions
from gridbridge.site.transfer_queue_setup import (
    plan_queue_leftover_removal,
    plan_transfer_queue_removal,
    plan_transfer_queue_setup,
)
from tests.builders.configurations import queue_text, site_text

QCONF = """#!/bin/sh
[ "$SGE_QMASTER_PORT" = 1 ] || { echo "unable to send message to qmaster" >&2; exit 1; }
case "$*" in
-sc) echo "remote remote BOOL == YES NO FALSE 0";;
-sq*) printf '%s\\n' 'qname transfer-beta' 'complex_values remote=TRUE' 'load_thresholds NONE';;
-spl) echo "no parallel environment defined";;
-sel) echo "no execution host defined";;
-so|-sm|-ss|-sh) echo "no such list defined";;
*) echo "load_sensor none";;
esac
"""
QSTAT = """#!/bin/sh
echo '<job_info><queue_info></queue_info><job_info></job_info></job_info>'
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """Return a site whose qconf answers for the home cell only."""
    (tmp_path / "default/common").mkdir(parents=True)
    (tmp_path / "default/common/act_qmaster").write_text("master\n")
    (tmp_path / "qconf").write_text(QCONF)
    (tmp_path / "qconf").chmod(0o755)
    (tmp_path / "qstat").write_text(QSTAT)
    (tmp_path / "qstat").chmod(0o755)
    text = site_text("alpha", "beta", root=str(tmp_path), cell="default", binaries=str(tmp_path))
    path = tmp_path / "gridbridge.toml"
    ports = "[cluster.beta]\nqmaster_port = "
    path.write_text(text.replace(f"{ports}1", f"{ports}3") + queue_text("beta"))
    return configuration_file.load_configuration(str(path))


def test_the_queue_to_a_silent_cluster_is_removed_at_home(policy: Policy) -> None:
    warned: list[str] = []

    steps = plan_transfer_queue_removal(policy, TransferQueueOptions(cluster="beta", short_jobs=True), warned.append)

    cells = {step.edit.cell for step in steps}
    assert steps[0].line == "qconf -dq transfer-beta"
    assert cells == {"alpha", ""}
    assert warned == ["beta was not queried and is not changed: qconf: unable to send message to qmaster"]
    assert plan_queue_leftover_removal(policy, TransferQueueOptions(cluster="beta"))[0].line == steps[0].line


def test_removal_warns_of_a_queue_with_running_jobs(policy: Policy, tmp_path: Path) -> None:
    """Grid Engine deletes no queue with jobs in it (qconf(1))."""
    queue = "".join(
        f"<{name}>{value}</{name}>"
        for name, value in (
            ("name", "transfer-beta@master"),
            ("qtype", "B"),
            ("slots_used", 2),
            ("slots_resv", 0),
            ("slots_total", 9),
        )
    )
    (tmp_path / "qstat").write_text(QSTAT.replace("</queue_info>", f"<Queue-List>{queue}</Queue-List></queue_info>"))
    warned: list[str] = []

    plan_transfer_queue_removal(policy, TransferQueueOptions(cluster="beta", short_jobs=True), warned.append)

    assert warned[1:] == [
        "queue transfer-beta can't be removed yet: jobs use 2 of its slots;"
        " run qmod -d transfer-beta, then wait for the jobs or qdel them"
    ]


@pytest.mark.parametrize(
    ("settings", "options", "expected"),
    [
        ("slots 13\nload_thresholds gb_beta_up=false,gb_beta_pending=7", {}, (13, 7)),
        ("slots 2,[HOST=13]\nload_thresholds gb_beta_up=false", {}, (13, 0)),
        ("slots 13\nload_thresholds np_load_avg=1.75", {}, (13, 10)),
        ("slots 0\nload_thresholds gb_gamma_up=false,gb_gamma_pending=7", {}, (25, 10)),
        ("slots 13\nload_thresholds gb_beta_up=false", {"slots": 3, "pending_limit": 4}, (3, 4)),
        ("slots 13\nload_thresholds gb_beta_up=false", {"short_jobs": True}, (10, 0)),
    ],
    ids=["both", "of this host", "foreign limit", "of another cluster", "asked", "short jobs"],
)
def test_a_queue_without_a_section_keeps_its_slots_and_limit(
    policy: Policy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    options: dict[str, Any],
    expected: tuple[int, int],
) -> None:
    """Missing values follow from the remote cluster's size of 100 slots."""
    shown = settings.replace("HOST", local_host_facts.this_host_name()).replace("\n", "' '")
    qconf = QCONF.replace("load_thresholds NONE", shown)
    (tmp_path / "qconf").write_text(qconf)
    monkeypatch.setattr(transfer_queue_request, "count_remote_batch_slots", lambda *_: 100)
    without = replace(policy, queues={})

    wanted = transfer_queue_request.complete_queue_request(without, TransferQueueOptions(cluster="beta", **options))

    assert (wanted.queue, wanted.slots, wanted.pending_limit) == ("transfer-beta", *expected)


def test_setup_of_a_queue_to_a_silent_cluster_is_refused(policy: Policy) -> None:
    with pytest.raises(GridbridgeError, match="unable to send message"):
        plan_transfer_queue_setup(policy, TransferQueueOptions(cluster="beta"))


@pytest.mark.parametrize("home", ['[cluster.alpha]\nkind = "oar"\n', ""], ids=["OAR", "none"])
def test_setup_of_a_queue_without_a_grid_engine_home_is_refused(home: str) -> None:
    ports = "qmaster_port = 1\nexecd_port = 2\n"
    toml = f'[site]\ncluster = "alpha"\n{home}[cluster.beta]\n{ports}'
    policy = configuration_file.parse_configuration("FILE", toml.encode())

    with pytest.raises(ConfigError, match="a transfer queue needs a Grid Engine home"):
        plan_transfer_queue_setup(policy, TransferQueueOptions(cluster="beta"))
