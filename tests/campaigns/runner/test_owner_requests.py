"""Owners close events of their campaigns and retry the tasks that an event counts."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gridbridge.campaigns.runner import owner_requests
from gridbridge.campaigns.runner.array_commands_as_owner import RootCampaignRefusal
from gridbridge.campaigns.runner.campaign_notifications import SubscriptionRequestHandler
from gridbridge.campaigns.runner.owner_requests import OF_EVENTS, TAKEN_UP_AT_ONCE, CampaignOwnerRequestHandler
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_file_verification import CampaignFileRegister
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.model.campaigns.campaign import CampaignState, WaitingTaskRange
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome as Outcome
from gridbridge.model.campaigns.campaign_cycle_plan import TaskRetry
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventSubject, CampaignSuccessAtCluster
from gridbridge.model.campaigns.campaign_events import CampaignEventCode as Code
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequest
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply as Reply
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb as Verb
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.shell import program_runs
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import NOON, made_campaign, made_situation, site_fixture

ALICE, BOB, ROOT = 41000, 41001, 0
CLUSTERS = {name: JdlSettingsAtCluster(exec_file="run") for name in ("beta", "gamma")}
AS_OWNER = {  # replies to root, for an unfinished campaign
    Verb.RESUME: Reply.NOT_PAUSED,
    Verb.PURGE: Reply.NOT_ENDED,
    Verb.CANCEL_TASK: Reply.TASK_ENDED,
    Verb.ABANDON: Reply.NOT_CANCELLED,
}


class Site:
    """A state file with alice's campaign of five tasks; two tasks failed with exit status 3 at beta."""

    def __init__(self, folder: Path, type_: CampaignType = CampaignType.DEFAULT) -> None:
        self.database = StateFile.open(f"sqlite:///{folder}/state.db")
        self.campaigns = CampaignRows(self.database)
        self.events = EventAndSuccessRecordRows(self.database)
        self.tries = TaskAttemptRows(self.database, self.campaigns)
        self.taken_up: list[tuple[int, str]] = []
        self.refuses = False  # whether root refuses to reopen a campaign
        self.begun: list[list[int]] = []
        self.folder = str(folder)
        self.requests = CampaignOwnerRequestHandler(
            self.database, Clock(), self.folder, take_up=self.take_up, begin=lambda n: self.begun.append([*n])
        )
        self.campaigns.insert_campaign(
            made_campaign(uid=ALICE, tasks=5, jdl=Jdl(name="sweep", type=type_, clusters=CLUSTERS)), "token"
        )
        array = self.campaigns.create_array(1, "beta", 4, NOON)
        statuses = (3, 3, 4, 0)
        self.campaigns.record_attempt_ends(
            replace(one, outcome=_outcome(status), exit_status=status)
            for one, status in zip(self.campaigns.unfinished_attempts(array), statuses, strict=True)
        )
        self.campaigns.add_to_task_counts(1, 4, 3)

    def open(self, code: Code, **other: object) -> int:
        known = {"kind": CampaignEventSubject.CAMPAIGN, "campaign": 1, "cluster": "beta"}
        values = {"opened_at": NOON, "last_at": NOON} | known | other
        event = CampaignEvent(code=code, **values)  # type: ignore[arg-type]
        self.events.store_events([event])
        return max(one.number for one in self.events.query_open_events())

    def run(self, outcome: Outcome, status: int | None = None) -> tuple[TaskRetry, ...]:
        """Run the last task at beta to this outcome; return its planned retry."""
        array = self.campaigns.create_array(1, "beta", 1, NOON)
        pending = self.campaigns.unfinished_attempts(array)
        ended = [replace(one, outcome=outcome, exit_status=status) for one in pending]
        self.campaigns.record_attempt_ends(ended)
        found = self.campaigns.find_campaign(1)
        earlier = self.tries.earlier_outcomes(ended)
        seen = made_situation(campaigns=(found,), arrays=(array,), ended=tuple(ended), earlier=earlier)
        return plan_campaign_cycle(seen).again

    def take_up(self, campaign: int, request: str) -> None:
        if self.refuses:
            raise RootCampaignRefusal("nobody asks for that")
        self.taken_up.append((campaign, request))

    def ask(self, verb: Verb, number: int, uid: int = ALICE, token: str = "t") -> Reply:
        asked = CampaignOwnerRequest(token=token, uid=uid, verb=verb, numbers=(number,))
        return self.requests.execute_request(asked)[number]


