"""Files of campaigns and requests, which owners write and which the service reads and renames.

The service first moves a file out of its owner's folder, so that the owner can no longer withdraw it.
"""

import hashlib
import json
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, BinaryIO

from gridbridge.campaigns.store import campaign_inbox
from gridbridge.campaigns.store.campaign_file_lines import header_and_lines_of_tasks
from gridbridge.campaigns.store.campaign_file_verification import MAX_FIRST_BYTES, first_line_of_campaign_file
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign_file_and_array_names import ADDS_TO, campaign_file_name
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequest, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.task_input_files import END_OF_PARAMETERS, TaskInputFile, parse_inputs_of_task_line
from gridbridge.model.fixed_paths import CAMPAIGNS, PUBLISHED, TAKEN_REQUEST, WISH
from gridbridge.shell import safe_files
from gridbridge.state import published_files

NEW, BEGUN = "new.", f"{campaign_inbox.BEGUN}/in."
ASKED, TAKEN = "ask.", TAKEN_REQUEST
KINDS = (NEW, ASKED, "in.", "took.")
MAX_BYTES = 512 << 20
NO_WISH: Mapping[str, str] = {}
HIGHEST = 999_999_999  # highest number of a campaign, an event or a task


class ForeignOrMissingCampaignFile(GridbridgeError):
    """The campaign's file is missing, or belongs to another user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCampaignOrAddedTasksFile:
    token: str
    uid: int
    owner: str  # user name; empty if the uid has no account
    digest: str
    header: Any  # parsed JSON of the first line
    tasks: int
    size: int = 0  # size in bytes

    @property
    def extended_campaign_number(self) -> int | None:
        """The number of the campaign to which the file adds tasks; None for a new campaign."""
        number = self.header.get(ADDS_TO) if isinstance(self.header, dict) else None
        return max(0, min(number, HIGHEST)) if isinstance(number, int) else None


def encode_campaign_file(header: object, parameters: tuple[str, ...]) -> bytes:
    """Encode a campaign file: one line of JSON, then one line with the parameters of each task."""
    lines = (json.dumps(header), *parameters)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def write_campaign_file_to_inbox(data: bytes, folder: str = CAMPAIGNS) -> str:
    """Write a campaign file into this user's inbox folder; return the file's random token."""
    return _write_file_to_own_inbox(NEW, data, folder)


def _write_file_to_own_inbox(kind: str, data: bytes, folder: str) -> str:
    token = safe_files.random_file_name()
    path = f"{campaign_inbox.make_own_inbox_folder(folder)}/{kind}{token}"
    safe_files.replace_file_atomically(path, data, mode=0o640)
    return token


def withdraw_campaign_file(token: str, folder: str = CAMPAIGNS) -> bool:
    """Delete a campaign file from this user's inbox; False if the service has already taken the file."""
    return _delete_own_inbox_file(f"{NEW}{token}", folder)


def take_new_campaign_files(
    listed: Iterable[str], folder: str = CAMPAIGNS
) -> Iterator[tuple[str, NewCampaignOrAddedTasksFile | str]]:
    """Take new campaign files from the inbox; yield each file's token, and its content or an error."""
    for token in campaign_inbox.take_new_inbox_files(listed, NEW, BEGUN, folder):
        try:
            yield token, _read_campaign_file(f"{folder}/{BEGUN}{token}", token)
        except StateError as error:
            yield token, str(error)
        except OSError:  # the owner has removed the file, or the file can't be read
            continue
        except Exception as error:  # untrusted content may cause any exception
            yield token, f"not what gridsub writes: {error!r:.200}"


def list_unprocessed_inbox_files(listed: Iterable[str], folder: str = CAMPAIGNS) -> list[str]:
    names = list(listed)
    return [name for kind in KINDS for name in campaign_inbox.select_inbox_files_fairly(names, kind, folder)]


