"""gridbridge-as-user for campaigns: its arguments, and the process that acts as the owner."""

import os
import shlex
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.errors import CampaignEndInRootLedger, GridbridgeError, RemoteJobNotOurs, RootLedgerUnreadable
from gridbridge.model.campaigns.campaign_file_and_array_names import UNIQUE, split_task_parameters
from gridbridge.model.fixed_paths import REFUSED_THERE
from gridbridge.privileged import as_user, as_user_array_verbs, as_user_refusals_and_user_switch, carry_task_files
from gridbridge.privileged import as_user_array_arguments as order
from gridbridge.privileged import owner_worker as worker_module
from gridbridge.privileged.as_user_array_arguments import ArraySendProgress, AsUserArrayArguments
from gridbridge.privileged.as_user_refusals_and_user_switch import (
    AsUserRequestRefusal,
    JobNeverAcceptedByCluster,
    OwnerRequestNotYetPossible,
)
from gridbridge.privileged.owner_worker import CampaignOwnerWorker, OwnerWorkerLoss
from gridbridge.privileged.process_scope import FIRST_SIGNAL
from gridbridge.privileged.send_arrays import CampaignArraySender

KILLED = (-signal.SIGKILL, FIRST_SIGNAL + signal.SIGKILL)  # the second: of root's scope

CONFIG: dict[str, dict[str, object]] = {"site": {"cluster": "alpha"}, "cluster": {"beta": {"qmaster_port": 1}}}

Asked = Callable[[str], AsUserArrayArguments]
NOBODY = 54321  # a uid that no account has


@pytest.fixture(name="asked")
def _asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr(order.as_user_refusals_and_user_switch, "read_root_configuration", lambda _: CONFIG)
    return lambda words: AsUserArrayArguments(words.split())


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_user_refusals_and_user_switch, "switch_to_user", lambda uid: f"person {uid}")


def test_one_call_sends_several_arrays(asked: Asked) -> None:
    request = asked("send-arrays c.12 beta 3 0-9:1 4 10-19:1,3:2")

    assert list(map(str, request.arrays)) == ["gc.alpha.12.3", "gc.alpha.12.4"]
    assert (request.tasks, request.is_of_copies) == (("0-9:1", "10-19:1,3:2"), False)


@pytest.mark.parametrize(
    ("words", "interval_s"),
    [
        ("send-arrays c.12 beta checkpoint=77 3 0:1", 77),
        ("send-arrays c.12 beta 3 0:1", 900),
        ("send-copies c.12 beta checkpoint=30 3 0:2", 30),
    ],
)
def test_the_service_may_give_the_interval_between_checkpoints(asked: Asked, words: str, interval_s: int) -> None:
    request = asked(words)

    assert (interval_s, ["3"]) == (request.checkpoint_s, [str(array.array) for array in request.arrays])


@pytest.mark.parametrize(
    ("words", "is_ordinary", "settings"),
    [
        ("send-arrays c.12 beta ordinary 3 0:1", True, ("ordinary",)),
        ("send-arrays c.12 beta ordinary checkpoint=70 3 0:1", True, ("ordinary", "checkpoint=70")),
        ("send-copies c.12 beta checkpoint=70 3 0:1", False, ("checkpoint=70",)),
        ("send-arrays c.12 beta 3 0:1", False, ()),
    ],
)
def test_the_service_may_ask_for_ordinary_jobs(
    asked: Asked, words: str, is_ordinary: bool, settings: tuple[str, ...]
) -> None:
    request = asked(words)

    assert (is_ordinary, ["3"]) == (request.is_ordinary, [str(array.array) for array in request.arrays])
    assert settings == request.settings


def test_an_array_may_be_deleted_completely_or_by_indices(asked: Asked) -> None:
    assert asked("delete-array c.12 beta 3").indices == ""
    assert asked("delete-array c.12 beta 3 1-5,9").indices == "1-5,9"
    assert asked("delete-waiting c.12 beta 3 1-5,9").indices == "1-5,9"


