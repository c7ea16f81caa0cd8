"""gridbridge-as-user notify-owner FILE WORD...: run a user's own program, as the user.

The user's FILE names the program, not the service. A WORD is CAMPAIGN:CODE:CLUSTER:TASKS, never free text.
"""

import json
import os
import pwd
from typing import NoReturn

from gridbridge.errors import CommandFailed
from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG, WISH
from gridbridge.model.transfer_name import is_valid_cluster_name
from gridbridge.privileged import as_user_refusals_and_user_switch
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal
from gridbridge.shell import safe_files
from gridbridge.shell.program_runs import run_discarding_output

MOST = 30  # maximal number of WORD arguments in one call
PROGRAM_S = 30.0  # time limit of the owner's program, less than LIMIT_S of the whole request


def run_owner_notification_program(arguments: list[str]) -> NoReturn:
    """Check a user's request and all words, then run the program as the user."""
    if len(arguments) < 2 or len(arguments) > 1 + MOST:
        raise AsUserRequestRefusal("usage: gridbridge-as-user notify-owner FILE CAMPAIGN:CODE:CLUSTER:TASKS...")
    name, *words = arguments
    lines = "".join(f"{_checked_notification_line(word)}\n" for word in words)
    config = as_user_refusals_and_user_switch.read_root_configuration(CONFIG)
    path, uid = read_notification_request_file(name)
    as_user_refusals_and_user_switch.require_ordinary_account(config, name, uid)
    as_user_refusals_and_user_switch.continue_in_time_limited_child()
    as_user_refusals_and_user_switch.switch_to_user(uid)
    _become_owner_notification_program(path, uid, lines.encode("ascii"))


def read_notification_request_file(name: str) -> tuple[str, int]:
    unique = name.removeprefix(WISH)
    if unique == name or not (unique.isascii() and unique.isalnum()):
        raise AsUserRequestRefusal(f"{name!r} is not the name of a notification request")
    try:
        data, facts = safe_files.read_file_only_owner_writes(f"{CAMPAIGNS}/{name}", 1 << 16)
        request = json.loads(data)
        verb, way, path = request["verb"], request["way"], request["identity"]
    except as_user_refusals_and_user_switch.UNREADABLE as error:
        raise AsUserRequestRefusal(f"{name}: {error!r}") from error
    if (verb, way) != ("subscribe", "program") or not isinstance(path, str) or path[:1] != "/":
        raise AsUserRequestRefusal(f"{name}: invalid; expected a request for notification by a program")
    return path, facts.st_uid


def _become_owner_notification_program(path: str, uid: int, text: bytes) -> NoReturn:
    person = pwd.getpwuid(uid)
    os.umask(0o022)
    home = person.pw_dir if os.path.isdir(person.pw_dir) else "/"
    os.chdir(home)
    try:
        environment = as_user_refusals_and_user_switch.environment_of_person(person.pw_name, home)
        run_discarding_output((path,), environment, PROGRAM_S, text).require_success()
    except CommandFailed as error:
        as_user_refusals_and_user_switch.print_as_user_error_and_exit(error)
    os._exit(0)


def _checked_notification_line(word: str) -> str:
    campaign, code, cluster, tasks = parts = (*word.split(":"), "", "", "")[:4]
    are_numbers = all(text.isascii() and text.isdigit() and len(text) < 16 for text in (campaign, tasks))
    letters = code.replace("_", "")
    is_code = letters.isascii() and letters.isalpha() and letters.isupper() and len(code) < 33
    is_right = word.count(":") == 3 and are_numbers and is_code and (not cluster or is_valid_cluster_name(cluster))
    if not is_right:
        raise AsUserRequestRefusal(f"{word[:80]!r} is not CAMPAIGN:CODE:CLUSTER:TASKS")
    return " ".join(part or "-" for part in parts)
