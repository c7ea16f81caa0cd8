"""A command that the cluster's batch system does not support is refused with a sentence."""

from pathlib import Path

import pytest

from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.program.status_and_why_reports import job_owners_in_home_accounting
from gridbridge.site.submission_explanation import explain_submission
from gridbridge.transfer.cli.owner_remote_job_access import RemoteJobActNotDone
from gridbridge.transfer.cli.qacct_remote import NoAccountedJob, read_home_remote_accounting
from gridbridge.transfer.cli.qalter_and_qdel_remote import job_alterer_of_cluster
from tests.shown import NOW, publish, shown

EMBEDDED = """[site]
cluster = "alpha"
[cluster.alpha]
kind = "embedded"
folder = "/nonexistent/alpha"
[cluster.beta]
kind = "embedded"
folder = "/nonexistent/beta"
[queue.transfer-beta]
cluster = "beta"
pending_limit = 1
slots = 1
"""
OAR = '[site]\ncluster = "gamma"\n[cluster.gamma]\nkind = "oar"\n'


@pytest.fixture(params=[EMBEDDED, OAR], ids=["embedded", "oar"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / "gridbridge.toml"
    path.write_text(request.param)
    return str(path)


def test_a_home_cluster_without_accounting_has_no_record_of_any_job(tmp_path: Path, config: str) -> None:
    with pytest.raises(NoAccountedJob, match="no accounting record, at home or away"):
        read_home_remote_accounting("12", NOW, publish(tmp_path, shown()), config)

    assert job_owners_in_home_accounting(12, config) == frozenset()


@pytest.mark.parametrize("config", [EMBEDDED], indirect=True)
@pytest.mark.parametrize("words", [("12",), ("job.sh",)])
def test_a_home_cluster_that_does_not_show_requests_explains_no_submission(words: tuple[str, ...], config: str) -> None:
    with pytest.raises(RemoteJobActNotDone, match="kind embedded does not show the requests of its jobs"):
        explain_submission(words, "beta", config)


def test_jobs_of_another_batch_system_are_changed_by_its_own_commands() -> None:
    with pytest.raises(RemoteJobActNotDone, match="gamma is of kind oar: use the commands of oar"):
        job_alterer_of_cluster(OarServerAccessSettings(timeout_s=15), "gamma")
