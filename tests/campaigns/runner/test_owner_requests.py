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
from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.model.campaigns.campaign import CampaignState, WaitingTaskRange
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome as Outcome
from gridbridge.model.campaigns.campaign_cycle_plan import TaskRetry
from gridbridge.model.campaigns.campaign_events import CampaignEventCode as Code
from gridbridge.model.campaigns.campaign_events import CampaignEventSubject, CampaignSuccessAtCluster
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequest
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply as Reply
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb as Verb
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.shell import program_runs
from gridbridge.shell.clock import Clock
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, made_campaign, made_situation, site_fixture

ALICE, BOB, ROOT = 41000, 41001, 0
CLUSTERS = {name: JdlSettingsAtCluster(exec_file="run") for name in ("beta", "gamma")}
AS_OWNER = {  # replies to root, for an unfinished campaign
    Verb.RESUME: Reply.NOT_PAUSED,
    Verb.PURGE: Reply.NOT_ENDED,
    Verb.CANCEL_TASK: Reply.TASK_ENDED,
    Verb.ABANDON: Reply.NOT_CANCELLED,
}


class RequestSite(CampaignSite):
    """A site with alice's campaign of five tasks; two tasks failed with exit status 3 at beta."""

    def __init__(self, folder: Path, type_: CampaignType = CampaignType.DEFAULT) -> None:
        super().__init__(folder, made_campaign(uid=ALICE, tasks=5, jdl=Jdl(name="n", type=type_, clusters=CLUSTERS)))
        self.taken_up: list[tuple[int, str]] = []
        self.refuses = False  # whether root refuses to reopen a campaign
        self.begun: list[list[int]] = []
        self.requests = CampaignOwnerRequestHandler(
            self.database, Clock(), str(folder), take_up=self.take_up, begin=lambda n: self.begun.append([*n])
        )
        *failed, last = self.attempts(self.send(4))
        for attempt, status in zip(failed, (3, 3, 4), strict=True):
            self.end([attempt], Outcome.PROGRAM_ERROR, exit_status=status)
        self.end([last], Outcome.SUCCESS, exit_status=0)
        self.campaigns.add_to_task_counts(1, 4, 3)

    def open_exit_errors(self, **other: object) -> int:
        """Open the event of the two tasks that failed with exit status 3."""
        values = {"kind": CampaignEventSubject.TASK, "exit_status": 3, "tasks": 2} | other
        return self.open_event(Code.EXIT_ERROR, **values)

    def run(self, outcome: Outcome, status: int | None = None) -> tuple[TaskRetry, ...]:
        """Run the last task at beta to this outcome; return its planned retry."""
        array = self.send()
        ended = self.end(self.attempts(array), outcome, exit_status=status)
        earlier = self.tries.earlier_outcomes(ended)
        return plan_campaign_cycle(
            made_situation(campaigns=(self.campaign,), arrays=(array,), ended=ended, earlier=earlier)
        ).again

    def take_up(self, campaign: int, request: str) -> None:
        if self.refuses:
            raise RootCampaignRefusal("nobody asks for that")
        self.taken_up.append((campaign, request))

    def ask(self, verb: Verb, number: int, uid: int = ALICE, token: str = "t") -> Reply:
        return self.requests.execute_request(request(verb, number, uid=uid, token=token))[number]

    def insert_more(self, *numbers: int) -> None:
        for number in numbers:
            self.insert(replace(self.campaign, number=number))


def request(verb: Verb, *numbers: int, uid: int = ALICE, token: str = "t") -> CampaignOwnerRequest:
    return CampaignOwnerRequest(token=token, uid=uid, verb=verb, numbers=numbers)


_site = site_fixture(RequestSite)


def test_only_owner_and_root_close_an_event(site: RequestSite) -> None:
    number = site.open_event(Code.BLACKLIST)

    answers = [site.ask(Verb.FIX, number, uid, f"{n}") for n, uid in enumerate((BOB, ALICE, ALICE))]

    assert answers == [Reply.NOT_THEIRS, Reply.DONE, Reply.CLOSED]
    assert site.ask(Verb.FIX, site.open_event(Code.BLACKLIST), ROOT) is Reply.DONE
    assert site.ask(Verb.FIX, 99) is Reply.UNKNOWN
    assert site.events.query_open_events() == ()


@pytest.mark.parametrize("verb", [one for one in CampaignOwnerRequestHandler.VERBS if one not in OF_EVENTS])
def test_only_root_changes_another_users_campaign(site: RequestSite, verb: Verb) -> None:
    assert site.ask(verb, 1, BOB) is Reply.NOT_THEIRS
    assert site.ask(verb, 1, ROOT) is AS_OWNER.get(verb, Reply.DONE)
    assert site.ask(Verb.CANCEL, 2, BOB) is Reply.UNKNOWN


