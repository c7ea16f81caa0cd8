"""The starter's steps at two small cells; a killed step is repeated."""

import os
import time

import pytest

from gridbridge import errors
from gridbridge.model.names_offered_by_cluster import NonForwardingQueues, encode_non_forwarding_queues
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferFailureCause,
    TransferMessage,
    TransferMessageKind,
)
from gridbridge.transfer.starter.remote_job_submission_step import FIRST_REJECTED_LOGIN_NOTE
from gridbridge.transfer.starter.starter import run_next_starter_step
from gridbridge.transfer.starter.starter_step_context import (
    EARLY_S,
    MOST_CLIENT_PROGRAM_FAILURES,
    end_job_without_route,
    retry_step_later,
)
from tests.transfer.starter.cells import CLIENT, TRANSFER, UNDEFER, Place

REMOTE = """<JB_hard_resource_list><CE_name>remote</CE_name><CE_stringval>TRUE</CE_stringval>
</JB_hard_resource_list>"""
QUEUE = "<JB_hard_queue_list><QR_name>{}</QR_name></JB_hard_queue_list>"
NOTE = "<JB_context><VA_variable>{}</VA_variable><VA_value>{}</VA_value></JB_context>"
STARTS = "<JB_execution_time>{}</JB_execution_time>"
FAR_S, OWN_S = 2051222400, 1767225600
DEFER = "-a 203501010000.00 -ac gridbridge_start=0 -ac gridbridge_job=7 7"
PHASES = (StarterPhase.SUBMITTING, StarterPhase.HELD, StarterPhase.RELEASED)


def test_the_first_step_guards_the_task_and_submits_a_held_job_and_releases_it(place: Place) -> None:
    answer = place.step()

    assert place.away() == "qw"
    assert answer.split()[:2] == ["wait", "60"]
    assert answer.endswith(f"/{TRANSFER}")
    assert [call.split()[1:3] for call in place.calls("qalter")] == [["qalter", "-a"], ["qalter", "-N"]]
    assert [call.split()[1] for call in place.calls("beta")] == ["qsub", "qalter"]
    words = [call.split()[:2] for call in place.calls(" q")]
    assert words.index(["alpha", "qalter"]) < words.index(["beta", "qsub"])


def test_a_job_deleted_during_its_submission_is_never_released(place: Place) -> None:
    qsub = place.folder / "bin/qsub"
    dead = f"{place.task().private}/dead"
    qsub.write_text(CLIENT.replace("\n", f"\n: >{dead}\n", 1))

    answer = place.step()

    assert answer == "signal 9"
    assert place.calls("qalter -N") == []
    assert (len(place.calls("qdel")), place.away()) == (1, None)


def test_a_step_killed_before_the_guard_note_guards_again(place: Place) -> None:
    place.step()
    place.forget("guarded")

    place.step()

    assert place.calls("alpha qalter") == [f"alpha qalter {DEFER}"] * 2
    assert (place.folder / "alpha/7").read_text() == "r\n"


def test_no_job_is_submitted_while_home_does_not_answer(place: Place) -> None:
    place.down("alpha")

    with pytest.raises(errors.GridbridgeError):
        place.step()

    assert place.calls("beta") == []


@pytest.mark.parametrize(
    ("asks", "task", "guard", "calls"),
    [
        ("", "undefined", "start", [DEFER]),
        ("", "3", "hold", ["-h u 7.3"]),
        (REMOTE, "undefined", "none", []),
        (REMOTE, "3", "none", []),
        (QUEUE.format("transfer-beta"), "3", "none", []),
        (QUEUE.format("all.q"), "undefined", "start", [DEFER]),
        (f"{QUEUE.format('transfer-beta')}{NOTE.format('gridbridge_queues', '*')}", "3", "hold", ["-h u 7.3"]),
    ],
    ids=["a job", "a task", "to leave", "a task to leave", "by queue", "or here", "pinned just now"],
)
def test_a_task_that_could_start_at_home_is_guarded(
    place: Place, asks: str, task: str, guard: str, calls: list[str]
) -> None:
    place.asks(asks)
    (place.folder / "alpha/7.3").write_text("r")

    place.step(SGE_TASK_ID=task)

    assert {message.guard for message in place.sent(TransferMessageKind.RECORD)} == {guard}
    assert place.calls("alpha qalter") == [f"alpha qalter {call}" for call in calls]