@pytest.mark.parametrize(
    ("words", "is_complete"),
    [
        ("carry-inputs c.12 gone 0:1", True),
        ("carry-inputs c.12 gone 0-3:1 0:1", True),
        ("carry-inputs c.12 gone 0-3:1 0:1 1:1", False),
        ("carry-inputs c.12 gone", False),
        ("read-records c.12 gone 0:1 1:1", False),
        ("drop-inputs c.12 gone 0:1", False),
        ("drop-inputs c.x gone", False),
        ("carry-checkpoints c.12 gone 0:1 beta", True),
        ("carry-checkpoints c.12 gone 0:1", False),
        ("drop-checkpoints c.12 gone 0:1", True),
        ("drop-checkpoints c.12 gone 0:1 beta", False),
    ],
)
def test_requests_about_files_of_tasks_have_the_right_number_of_words(
    monkeypatch: pytest.MonkeyPatch, words: str, is_complete: bool
) -> None:
    """A removed cluster is an error, so that an event explains why its files stay there."""
    monkeypatch.setattr(carry_task_files, "read_config_or_not_yet_possible", dict)
    expected = r"no \[cluster.gone\]; expected" if is_complete else "usage: gridbridge-as-user"

    with pytest.raises(AsUserRequestRefusal, match=expected):
        carry_task_files.run_owner_file_carrier(words.split())


def test_every_array_verb_is_accepted_by_the_program() -> None:
    assert {*order.USAGE} <= {*as_user.ARRAY_VERBS}


@pytest.mark.parametrize(
    "told",
    [
        "send-arrays",
        "send-arrays c.12 beta",
        "send-arrays c.12 beta 3",
        "send-arrays c.12 beta 3 0:1 4",
        "send-arrays c.12 beta 3 0:1 3 1:1",
        "send-arrays c.12 beta checkpoint=x 3 0:1",
        "send-arrays c.12 beta group=1,9 3 0:1",
        "send-arrays c.12 beta group=1001,9 3 0:1",
        "send-arrays c.12 beta group=9 3 0:1",
        "send-arrays c.12 beta group=2,9,3601 3 0:1",
        "send-arrays c.12 beta group=2,9,60,1 3 0:1",
        "add-tasks c.12 beta",
        "add-tasks c.12 beta 3",
        "add-tasks c.12 beta 3 1",
        "add-tasks c.12 beta x 1 0:1",
        "add-tasks c.12 beta 3 1 0:1 1 1:1",
        "add-tasks c.12 beta group=2,9 3 1 0:1",
        "send-copies c.12 beta group=2,9 3 0:1",
        "send-arrays c.12 beta checkpoint=29 3 0:1",
        "send-arrays c.12 beta checkpoint=86401 3 0:1",
        "release-array c.12 beta checkpoint=70 3",
        "send-arrays c.12 beta ordinary",
        "send-copies c.12 beta ordinary 3 0:2",
        "send-arrays c.12 beta x 0:1",
        "send-arrays 12 beta 3 0:1",
        "send-arrays ../c.12 beta 3 0:1",
        "send-copies c.12 beta 3 0:2 4 1:2",
        "release-array c.12 beta 3 1-5",
        "delete-array c.12 beta 3 0-5",
        "delete-array c.12 beta 3 1-5 4",
        "delete-waiting c.12 beta 3",
        "delete-waiting c.12 beta 3 0",
        "delete-waiting c.12 beta 3 1-5 4 6",
    ],
)
def test_wrong_arguments_about_arrays_are_refused(asked: Asked, told: str) -> None:
    with pytest.raises(AsUserRequestRefusal):
        asked(told)


def test_an_unconfigured_cluster_is_a_temporary_refusal(asked: Asked) -> None:
    with pytest.raises(OwnerRequestNotYetPossible, match="no cluster 'gamma'"):
        asked("send-arrays c.12 gamma 3 0:1")


@pytest.mark.parametrize(
    "line", ["", "5", " north  --seed\t5 ", "a\x0bb a\u00a0b \u2003", "it's", "'two words' 3", 'a\\ b "c"', "x\r"]
)
def test_task_parameters_are_split_as_sh_does(line: str) -> None:
    """A line with an unmatched quote is split at blanks."""
    try:
        expected = shlex.split(line)
    except ValueError:
        expected = line.split()

    assert list(split_task_parameters(line)) == expected