def test_only_root_abandons_a_cancelled_campaign(site: RequestSite) -> None:
    site.ask(Verb.CANCEL, 1, ALICE)

    told = [site.ask(Verb.ABANDON, 1, uid, f"{n}") for n, uid in enumerate((BOB, ALICE))]

    assert told == [Reply.NOT_THEIRS, Reply.NOT_ROOTS]
    assert site.ask(Verb.ABANDON, 1, ROOT, "root") in (Reply.DONE, Reply.CANCELLED)


def test_requests_of_root_are_logged(site: RequestSite, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    site.ask(Verb.PAUSE, 1, ALICE)
    site.ask(Verb.CANCEL, 1, ROOT)

    assert [one.getMessage() for one in caplog.records] == ["event=by_root verb=cancel numbers=1"]


@pytest.mark.parametrize(
    ("event", "refused", "accepted"),
    [
        ({"code": Code.DROPPED, "kind": CampaignEventSubject.CLUSTER, "campaign": 0}, ALICE, ROOT),
        ({"code": Code.DISPUTED}, BOB, ALICE),
    ],
    ids=["root, at a removed cluster", "the owner, with disputed ends"],
)
def test_tasks_without_a_reliable_end_are_declared_lost(
    site: RequestSite, event: dict[str, Any], refused: int, accepted: int
) -> None:
    number = site.open_event(**event)

    assert site.ask(Verb.RESUBMIT, number, refused) is site.ask(Verb.FIX, number, refused) is Reply.NOT_THEIRS
    assert site.ask(Verb.RESUBMIT, number, accepted) is Reply.DONE
    (known,) = site.events.query_open_events()
    assert known.until
    assert site.ask(Verb.FIX, number, accepted) is Reply.DONE


def test_closing_a_blacklist_or_sink_event_resets_the_clusters_record(site: RequestSite) -> None:
    record = CampaignSuccessAtCluster(campaign=1, cluster="beta", errors_in_row=5, durations_s=(1, 1))
    site.events.store_success_records([record])

    site.ask(Verb.FIX, site.open_event(Code.BLACKLIST))
    site.ask(Verb.FIX, site.open_event(Code.SINK))

    assert site.events.success_records([1]) == (replace(record, errors_in_row=0, is_trusted=True),)


def test_a_black_hole_stays_listed_until_its_owner_closes_its_event(site: RequestSite) -> None:
    number = site.open_event(Code.SINK)
    assert site.ask(Verb.RESUBMIT, number) is Reply.NOT_AGAIN
    assert site.open_event_numbers() == [number]
    site.ask(Verb.CANCEL, 1)
    later = datetime.now(UTC) + timedelta(days=31)
    site.events.delete_old_events(later)

    assert site.events.query_open_events() == ()
    assert site.events.list_black_holes() == ((1, "beta"),)
    assert [one.number for one in site.events.query_events_to_publish(later)] == [number]
    tokens = ("1", "2")
    assert [site.ask(Verb.FIX, number, token=one) for one in tokens] == [Reply.DONE, Reply.CLOSED]
    assert site.events.list_black_holes() == site.events.query_events_to_publish(later) == ()


def test_a_retry_request_repeated_after_a_kill_is_executed_once(site: RequestSite) -> None:
    """The retry is also recorded outside the state file, which may be restored from a backup."""
    number = site.open_exit_errors()

    answers = [site.ask(Verb.RESUBMIT, number, token=one) for one in ("t", "t", "u")]

    assert answers == [Reply.DONE, Reply.DONE, Reply.CLOSED]
    assert len(site.campaigns.list_unsent_tasks(1)) == 2
    assert [*CampaignFileRegister(str(site.folder)).retry_requests_since(0)] == [(1, "t")]
    assert site.campaigns.has_executed_request("t", 1)


def test_a_large_retry_is_split_over_several_cycles(
    site: RequestSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = site.open_exit_errors()
    monkeypatch.setattr(owner_requests, "ENDS_PER_TRANSACTION", 1)
    times = count(0.0, 2 * owner_requests.AGAIN_S)
    slow = CampaignOwnerRequestHandler(site.database, Clock(lambda: 0.0, lambda: next(times)), site.folder)
    asked = request(Verb.RESUBMIT, number)
    (tmp_path / "taken").mkdir()
    looks = []
    for _ in range(3):
        slow.begin_request_time_limit()
        done = owner_requests.execute_owner_request(
            asked, {Verb.RESUBMIT: slow.execute_request}, str(str(site.folder)), str(tmp_path)
        )
        looks.append((done, [one.first for one in site.campaigns.list_unsent_tasks(1)]))

    assert looks == [(False, [0, 4]), (False, [0, 1, 4]), (True, [0, 1, 4])]
    assert site.events.query_open_events() == ()


def test_the_tasks_of_an_event_are_retried_once(site: RequestSite) -> None:
    number = site.open_exit_errors()
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)

    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE

    assert (site.campaign.state, site.campaign.ended, site.campaign.failed) == (CampaignState.IN_TREATMENT, 2, 1)
    assert site.unsent_ranges() == [(0, 1, 2), (4, 4, 1)]
    assert site.open_exit_errors() == number
    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE
    assert (site.campaign.ended, site.campaign.failed, len(site.campaigns.list_unsent_tasks(1))) == (2, 1, 2)


def test_a_reopened_event_retries_only_newly_failed_tasks(site: RequestSite) -> None:
    number = site.open_exit_errors()
    assert site.ask(Verb.FIX, number) is Reply.DONE
    site.run(Outcome.PROGRAM_ERROR, 3)
    assert site.open_exit_errors(tasks=1) == number

    assert site.ask(Verb.RESUBMIT, number, token="u") is Reply.DONE

    assert site.unsent_ranges() == [(4, 4, 2)]
    other = site.open_exit_errors(tasks=1, exit_status=4)
    assert site.ask(Verb.RESUBMIT, other, token="v") is Reply.DONE
    assert [one.first for one in site.campaigns.list_unsent_tasks(1)] == [2, 4]


def test_closing_an_event_keeps_the_attempts_of_waiting_tasks(site: RequestSite) -> None:
    site.run(Outcome.SITE_FAULT)
    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=4, last=4, attempt=2))

    site.ask(Verb.FIX, site.open_event(Code.SITE_FAULT, kind=CampaignEventSubject.TASK, tasks=1))

    earlier = site.tries.earlier_outcomes(site.attempts(site.send()))
    assert [(attempt.attempt, attempt.outcome) for attempt in earlier] == [(1, Outcome.SITE_FAULT)]