def _outcome(status: int) -> Outcome:
    return Outcome.PROGRAM_ERROR if status else Outcome.SUCCESS


_site = site_fixture(Site)


def test_only_owner_and_root_close_an_event(site: Site) -> None:
    number = site.open(Code.BLACKLIST)

    answers = [site.ask(Verb.FIX, number, uid, f"{n}") for n, uid in enumerate((BOB, ALICE, ALICE))]

    assert answers == [Reply.NOT_THEIRS, Reply.DONE, Reply.CLOSED]
    assert site.ask(Verb.FIX, site.open(Code.BLACKLIST), ROOT) is Reply.DONE
    assert site.ask(Verb.FIX, 99) is Reply.UNKNOWN
    assert site.events.query_open_events() == ()


@pytest.mark.parametrize("verb", [one for one in CampaignOwnerRequestHandler.VERBS if one not in OF_EVENTS])
def test_only_root_changes_another_users_campaign(site: Site, verb: Verb) -> None:
    assert site.ask(verb, 1, BOB) is Reply.NOT_THEIRS
    assert site.ask(verb, 1, ROOT) is AS_OWNER.get(verb, Reply.DONE)
    assert site.ask(Verb.CANCEL, 2, BOB) is Reply.UNKNOWN


def test_only_root_abandons_a_cancelled_campaign(site: Site) -> None:
    site.ask(Verb.CANCEL, 1, ALICE)

    told = [site.ask(Verb.ABANDON, 1, uid, f"{n}") for n, uid in enumerate((BOB, ALICE))]

    assert told == [Reply.NOT_THEIRS, Reply.NOT_ROOTS]
    assert site.ask(Verb.ABANDON, 1, ROOT, "root") in (Reply.DONE, Reply.CANCELLED)


def test_requests_of_root_are_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    site.ask(Verb.PAUSE, 1, ALICE)
    site.ask(Verb.CANCEL, 1, ROOT)

    assert [one.getMessage() for one in caplog.records] == ["event=by_root verb=cancel numbers=1"]


def test_only_root_closes_an_event_of_a_cluster(site: Site) -> None:
    number = site.open(Code.GET_JOBS, kind=CampaignEventSubject.CLUSTER, campaign=0)

    assert site.ask(Verb.FIX, number) is Reply.NOT_THEIRS
    assert site.ask(Verb.FIX, number, ROOT) is Reply.DONE


@pytest.mark.parametrize(
    ("event", "refused", "accepted"),
    [
        ({"code": Code.DROPPED, "kind": CampaignEventSubject.CLUSTER, "campaign": 0}, ALICE, ROOT),
        ({"code": Code.DISPUTED}, BOB, ALICE),
    ],
    ids=["root, at a removed cluster", "the owner, with disputed ends"],
)
def test_tasks_without_a_reliable_end_are_declared_lost(
    site: Site, event: dict[str, Any], refused: int, accepted: int
) -> None:
    number = site.open(**event)

    assert site.ask(Verb.RESUBMIT, number, refused) is Reply.NOT_THEIRS
    assert site.ask(Verb.RESUBMIT, number, accepted) is Reply.DONE
    (known,) = site.events.query_open_events()
    assert known.until
    assert site.ask(Verb.FIX, number, accepted) is Reply.DONE


def test_closing_a_blacklist_or_sink_event_resets_the_clusters_record(site: Site) -> None:
    record = CampaignSuccessAtCluster(campaign=1, cluster="beta", errors_in_row=5, durations_s=(1, 1))
    site.events.store_success_records([record])

    site.ask(Verb.FIX, site.open(Code.BLACKLIST))
    site.ask(Verb.FIX, site.open(Code.SINK))

    assert site.events.success_records([1]) == (replace(record, errors_in_row=0, is_trusted=True),)


def test_a_retry_does_not_close_the_event_of_a_black_hole(site: Site) -> None:
    number = site.open(Code.SINK)

    assert site.ask(Verb.RESUBMIT, number) is Reply.NOT_AGAIN
    assert [one.number for one in site.events.query_open_events()] == [number]
    assert site.events.list_black_holes() == ((1, "beta"),)


def test_a_black_hole_stays_listed_until_its_owner_closes_its_event(site: Site) -> None:
    number = site.open(Code.SINK)
    site.ask(Verb.CANCEL, 1)
    later = datetime.now(UTC) + timedelta(days=31)
    site.events.delete_old_events(later)

    assert site.events.query_open_events() == ()
    assert site.events.list_black_holes() == ((1, "beta"),)
    assert [one.number for one in site.events.query_events_to_publish(later)] == [number]
    tokens = ("1", "2")
    assert [site.ask(Verb.FIX, number, token=one) for one in tokens] == [Reply.DONE, Reply.CLOSED]
    assert site.events.list_black_holes() == site.events.query_events_to_publish(later) == ()


