"""gridnotify subscribes users to messages about their campaigns."""

import json
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from gridbridge.campaigns.cli.gridnotify import gridnotify
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.campaign_client import NoRunnerForRequest
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from tests.campaigns.cli.published_builder import run_command

MINE = [{"way": "mail", "identity": "a@b", "severity": "high"}]


@pytest.fixture(name="service")
def _service(monkeypatch: pytest.MonkeyPatch) -> Mock:
    service = Mock(return_value={"0": "done"})
    monkeypatch.setattr(campaign_client, "send_request_to_runner", service)
    return service


def run(*words: str) -> Result:
    return CliRunner().invoke(gridnotify, list(words), standalone_mode=True)


def test_gridnotify_without_subscriptions_shows_how_to_subscribe(service: Mock) -> None:
    """Standard output stays empty for scripts."""
    service.return_value = {"subscriptions": []}

    done = run("-l")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "you have no subscriptions; use gridnotify -m ADDRESS -s high" in done.stderr


def test_gridnotify_subscribes_the_user(service: Mock) -> None:
    done = run_command(gridnotify, "--mail", "a@b", "-s", "high", "-v")

    assert (done.return_value, done.output) == (0, "Subscribed: mail on a@b\n")
    (request,) = service.mock_calls
    assert (request.args[0], request.kwargs["subscription"]) == (CampaignOwnerRequestVerb.SUBSCRIBE, MINE[0])


@pytest.mark.parametrize(
    ("program", "told"), [("/nonexistent", "/nonexistent: you can't execute this"), ("/bin/sh", "")]
)
def test_gridnotify_warns_of_a_program_that_cannot_be_executed(service: Mock, program: str, told: str) -> None:
    done = run("-p", program, "-s", "low")

    assert (done.exit_code, service.call_count) == (0, 1)
    assert told in done.output if told else done.output == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give one of -m ADDRESS"),
        (("-m", "a@b", "-l"), "one of -m ADDRESS"),
        (("-m", "a@b", "-j", "x", "-s", "low"), "one of -m ADDRESS"),
        (("-m", "a@b"), "low, medium or high"),
        (("-u", "-m", "a@b", "-s", "dire"), "low, medium or high"),
        (("-m", "a@b", "-s", "dire"), "-s dire: not a severity; give -s low, medium or high"),
        (("-m", "a b", "-s", "low"), "-m 'a b': wrong form; expected an address, NAME@"),
        (("-j", "-x", "-s", "low"), "a letter or digit first"),
        (("-p", "told", "-s", "low"), "an absolute path"),
    ],
)
def test_gridnotify_refuses_wrong_options_with_the_expected_form(
    service: Mock, words: tuple[str, ...], told: str
) -> None:
    done = run(*words)

    assert (done.exit_code, service.call_count) == (2, 0)
    assert told in done.output


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (CampaignOwnerRequestReply.UNKNOWN, 1),
        (CampaignOwnerRequestReply.NO_WAY, 1),
        (CampaignOwnerRequestReply.TOO_MANY, 1),
        (CampaignOwnerRequestReply.WRONG, 1),
        (None, 75),
    ],
)
def test_gridnotify_reports_each_refusal_by_its_exit_status(
    service: Mock, answer: CampaignOwnerRequestReply | None, status: int
) -> None:
    service.side_effect = [NoRunnerForRequest("nobody") if answer is None else {"0": answer.value}]
    done = run_command(gridnotify, "-u", "-m", "a@b")

    assert done.return_value == status


def test_gridnotify_lists_subscriptions_in_cigris_words(service: Mock) -> None:
    service.return_value = {"subscriptions": MINE}
    listed = run_command(gridnotify, "-l").output

    assert listed == ("You have the following notification subscriptions:\n - mail on a@b with severity high\n")
    told = run_command(gridnotify, "-l", "--json").output
    assert json.loads(told) == MINE