@pytest.mark.parametrize(
    ("later", "task", "taken_back"),
    [
        ("", "undefined", []),
        (
            STARTS.format(FAR_S) + NOTE.format("gridbridge_start", OWN_S),
            "undefined",
            ["-a 202601010000.00 -dc gridbridge_start,gridbridge_job 7"],
        ),
        (NOTE.format("gridbridge_hold", "1"), "3", ["-h U 7.3"]),
    ],
    ids=["none", "a start time", "a hold"],
)
def test_a_guard_set_by_the_poller_is_removed_when_the_task_runs_again(
    place: Place, later: str, task: str, taken_back: list[str]
) -> None:
    place.asks(REMOTE)
    (place.folder / "alpha/7.3").write_text("r")
    place.step(SGE_TASK_ID=task)
    place.asks(later)
    name = TRANSFER.replace(".0.1", ".3.1") if task == "3" else TRANSFER
    place.decide(name, outcome="exit", exit_status="99")

    assert place.step(SGE_TASK_ID=task) == "exit 99"
    assert place.calls("alpha qalter") == [f"alpha qalter {call}" for call in taken_back]


def test_a_job_that_returns_home_keeps_its_requested_start_time(place: Place) -> None:
    place.asks(STARTS.format(OWN_S))
    place.step()
    place.decide(outcome="exit", exit_status="99")

    assert place.step() == "exit 99"
    assert place.calls("alpha qalter") == [
        f"alpha qalter -a 203501010000.00 -ac gridbridge_start={OWN_S} -ac gridbridge_job=7 7",
        "alpha qalter -a 202601010000.00 -dc gridbridge_start,gridbridge_job 7",
    ]


def test_a_rescheduled_task_adopts_the_job_sent_from_another_transfer_queue(place: Place) -> None:
    place.asks(QUEUE.format("transfer-beta,transfer-delta"))
    place.leads("transfer-delta", "delta")
    again = {"RESTARTED": "1", "QUEUE": "transfer-delta"}
    place.step(**again)
    [asked] = place.sent(TransferMessageKind.ASK)
    place.answer(asked.wake, phase=StarterPhase.SUBMITTING, remote="beta", queue="transfer-beta")

    place.step(**again)

    assert asked.restarted == "yes"
    records = {(one.queue, one.remote, one.phase) for one in place.sent(TransferMessageKind.RECORD)}
    assert records == {("transfer-beta", "beta", each) for each in PHASES}
    assert len(place.calls("beta qstat -s a -u")) == 1
    assert place.calls("delta") == []


def test_a_submission_without_recorded_id_is_found_instead_of_repeated(place: Place) -> None:
    place.step()
    place.change_record(remote_id="", phase=StarterPhase.SUBMITTING)

    place.step()

    found = place.task().read_transfer_note()
    assert found.remote_id == "41"
    assert len(place.calls("qsub")) == 1


def test_a_task_whose_error_was_cleared_asks_for_its_transfer_after_growing_pauses(place: Place) -> None:
    """RESTARTED is 0 after `qmod -cj`, and the name of the first transfer is used up."""
    history = place.folder / "published/jobs/7.json"
    history.parent.mkdir()
    history.touch()

    answers = [place.step().split() for _ in range(6)]

    pauses_s = [int(answer[1]) for answer in answers]
    assert {answer[0] for answer in answers} == {"again"}
    assert pauses_s[0] <= 6
    assert pauses_s[-1] > 30
    assert [message.transfer for message in place.sent(TransferMessageKind.ASK)] == ["gb.alpha.7.0.0"] * 6
    assert place.away() is None


def test_records_and_questions_hold_the_submission_time_of_the_local_job(place: Place) -> None:
    place.asks("<JB_submission_time>1795212523</JB_submission_time>")
    place.step()
    (place.folder / "tmp/.gridbridge/record").unlink()

    place.step(RESTARTED="1")

    assert {one.submitted for one in place.sent(TransferMessageKind.RECORD)} == {"1795212523"}
    assert {one.submitted for one in place.sent(TransferMessageKind.ASK)} == {"1795212523"}


def test_retry_pauses_of_starters_are_random(place: Place) -> None:
    pauses_s = [int(retry_step_later(place.task(), TransferMessage()).split()[1]) for _ in range(40)][-30:]

    assert len(set(pauses_s)) > 1
    assert 30 < min(pauses_s) <= max(pauses_s) <= 61


def test_a_starter_that_waited_long_resends_its_record_without_a_remote_query(place: Place) -> None:
    place.step()
    place.task().note_intent(DesiredLocalJobState.RUNNING)
    place.step()
    told, asked = len(place.sent(TransferMessageKind.RECORD)), len(place.calls("beta"))

    fifo = place.folder / "spool/wake" / place.sent(TransferMessageKind.RECORD)[0].wake
    fifo.unlink()
    answer = place.step(noted="look")

    assert answer.startswith("wait 60 ")
    assert fifo.is_fifo()
    assert len(place.sent(TransferMessageKind.RECORD)) == told + 1
    assert len(place.calls("beta")) == asked