def answers(person: str) -> Callable[[list[str]], str]:
    def answer(words: list[str]) -> str:
        errors = {"not": RemoteJobNotOurs("two\nlines"), "later": OwnerRequestNotYetPossible("later")}
        errors |= {"what": OSError("what"), "there": JobNeverAcceptedByCluster("no queue")}
        if words[0] in errors:
            raise errors[words[0]]
        if words[0] == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if words[0] == "die":
            os._exit(0)
        return f"{person}: {' '.join(words)}"

    return answer


def test_the_owner_worker_answers_one_request_after_another() -> None:
    worker = CampaignOwnerWorker(7, answers)

    assert worker.send_request_to_owner_process("submit", "3") == "person 7: submit 3"
    assert worker.send_request_to_owner_process("release", "70", "71") == "person 7: release 70 71"


@pytest.mark.parametrize(
    ("word", "error", "why"),
    [
        ("not", RemoteJobNotOurs, "^two lines$"),
        ("later", OwnerRequestNotYetPossible, "later"),
        ("there", JobNeverAcceptedByCluster, "no queue"),
        ("what", GridbridgeError, "what"),
        ("die", OwnerWorkerLoss, "ended"),
    ],
)
def test_errors_of_the_owner_worker_are_raised_in_the_caller(word: str, error: type[Exception], why: str) -> None:
    worker = CampaignOwnerWorker(7, answers)

    with pytest.raises(error, match=why):
        worker.send_request_to_owner_process(word)
    if word == "die":
        with pytest.raises(OwnerWorkerLoss):
            worker.send_request_to_owner_process("submit")
    else:
        assert worker.send_request_to_owner_process("submit") == "person 7: submit"


def test_a_stopped_owner_worker_is_killed_at_the_time_limit() -> None:
    worker = CampaignOwnerWorker(7, answers, limit_s=0.2)

    with pytest.raises(OwnerWorkerLoss, match=r"not done within 0\.2 s"):
        worker.send_request_to_owner_process("stop")
    assert os.waitstatus_to_exitcode(os.waitpid(worker.scope.pid, 0)[1]) in KILLED


def test_an_owner_worker_with_an_endless_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "ANSWER_BYTES", 1 << 20)
    worker = CampaignOwnerWorker(7, lambda _: lambda _: "x" * (8 << 20))

    with pytest.raises(OwnerWorkerLoss, match="the answer of the owner's process exceeds 1 MiB"):
        worker.send_request_to_owner_process("submit")
    assert os.waitstatus_to_exitcode(os.waitpid(worker.scope.pid, 0)[1]) in KILLED


def test_a_lost_ledger_is_an_error(tmp_path: Path, asked: Asked) -> None:
    """The array cannot be released until somebody restores the ledger."""
    lost = pytest.raises(RootLedgerUnreadable, match=r"c\.12: root's ledger lacks the campaign")
    with ledger_of(tmp_path) as ledger, lost:
        as_user_array_verbs._release_or_delete_array(asked("release-array c.12 beta 3"), ledger)


@pytest.mark.parametrize("told", ["delete-array c.99 beta 3", "release-array c.99 beta 3"])
def test_a_request_about_an_unknown_campaign_creates_no_ledger(tmp_path: Path, asked: Asked, told: str) -> None:
    """A stolen service account would otherwise fill root's disk."""
    with ledger_of(tmp_path, 99) as ledger, suppress(RootLedgerUnreadable):
        assert ledger.list_submitted_arrays() == ()
        as_user_array_verbs.note_campaign_end_in_ledger(99, ledger, str(tmp_path))
        as_user_array_verbs._release_or_delete_array(asked(told), ledger)

    assert [*(tmp_path / "ledger").iterdir()] == []


def ledger_of(folder: Path, number: int = 12) -> RootLedgerOfSubmittedTasks:
    return RootLedgerOfSubmittedTasks(number, f"{folder}/ledger")


def end_campaign(folder: Path, monkeypatch: pytest.MonkeyPatch, number: int = 12, refusal: object = None) -> None:
    """Record the end of a campaign, whose owner's account is ordinary or causes this refusal."""
    monkeypatch.setattr(as_user_refusals_and_user_switch, "require_ordinary_account", Mock(side_effect=refusal))
    with ledger_of(folder, number) as ledger:
        as_user_array_verbs.note_campaign_end_in_ledger(number, ledger, str(folder))


