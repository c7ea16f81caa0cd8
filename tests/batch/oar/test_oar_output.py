"""Tests of jobs and nodes as printed by OAR 2.5.9, and of job ends and snapshots."""

import json
from itertools import permutations
from typing import cast

import pytest

from gridbridge.batch.oar import oar_output_parser, oar_programs, status
from gridbridge.batch.oar.oar_command_line_builders import BREAK, WHOLE
from gridbridge.decisions.campaigns.task_attempt_outcomes import classify_job_end
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell.program_runs import CompletedProgram

EVENTS = ("FRAG_JOB_REQUEST", "WALLTIME", "SEND_KILL_JOB", "SWITCH_INTO_ERROR_STATE")
RESUBMITTED = ("CPUSET_ERROR", "RESUBMIT_JOB_AUTOMATICALLY")


def say(monkeypatch: pytest.MonkeyPatch, output: bytes, error: bytes = b"") -> None:
    """Let OAR's programs print this."""
    done = CompletedProgram(argv=("oarstat",), status=0, stdout=output, stderr=error)
    monkeypatch.setattr(oar_programs, "run_client", lambda *_, **__: done)


def shown(*events: str, **values: object) -> dict[str, object]:
    listed = [
        {"event_id": number, "type": kind, "description": f"about {kind}\n", "date": 1795205656}
        for number, kind in enumerate(events, 8)  # event ids have one or two digits
    ]
    usual: dict[str, object] = {
        "Job_Id": 13,
        "name": "gb.alpha.12.0.1",
        "owner": "al_gamma",
        "project": "gb.alpha.12.0.1",
        "queue": "default",
        "state": "Running",
        "message": "R=1,W=2:0:0,J=B",
        "submissionTime": 1795205634,
        "startTime": 1795205636,
        "exit_code": None,
        "assigned_resources": [3],
        "assigned_network_address": ["gamma-n2"],
        "events": listed[::-1],
    }
    return usual | values


def job(*events: str, **values: object) -> oar_output_parser.OarJob:
    return oar_output_parser.OarJob(shown(*events, **values))


def answer(*jobs: dict[str, object]) -> bytes:
    return json.dumps({str(one["Job_Id"]): one for one in jobs}).encode()


def test_jobs_are_ordered_by_job_id_and_empty_oarstat_output_means_no_jobs() -> None:
    told = (b"", b"\n", b"{}", answer(shown(Job_Id=100), shown(Job_Id=20)))

    found = [[job.id for job in oar_output_parser.parse_oarstat_jobs(text)] for text in told]
    assert found == [[], [], [], ["20", "100"]]


@pytest.mark.parametrize(
    "half",
    [b"{", answer(shown())[:-1], b"[]", b'{"13": 1}', b'{"13": {"Job_Id": 13}}', b"\xff", answer(shown(Job_Id="7x"))],
)
def test_malformed_oarstat_output_is_refused(half: bytes) -> None:
    with pytest.raises(ParseError):
        oar_output_parser.parse_oarstat_jobs(half)


@pytest.mark.parametrize(
    ("state", "events", "letters"),
    [
        ("Waiting", (), "qw"),
        ("Hold", (), "hqw"),
        ("toLaunch", (), "t"),
        ("Running", (), "r"),
        ("Finishing", (), "r"),
        ("Running", ("SIGNAL_TSTP", "SIG_SUCCESS"), "s"),
        ("Running", ("SIGNAL_TSTP", "SIGNAL_CONT"), "r"),
        ("Running", ("SIGNAL_TSTP", "SIGNAL_CONT", "SIGNAL_TSTP"), "s"),
        ("Running", ("SIGNAL_12",), "r"),
        ("Suspended", (), "s"),
        ("Running", ("FRAG_JOB_REQUEST",), "dr"),
        ("Hold", ("FRAG_JOB_REQUEST",), "dhqw"),
        ("toError", ("FRAG_JOB_REQUEST",), "dr"),
        ("Terminated", ("SIGNAL_TSTP",), ""),
        ("Error", ("FRAG_JOB_REQUEST",), ""),
        ("Hibernating", (), "Hibernating"),
    ],
)
def test_oar_states_and_events_become_state_letters(state: str, events: tuple[str, ...], letters: str) -> None:
    assert job(*events, state=state).job_state.text == letters