def test_an_intent_during_a_resent_record_is_handled_by_the_next_step(place: Place) -> None:
    place.step()
    place.start_away()
    place.task().note_intent(DesiredLocalJobState.SUSPENDED)

    place.step(noted="look")
    place.step()

    assert place.away() == "hs"


def test_a_job_in_a_queue_without_route_ends_in_error_state(place: Place) -> None:
    (place.folder / "published/queues/transfer-beta").unlink()

    with pytest.raises(errors.UnconfiguredTransferQueue) as refused:
        place.step()
    answer = end_job_without_route(place.task(), refused.value)

    assert answer == "exit 100"
    told = (place.folder / "active/error").read_text()
    assert told == "gridbridge: queue transfer-beta leads to no cluster; expected a section [queue.transfer-beta]\n"


@pytest.mark.parametrize(
    ("is_newer", "has_route", "waited_s", "answer"),
    [
        (True, False, 0, "again"),
        (True, False, EARLY_S + 1, "exit"),
        (False, False, 0, "exit"),
        (False, True, 0, "again"),
    ],
    ids=["not taken yet", "never taken", "taken without the queue", "taken meanwhile"],
)
def test_a_job_in_a_new_queue_waits_a_limited_time_for_its_route(
    place: Place, is_newer: bool, has_route: bool, waited_s: int, answer: str
) -> None:
    """A new queue may open before the poller reads the new configuration."""
    taken, file = place.folder / "published/service.json", place.folder / "gridbridge.toml"
    file.touch()
    taken.touch()
    taken_at = file.stat().st_ctime + (-1 if is_newer else 1)
    os.utime(taken, (taken_at, taken_at))
    if not has_route:
        (place.folder / "published/queues/transfer-beta").unlink()
    began = place.folder / "tmp/.gridbridge/early"
    began.write_text(f"{time.clock_gettime(time.CLOCK_BOOTTIME) - waited_s:.0f}")

    told = end_job_without_route(place.task(), errors.UnconfiguredTransferQueue("nowhere"), str(file))

    assert told.split()[0] == answer


def test_a_submitted_job_waits_for_its_route(place: Place) -> None:
    place.step()
    (place.folder / "published/queues/transfer-beta").unlink()

    with pytest.raises(errors.UnconfiguredTransferQueue) as refused:
        place.step()

    assert end_job_without_route(place.task(), refused.value).startswith("again ")


def write_mapping(place: Place, rules: str) -> None:
    path = place.folder / "published/mappings/transfer-beta"
    path.parent.mkdir()
    path.write_text(rules)
    route = place.folder / "published/queues/transfer-beta"
    route.write_text(f"{route.read_text()}remote_mapped=yes\n")


def test_a_job_is_submitted_only_to_the_cluster_in_its_record(place: Place) -> None:
    place.down("beta")
    with pytest.raises(errors.TemporaryJobRefusal):
        place.step()
    place.leads("transfer-beta", "delta")
    place.down("beta", is_down=False)

    with pytest.raises(errors.GridbridgeError) as told:
        place.step()

    assert str(told.value) == "queue transfer-beta now leads to delta; expected beta"
    assert place.away() is None


def test_a_submission_uses_the_mapped_request(place: Place) -> None:
    place.limits(job="1:0:0")
    rules = ("h_rt/to=walltime", "h_rt/unit=s", "mem/default=2G")
    write_mapping(place, "".join(f"resource/{rule}\n" for rule in rules))
    place.step()

    [submission] = place.calls("qsub")
    assert submission.endswith(" -hard -l walltime=3600 -hard -l mem=2G")


def test_a_job_that_no_cluster_can_run_ends_in_error_state(place: Place) -> None:
    write_mapping(place, "resource/h_rt/reject=no limits there\n")
    place.unable()
    answer = place.step()

    assert (answer, place.calls("beta qsub")) == ("exit 100", [])
    error = (place.folder / "active/error").read_text()
    reason = "beta has no h_rt: no limits there; no local queue can run the job either"
    assert error == f"gridbridge: {reason}\n"
    assert [closed.outcome for closed in place.sent(TransferMessageKind.CLOSED)] == ["error"]


