"""What users' commands do about campaigns: bring one, and read what everybody may see."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gridbridge.campaigns.store import campaign_files, published_campaign_files
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign_names import ADDS_TO, UNIQUE
from gridbridge.model.campaigns.owner_request import OwnerReply, OwnerVerb
from gridbridge.model.campaigns.published_campaigns import (
    ShownCampaign,
    ShownCampaigns,
    ShownErrors,
)
from gridbridge.model.places import CAMPAIGNS, CONFIG, ELSEWHERE, HOME, PUBLISHED, SPOOL
from gridbridge.shell import files

BY_SSH = f"or name it here as transfer_host of [site] in {CONFIG}"
WHERE = (
    f"campaigns are brought on the transfer host, or where its {{}} and {{}} are mounted; {BY_SSH}"
)
MADE_BY = "an administrator makes it: `gridbridge setup host --apply`, or mounts it here"
NOBODY = "no gridbridge-runner takes campaigns now; nothing was stored"
NOT_CHANGED = "no gridbridge-runner takes requests now; nothing is changed"
NOT_TOLD = "no gridbridge-runner takes requests now; nobody has answered"
NOT_ROOT = "nothing of a campaign is ever run as root; submit it as somebody else"
UNANSWERED = (
    "gridbridge-runner took it and has not answered: it may be done, now or later;"
    " look at gridstat before you repeat it"
)
ANSWER_S = 90.0  # a runner from cron takes a minute
TAKEN_S = 600.0  # of what it took: a runner that was killed begins anew, a locked file is let go


class NothingStored(GridbridgeError):
    """Nothing was stored."""


class RunnerSilent(GridbridgeError):
    """It was taken, so that it is done now or later, and nobody knows what became of it."""


class SubmissionRefused(GridbridgeError):
    """The service does not take a campaign."""


def submit(parsed: ParsedJdl, folder: str = CAMPAIGNS, published: str = PUBLISHED) -> int:
    """Bring a campaign, and return its number.

    Raises Refused, Unreachable when nobody takes it: it is taken back then, and Unanswered.
    """
    return _brought(asdict(parsed.jdl), parsed.parameters, folder, published)


def add(
    number: int, parameters: tuple[str, ...], folder: str = CAMPAIGNS, published: str = PUBLISHED
) -> None:
    """Add tasks to a campaign of ours, as a file of their own; raises as `submit`."""
    _brought({ADDS_TO: number}, parameters, folder, published)


def _brought(
    fields: dict[str, object], parameters: tuple[str, ...], folder: str, published: str
) -> int:
    """Bring a file, and return the number of its campaign.

    No two files are alike: root takes each of them once, as one campaign or part.
    """
    _require_spool(folder, published)
    if os.geteuid() == 0 and os.stat(folder).st_uid != 0:
        raise SubmissionRefused(NOT_ROOT)
    header = {**fields, UNIQUE: files.random_name()}
    try:
        token = campaign_files.put(campaign_files.encode(header, parameters), folder)
    except StateError as error:
        raise NothingStored(str(error)) from error
    if not _is_answered(token, published, ANSWER_S) and campaign_files.take_back(token, folder):
        raise NothingStored(NOBODY)
    answer = _answer(token, published)
    if "campaign" not in answer:
        raise SubmissionRefused(str(answer["refused"]))
    return int(answer["campaign"])


def ask(
    verb: OwnerVerb,
    numbers: tuple[int, ...],
    folder: str = CAMPAIGNS,
    published: str = PUBLISHED,
    task: int = 0,
    of: tuple[int, ...] = (),
) -> dict[int, OwnerReply]:
    """Ask for something about campaigns, or events of some; return what became of it for each.

    There is none of a number, and no task, beyond those that the service counts to.

    Raises Unreachable when nobody takes that: nothing was done then; and Unanswered.
    """
    possible = tuple(number for number in numbers if number <= campaign_files.HIGHEST)
    if task > campaign_files.HIGHEST:
        return dict.fromkeys(numbers, OwnerReply.NO_TASK)
    answer = request_answer(verb, possible, folder, published, task, of=of) if possible else {}
    replies = {int(number): OwnerReply(word) for number, word in answer.items()}
    return dict.fromkeys(numbers, OwnerReply.UNKNOWN) | replies


def request_answer(
    verb: OwnerVerb,
    numbers: tuple[int, ...] = (),
    folder: str = CAMPAIGNS,
    published: str = PUBLISHED,
    task: int = 0,
    subscription: Mapping[str, str] = campaign_files.NO_WISH,
    of: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Ask for something; return the answer. Raises as `ask`."""
    _require_spool(folder, published)
    try:
        token = campaign_files.ask(verb, numbers, folder, task, subscription, of)
    except StateError as error:
        raise NothingStored(str(error)) from error
    if not _is_answered(token, published, ANSWER_S) and campaign_files.forget(token, folder):
        raise NothingStored(NOT_TOLD if verb is OwnerVerb.SUBSCRIPTIONS else NOT_CHANGED)
    return _answer(token, published)


def _require_spool(folder: str, published: str) -> None:
    """Raise Unreachable on a host, such as a login node, that lacks the service's folder.

    On the host where the service publishes, the error says that the folder is missing.
    """
    if os.path.isdir(folder):
        return
    if os.path.isdir(published):
        missing = folder if os.path.isdir(os.path.dirname(folder)) else os.path.dirname(folder)
        raise NothingStored(f"{missing}: no such folder, though {published} is here; {MADE_BY}")
    raise NothingStored(f"{folder} is not here; {WHERE.format(SPOOL, HOME)}")


def _is_answered(token: str, published: str, limit_s: float) -> bool:
    from gridbridge.shell.retry import until  # tenacity is slow to load

    path = campaign_files.answer_path(token, published)
    return until(lambda: os.path.exists(path), limit_s)


def _answer(token: str, published: str) -> dict[str, Any]:
    """Return the answer to what was taken; Unanswered when there is none."""
    if not _is_answered(token, published, TAKEN_S):
        raise RunnerSilent(UNANSWERED)
    with open(campaign_files.answer_path(token, published), encoding="utf-8") as file:
        answer: dict[str, Any] = json.load(file)
        return answer


def require_published(folder: str = PUBLISHED) -> None:
    """Raise StateError on a host that does not see what the service publishes."""
    if not os.path.isdir(folder):
        raise StateError(f"{folder}: no such folder; {ELSEWHERE}, {BY_SSH}")


def published_campaigns(folder: str = PUBLISHED) -> tuple[ShownCampaign, ...]:
    """Return all campaigns by number."""
    shown = published_campaign_files.read(ShownCampaigns, folder)
    return shown.campaigns if shown else ()


def errors(folder: str = PUBLISHED) -> ShownErrors | None:
    """Return how good the forecasts were of campaigns that have ended; None where none has."""
    shown = published_campaign_files.read(ShownCampaigns, folder)
    return shown.errors if shown else None