def test_a_retry_request_repeated_after_a_kill_is_executed_once(site: Site) -> None:
    """The retry is also recorded outside the state file, which may be restored from a backup."""
    number = site.open(Code.EXIT_ERROR, exit_status=3, kind=CampaignEventSubject.TASK, tasks=2)

    answers = [site.ask(Verb.RESUBMIT, number, token=one) for one in ("t", "t", "u")]

    assert answers == [Reply.DONE, Reply.DONE, Reply.CLOSED]
    assert len(site.campaigns.list_unsent_tasks(1)) == 2
    assert [*CampaignFileRegister(site.folder).retry_requests_since(0)] == [(1, "t")]
    assert site.campaigns.has_executed_request("t", 1)


def test_a_large_retry_is_split_over_several_cycles(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = site.open(Code.EXIT_ERROR, exit_status=3, kind=CampaignEventSubject.TASK, tasks=2)
    monkeypatch.setattr(owner_requests, "ENDS_PER_TRANSACTION", 1)
    times = count(0.0, 2 * owner_requests.AGAIN_S)
    slow = CampaignOwnerRequestHandler(site.database, Clock(lambda: 0.0, lambda: next(times)), site.folder)
    asked = CampaignOwnerRequest(token="t", uid=ALICE, verb=Verb.RESUBMIT, numbers=(number,))
    (tmp_path / "taken").mkdir()
    looks = []
    for _ in range(3):
        slow.begin_request_time_limit()
        done = owner_requests.execute_owner_request(
            asked, {Verb.RESUBMIT: slow.execute_request}, site.folder, str(tmp_path)
        )
        looks.append((done, [one.first for one in site.campaigns.list_unsent_tasks(1)]))

    assert looks == [(False, [0, 4]), (False, [0, 1, 4]), (True, [0, 1, 4])]
    assert site.events.query_open_events() == ()


def test_the_tasks_of_an_event_are_retried_once(site: Site) -> None:
    failed = {"kind": CampaignEventSubject.TASK, "tasks": 2}
    number = site.open(Code.EXIT_ERROR, exit_status=3, **failed)
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)

    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE

    found = site.campaigns.find_campaign(1)
    assert (found.state, found.ended, found.failed) == (CampaignState.IN_TREATMENT, 2, 1)
    again = [(one.first, one.last, one.attempt) for one in site.campaigns.list_unsent_tasks(1)]
    assert again == [(0, 1, 2), (4, 4, 1)]
    assert site.open(Code.EXIT_ERROR, exit_status=3, **failed) == number
    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE
    found = site.campaigns.find_campaign(1)
    assert (found.ended, found.failed, len(site.campaigns.list_unsent_tasks(1))) == (2, 1, 2)


def test_a_reopened_event_retries_only_newly_failed_tasks(site: Site) -> None:
    failed = {"kind": CampaignEventSubject.TASK, "exit_status": 3}
    number = site.open(Code.EXIT_ERROR, tasks=2, **failed)
    assert site.ask(Verb.FIX, number) is Reply.DONE
    site.run(Outcome.PROGRAM_ERROR, 3)
    assert site.open(Code.EXIT_ERROR, tasks=1, **failed) == number

    assert site.ask(Verb.RESUBMIT, number, token="u") is Reply.DONE

    again = [(one.first, one.last, one.attempt) for one in site.campaigns.list_unsent_tasks(1)]
    assert again == [(4, 4, 2)]
    other = site.open(Code.EXIT_ERROR, kind=CampaignEventSubject.TASK, tasks=1, exit_status=4)
    assert site.ask(Verb.RESUBMIT, other, token="v") is Reply.DONE
    assert [one.first for one in site.campaigns.list_unsent_tasks(1)] == [2, 4]


def test_closing_an_event_keeps_the_attempts_of_waiting_tasks(site: Site) -> None:
    site.run(Outcome.SITE_FAULT)
    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=4, last=4, attempt=2))

    site.ask(Verb.FIX, site.open(Code.SITE_FAULT, kind=CampaignEventSubject.TASK, tasks=1))

    array = site.campaigns.create_array(1, "beta", 1, NOON)
    earlier = site.tries.earlier_outcomes(site.campaigns.unfinished_attempts(array))
    assert [(one.attempt, one.outcome) for one in earlier] == [(1, Outcome.SITE_FAULT)]


