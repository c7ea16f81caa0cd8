"""How a job would be submitted, whoever asks; why a job was never sent, and which queues would accept the job."""

import os
import pwd
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from gridbridge.batch.batch_submission_outcome import NOT_INTERACTIVE, ONE_HOP
from gridbridge.cli.main import gridbridge
from gridbridge.errors import ParseError
from gridbridge.site.cli import why_command
from gridbridge.site.cli.why_command import HomeBatchSystemSilent, UntransferredHomeJob
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


def test_explain_names_the_account_of_the_job_owner_and_a_shared_storage_area(tmp_path: Path) -> None:
    config = here(tmp_path)
    plain = explain_submission(("12",), "delta", config)
    with open(config, "a") as file:
        file.write('[storage.shared]\nclusters = { alpha = "/data", delta = "/mnt/data" }\n')
    shared = explain_submission(("12",), "delta", config)

    assert plain.notes == ("submitted by ssh to delta-master as al_delta",)
    told = "replicas in storage area shared need no copy: /data at alpha is /mnt/data at delta"
    assert told in shared.notes


@pytest.mark.parametrize("task", ["12.10", "12.2"])
def test_explain_refuses_a_task_outside_the_array(tmp_path: Path, task: str) -> None:
    """The test makes the golden job an array with tasks 1-9:2."""
    step = "<RN_step>1<"
    array = JOB.replace(PLAIN_TYPE, "<JB_type>192<").replace(ONE_TASK, "<RN_max>9<")
    config = here(tmp_path, qstat=array.replace(step, "<RN_step>2<"))
    foreseen = explain_submission(("12.9",), "delta", config)

    assert "gb.alpha.12.9.1" in foreseen.command
    for words, site in ((task, config), ("12.1", here(tmp_path))):  # the second job is no array
        with pytest.raises(ParseError, match="the job or task does not exist"):
            explain_submission((words,), "delta", site)


@pytest.mark.parametrize(
    ("words", "site", "refused"),
    [
        ("12", {"qstat": JOB.replace(PLAIN_TYPE, "<JB_type>72<")}, NOT_INTERACTIVE),
        ("12", {"qstat": JOB.replace("<JB_account>sge<", "<JB_account>gb.beta.7.0.1<")}, ONE_HOP),
        ("-b y sleep 77", {"qsub": f"{VERIFIED}account:                    gb.beta.7.0.1\n"}, ONE_HOP),
        ("12", {"people": 'bob = "bo_delta"'}, "alice has no account in [cluster.delta.users]"),
    ],
    ids=["qrsh", "brought here", "with the account of a transfer", "an owner without account"],
)
def test_explain_refuses_what_the_starter_would_refuse(
    tmp_path: Path, words: str, site: dict[str, str], refused: str
) -> None:
    """The golden job is alice's. The numeric argument of a command is no job id."""
    assert site.get("qstat") != JOB
    foreseen = explain_submission(tuple(words.split()), "delta", here(tmp_path, **site))

    assert (foreseen.refused, foreseen.command) == (refused, "")
    assert foreseen.job == ("12" if words == "12" else "")


def test_explain_reports_a_qsub_that_fails_silently(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="qsub printed no reason and ended with exit status 1"):
        explain_submission(("job.sh",), "delta", here(tmp_path, qsub="", status=1))


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


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIST = """<?xml version='1.0'?>
<job_info><queue_info></queue_info><job_info><job_list state="pending">
<JB_job_number>{number}</JB_job_number><JAT_prio>0.5</JAT_prio><JB_name>n</JB_name>
<JB_owner>alice</JB_owner><state>{state}</state>
<JB_submission_time>2026-01-01T11:50:00</JB_submission_time>
<queue_name></queue_name><slots>1</slots></job_list></job_info></job_info>
"""
NUMBER = int(JOB.partition("<JB_job_number>")[2].partition("<")[0])
SUITS_NO_QUEUE = f"Job {NUMBER} (-l arch=none) cannot run at host n1\nverification: no suitable queues\n"


def site(folder: Path, state: str = "qw", job: str = JOB) -> str:
    config = here(folder, qstat=job)
    (folder / "list.said").write_text(LIST.format(number=NUMBER, state=state))
    choice = f"case $* in *-j*) cat {folder}/qstat.said ;; *) cat {folder}/list.said; esac"
    (folder / "qstat").write_text(f"#!/bin/sh\n{choice}\n")
    write_program(folder / "qalter", f"#!/bin/sh\ntouch {folder}/asked\ncat <<'END'\n{SUITS_NO_QUEUE}END\n")
    return config


def look(config: str, job: int | str = NUMBER, **of: bool) -> UntransferredHomeJob | None:
    published = Path(config).with_name("published")
    published.mkdir(exist_ok=True)
    return why_command.find_untransferred_home_job(str(job), NOON, str(published), config, **of)


def find(config: str, job: int | str = NUMBER) -> UntransferredHomeJob:
    found = look(config, job)
    assert found
    return found


def without_messages() -> str:
    """Return the golden job of a cell whose scheduler records no messages."""
    return JOB.partition("<messages>")[0] + "</detailed_job_info>"


