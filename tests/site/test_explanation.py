"""`gridbridge explain` predicts how a job would be submitted, whoever runs the command."""

import os
import pwd
from pathlib import Path

import pytest
from click.testing import CliRunner

from gridbridge.batch.batch_submission_outcome import NOT_INTERACTIVE, ONE_HOP
from gridbridge.cli.main import gridbridge
from gridbridge.errors import ParseError
from gridbridge.site.submission_explanation import explain_submission
from tests.builders.configurations import queue_text, site_text
from tests.builders.programs import write_program

GOLDEN = Path(__file__).parents[1] / "golden" / "gridengine-8.1.9"
JOB = (GOLDEN / "job-error.xml").read_text("latin-1")
PLAIN_TYPE, ONE_TASK = "<JB_type>64<", "<RN_max>1<"
VERIFIED = "job_number:                 unassigned\n"


def here(
    folder: Path,
    *,
    qstat: str = JOB,
    qsub: str = VERIFIED,
    qconf: str = "",
    status: int = 0,
    people: str = 'alice = "al_delta", bob = "bo_delta"',
) -> str:
    """Return the configuration of a site whose clients print the given texts, with delta by ssh."""
    for name, said in (("qstat", qstat), ("qsub", qsub), ("qconf", qconf)):
        (folder / f"{name}.said").write_text(said)
        write_program(folder / name, f"#!/bin/sh\ncat {folder}/{name}.said\nexit {status}\n")
    config = folder / "gridbridge.toml"
    delta = f'[cluster.delta]\nqmaster_port = 3\nexecd_port = 4\nssh = "delta-master"\nusers = {{ {people} }}\n'
    config.write_text(site_text("alpha", binaries=str(folder)) + delta + queue_text("delta"))
    return str(config)


def test_explain_uses_the_account_of_the_job_owner(tmp_path: Path) -> None:
    foreseen = explain_submission(("12",), "delta", here(tmp_path))

    assert foreseen.notes == ("submitted by ssh to delta-master as al_delta",)


def test_explain_names_a_storage_area_that_home_and_the_cluster_share(tmp_path: Path) -> None:
    config = here(tmp_path)
    with open(config, "a") as file:
        file.write('[storage.shared]\nclusters = { alpha = "/data", delta = "/mnt/data" }\n')

    foreseen = explain_submission(("12",), "delta", config)

    told = "replicas in storage area shared need no copy: /data at alpha is /mnt/data at delta"
    assert told in foreseen.notes


@pytest.mark.parametrize("task", ["12.10", "12.2"])
def test_explain_refuses_a_task_outside_the_array(tmp_path: Path, task: str) -> None:
    """The test makes the golden job an array with tasks 1-9:2."""
    step = "<RN_step>1<"
    array = JOB.replace(PLAIN_TYPE, "<JB_type>192<").replace(ONE_TASK, "<RN_max>9<")
    config = here(tmp_path, qstat=array.replace(step, "<RN_step>2<"))
    foreseen = explain_submission(("12.9",), "delta", config)

    assert "gb.alpha.12.9.1" in foreseen.command
    with pytest.raises(ParseError, match="the job or task does not exist"):
        explain_submission((task,), "delta", config)


def test_explain_refuses_a_task_of_a_plain_job(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="the job or task does not exist"):
        explain_submission(("12.1",), "delta", here(tmp_path))


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param(PLAIN_TYPE, "<JB_type>72<", NOT_INTERACTIVE, id="qrsh"),
        pytest.param("<JB_account>sge<", "<JB_account>gb.beta.7.0.1<", ONE_HOP, id="brought here"),
    ],
)
def test_explain_refuses_what_the_starter_would_refuse(tmp_path: Path, before: str, after: str, refused: str) -> None:
    assert JOB.count(before) == 1
    foreseen = explain_submission(("12",), "delta", here(tmp_path, qstat=JOB.replace(before, after)))

    assert (foreseen.refused, foreseen.command) == (refused, "")


def test_explain_reports_a_qsub_that_fails_silently(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="qsub printed no reason and ended with exit status 1"):
        explain_submission(("job.sh",), "delta", here(tmp_path, qsub="", status=1))


def test_explain_refuses_a_command_with_the_account_of_a_transfer(tmp_path: Path) -> None:
    """Its numeric argument is no job id."""
    told = f"{VERIFIED}account:                    gb.beta.7.0.1\n"
    foreseen = explain_submission(("-b", "y", "sleep", "77"), "delta", here(tmp_path, qsub=told))

    assert (foreseen.refused, foreseen.job) == (ONE_HOP, "")


def test_explain_refuses_an_owner_without_an_account_at_the_cluster(tmp_path: Path) -> None:
    """The golden job is alice's."""
    foreseen = explain_submission(("12",), "delta", here(tmp_path, people='bob = "bo_delta"'))

    assert foreseen.refused == "alice has no account in [cluster.delta.users]"
    assert not foreseen.command


PARALLEL = f"{VERIFIED}parallel environment:  smp range: 2-4,8\n"


@pytest.mark.parametrize(
    ("qconf", "refused"),
    [
        ("pe_list mpi\n", "transfer-delta has no parallel environment smp in its pe_list: only mpi"),
        ("pe_list NONE\n", "transfer-delta has no parallel environment smp in its pe_list: none"),
        ("pe_list smp\nslots 1\n", "transfer-delta has 1 slots, and the job asks for 2"),
        ("user_lists x\nentries bob,@none\n", "the user_lists of transfer-delta don't include {me}"),
        ("pe_list smp mpi\nslots 2\nuser_lists NONE\n", ""),
        ("pe_list mpi,[host=smp]\nslots 1,[host=9]\n", ""),
    ],
    ids=["another", "none", "too many slots", "not listed", "all is well", "by host"],
)
def test_explain_refuses_a_job_that_would_wait_forever_in_the_local_queue(
    tmp_path: Path, qconf: str, refused: str
) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    config = here(tmp_path, qsub=PARALLEL, qconf=qconf, people="")
    foreseen = explain_submission(("job.sh",), "delta", config)

    assert foreseen.refused == refused.format(me=me)
    assert bool(foreseen.command) is not bool(refused)


@pytest.mark.parametrize("before", [(), ("--",)], ids=["as qsub takes it", "after --"])
def test_explain_passes_qsub_options_unchanged(tmp_path: Path, before: tuple[str, ...]) -> None:
    config = here(tmp_path)
    (tmp_path / "qsub").write_text(f'#!/bin/sh\nprintf "%s|" "$@" >{tmp_path}/words\ncat {tmp_path}/qsub.said\n')
    words = ("-h", "-hold_jid", "5", "-hard", "-l", "h_rt=1:0:0", "-pe", "smp", "4", "job.sh", "-v")

    argv = ("explain", "--to", "delta", "--config", config, *before, *words)
    CliRunner().invoke(gridbridge, argv)

    assert (tmp_path / "words").read_text().endswith(f"|{'|'.join(words)}|")
