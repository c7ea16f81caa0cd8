"""What is told of a job that was not sent anywhere: how it stands, and who would take it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.site.cli import why_command
from gridbridge.site.cli.why_command import HomeBatchSystemSilent
from tests.site.test_explanation import JOB, ONE_TASK, PLAIN_TYPE, here

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


def look(config: str, tmp_path: Path, job: int | str = NUMBER, **of: bool) -> why_command.UntransferredHomeJob | None:
    """Look the job up, where nothing is published."""
    published = tmp_path / "published"
    published.mkdir(exist_ok=True)
    return why_command.find_untransferred_home_job(str(job), NOON, str(published), config, **of)


def without_messages() -> str:
    """Return the golden job as a cell tells of it whose scheduler notes nothing."""
    return JOB.partition("<messages>")[0] + "</detailed_job_info>"


def test_a_job_that_waits_is_told_with_its_hindrances_and_each_transfer_queue(tmp_path: Path) -> None:
    """Where the scheduler notes nothing it is asked (sched_conf(5), schedd_job_info)."""
    found = look(site(tmp_path, job=without_messages()), tmp_path)

    assert found
    assert (found.job, found.owner) == (str(NUMBER), "alice")
    assert found.sentences[0] == "the job waits for 10 min (qw)"
    assert "the job can't start: (-l arch=none) cannot run at host n1" in found.sentences
    assert [(one.queue, one.cluster, one.would_take) for one in found.queues] == [("transfer-delta", "delta", True)]


def test_a_held_job_is_never_verified(tmp_path: Path) -> None:
    """Of a held job qalter tells nothing, and keeps the option."""
    found = look(site(tmp_path, "hqw", without_messages()), tmp_path)

    assert found
    assert found.sentences[0] == "the job waits, held for 10 min (hqw)"
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
    assert found.queues[0].why.endswith("which requests -q all.q")


def test_a_job_that_home_does_not_list_is_none(tmp_path: Path) -> None:
    assert look(site(tmp_path), tmp_path, NUMBER + 1) is None


@pytest.mark.parametrize("client", ["exit 1", "echo half an answer"])
def test_a_home_that_gives_no_answer_is_told_as_that(tmp_path: Path, client: str) -> None:
    """The job may be there."""
    config = site(tmp_path)
    (tmp_path / "qstat").write_text(f"#!/bin/sh\n{client}\n")

    with pytest.raises(HomeBatchSystemSilent, match="alpha: no answer: qstat"):
        look(config, tmp_path)


@pytest.mark.parametrize("status", [0, 1])
def test_a_job_that_qstat_does_not_know_is_none(tmp_path: Path, status: int) -> None:
    """Some versions end with 1 then."""
    unknown = "<?xml version='1.0'?>\\n<unknown_jobs><ST_name>9</ST_name></unknown_jobs>"
    config = site(tmp_path)
    (tmp_path / "qstat").write_text(f'#!/bin/sh\nprintf "{unknown}"\nexit {status}\n')

    assert look(config, tmp_path) is None


def test_a_task_is_told_alone(tmp_path: Path) -> None:
    """A task that has begun, and one of those that wait together; another is unknown."""
    config = site(tmp_path, job=of_array())
    waiting = LIST.format(number=NUMBER, state="qw").replace("</slots>", "</slots><tasks>4-9</tasks>")
    begins = waiting.index("<job_list")
    running = waiting[begins : waiting.index("</job_list>")] + "</job_list>"
    running = running.replace("pending", "running").replace("qw", "r").replace("4-9", "3")
    running = running.replace("<queue_name></queue_name>", "<queue_name>all.q@n1</queue_name>")
    (tmp_path / "list.said").write_text(waiting[:begins] + running + waiting[begins:])

    third, fifth = (look(config, tmp_path, f"{NUMBER}.{task}") for task in (3, 5))

    assert third
    assert fifth
    assert third.sentences[0].startswith("task 3 runs in all.q@n1")
    assert third.queues == ()
    assert fifth.sentences[0] == "task 5 waits for 10 min (qw)"
    assert (fifth.job, len(fifth.queues)) == (f"{NUMBER}.5", 1)
    assert look(config, tmp_path, f"{NUMBER}.10") is None
    assert look(config, tmp_path, f"{NUMBER}.3", was_sent=True)


def test_of_a_job_that_was_sent_tasks_in_transfer_queues_are_left_out(tmp_path: Path) -> None:
    """They are away, and told so."""
    config = site(tmp_path, "r")
    listed = (tmp_path / "list.said").read_text()
    there = "<queue_name>transfer-delta@alpha-master</queue_name>"
    (tmp_path / "list.said").write_text(listed.replace("<queue_name></queue_name>", there))

    assert look(config, tmp_path, was_sent=True) is None
    found = look(config, tmp_path)
    assert found
    assert "transfer-delta" in found.sentences[0]


def test_home_is_asked_for_the_job_once_whatever_the_number_of_queues(tmp_path: Path) -> None:
    """Once how it stands, and once what it asks for."""
    config = Path(site(tmp_path, job=without_messages()))
    queue = config.read_text().partition("[queue.transfer-delta]")[2]
    more = "".join(f"[queue.transfer-{name}]{queue}" for name in "abc")
    config.write_text(f"{config.read_text()}{more}")
    qstat = tmp_path / "qstat"
    qstat.write_text(qstat.read_text().replace("\n", f'\necho "$*" >>{tmp_path}/calls\n', 1))

    found = look(str(config), tmp_path)

    assert found
    assert len(found.queues) == 4
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len([call for call in calls if "-j" in call.split()]) == 2


def of_array() -> str:
    """Return the golden job as an array of nine tasks."""
    array = without_messages().replace(PLAIN_TYPE, "<JB_type>192<")
    return array.replace(ONE_TASK, "<RN_max>9<")