@pytest.mark.parametrize(
    ("outcome", "code", "times", "then", "avoid"),
    [
        (Outcome.WALLTIME, Code.WALLTIME, 1, Outcome.PREEMPTED, ()),
        (Outcome.SITE_FAULT, Code.SITE_FAULT, 4, Outcome.SITE_FAULT, ("beta",)),
        (Outcome.SETUP_ERROR, Code.NOT_STARTED, 5, Outcome.SETUP_ERROR, ("beta",)),
    ],
)
def test_earlier_failures_do_not_count_after_the_owners_retry(
    site: Site, outcome: Outcome, code: Code, times: int, then: Outcome, avoid: tuple[str, ...]
) -> None:
    for attempt in range(1, times + 1):
        site.campaigns.remove_all_unsent_tasks(1)
        site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=4, last=4, attempt=attempt))
        site.run(outcome)
    number = site.open(code, kind=CampaignEventSubject.TASK, tasks=1)

    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE
    (again,) = site.run(then)

    assert (again.attempt, again.avoid, again.never) == (times + 1, avoid, ())


def test_a_retry_interrupted_by_a_kill_is_completed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    number = site.open(Code.EXIT_ERROR, exit_status=3, kind=CampaignEventSubject.TASK, tasks=2)
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)
    monkeypatch.setattr(owner_requests, "ENDS_PER_TRANSACTION", 1)
    monkeypatch.setattr(type(site.campaigns), "set_campaign_state", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        site.ask(Verb.RESUBMIT, number)
    monkeypatch.undo()

    assert [one.number for one in site.events.query_open_events()] == [number]
    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE
    found = site.campaigns.find_campaign(1)
    assert (found.state, found.ended) == (CampaignState.IN_TREATMENT, 2)
    assert [one.attempt for one in site.campaigns.list_unsent_tasks(1)] == [2, 2, 1]


def test_a_retry_in_an_ended_campaign_makes_root_reopen_it(site: Site) -> None:
    going = site.open(Code.BLACKLIST)
    assert site.ask(Verb.RESUBMIT, going) is Reply.DONE
    assert site.taken_up == []
    number = site.open(Code.BLACKLIST)
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)
    site.campaigns.record_ledger_has_campaign_end(1)

    assert site.ask(Verb.RESUBMIT, number, BOB) is Reply.NOT_THEIRS
    assert site.taken_up == []
    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE
    assert site.taken_up == [(1, "t")]
    assert site.campaigns.ended_campaigns_not_in_ledger(0, 9) == (1,)