@pytest.mark.parametrize(
    ("outcome", "code", "times", "then", "avoid"),
    [
        (Outcome.WALLTIME, Code.WALLTIME, 1, Outcome.PREEMPTED, ()),
        (Outcome.SITE_FAULT, Code.SITE_FAULT, 4, Outcome.SITE_FAULT, ("beta",)),
        (Outcome.SETUP_ERROR, Code.NOT_STARTED, 5, Outcome.SETUP_ERROR, ("beta",)),
    ],
)
def test_earlier_failures_do_not_count_after_the_owners_retry(
    site: RequestSite, outcome: Outcome, code: Code, times: int, then: Outcome, avoid: tuple[str, ...]
) -> None:
    for attempt in range(1, times + 1):
        site.campaigns.remove_all_unsent_tasks(1)
        site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=4, last=4, attempt=attempt))
        site.run(outcome)
    number = site.open_event(code, kind=CampaignEventSubject.TASK, tasks=1)

    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE
    (again,) = site.run(then)

    assert (again.attempt, again.avoid, again.never) == (times + 1, avoid, ())


def test_a_retry_interrupted_by_a_kill_is_completed(site: RequestSite, monkeypatch: pytest.MonkeyPatch) -> None:
    number = site.open_exit_errors()
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)
    monkeypatch.setattr(owner_requests, "ENDS_PER_TRANSACTION", 1)
    monkeypatch.setattr(type(site.campaigns), "set_campaign_state", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        site.ask(Verb.RESUBMIT, number)
    monkeypatch.undo()

    assert site.open_event_numbers() == [number]
    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE
    assert (site.campaign.state, site.campaign.ended) == (CampaignState.IN_TREATMENT, 2)
    assert [one.attempt for one in site.campaigns.list_unsent_tasks(1)] == [2, 2, 1]


def test_a_retry_in_an_ended_campaign_makes_root_reopen_it(site: RequestSite) -> None:
    going = site.open_event(Code.BLACKLIST)
    assert site.ask(Verb.RESUBMIT, going) is Reply.DONE
    assert site.taken_up == []
    number = site.open_event(Code.BLACKLIST)
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)
    site.campaigns.record_ledger_has_campaign_end(1)

    assert site.ask(Verb.RESUBMIT, number, BOB) is Reply.NOT_THEIRS
    assert site.taken_up == []
    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE
    assert site.taken_up == [(1, "t")]
    assert site.campaigns.ended_campaigns_not_in_ledger(0, 9) == (1,)