def write_owner_request_to_inbox(
    verb: str,
    campaigns: tuple[int, ...],
    folder: str = CAMPAIGNS,
    task: int = 0,
    subscription: Mapping[str, str] = NO_WISH,
    of: tuple[int, ...] = (),
) -> str:
    """Write a request into this user's inbox folder; return its token. `of` has the campaigns of events."""
    request = {"verb": verb, "campaigns": campaigns, "task": task, "of": of, **subscription}
    return _write_file_to_own_inbox(ASKED, json.dumps(request).encode(), folder)


def list_request_files_of_verb(
    listed: Iterable[str], verb: CampaignOwnerRequestVerb, folder: str = CAMPAIGNS
) -> list[str]:
    """Return the names of inbox files whose requests have this verb; no file is moved."""
    names, kinds = list(listed), (ASKED, TAKEN.removeprefix(f"{campaign_inbox.BEGUN}/"))
    paths = (path for kind in kinds for path in campaign_inbox.select_inbox_files_fairly(names, kind, folder))
    return [
        path for path in paths if (request := _read_owner_request_file(f"{folder}/{path}")) and request.verb is verb
    ]


def take_owner_requests(listed: Iterable[str], folder: str = CAMPAIGNS) -> Iterator[CampaignOwnerRequest]:
    """Take the owners' requests from the inbox, and remove invalid requests."""
    for token in campaign_inbox.take_new_inbox_files(listed, ASKED, TAKEN, folder):
        if request := _read_owner_request_file(f"{folder}/{TAKEN}{token}"):
            yield request
        else:
            remove_answered_request_file(token, folder)


def _read_owner_request_file(path: str) -> CampaignOwnerRequest | None:
    token = path.rpartition(".")[2]
    try:
        data, facts = safe_files.read_file_only_owner_writes(path, 1 << 16)
        table = json.loads(data)
        numbers = tuple(dict.fromkeys(_require_number_in_request(number) for number in table.get("campaigns", ())))
        verb, task = CampaignOwnerRequestVerb(table["verb"]), _require_number_in_request(table.get("task", 0))
        subscription = {key: _require_text_in_request(table.get(key, "")) for key in ("way", "identity", "severity")}
    except Exception:  # untrusted content may cause any exception
        return None
    return CampaignOwnerRequest(token=token, uid=facts.st_uid, verb=verb, numbers=numbers, task=task, **subscription)


def _require_number_in_request(value: object) -> int:
    if not isinstance(value, int) or abs(value) > HIGHEST:
        raise ValueError("number out of range")
    return value


