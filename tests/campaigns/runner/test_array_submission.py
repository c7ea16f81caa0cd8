"""One call of gridbridge-as-user submits several arrays and reports the result of each array."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gridbridge import errors
from gridbridge.batch import privileged_helper_calls
from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.array_commands_as_owner import (
    PermanentArrayRefusal,
    RootCampaignRefusal,
    TemporaryArrayRefusal,
)
from gridbridge.model.campaigns.campaign import (
    ALONE,
    ArraySubmissionState,
    CampaignArray,
    TaskAttempt,
    TaskAttemptOutcome,
    TaskGroupSize,
)
from gridbridge.shell.program_runs import CompletedProgram
from tests.builders.campaigns import released_array


def array(number: int, copies_beyond_s: int | None = None) -> tuple[CampaignArray, tuple[TaskAttempt, ...]]:
    one = released_array(
        campaign=12, number=number, state=ArraySubmissionState.INTENDED, size=2, copies_beyond_s=copies_beyond_s
    )
    tasks = (2 * number, 2 * number + 1)
    attempts = (
        TaskAttempt(campaign=12, task=task, attempt=1, array=number, place=place, outcome=TaskAttemptOutcome.PENDING)
        for place, task in enumerate(tasks, start=1)
    )
    return one, tuple(attempts)


class Helper:
    asked = ""
    says = (0, "", "")

    def run(self, argv: tuple[str, ...], *_: object) -> CompletedProgram:
        self.asked = " ".join(argv[3:])
        status, out, err = self.says
        return CompletedProgram(argv, status, out.encode(), err.encode())


GROUPS = "1 beta 0-6:1 71 group=4,300,60 more=2=8-9:1 more=1=10:1\n2 beta 7:1  \n3 beta 7:2 73 copies\n"


@pytest.fixture(name="helper")
def _helper(monkeypatch: pytest.MonkeyPatch) -> Helper:
    helper = Helper()
    monkeypatch.setattr(privileged_helper_calls, "run_program", helper.run)
    return helper


def test_jobs_that_run_several_tasks_are_asked_for_and_listed(helper: Helper) -> None:
    helper.says = (0, "0 71 \n", "")
    one, attempts = array(1)
    array_commands_as_owner.submit_arrays(((replace(one, group_tasks=2, group_s=300), attempts),))
    asked = helper.asked
    helper.says = (0, GROUPS, "")

    listed = array_commands_as_owner.list_root_ledger_arrays(12)

    assert asked == "send-arrays c.12 beta group=2,300 1 2-3:1"
    assert [(one.job_id, one.group, one.is_of_copies) for one in listed] == [
        (71, TaskGroupSize(tasks=4, begin_s=300, wait_s=60), False),
        (0, ALONE, False),
        (73, ALONE, True),
    ]
    assert [one.added for one in listed] == [((2, ((8, 1), (9, 1))), (1, ((10, 1),))), (), ()]


def test_running_jobs_get_further_tasks_by_one_call(helper: Helper) -> None:
    one, (first, second) = array(1)
    added = first, second, replace(first, task=8, place=1)

    array_commands_as_owner.add_tasks_to_jobs(one, added)

    assert helper.asked == "add-tasks c.12 beta 1 1 2:1,8:1 2 3:1"


def test_one_call_submits_several_arrays(helper: Helper) -> None:
    """Arrays without a result were not submitted."""
    helper.says = (0, "0 71 \n4 0 no queue x\n1 73 qalter: exit status 1\n5 0 other\n75 0 full\n", "")

    sent = array_commands_as_owner.submit_arrays(tuple(array(number) for number in range(1, 8)))

    assert helper.asked.startswith("send-arrays c.12 beta 1 2-3:1 2 4-5:1 3 6-7:1 4 8-9:1 ")
    assert [(one.job_id, type(one.error), str(one.error or "")) for one in sent] == [
        (71, type(None), ""),
        (0, PermanentArrayRefusal, "no queue x"),
        (73, errors.GridbridgeError, "qalter: exit status 1"),
        (0, errors.ArrayTasksAlreadyInLedger, "other"),
        (0, TemporaryArrayRefusal, "full"),
    ]


def test_ordinary_jobs_of_semi_best_effort_campaigns_are_submitted_as_such(helper: Helper) -> None:
    helper.says = (0, "0 71 \n", "")
    one, attempts = array(1)

    assert array_commands_as_owner.submit_arrays(((replace(one, is_ordinary=True), attempts),))[0].job_id == 71
    assert helper.asked == "send-arrays c.12 beta ordinary 1 2-3:1"


def test_arrays_in_roots_ledger_have_the_settings_of_their_submission(helper: Helper) -> None:
    helper.says = (0, "1 beta 0:1 71 ordinary checkpoint=70\n2 gamma 0:2  copies\n3 beta 1:1 \n", "")

    listed = array_commands_as_owner.list_root_ledger_arrays(12)

    assert [(one.number, one.job_id, one.is_of_copies, one.is_ordinary, one.checkpoint_s) for one in listed] == [
        (1, 71, False, True, 70),
        (2, 0, True, False, 0),
        (3, 0, False, False, 0),
    ]


def test_speculative_attempts_are_submitted_by_send_copies(helper: Helper) -> None:
    helper.says = (0, "0 71 \n", "")

    assert array_commands_as_owner.submit_arrays((array(1, copies_beyond_s=60),))[0].job_id == 71
    assert helper.asked == "send-copies c.12 beta 1 2-3:1"


@pytest.mark.parametrize(
    ("says", "error"),
    [
        ((2, "", "not the file"), RootCampaignRefusal),
        ((75, "", "no cluster"), TemporaryArrayRefusal),
        ((1, "0 71 \n", "killed"), errors.CommandFailed),
        ((0, "0 seven \n", ""), errors.ParseError),
        ((0, "what\n", ""), errors.ParseError),
    ],
)
def test_an_error_of_the_whole_submission_is_raised(
    helper: Helper, says: tuple[int, str, str], error: type[Exception]
) -> None:
    helper.says = says

    with pytest.raises(error):
        array_commands_as_owner.submit_arrays((array(1), array(2)))


def delete_first_task(one: CampaignArray) -> None:
    array_commands_as_owner.delete_array_tasks(one, (range(1, 2),))


@pytest.mark.parametrize("act", [array_commands_as_owner.delete_array, delete_first_task])
def test_a_submitted_array_missing_in_roots_ledger_is_not_deleted(
    helper: Helper, act: Callable[[CampaignArray], None]
) -> None:
    one, _ = array(1)
    helper.says = (0, "\n", "")
    act(one)
    with pytest.raises(errors.RootLedgerUnreadable, match="lacks array 1"):
        act(replace(one, job_id=71))
    helper.says = (0, "71\n", "")
    act(replace(one, job_id=71))


@pytest.mark.parametrize(
    "act", [array_commands_as_owner.delete_array, array_commands_as_owner.release_array, delete_first_task]
)
@pytest.mark.parametrize(
    ("status", "error"), [(6, errors.OwnerAccountGone), (7, errors.RootLedgerUnreadable), (75, errors.CommandFailed)]
)
def test_the_reason_why_root_cannot_act_as_the_owner_is_reported(
    helper: Helper, act: Callable[[CampaignArray], None], status: int, error: type[Exception]
) -> None:
    helper.says = (status, "", "gridbridge-as-user: because\n")

    with pytest.raises(error, match="because"):
        act(array(1)[0])
