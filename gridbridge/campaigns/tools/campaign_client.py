"""Sends users' requests about campaigns to the runner, and reads published campaigns."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gridbridge.campaigns.store import campaign_files, published_campaign_files
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.errors import GridbridgeError, ParseError, StateError
from gridbridge.model.campaigns.campaign_names import ADDS_TO, UNIQUE
from gridbridge.model.campaigns.owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.published_campaigns import ShownCampaign, ShownCampaigns, ShownForecastErrors
from gridbridge.model.campaigns.subscriptions import IDENTITIES, NotificationChannel, NotificationSeverity
from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG, ELSEWHERE, HOME, PUBLISHED, SPOOL
from gridbridge.shell import safe_files

BY_SSH = f"or name it here as transfer_host of [site] in {CONFIG}"
WHERE = f"campaigns are brought on the transfer host, or where its {{}} and {{}} are mounted; {BY_SSH}"
MADE_BY = "an administrator makes it: `gridbridge setup host --apply`, or mounts it here"
NOBODY = "no gridbridge-runner takes campaigns now; nothing was stored"
NOT_CHANGED = "no gridbridge-runner takes requests now; nothing is changed"
NOT_TOLD = "no gridbridge-runner takes requests now; nobody has answered"
NOT_ROOT = "nothing of a campaign is ever run as root; submit it as somebody else"
UNANSWERED = (
    "gridbridge-runner took it and has not answered: it may be done, now or later;"
    " look at gridstat before you repeat it"
)
ANSWER_S = 90.0  # wait for an answer; a runner started by cron answers within a minute
TAKEN_S = 600.0  # wait after the runner took the request, for a restart or a locked file


class NoRunnerForRequest(GridbridgeError):
    """No runner took the request: nothing was stored or changed."""


class RunnerAnswerTimeout(GridbridgeError):
    """The runner took a request and did not answer: its outcome is unknown."""


class CampaignSubmissionRefusal(GridbridgeError):
    """The service refused a campaign."""


def submit_campaign(parsed: ParsedJdl, folder: str = CAMPAIGNS, published: str = PUBLISHED) -> int:
    """Submit a campaign to the runner, and return its number.

    Raises CampaignSubmissionRefusal, RunnerAnswerTimeout, and NoRunnerForRequest if no runner takes
    the campaign, which is then withdrawn.
    """
    return _bring_to_inbox(asdict(parsed.jdl), parsed.parameters, folder, published)


def add_tasks_to_campaign(
    number: int, parameters: tuple[str, ...], folder: str = CAMPAIGNS, published: str = PUBLISHED
) -> None:
    """Add tasks to the caller's own campaign; raises like `submit_campaign`."""
    _bring_to_inbox({ADDS_TO: number}, parameters, folder, published)


def _bring_to_inbox(fields: dict[str, object], parameters: tuple[str, ...], folder: str, published: str) -> int:
    """Store a campaign file for the runner, wait, and return the campaign's number.

    Each file has a random identifier, so root accepts it only once, as one campaign or one
    addition.
    """
    _require_spool(folder, published)
    if os.geteuid() == 0 and os.stat(folder).st_uid != 0:
        raise CampaignSubmissionRefusal(NOT_ROOT)
    header = {**fields, UNIQUE: safe_files.random_file_name()}
    try:
        token = campaign_files.write_campaign_file_to_inbox(
            campaign_files.encode_campaign_file(header, parameters), folder
        )
    except StateError as error:
        raise NoRunnerForRequest(str(error)) from error
    if not _is_answered(token, published, ANSWER_S) and campaign_files.withdraw_campaign_file(token, folder):
        raise NoRunnerForRequest(NOBODY)
    answer = _answer(token, published)
    if "campaign" not in answer:
        raise CampaignSubmissionRefusal(str(answer["refused"]))
    return int(answer["campaign"])


def ask_runner_to_act_on_campaigns(
    verb: CampaignOwnerRequestVerb,
    numbers: tuple[int, ...],
    folder: str = CAMPAIGNS,
    published: str = PUBLISHED,
    task: int = 0,
    of: tuple[int, ...] = (),
) -> dict[int, CampaignOwnerRequestReply]:
    """Ask the runner to act on campaigns or on their events; return its reply for each number.

    Numbers and tasks beyond the service's maximum do not exist. Raises NoRunnerForRequest if no
    runner takes the request, so nothing was changed, and RunnerAnswerTimeout.
    """
    possible = tuple(number for number in numbers if number <= campaign_files.HIGHEST)
    if task > campaign_files.HIGHEST:
        return dict.fromkeys(numbers, CampaignOwnerRequestReply.NO_TASK)
    answer = send_request_to_runner(verb, possible, folder, published, task, of=of) if possible else {}
    replies = {int(number): CampaignOwnerRequestReply(word) for number, word in answer.items()}
    return dict.fromkeys(numbers, CampaignOwnerRequestReply.UNKNOWN) | replies