def _require_text_in_request(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    value.encode()  # JSON allows lone surrogates, which no column can store
    return value


def remove_answered_request_file(token: str, folder: str = CAMPAIGNS) -> None:
    _remove_campaign_file(f"{folder}/{TAKEN}{token}")


def remove_refused_inbox_file(token: str, folder: str = CAMPAIGNS) -> None:
    for begun in (BEGUN, TAKEN):
        _remove_campaign_file(f"{folder}/{begun}{token}")


def keep_subscription_file_for_root(token: str, folder: str = CAMPAIGNS) -> None:
    """Keep a subscription request's file, in which root later reads which program to run."""
    with suppress(FileNotFoundError):
        os.rename(f"{folder}/{TAKEN}{token}", f"{folder}/{WISH}{token}")


def remove_root_subscription_file(token: str, folder: str = CAMPAIGNS) -> None:
    safe_files.remove_file(f"{folder}/{WISH}{token}")


def withdraw_owner_request(token: str, folder: str = CAMPAIGNS) -> bool:
    """Delete a request from this user's inbox; False if the service has already taken the request."""
    return _delete_own_inbox_file(f"{ASKED}{token}", folder)


def _delete_own_inbox_file(name: str, folder: str) -> bool:
    try:
        os.unlink(f"{campaign_inbox.make_own_inbox_folder(folder)}/{name}")
    except FileNotFoundError:
        return False
    return True


def is_campaign_number_taken(campaign: int, folder: str = CAMPAIGNS) -> bool:
    return os.path.lexists(f"{folder}/{campaign_file_name(campaign)}")


def rename_file_to_campaign_number(token: str, campaign: int, folder: str = CAMPAIGNS, part: int = 0) -> None:
    """Rename a processed file to its campaign and part number; move a foreign file of that name away."""
    begun, numbered = f"{folder}/{BEGUN}{token}", f"{folder}/{campaign_file_name(campaign, part)}"
    try:
        if os.path.lexists(begun) and os.path.lexists(numbered):
            os.rename(numbered, f"{folder}/{safe_files.random_file_name('odd.')}")
        os.rename(begun, numbered)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError(f"{begun}: {error.strerror}") from error


def read_numbered_campaign_file(
    campaign: int, folder: str = CAMPAIGNS, part: int = 0
) -> NewCampaignOrAddedTasksFile | None:
    name = campaign_file_name(campaign, part)
    try:
        return _read_campaign_file(f"{folder}/{name}", name)
    except Exception:  # untrusted content may cause any exception
        return None


def read_own_campaign_file(campaign: int, folder: str = CAMPAIGNS, *, is_run: bool = False) -> tuple[Any, list[str]]:
    """Return the header and all task parameters of this user's campaign; root reads all campaigns.

    Raises ForeignOrMissingCampaignFile for a missing, damaged or foreign file: anybody may create a file with a removed
    file's name. With `is_run`, even root reads only its own campaigns.
    """
    header, lines = read_own_campaign_header_and_lines(campaign, folder, is_run=is_run)
    return header, [*lines.values()]


def read_own_campaign_header_and_lines(
    campaign: int, folder: str = CAMPAIGNS, tasks: Iterable[int] | None = None, *, is_run: bool = False
) -> tuple[Any, dict[int, str]]:
    """Work like `read_own_campaign_file`; return {task: parameters} of some tasks, by default of all."""
    header, lines = _read_own_campaign_lines(campaign, folder, tasks, is_run=is_run)
    has_inputs = isinstance(header, dict) and header.get("inputs")
    parameters = {task: line.partition(END_OF_PARAMETERS)[0] for task, line in lines.items()}
    return header, parameters if has_inputs else lines


def read_inputs_of_own_tasks(
    campaign: int, tasks: Iterable[int] | None = None, folder: str = CAMPAIGNS
) -> dict[int, tuple[TaskInputFile, ...]]:
    """Return the input files of this user's tasks, by default of all; raises ForeignOrMissingCampaignFile."""
    _, lines = _read_own_campaign_lines(campaign, folder, tasks)
    try:
        return {task: parse_inputs_of_task_line(line) for task, line in lines.items()}
    except (ValueError, RecursionError) as error:
        raise ForeignOrMissingCampaignFile(f"campaign {campaign}: the campaign's file is damaged") from error


def _read_own_campaign_lines(
    campaign: int, folder: str, tasks: Iterable[int] | None, *, is_run: bool = False
) -> tuple[Any, dict[int, str]]:
    uid = os.geteuid()
    try:
        header, lines = header_and_lines_of_tasks(_open_files(campaign, folder, uid if uid or is_run else None), tasks)
        return json.loads(header), lines
    except FileNotFoundError as error:
        raise ForeignOrMissingCampaignFile(f"campaign {campaign}: the campaign's file was removed") from error
    except (ValueError, RecursionError) as error:
        raise ForeignOrMissingCampaignFile(f"campaign {campaign}: the campaign's file is damaged") from error
    except (OSError, StateError) as error:
        raise ForeignOrMissingCampaignFile(f"campaign {campaign}: {_refusal_of_foreign_campaign(uid)}") from error


def _open_files(campaign: int, folder: str, owner: int | None) -> Iterator[BinaryIO]:
    """Yield the campaign's files, each open until the next is asked for."""
    for part in (0, *_part_numbers_of_owner(campaign, folder)):
        path = f"{folder}/{campaign_file_name(campaign, part)}"
        end, _ = safe_files.open_file_only_owner_writes(path, MAX_BYTES, owner)
        with os.fdopen(end, "rb") as file:
            yield file


def require_own_campaign(campaign: int, folder: str = CAMPAIGNS) -> None:
    uid = os.geteuid()
    with suppress(FileNotFoundError):
        if os.lstat(f"{folder}/{campaign_file_name(campaign)}").st_uid != uid:
            raise ForeignOrMissingCampaignFile(f"campaign {campaign}: {_refusal_of_foreign_campaign(uid)}")


def _refusal_of_foreign_campaign(uid: int) -> str:
    return "owned by another user" if uid else "only the owner may do this"


def uid_of_campaign_owner(campaign: int, folder: str = CAMPAIGNS) -> int:
    """Return the uid of a campaign's owner; raises ForeignOrMissingCampaignFile if the file is missing."""
    try:
        return os.lstat(f"{folder}/{campaign_file_name(campaign)}").st_uid
    except OSError as error:
        raise ForeignOrMissingCampaignFile(f"campaign {campaign}: the campaign's file was removed") from error


def measure_person_campaign_files(
    parts: Iterable[tuple[int, int]], uid: int, folder: str = CAMPAIGNS
) -> tuple[int, int]:
    """Return the number and total bytes of those (campaign, part) files that a user owns."""
    sizes = []
    for campaign, part in parts:
        with suppress(OSError):
            facts = os.lstat(f"{folder}/{campaign_file_name(campaign, part)}")
            if facts.st_uid == uid and stat.S_ISREG(facts.st_mode):
                sizes.append(facts.st_size)
    return len(sizes), sum(sizes)


def remove_campaign_files(campaign: int, folder: str = CAMPAIGNS) -> None:
    """Remove all existing files of a campaign, the last added file first."""
    for part in (*reversed(_part_numbers_of_owner(campaign, folder)), 0):
        _remove_campaign_file(f"{folder}/{campaign_file_name(campaign, part)}")


def _part_numbers_of_owner(campaign: int, folder: str) -> range:
    uid = _uid_of_regular_file(f"{folder}/{campaign_file_name(campaign)}")
    if uid is None:
        return range(1, 1)
    after = next(n for n in count(1) if _uid_of_regular_file(f"{folder}/{campaign_file_name(campaign, n)}") != uid)
    return range(1, after)


def _uid_of_regular_file(path: str) -> int | None:
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return None
    return facts.st_uid if stat.S_ISREG(facts.st_mode) else None


def published_answer_path(token: str, published: str = PUBLISHED) -> str:
    return f"{published}/taken/{token}"


def publish_answer_to_sender(token: str, reply: object, published: str = PUBLISHED) -> None:
    published_files.publish_file(
        published_answer_path(token, published), json.dumps(reply).encode(), published_files.UNLISTED
    )


def _read_campaign_file(path: str, token: str) -> NewCampaignOrAddedTasksFile:
    _require_valid_first_line(path)
    data, facts = safe_files.read_file_only_owner_writes(path, MAX_BYTES)
    return NewCampaignOrAddedTasksFile(
        token=token,
        uid=facts.st_uid,
        owner=_user_name_of_uid(facts.st_uid),
        digest=hashlib.sha256(data).hexdigest(),
        header=json.loads(_first_line_of_campaign_file(path, data)),
        tasks=data.count(b"\n") - 1,
        size=len(data),
    )


def _require_valid_first_line(path: str) -> None:
    """Refuse a file whose first line is invalid, before the whole file of up to 512 MB is read."""
    end = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # folders, pipes and devices are refused later, when the whole file is read
        is_plain = stat.S_ISREG(os.fstat(end).st_mode)
        if is_plain:
            _first_line_of_campaign_file(path, os.read(end, MAX_FIRST_BYTES + 1))
    finally:
        os.close(end)


def _first_line_of_campaign_file(path: str, data: bytes) -> bytes:
    try:
        return first_line_of_campaign_file(data)
    except ValueError as error:
        raise StateError(f"{path}: {error}") from error


def _user_name_of_uid(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _remove_campaign_file(path: str) -> None:
    with suppress(IsADirectoryError):
        safe_files.remove_file(path)
