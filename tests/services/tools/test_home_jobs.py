"""What is told of a job that was not sent anywhere: how it stands, and who would take it."""

from datetime import UTC, datetime
from pathlib import Path

from gridbridge.services.tools import home_jobs
from tests.services.tools.test_explain import JOB, here

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIST = """<?xml version='1.0'?>
<job_info><queue_info></queue_info><job_info><job_list state="pending">
<JB_job_number>{number}</JB_job_number><JAT_prio>0.5</JAT_prio><JB_name>n</JB_name>
<JB_owner>alice</JB_owner><state>{state}</state>
<JB_submission_time>2026-01-01T11:50:00</JB_submission_time>
<queue_name></queue_name><slots>1</slots></job_list></job_info></job_info>
"""
NUMBER = int(JOB.partition("<JB_job_number>")[2].partition("<")[0])
VERIFIED = f"Job {NUMBER} (-l arch=none) cannot run at host n1\nverification: no suitable queues\n"


def site(folder: Path, state: str = "qw", job: str = JOB) -> str:
    """Return the configuration of a site whose qstat lists one job, and whose qalter tells more."""
    config = here(folder, qstat=job)
    (folder / "list.said").write_text(LIST.format(number=NUMBER, state=state))
    choice = f"case $* in *-j*) cat {folder}/qstat.said ;; *) cat {folder}/list.said; esac"
    (folder / "qstat").write_text(f"#!/bin/sh\n{choice}\n")
    qalter = folder / "qalter"
    qalter.write_text(f"#!/bin/sh\ntouch {folder}/asked\ncat <<'END'\n{VERIFIED}END\n")
    qalter.chmod(0o755)
    return config


def look(config: str, tmp_path: Path, job: int = NUMBER) -> home_jobs.HomeJob | None:
    """Look the job up, where nothing is published."""
    published = tmp_path / "published"
    published.mkdir(exist_ok=True)
    return home_jobs.look(str(job), NOON, str(published), config)


def without_messages() -> str:
    """Return the golden job as a cell tells of it whose scheduler notes nothing."""
    return JOB.partition("<messages>")[0] + "</detailed_job_info>"


def test_a_job_that_waits_is_told_with_its_hindrances_and_each_transfer_queue(
    tmp_path: Path,
) -> None:
    """Where the scheduler notes nothing it is asked (sched_conf(5), schedd_job_info)."""
    found = look(site(tmp_path, job=without_messages()), tmp_path)

    assert found
    assert (found.job, found.owner) == (NUMBER, "alice")
    assert found.sentences[0] == "it waits for 10 min (qw)"
    assert "it can't start: (-l arch=none) cannot run at host n1" in found.sentences
    assert [(one.queue, one.cluster, one.would_take) for one in found.queues] == [
        ("transfer-delta", "delta", True)
    ]


def test_a_held_job_is_never_verified(tmp_path: Path) -> None:
    """Of a held job qalter tells nothing, and keeps the option."""
    found = look(site(tmp_path, "hqw", without_messages()), tmp_path)

    assert found
    assert found.sentences[0] == "it waits, held for 10 min (hqw)"
    assert not (tmp_path / "asked").exists()


def test_why_a_transfer_queue_would_not_take_it_is_told(tmp_path: Path) -> None:
    """As `gridbridge explain` tells it."""
    config = site(tmp_path)
    nobody = Path(config).read_text().replace('alice = "al_delta", ', "")
    Path(config).write_text(nobody)

    found = look(config, tmp_path)

    assert found
    assert not found.queues[0].would_take
    assert "cluster.delta.users" in found.queues[0].why


def test_a_job_that_asks_for_another_queue_goes_to_none(tmp_path: Path) -> None:
    """Its own words keep it at home, though the other cluster could run it."""
    own = "<JB_hard_queue_list><element><QR_name>all.q</QR_name></element></JB_hard_queue_list>"
    job = without_messages().replace("<JB_account>", f"{own}<JB_account>", 1)

    found = look(site(tmp_path, job=job), tmp_path)

    assert found
    assert not found.queues[0].would_take
    assert found.queues[0].why.endswith("it asks for -q all.q")


def test_a_job_that_home_does_not_list_is_none(tmp_path: Path) -> None:
    assert look(site(tmp_path), tmp_path, NUMBER + 1) is None


def test_a_home_that_gives_no_answer_tells_of_none(tmp_path: Path) -> None:
    """The transfers are told all the same."""
    config = site(tmp_path)
    (tmp_path / "qstat").write_text("#!/bin/sh\nexit 1\n")

    assert look(config, tmp_path) is None