def test_no_task_is_retried_if_root_does_not_reopen_the_campaign(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The campaign is marked for publication before root is asked."""
    number = site.open(Code.EXIT_ERROR, exit_status=3, kind=CampaignEventSubject.TASK, tasks=2)
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)
    site.refuses = True

    assert site.ask(Verb.RESUBMIT, number) is Reply.NOT_TAKEN_UP
    assert [number] == [one.number for one in site.events.query_open_events()]
    assert "event=not_taken_up campaign=1" in caplog.text
    assert site.begun == [[1]]


def test_one_request_reopens_at_most_20_campaigns(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    found = site.campaigns.find_campaign(1)
    numbers = []
    for one in range(2, TAKEN_UP_AT_ONCE + 3):
        site.campaigns.insert_campaign(replace(found, number=one), f"token{one}")
        site.campaigns.set_campaign_state(one, CampaignState.TERMINATED, NOON)
        numbers.append(site.open(Code.BLACKLIST, campaign=one))
    of_all = CampaignOwnerRequest(token="t", uid=ALICE, verb=Verb.RESUBMIT, numbers=tuple(numbers))

    told = site.requests.execute_request(of_all)

    assert ({*told.values()}, site.taken_up) == ({Reply.NOT_TAKEN_UP}, [])
    assert "21 ended campaigns to reopen; expected at most 20 in one request" in caplog.text
    site.requests.execute_request(replace(of_all, numbers=of_all.numbers[1:]))
    assert len(site.taken_up) == TAKEN_UP_AT_ONCE


def test_no_task_is_retried_while_root_refuses_the_campaigns_file(site: Site) -> None:
    number = site.open(Code.EXIT_ERROR, exit_status=3, kind=CampaignEventSubject.TASK, tasks=2)
    refused = site.open(Code.FILE_REFUSED, cluster="")
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)

    answers = [site.ask(Verb.RESUBMIT, one) for one in (number, refused)]

    assert answers == [Reply.FILE_REFUSED] * 2
    assert site.taken_up == []
    found = site.campaigns.find_campaign(1)
    assert (found.state, found.failed) == (CampaignState.TERMINATED, 3)
    assert [one.number for one in site.events.query_open_events()] == [number, refused]
    assert site.ask(Verb.FIX, refused) is Reply.DONE
    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE


def test_no_task_of_a_cancelled_campaign_is_retried(site: Site) -> None:
    number = site.open(Code.EXIT_ERROR, kind=CampaignEventSubject.TASK, exit_status=3)
    site.ask(Verb.CANCEL, 1)

    assert site.events.query_open_events() == ()
    assert site.ask(Verb.RESUBMIT, number) is Reply.CLOSED


@pytest.mark.parametrize("state", [CampaignState.IN_TREATMENT, CampaignState.TERMINATED])
def test_no_task_of_a_test_campaign_is_retried(tmp_path: Path, state: CampaignState) -> None:
    site = Site(tmp_path, CampaignType.TEST)
    number = site.open(Code.EXIT_ERROR, exit_status=3, kind=CampaignEventSubject.TASK, tasks=2)
    site.campaigns.set_campaign_state(1, state, NOON)
    waiting = site.campaigns.list_unsent_tasks(1)

    assert site.ask(Verb.RESUBMIT, number) is Reply.ONE_TRY

    found = site.campaigns.find_campaign(1)
    assert (found.state, found.ended, found.failed) == (state, 4, 3)
    assert site.campaigns.list_unsent_tasks(1) == waiting
    assert [one.number for one in site.events.query_open_events()] == [number]
    assert site.taken_up == []
    assert site.ask(Verb.FIX, number) is Reply.DONE
    site.database.close()


def test_each_request_verb_has_exactly_one_handler() -> None:
    assert sorted((*CampaignOwnerRequestHandler.VERBS, *SubscriptionRequestHandler.VERBS)) == sorted(Verb)


def test_a_purge_reads_only_the_named_campaigns(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CampaignRows, "unfinished_campaigns", None)
    signs: list[int] = []
    monkeypatch.setattr(program_runs, "_after_each_program", lambda: signs.append(1))
    first = site.campaigns.find_campaign(1)
    for number in range(2, 6):
        site.campaigns.insert_campaign(replace(first, number=number), f"token{number}")
    site.campaigns.set_campaign_state(3, CampaignState.TERMINATED, NOON)
    site.campaigns.set_campaign_state(4, CampaignState.CANCELLED)  # the epilogue has not run yet
    site.campaigns.set_campaign_state(5, CampaignState.CANCELLED, NOON)
    site.campaigns.create_array(5, "beta", 1, NOON)  # this array has not been deleted yet

    done = site.requests.execute_request(
        CampaignOwnerRequest(token="t", uid=ALICE, verb=Verb.PURGE, numbers=(1, 2, 3, 4, 5, 6))
    )

    left = Reply.NOT_ENDED
    assert done == {1: left, 2: left, 3: Reply.DONE, 4: left, 5: left, 6: Reply.UNKNOWN}
    assert len(signs) == 6


def test_a_request_for_many_campaigns_takes_several_transactions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = site.campaigns.find_campaign(1)
    for number in range(2, 6):
        site.campaigns.insert_campaign(replace(first, number=number), f"token{number}")
    asked = CampaignOwnerRequest(token="t", uid=ALICE, verb=Verb.PAUSE, numbers=(1, 2, 3, 4, 5))
    pause = CampaignRows.set_campaign_state

    def killed(campaigns: CampaignRows, number: int, state: CampaignState) -> None:
        pause(campaigns, number, state)
        if number == 4:
            raise ZeroDivisionError

    monkeypatch.setattr(owner_requests, "AT_ONCE", 2)
    monkeypatch.setattr(CampaignRows, "set_campaign_state", killed)
    with pytest.raises(ZeroDivisionError):
        site.requests.execute_request(asked)
    monkeypatch.setattr(CampaignRows, "set_campaign_state", pause)
    left = [one.number for one in site.campaigns.all_campaigns() if one.state is not CampaignState.PAUSED]

    assert left == [3, 4, 5]
    assert site.requests.execute_request(asked) == dict.fromkeys(range(1, 6), Reply.DONE)
    assert {one.state for one in site.campaigns.all_campaigns()} == {CampaignState.PAUSED}