@pytest.mark.parametrize(
    ("events", "is_new"),
    [((), True), (("RESUME_JOB", "HOLD_WAITING_JOB"), False), (("FRAG_JOB_REQUEST",), False)],
    ids=["submitted", "held again", "deleted"],
)
def test_a_held_job_is_new_until_it_is_released_or_deleted(events: tuple[str, ...], is_new: bool) -> None:
    assert job(*events, state="Hold").is_held_since_submission == is_new


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, JobEnd(exit_status=0, host="gamma-n2")),
        (768, JobEnd(exit_status=3, host="gamma-n2")),
        (35072, JobEnd(exit_status=137, host="gamma-n2")),
        (15, JobEnd(signal=15, reason="signal 15", host="gamma-n2")),
        (139, JobEnd(signal=11, reason="signal 11", host="gamma-n2")),
    ],
    ids=["0", "3", "137", "TERM", "SEGV and a core"],
)
def test_an_exit_code_is_decoded_as_a_wait_status(code: int, expected: JobEnd) -> None:
    assert status._job_end_with_usage(job(state="Terminated", exit_code=code)) == expected


@pytest.mark.parametrize(
    ("started", "stopped", "expected"),
    [(100, 107, 7.0), (100, 100, 0.0), (0, 107, None), (100, 0, None)],
    ids=["ran", "within a second", "never started", "not noted"],
)
def test_wallclock_time_is_computed_from_start_and_stop(started: int, stopped: int, expected: float | None) -> None:
    end = status._job_end_with_usage(job(state="Terminated", exit_code=0, startTime=started, stopTime=stopped))

    assert (end.wallclock_s, end.user_s, end.system_s) == (expected, None, None)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (b"bob 7 7\nal_gamma 1.5 0.25\n", (1.5, 0.25)),
        (b"al_gamma x 0.25\n bob\n\n\xff", (None, None)),
        (b"bob 7 7\n", (None, None)),
        (b"", (None, None)),
    ],
    ids=["its owner", "nonsense", "another", "nobody"],
)
def test_only_usage_recorded_by_the_jobs_owner_counts(
    monkeypatch: pytest.MonkeyPatch, told: bytes, expected: tuple[float | None, float | None]
) -> None:
    ended = shown(state="Terminated", exit_code=0, owner="al_gamma")
    say(monkeypatch, answer(ended) + BREAK + told)
    server = OarServerAccessSettings(timeout_s=15, ends="/tmp/gridbridge.gb/ends")
    end = status.query_job_end(server, 13, str(ended["name"]))

    assert (end.exit_status, end.user_s, end.system_s) == (0, *expected)


@pytest.mark.parametrize(
    ("events", "started", "expected"),
    [
        (EVENTS, 1, (None, 9, "WALLTIME", False, False)),
        (EVENTS[:1], 1, (None, 9, "FRAG_JOB_REQUEST", False, False)),
        (("EXTERMINATE_JOB", *EVENTS), 1, (None, None, "EXTERMINATE_JOB", False, False)),
        (("EXTERMINATE_JOB",), 0, (None, None, "EXTERMINATE_JOB", False, True)),
        (("BESTEFFORT_KILL", EVENTS[0]), 1, (None, None, "BESTEFFORT_KILL", True, False)),
        (("BESTEFFORT_KILL",), 0, (None, None, "BESTEFFORT_KILL", True, True)),
        (("WORKING_DIRECTORY",), 0, (200, None, "WORKING_DIRECTORY", False, False)),
        (RESUBMITTED, 0, (None, None, "RESUBMIT_JOB_AUTOMATICALLY", False, True)),
        (("CPUSET_ERROR",), 1, (None, None, "CPUSET_ERROR", False, False)),
        (("CPUSET_ERROR",), 0, (None, None, "CPUSET_ERROR", False, True)),
        ((), 1, (None, None, "Error", False, False)),
    ],
    ids=[
        *("walltime", "deleted", "lost", "lost unstarted", "preempted", "preempted unstarted"),
        *("directory", "resubmitted", "node", "node unstarted", "silent"),
    ],
)
def test_events_determine_the_end_of_a_job_without_exit_code(
    events: tuple[str, ...], started: int, expected: tuple[int | None, int | None, str, bool, bool]
) -> None:
    end = status._job_end_with_usage(job(*events, state="Error", startTime=started))

    reason = end.reason.partition(": about ")[0]
    assert (end.exit_status, end.signal, reason, end.is_preempted, end.is_unstarted) == expected


def test_a_job_deleted_before_its_start_has_no_end() -> None:
    assert status._job_end_with_usage(job("FRAG_JOB_REQUEST", state="Error", startTime=0)) is None