def test_no_task_is_retried_if_root_does_not_reopen_the_campaign(
    site: RequestSite, caplog: pytest.LogCaptureFixture
) -> None:
    """The campaign is marked for publication before root is asked."""
    number = site.open_exit_errors()
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)
    site.refuses = True

    assert site.ask(Verb.RESUBMIT, number) is Reply.NOT_TAKEN_UP
    assert [number] == site.open_event_numbers()
    assert "event=not_taken_up campaign=1" in caplog.text
    assert site.begun == [[1]]


def test_one_request_reopens_at_most_20_campaigns(site: RequestSite, caplog: pytest.LogCaptureFixture) -> None:
    numbers = []
    for campaign in range(2, TAKEN_UP_AT_ONCE + 3):
        site.insert_more(campaign)
        site.campaigns.set_campaign_state(campaign, CampaignState.TERMINATED, NOON)
        numbers.append(site.open_event(Code.BLACKLIST, campaign=campaign))
    of_all = request(Verb.RESUBMIT, *numbers)

    told = site.requests.execute_request(of_all)

    assert ({*told.values()}, site.taken_up) == ({Reply.NOT_TAKEN_UP}, [])
    assert "21 ended campaigns to reopen; expected at most 20 in one request" in caplog.text
    site.requests.execute_request(replace(of_all, numbers=of_all.numbers[1:]))
    assert len(site.taken_up) == TAKEN_UP_AT_ONCE


def test_no_task_is_retried_while_root_refuses_the_campaigns_file(site: RequestSite) -> None:
    number = site.open_exit_errors()
    refused = site.open_event(Code.FILE_REFUSED, cluster="")
    site.campaigns.set_campaign_state(1, CampaignState.TERMINATED, NOON)

    answers = [site.ask(Verb.RESUBMIT, one) for one in (number, refused)]

    assert answers == [Reply.FILE_REFUSED] * 2
    assert site.taken_up == []
    assert (site.campaign.state, site.campaign.failed) == (CampaignState.TERMINATED, 3)
    assert site.open_event_numbers() == [number, refused]
    assert site.ask(Verb.FIX, refused) is Reply.DONE
    assert site.ask(Verb.RESUBMIT, number) is Reply.DONE


def test_no_task_of_a_cancelled_campaign_is_retried(site: RequestSite) -> None:
    number = site.open_exit_errors()
    site.ask(Verb.CANCEL, 1)

    assert site.events.query_open_events() == ()
    assert site.ask(Verb.RESUBMIT, number) is Reply.CLOSED


@pytest.mark.parametrize("state", [CampaignState.IN_TREATMENT, CampaignState.TERMINATED])
def test_no_task_of_a_test_campaign_is_retried(tmp_path: Path, state: CampaignState) -> None:
    site = RequestSite(tmp_path, CampaignType.TEST)
    number = site.open_exit_errors()
    site.campaigns.set_campaign_state(1, state, NOON)
    waiting = site.campaigns.list_unsent_tasks(1)

    assert site.ask(Verb.RESUBMIT, number) is Reply.ONE_TRY

    assert (site.campaign.state, site.campaign.ended, site.campaign.failed) == (state, 4, 3)
    assert site.campaigns.list_unsent_tasks(1) == waiting
    assert site.open_event_numbers() == [number]
    assert site.taken_up == []
    assert site.ask(Verb.FIX, number) is Reply.DONE
    site.database.close()


def test_each_request_verb_has_exactly_one_handler() -> None:
    assert sorted((*CampaignOwnerRequestHandler.VERBS, *SubscriptionRequestHandler.VERBS)) == sorted(Verb)


def test_a_purge_reads_only_the_named_campaigns(site: RequestSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CampaignRows, "unfinished_campaigns", None)
    signs: list[int] = []
    monkeypatch.setattr(program_runs, "_after_each_program", lambda: signs.append(1))
    site.insert_more(2, 3, 4, 5)
    site.campaigns.set_campaign_state(3, CampaignState.TERMINATED, NOON)
    site.campaigns.set_campaign_state(4, CampaignState.CANCELLED)  # the epilogue has not run yet
    site.campaigns.set_campaign_state(5, CampaignState.CANCELLED, NOON)
    site.campaigns.create_array(5, "beta", 1, NOON)  # this array has not been deleted yet

    done = site.requests.execute_request(request(Verb.PURGE, 1, 2, 3, 4, 5, 6))

    left = Reply.NOT_ENDED
    assert done == {1: left, 2: left, 3: Reply.DONE, 4: left, 5: left, 6: Reply.UNKNOWN}
    assert len(signs) == 6


def test_a_request_for_many_campaigns_takes_several_transactions(
    site: RequestSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.insert_more(2, 3, 4, 5)
    asked = request(Verb.PAUSE, 1, 2, 3, 4, 5)
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
