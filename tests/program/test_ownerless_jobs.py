"""The service deletes a job whose owner's account was removed, after checking the job's owner."""

from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.errors import GridbridgeError
from gridbridge.model.site_configuration import Policy
from gridbridge.program import jobs_of_removed_accounts
from gridbridge.program.jobs_of_removed_accounts import OwnerlessJobNotDeleted
from tests.builders.configurations import site_text

NAME, ARRAY = "gb.alpha.7.0.1", "gc.alpha.12.1"
CLIENT = """#!/bin/sh
cd "${0%/*}" && echo "${0##*/} $*" >>calls
case "${0##*/} $*" in
"qdel "*) [ -e operator ] || { echo "denied: user is not owner of job 41"; exit 1; }
    rm -f job; echo "gridbridge has registered the job 41 for deletion" ;;
"qstat -j 41 "*) cat job 2>&- || echo "<unknown_jobs></unknown_jobs>" ;;
"qstat "*) echo "<job_info>"
    [ ! -e job ] || sed 's/.*/<job_list >&<\\/job_list>/; s/JB_account/JB_name/g' job
    echo "</job_info>" ;;
esac
"""
DETAIL = "<JB_job_number>41</JB_job_number><JB_owner>{0}</JB_owner><JB_account>{1}</JB_account>"


class Beta:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("qsub", "qstat", "qdel", "qconf"):
            (folder / name).write_text(CLIENT)
            (folder / name).chmod(0o755)
        (folder / "operator").touch()

    def has(self, owner: str, account: str) -> None:
        (self.folder / "job").write_text(f"{DETAIL.format(owner, account)}</detailed_job_info>\n")

    @property
    def is_empty(self) -> bool:
        return not (self.folder / "job").exists()


@pytest.fixture
def beta(tmp_path: Path) -> Beta:
    return Beta(tmp_path)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    text = site_text("alpha", "beta", binaries=str(tmp_path))
    return configuration_file.parse_configuration("gridbridge.toml", text.encode())


@pytest.mark.parametrize("job", ["41", ""], ids=["by its id", "by its name"])
def test_a_transfer_job_of_a_removed_account_is_deleted(beta: Beta, policy: Policy, job: str) -> None:
    beta.has("alice", NAME)

    jobs_of_removed_accounts.delete_job_of_removed_account(policy, "beta", "alice", NAME, job)

    assert beta.is_empty


@pytest.mark.parametrize(("owner", "account"), [("bob", NAME), ("alice", "gb.alpha.8.0.1")])
def test_a_job_of_another_owner_or_transfer_is_not_deleted(
    beta: Beta, policy: Policy, owner: str, account: str
) -> None:
    """The job has our name and another owner, or our id and the name of another transfer."""
    beta.has(owner, account)

    jobs_of_removed_accounts.delete_job_of_removed_account(policy, "beta", "alice", NAME, "41")

    assert not beta.is_empty


def test_a_denied_deletion_is_reported_with_its_remedy(beta: Beta, policy: Policy) -> None:
    beta.has("alice", NAME)
    (beta.folder / "operator").unlink()

    with pytest.raises(OwnerlessJobNotDeleted, match=r"gone, and gridbridge can.t delete 41 at beta"):
        jobs_of_removed_accounts.delete_job_of_removed_account(policy, "beta", "alice", NAME, "41")


def test_an_array_of_a_removed_account_is_deleted_and_its_id_returned(beta: Beta, policy: Policy) -> None:
    beta.has("alice", ARRAY)

    assert jobs_of_removed_accounts.delete_array_of_removed_account(policy, "beta", "alice", ARRAY, (41, 0)) == 41
    assert beta.is_empty


def test_an_array_that_was_never_submitted_needs_no_deletion(beta: Beta, policy: Policy) -> None:
    """Root's ledger has the intent of such an array without a job id."""
    assert jobs_of_removed_accounts.delete_array_of_removed_account(policy, "beta", "alice", ARRAY, (0,)) == 0


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("", "make gridbridge an operator of beta, or delete the job as root"),
        ('kind = "oar"\n', "denied: user is not owner of job 41; delete the job as root"),
        ('ssh = "h"\nusers = {gridbridge = "gb", alice = "al"}\n', "make gb an operator of beta"),
    ],
    ids=["Grid Engine", "OAR", "an account of another name"],
)
def test_the_remedy_of_a_denied_deletion_depends_on_the_batch_system(
    beta: Beta, tmp_path: Path, section: str, expected: str
) -> None:
    """OAR has no operators: only root deletes jobs of others."""
    text = site_text("alpha", "beta", binaries=str(tmp_path))
    if "oar" in section:
        text = text.replace("[cluster.beta]\nqmaster_port = 1\nexecd_port = 2\n", "[cluster.beta]\n")
    policy = configuration_file.parse_configuration("gridbridge.toml", f"{text}{section}".encode())
    error = GridbridgeError("denied: user is not owner of job 41")

    assert expected in str(jobs_of_removed_accounts._job_not_deleted_error(policy, "beta", "alice", "41", error))