def test_the_end_of_a_campaign_is_recorded_under_one_number(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked("delete-array c.12 beta 3")  # the configuration can be read
    for number in (12, 13):
        (tmp_path / f"c.{number}").write_bytes(campaign_files_of_owners.encode_campaign_file({UNIQUE: "a"}, ("1",)))
        end_campaign(tmp_path, monkeypatch, number)

    files = [path.name for path in (tmp_path / "ledger").iterdir() if path.is_file() and not path.is_symlink()]
    assert files == ["c.12"]
    with ledger_of(tmp_path) as ledger, pytest.raises(CampaignEndInRootLedger):
        ledger.record_array(1, "beta", "0:1")


MAKERS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to("elsewhere"),
    "open file": lambda path: (path.touch(), path.chmod(0o666)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_end_of_a_campaign_is_recorded_whatever_replaces_its_file(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    """An unrecorded end would be reported in every cycle."""
    asked("delete-array c.12 beta 3")  # the configuration can be read
    make(tmp_path / "c.12")
    end_campaign(tmp_path, monkeypatch)

    with ledger_of(tmp_path) as ledger, pytest.raises(CampaignEndInRootLedger):
        ledger.record_array(1, "beta", "0:1")


def test_a_file_of_a_system_account_creates_no_ledger(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stolen service account would otherwise fill root's disk."""
    asked("delete-array c.12 beta 3")  # the configuration can be read
    os.mkfifo(tmp_path / "c.12")
    end_campaign(tmp_path, monkeypatch, refusal=AsUserRequestRefusal("uid 990 is not an ordinary account"))

    assert [*(tmp_path / "ledger").iterdir()] == []


def test_the_result_of_an_array_is_one_line(asked: Asked) -> None:
    (array,) = asked("send-arrays c.12 beta 3 0-9:1").arrays
    one = ArraySendProgress(array, 0)
    one.error = JobNeverAcceptedByCluster("no queue\n0 77 \r\x85and more\u2028")

    assert one.printed_result_line() == f"{REFUSED_THERE} 0 no queue 0 77 and more"
    one.job, one.error = "77", None
    assert one.printed_result_line() == "0 77 "


def test_a_missing_owner_account_is_a_temporary_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = as_user_refusals_and_user_switch.MissingUserAccount("uid 7 has no account")
    monkeypatch.setattr(as_user_refusals_and_user_switch, "switch_to_user", Mock(side_effect=missing))

    with pytest.raises(as_user_refusals_and_user_switch.OwnerAccountUnavailable, match="uid 7 has no account"):
        CampaignOwnerWorker(7, answers).send_request_to_owner_process("submit")


def test_no_intent_is_recorded_for_an_owner_without_an_account(tmp_path: Path, asked: Asked) -> None:
    """An intent without a submission would keep a cancelled campaign from ending."""
    order = asked("send-arrays c.12 beta 3 0-9:1")
    with RootLedgerOfSubmittedTasks(12, str(tmp_path)) as ledger:
        ledger.record_or_verify_campaign_file(NOBODY, "digest")
        (sent,) = CampaignArraySender(order, ledger, None).submit_held_arrays()

        assert isinstance(sent.error, as_user_refusals_and_user_switch.OwnerAccountUnavailable)
        assert ledger.list_submitted_arrays() == ()


def test_every_privileged_module_is_short_enough_to_audit() -> None:
    paths = Path(order.__file__).parent.glob("*.py")
    lines = {path.stem: len(path.read_text().splitlines()) for path in paths}

    assert lines["as_user"] < 150
    assert max(lines.values()) < 180


def test_indices_outside_an_array_are_refused(tmp_path: Path, asked: Asked) -> None:
    with RootLedgerOfSubmittedTasks(12, str(tmp_path)) as ledger:
        ledger.record_or_verify_campaign_file(1000, "digest")
        ledger.record_array(3, "beta", "0-2:1")
        as_user_array_verbs._require_indices_in_array(asked("delete-waiting c.12 beta 3 1-3"), ledger, 3)
        for array, indices in ((3, "1-4"), (4, "1")):
            request = asked(f"delete-waiting c.12 beta {array} {indices}")
            with pytest.raises(AsUserRequestRefusal, match=r"has only \d tasks"):
                as_user_array_verbs._require_indices_in_array(request, ledger, array)