def send_request_to_runner(
    verb: CampaignOwnerRequestVerb,
    numbers: tuple[int, ...] = (),
    folder: str = CAMPAIGNS,
    published: str = PUBLISHED,
    task: int = 0,
    subscription: Mapping[str, str] = campaign_files.NO_WISH,
    of: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Send a request to the runner; return its answer. Raises like `request_runner_replies`."""
    _require_spool(folder, published)
    try:
        token = campaign_files.write_owner_request_to_inbox(verb, numbers, folder, task, subscription, of)
    except StateError as error:
        raise NoRunnerForRequest(str(error)) from error
    if not _is_answered(token, published, ANSWER_S) and campaign_files.withdraw_owner_request(token, folder):
        raise NoRunnerForRequest(NOT_TOLD if verb is CampaignOwnerRequestVerb.SUBSCRIPTIONS else NOT_CHANGED)
    return _answer(token, published)


def _require_spool(folder: str, published: str) -> None:
    """Raise NoRunnerForRequest on a host without the service's folder, such as a login node.

    On the host where the service publishes, the error says that the folder is missing.
    """
    if os.path.isdir(folder):
        return
    if os.path.isdir(published):
        missing = folder if os.path.isdir(os.path.dirname(folder)) else os.path.dirname(folder)
        raise NoRunnerForRequest(f"{missing}: no such folder, though {published} is here; {MADE_BY}")
    raise NoRunnerForRequest(f"{folder} is not here; {WHERE.format(SPOOL, HOME)}")


def _is_answered(token: str, published: str, limit_s: float) -> bool:
    from gridbridge.shell.retry import poll_until  # tenacity is slow to load

    path = campaign_files.published_answer_path(token, published)
    return poll_until(lambda: os.path.exists(path), limit_s)


def _answer(token: str, published: str) -> dict[str, Any]:
    """Return the answer to a request that the runner took; RunnerAnswerTimeout without one."""
    if not _is_answered(token, published, TAKEN_S):
        raise RunnerAnswerTimeout(UNANSWERED)
    with open(campaign_files.published_answer_path(token, published), encoding="utf-8") as file:
        answer: dict[str, Any] = json.load(file)
        return answer


def require_published_files(folder: str = PUBLISHED) -> None:
    """Raise StateError on a host that does not see the service's published files."""
    if not os.path.isdir(folder):
        raise StateError(f"{folder}: no such folder; {ELSEWHERE}, {BY_SSH}")


def published_campaigns(folder: str = PUBLISHED) -> tuple[ShownCampaign, ...]:
    """Return all published campaigns, sorted by number."""
    shown = published_campaign_files.read_campaign_value_by_class(ShownCampaigns, folder)
    return shown.campaigns if shown else ()


def published_forecast_errors(folder: str = PUBLISHED) -> ShownForecastErrors | None:
    """Return the errors of forecasts for ended campaigns; None if no campaign has ended."""
    shown = published_campaign_files.read_campaign_value_by_class(ShownCampaigns, folder)
    return shown.errors if shown else None


ONE = "0"  # the reply's key for requests without a number


def require_valid_notify_address(way: NotificationChannel, identity: str) -> None:
    """Raise ParseError if an address has the wrong form for its notification channel."""
    form = IDENTITIES[way]
    if not form.holds(identity):
        raise ParseError(f"{identity!r:.80}: wrong form; expected {form.right}")


def change_own_subscription(
    verb: CampaignOwnerRequestVerb,
    way: NotificationChannel,
    identity: str,
    severity: NotificationSeverity,
    folder: str = CAMPAIGNS,
    published: str = PUBLISHED,
) -> CampaignOwnerRequestReply:
    """Subscribe or unsubscribe the caller; raises like `request_runner_answer`."""
    subscription = {"way": way.value, "identity": identity, "severity": severity.value}
    return CampaignOwnerRequestReply(
        send_request_to_runner(verb, (), folder, published, subscription=subscription)[ONE]
    )


def own_notify_subscriptions(folder: str = CAMPAIGNS, published: str = PUBLISHED) -> list[dict[str, str]]:
    """Return the caller's subscriptions, each with channel, address and severity."""
    subscriptions: list[dict[str, str]] = send_request_to_runner(
        CampaignOwnerRequestVerb.SUBSCRIPTIONS, (), folder, published
    )["subscriptions"]
    return subscriptions