def test_why_of_a_waiting_job_names_hindrances_and_transfer_queues(tmp_path: Path) -> None:
    """Without scheduler messages qalter verifies the job (sched_conf(5), schedd_job_info)."""
    found = find(site(tmp_path, job=without_messages()))

    assert (found.job, found.owner) == (str(NUMBER), "alice")
    assert found.sentences[0] == "the job waits for 10 min (qw)"
    assert "the job can't start: (-l arch=none) cannot run at host n1" in found.sentences
    assert [(one.queue, one.cluster, one.would_take) for one in found.queues] == [("transfer-delta", "delta", True)]


def test_a_held_job_is_never_verified(tmp_path: Path) -> None:
    """`qalter -w p` says nothing about a held job, and the job would keep the option."""
    found = find(site(tmp_path, "hqw", without_messages()))

    assert found.sentences[0] == "the job waits, held for 10 min (hqw)"
    assert not (tmp_path / "asked").exists()


def test_why_says_why_a_transfer_queue_would_refuse_the_job(tmp_path: Path) -> None:
    config = site(tmp_path)
    nobody = Path(config).read_text().replace('alice = "al_delta", ', "")
    Path(config).write_text(nobody)

    found = find(config)

    assert not found.queues[0].would_take
    assert "cluster.delta.users" in found.queues[0].why


def test_a_job_that_requests_another_queue_fits_no_transfer_queue(tmp_path: Path) -> None:
    own = "<JB_hard_queue_list><element><QR_name>all.q</QR_name></element></JB_hard_queue_list>"
    job = without_messages().replace("<JB_account>", f"{own}<JB_account>", 1)

    found = find(site(tmp_path, job=job))

    assert not found.queues[0].would_take
    assert found.queues[0].why.endswith("which requests -q all.q")


def test_a_job_that_qstat_does_not_list_is_not_found(tmp_path: Path) -> None:
    assert look(site(tmp_path), NUMBER + 1) is None


@pytest.mark.parametrize("client", ["exit 1", "echo half an answer"])
def test_a_failing_qstat_is_reported_as_no_answer(tmp_path: Path, client: str) -> None:
    config = site(tmp_path)
    (tmp_path / "qstat").write_text(f"#!/bin/sh\n{client}\n")

    with pytest.raises(HomeBatchSystemSilent, match="alpha: no answer: qstat"):
        look(config)


@pytest.mark.parametrize("status", [0, 1])
def test_an_unknown_job_is_not_found_whatever_the_exit_status_of_qstat(tmp_path: Path, status: int) -> None:
    """Some versions of qstat then return 1."""
    unknown = "<?xml version='1.0'?>\\n<unknown_jobs><ST_name>9</ST_name></unknown_jobs>"
    config = site(tmp_path)
    (tmp_path / "qstat").write_text(f'#!/bin/sh\nprintf "{unknown}"\nexit {status}\n')

    assert look(config) is None


def test_why_of_one_array_task_describes_that_task(tmp_path: Path) -> None:
    config = site(tmp_path, job=of_array())
    waiting = LIST.format(number=NUMBER, state="qw").replace("</slots>", "</slots><tasks>4-9</tasks>")
    begins = waiting.index("<job_list")
    running = waiting[begins : waiting.index("</job_list>")] + "</job_list>"
    running = running.replace("pending", "running").replace("qw", "r").replace("4-9", "3")
    running = running.replace("<queue_name></queue_name>", "<queue_name>all.q@n1</queue_name>")
    (tmp_path / "list.said").write_text(waiting[:begins] + running + waiting[begins:])

    third, fifth = (find(config, f"{NUMBER}.{task}") for task in (3, 5))

    assert third.sentences[0].startswith("task 3 runs in all.q@n1")
    assert third.queues == ()
    assert fifth.sentences[0] == "task 5 waits for 10 min (qw)"
    assert (fifth.job, len(fifth.queues)) == (f"{NUMBER}.5", 1)
    assert look(config, f"{NUMBER}.10") is None
    assert look(config, f"{NUMBER}.3", was_sent=True)


def test_tasks_in_transfer_queues_are_left_out_of_a_sent_job(tmp_path: Path) -> None:
    config = site(tmp_path, "r")
    listed = (tmp_path / "list.said").read_text()
    there = "<queue_name>transfer-delta@alpha-master</queue_name>"
    (tmp_path / "list.said").write_text(listed.replace("<queue_name></queue_name>", there))

    assert look(config, was_sent=True) is None
    assert "transfer-delta" in find(config).sentences[0]


def test_the_number_of_queues_causes_no_further_qstat_calls(tmp_path: Path) -> None:
    """One call asks for the state, one for the request."""
    config = Path(site(tmp_path, job=without_messages()))
    queue = config.read_text().partition("[queue.transfer-delta]")[2]
    more = "".join(f"[queue.transfer-{name}]{queue}" for name in "abc")
    config.write_text(f"{config.read_text()}{more}")
    qstat = tmp_path / "qstat"
    qstat.write_text(qstat.read_text().replace("\n", f'\necho "$*" >>{tmp_path}/calls\n', 1))

    assert len(find(str(config)).queues) == 4
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len([call for call in calls if "-j" in call.split()]) == 2


def of_array() -> str:
    array = without_messages().replace(PLAIN_TYPE, "<JB_type>192<")
    return array.replace(ONE_TASK, "<RN_max>9<")