@pytest.mark.parametrize(
    ("events", "code", "reason", "outcome"),
    [
        (EVENTS, None, "WALLTIME", TaskAttemptOutcome.WALLTIME),
        (EVENTS, 9, "WALLTIME", TaskAttemptOutcome.WALLTIME),
        (EVENTS[:1], 9, EVENTS[0], TaskAttemptOutcome.CANCELLED),
        (("BESTEFFORT_KILL", *EVENTS[::2]), 9, "BESTEFFORT_KILL", TaskAttemptOutcome.PREEMPTED),
        (("BESTEFFORT_KILL", RESUBMITTED[1], EVENTS[0]), 9, "BESTEFFORT_KILL", TaskAttemptOutcome.PREEMPTED),
        (("EXTERMINATE_JOB", *EVENTS[:3]), None, "EXTERMINATE_JOB", TaskAttemptOutcome.SITE_FAULT),
        (RESUBMITTED, None, RESUBMITTED[1], TaskAttemptOutcome.SITE_FAULT),
        (("SWITCH_INTO_TERMINATE_STATE", "SEND_KILL_JOB"), 66 << 8, "", TaskAttemptOutcome.RESUBMIT),
    ],
    ids=["walltime", "signal", "deleted", "preempted", "preempted and resubmitted", "lost", "resubmitted", "asked"],
)
def test_the_order_of_events_does_not_change_reason_and_outcome(
    events: tuple[str, ...], code: int | None, reason: str, outcome: TaskAttemptOutcome
) -> None:
    """OAR returns a job's events in any order."""
    values = shown(*events, state="Error", exit_code=code, startTime=1)
    for order in permutations(cast("list[object]", values["events"])):
        end = status._job_end_with_usage(oar_output_parser.OarJob(values | {"events": list(order)}))
        assert (end.reason.partition(": about ")[0], classify_job_end(end, 3600)) == (reason, outcome)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (9, (None, None, "BESTEFFORT_KILL: about BESTEFFORT_KILL", True)),
        (15, (None, None, "BESTEFFORT_KILL: about BESTEFFORT_KILL", True)),
        (3 << 8, (3, None, "", False)),
    ],
    ids=["killed", "terminated", "just ended"],
)
def test_a_preempted_job_ends_unseen_unless_it_has_an_exit_status(code: int, expected: tuple[object, ...]) -> None:
    end = status._job_end_with_usage(job("BESTEFFORT_KILL", EVENTS[0], state="Terminated", exit_code=code))

    assert (end.exit_status, end.signal, end.reason, end.is_end_unknown) == expected


def snapshot(monkeypatch: pytest.MonkeyPatch, answer: bytes, *wanted: int) -> ClusterSnapshot:
    say(monkeypatch, answer)
    return status.query_cluster_snapshot(OarServerAccessSettings(timeout_s=15), "gamma", {*wanted})[0]


def test_jobs_resubmitted_by_oar_are_listed_as_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        shown(),
        shown(Job_Id=14, state="Waiting", resubmit_job_id=13),
        shown(Job_Id=15, state="Hold", resubmit_job_id=14),
        shown(Job_Id=16, state="Waiting", resubmit_job_id=2, name="theirs"),
    ]

    seen = snapshot(monkeypatch, status_of([resource(1, "n1")], jobs[1:], jobs[:1]), 13)

    assert sorted(seen.jobs) == [13]
    assert [one.job_id for one in seen.copies] == [14, 15]


HALTED = 2147483646  # available_upto of a node that OAR may halt and wake at any time
NEVER = 2147483647
NOW = 1_795_000_000.0


def resource(number: int, host: str, **values: object) -> dict[str, object]:
    usual = {"resource_id": number, "network_address": host, "state": "Alive", "drain": "NO"}
    return usual | {"next_state": "UnChanged", "type": "default", "available_upto": NEVER} | values


def nodes(*resources: dict[str, object]) -> bytes:
    return json.dumps({str(one["resource_id"]): one for one in resources}).encode()


def line(job: int, letter: str, queue: str = "default", name: str = "solve") -> str:
    return f"{job:<10} {name:14.14} {'bob':14} 2026-11-28 18:00:00 {letter} {queue:10.10}"


def status_of(
    resources: list[dict[str, object]],
    waiting: list[dict[str, object]] | None = None,
    others: list[dict[str, object]] | None = None,
    lines: tuple[str, ...] = (),
) -> bytes:
    listed = "".join(f"{one}\n" for one in lines).encode()
    parts = nodes(*resources), answer(*(waiting or ())), answer(*(others or ())), listed
    return BREAK.join(parts) + WHOLE


def queues_of(told: bytes) -> list[tuple[str, str, int, int, int]]:
    """Return host, state letters, and used, all and free slots of each queue instance."""
    queues = status._queue_instances_of_nodes(oar_output_parser.parse_oar_resources(told), (), NOW)
    return [(row.host_name, row.state.text, row.slots_used, row.slots_total, row.free_slots) for row in queues]