def test_a_job_that_the_mapping_rejects_returns_home_with_a_mark(place: Place) -> None:
    place.limits(job="1:0:0")
    write_mapping(place, "resource/h_rt/reject=no limits there\n")
    answer = place.step()

    assert (answer, place.calls("beta qsub")) == ("exit 99", [])
    mark = "-hard -l h_rt=1:0:0 -hard -l remote=false -ac gridbridge_refused=beta has no h_rt"
    assert place.calls("alpha qalter")[1:] == [f"alpha qalter {mark}: no limits there 7", f"alpha qalter {UNDEFER}"]
    assert [closed.outcome for closed in place.sent(TransferMessageKind.CLOSED)] == ["requeue"]


@pytest.fixture
def shut(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    def refuse(*_: object, **__: object) -> None:
        raise errors.SshLoginRefused(("ssh",), 255, stderr=b"far does not let the key of alice in")

    for name in ("submit_held_job", "find_held_job"):
        monkeypatch.setattr(f"gridbridge.batch.gridengine.job_submission_and_control.{name}", refuse)
    return place


def was_shut_out(place: Place, seconds_ago: float) -> None:
    """Set the time of the first refused login."""
    at_s = time.clock_gettime(time.CLOCK_BOOTTIME) - seconds_ago
    (place.folder / "tmp/.gridbridge" / FIRST_REJECTED_LOGIN_NOTE).write_text(str(at_s))


@pytest.mark.parametrize(
    ("tries", "seconds", "answers"),
    [(2, 660, ["again"] * 2), (3, 660, ["again", "again", "exit"]), (3, 540, ["again"] * 3), (9, None, ["again"] * 9)],
    ids=["too seldom", "often and long enough", "too short a time", "just now"],
)
def test_a_login_refused_three_times_in_over_ten_minutes_returns_the_job_home(
    shut: Place, tries: int, seconds: float | None, answers: list[str]
) -> None:
    if seconds:
        was_shut_out(shut, seconds)
    taken = [run_next_starter_step(shut.task(), "", ("true",)) for _ in range(tries)]

    homes = answers.count("exit")
    assert [answer.split()[0] for answer in taken] == answers
    assert [one.cause for one in shut.sent(TransferMessageKind.CLOSED)] == [TransferFailureCause.BARRED] * homes
    assert len(shut.calls("alpha qalter -hard")) == homes


@pytest.mark.parametrize("account", ["gb.omega.3.0.1", "gc.omega.12.4"], ids=["job", "campaign"])
def test_a_job_that_came_from_another_cluster_is_not_transferred_again(place: Place, account: str) -> None:
    answer = run_next_starter_step(place.task(SGE_ACCOUNT=account), "", ("true",))

    assert (answer, place.calls("beta qsub")) == ("exit 99", [])
    [closed] = place.sent(TransferMessageKind.CLOSED)
    assert closed.reason == "this job came from another cluster, and no job is transferred twice"


@pytest.mark.parametrize(("rules", "why"), [("", "the poller publishes this file"), ("what is this\n", "no key=value")])
def test_a_missing_or_invalid_mapping_file_delays_the_submission(place: Place, rules: str, why: str) -> None:
    write_mapping(place, rules)
    if not rules:
        (place.folder / "published/mappings/transfer-beta").unlink()

    with pytest.raises((errors.GridbridgeError, errors.ParseError), match=why):
        place.step()
    assert place.calls("qsub") == []


def test_a_long_note_is_cut_to_fit_into_the_record(place: Place) -> None:
    detail = place.folder / "alpha/detail"
    soft = "<JB_soft_resource_list><CE_name>gpu</CE_name><CE_stringval>{}</CE_stringval>"
    detail.write_text(f"{detail.read_text()}{soft.format('x' * 5000)}</JB_soft_resource_list>\n")
    write_mapping(place, "resource/gpu/reject=none there\n")
    place.step()

    told = place.sent(TransferMessageKind.RECORD)
    assert {one.reason[:30] for one in told if one.remote_id} == {"soft request gpu=" + "x" * 13}
    assert place.step().startswith("wait")


def test_a_published_job_end_ends_the_starter_even_after_the_poller_removed_it(place: Place) -> None:
    place.step()
    place.decide(outcome="exit", exit_status="7")
    answer = place.step()
    place.retract()

    assert (answer, place.step()) == ("exit 7", "exit 7")
    assert {message.exit_status for message in place.sent(TransferMessageKind.CLOSED)} == {"7"}


def test_the_notify_signal_of_a_deletion_deletes_the_remote_job_and_waits_for_its_end(place: Place) -> None:
    place.step()
    place.start_away()
    place.home("dr")

    assert place.step(noted=DesiredLocalJobState.DEAD).startswith("wait")
    assert place.away() is None
    place.decide(outcome="signal", signal="12")
    assert place.step() == "signal 12"
    assert [closed.desired for closed in place.sent(TransferMessageKind.CLOSED)] == [DesiredLocalJobState.DEAD]


@pytest.mark.parametrize(("letters", "answer"), [("Rr", "exit 99"), ("dRr", "signal 12")])
def test_the_end_by_a_warning_signal_is_no_end_of_a_rescheduled_task(place: Place, letters: str, answer: str) -> None:
    place.step()
    place.start_away()
    place.home(letters)

    place.step(noted=DesiredLocalJobState.DEAD)
    place.decide(outcome="signal", signal="12")

    assert place.step() == answer


@pytest.mark.parametrize(
    ("home", "noted", "letters", "expected"),
    [("s", DesiredLocalJobState.SUSPENDED, "r", "hs"), ("r", "", "S", "hs"), ("r", "", "", None)],
    ids=["by a notify signal", "in a suspended queue", "unlisted"],
)
def test_a_suspended_local_job_suspends_its_listed_remote_job(
    place: Place, home: str, noted: str, letters: str, expected: str | None
) -> None:
    place.step()
    place.home(home)
    (place.folder / "beta/41").write_text(letters) if letters else (place.folder / "beta/41").unlink()
    if not noted:
        place.task().note_intent(DesiredLocalJobState.SUSPENDED)

    assert place.step(noted=noted).startswith("wait")
    assert place.away() == expected


@pytest.mark.parametrize("noted", [DesiredLocalJobState.SUSPENDED, DesiredLocalJobState.DEAD])
def test_the_warning_signal_of_a_time_limit_is_ignored(place: Place, noted: str) -> None:
    """The signal is USR1 of s_rt, or USR2 before the kill by h_rt."""
    place.limits(job="100")
    place.step()
    place.start_away()
    place.ran_for(110)

    place.step(noted=noted)

    assert place.away() == "r"


@pytest.mark.parametrize("is_killed", [True, False], ids=["its limits kill the clients", "the cell does not answer"])
def test_only_a_job_whose_limits_kill_the_client_programs_ends_in_error_state(place: Place, is_killed: bool) -> None:
    """Grid Engine applies h_vmem to programs of the starter, too."""
    place.down("alpha")
    for name in ("qalter", "qstat") if is_killed else ():
        (place.folder / "bin" / name).write_text("#!/bin/sh\nkill -9 $$\n")

    tries = range(MOST_CLIENT_PROGRAM_FAILURES + 1)
    answers = [run_next_starter_step(place.task(), "", ("script",)).split()[0] for _ in tries]

    assert answers == ["again"] * MOST_CLIENT_PROGRAM_FAILURES + ["exit" if is_killed else "again"]
    assert not is_killed or "h_vmem" in (place.folder / "active" / "error").read_text()


def test_the_reason_for_a_delayed_submission_is_reported_once_and_cleared(place: Place) -> None:
    place.down("beta")
    for _ in range(4):
        run_next_starter_step(place.task(), "", ("true",))
    told = [each.reason for each in place.sent(TransferMessageKind.RECORD) if each.reason]
    place.down("beta", False)
    place.step()

    assert sorted(told) == [
        "tried in vain: error: unable to contact qmaster",  # qsub's
        "tried in vain: qstat: error: unable to contact qmaster",  # the search for what it left
    ]
    assert [each.reason for each in [place.task().read_transfer_note()] if each] == [""]


def test_a_new_failure_cause_is_reported_even_with_the_same_text(place: Place) -> None:
    place.step()
    for cause in (TransferFailureCause.HERE, TransferFailureCause.HERE, TransferFailureCause.UNREACHED):
        place.task().report_retry_reason("no answer", cause)

    told = sorted((one.at, one.cause) for one in place.sent(TransferMessageKind.RECORD) if one.cause)
    assert [cause for _, cause in told] == [TransferFailureCause.HERE, TransferFailureCause.UNREACHED]


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        (None, ""),
        (NonForwardingQueues(queues="all.q", all_say="yes"), "-hard -l h_rt=INFINITY -hard -l remote=false"),
        (NonForwardingQueues(queues="all.q,big.q"), "-q all.q,big.q -hard -l h_rt=INFINITY"),
    ],
    ids=["no queue back", "all say so", "some do"],
)
def test_a_submission_excludes_remote_transfer_queues(
    place: Place, queues: NonForwardingQueues | None, expected: str
) -> None:
    if queues:
        (place.folder / "published/stays").mkdir()
        (place.folder / "published/stays/beta").write_bytes(encode_non_forwarding_queues(queues))

    place.step()

    [submission] = place.calls("beta qsub")
    assert expected in submission if expected else "remote" not in submission