@pytest.mark.parametrize(
    ("values", "letters", "free", "is_offered"),
    [
        ({}, "", 1, True),
        ({"state": "Suspected"}, "u", 0, True),
        ({"drain": "YES"}, "d", 0, False),
        ({"state": "Absent", "available_upto": HALTED}, "", 1, True),
        ({"state": "Absent", "available_upto": int(NOW) - 1}, "u", 0, False),
        ({"state": "Absent", "available_upto": 0}, "u", 0, False),
        ({"state": "Absent"}, "u", 0, False),
        ({"state": "Dead", "available_upto": HALTED}, "u", 0, False),
    ],
)
def test_free_slots_and_offered_name_of_a_node_follow_its_state(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, object], letters: str, free: int, is_offered: bool
) -> None:
    """A halted node is free, because OAR wakes the node for a job."""
    told = nodes(resource(1, "n1", **values), resource(2, "n2", type="licence"))
    say(monkeypatch, told)

    assert queues_of(told) == [("n1", letters, 0, 1, free)]
    assert status.query_requestable_names(OarServerAccessSettings(timeout_s=5)).node == (
        {"n1"} if is_offered else set()
    )


def test_only_living_resources_of_a_node_count() -> None:
    dead = (resource(2, "n1", state="Dead", jobs="14"), resource(3, "n1", state="Suspected"))
    alive = (resource(1, "n1", jobs="13"), *dead, resource(4, "n1"), resource(5, "n1", type="licence"))
    gone = (resource(6, "n2", state="Dead"), resource(7, "n2", state="Absent"))

    assert queues_of(nodes(*alive, *gone)) == [("n1", "", 1, 2, 1), ("n2", "u", 0, 2, 0)]


def test_best_effort_slots_are_free_for_other_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [resource(number, "n1", jobs=jobs) for number, jobs in enumerate(("1", "2", "2, 6"), 1)]
    slots.append(resource(4, "n1"))
    lines = (line(2, "R", "besteffort"), line(6, "L", "besteffort"), line(3, "W"))

    seen = snapshot(monkeypatch, status_of(slots, lines=lines))

    assert (seen.free_slots, seen.besteffort_slots, seen.pending) == (3, 1, 1)


def test_a_job_that_starts_between_two_queries_counts_as_running(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = shown(state="Waiting", assigned_resources=[], events=None, exit_code=None)
    brief = {name: value for name, value in waits.items() if name not in ("events", "exit_code")}

    seen = snapshot(monkeypatch, status_of([resource(1, "n1")], [brief], [shown()]), 13)

    assert [one.state.text for one in seen.jobs[13]] == ["r"]


def test_a_line_feed_in_a_job_name_forges_no_job() -> None:
    forged = line(7, "R", "besteffort", name="x\n123 y".ljust(14))
    header = f"{'Job id':10} {'Name':14} {'User':14} {'Submission Date':19} S {'Queue':10}"
    rule = " ".join("-" * width for width in (10, 14, 14, 19, 1, 10))
    told = "\n".join((header, rule, forged, line(8, "W"))).encode()

    assert [(one.id, one.is_waiting) for one in oar_output_parser.parse_oarstat_lines(told)] == [("8", True)]


def test_a_failed_database_query_is_a_parse_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program oarstat then exits with 0 and prints the driver's message to stderr."""
    said = b"DBD::Pg::st execute failed: ERROR:  relation does not exist"
    say(monkeypatch, status_of([resource(1, "n1")]), said)

    with pytest.raises(ParseError, match="execute failed"):
        status.query_cluster_snapshot(OarServerAccessSettings(timeout_s=15), "gamma", ())


@pytest.mark.parametrize("cut", [b"", nodes(), nodes() + BREAK, nodes() + BREAK + answer(shown())])
def test_a_truncated_combined_answer_is_refused(cut: bytes) -> None:
    with pytest.raises(ParseError):
        oar_output_parser.split_combined_oar_answer(cut)


def test_property_names_of_all_resources_are_returned() -> None:
    needed: dict[str, object] = {"resource_id": 1, "network_address": "n1", "state": "Alive", "type": "default"}
    resources = [oar_output_parser.OarResource(needed | more) for more in ({"MemNode": 1}, {"gpu": None})]

    assert oar_output_parser.oar_property_names(resources) == {*needed, "memnode", "gpu"}
    with pytest.raises(ParseError, match="no resource"):
        oar_output_parser.oar_property_names([])
