"""gridbridge-as-user look|verify|copy|drop FILE...: acts on a dataset's replicas as their owner.

FILE, `u.UID/data.HEX` among the campaign files, is the owner's permission and names the dataset. `copy FILE
STORAGE [LEAVING]` makes a missing replica; `drop FILE STORAGE` removes a replica of which enough whole replicas
exist. The owner's process checks each act by the owner's own record of the dataset.
"""

import json
import os
import sys
from typing import NoReturn

from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG, KEPT_DATASET
from gridbridge.privileged import as_user_refusals_and_user_switch
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal
from gridbridge.shell import safe_files

AREAS = {"look": (0, 0), "verify": (0, 0), "copy": (1, 2), "drop": (1, 1)}
MOST_LOOKED_AT = 50  # maximal number of FILE arguments in one call
LONG_S = 86400.0  # time limit of a copy or verify; a repeated copy skips files that were copied
PROGRAM = ("-I", "-m", "gridbridge.rebalance.replicas.dataset_owner_program")
NAME_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_.+-"


def perform_as_user_replica_verb(arguments: list[str]) -> NoReturn:
    """Check the permission files and storage areas, then act as the dataset's owner."""
    verb, *words = arguments
    least, most = AREAS[verb]
    shown = " ".join(["STORAGE"] * least + ["[STORAGE]"] * (most - least))
    files_, names = (words, []) if verb == "look" else (words[:1], words[1:])
    if not 0 < len(files_) <= MOST_LOOKED_AT or not least <= len(names) <= most:
        raise AsUserRequestRefusal(f"usage: gridbridge-as-user {verb} FILE {shown}".rstrip())
    config = as_user_refusals_and_user_switch.read_root_configuration(CONFIG)
    areas = config.get("storage", {})
    for name in names:
        if name not in areas:
            raise AsUserRequestRefusal(f"{CONFIG}: no storage area {name[:80]!r}")
    let = [read_delegated_dataset(file) for file in files_]
    if len({uid for _, uid in let}) > 1:
        raise AsUserRequestRefusal("the files have several owners; expected one owner")
    uid = let[0][1]
    as_user_refusals_and_user_switch.require_ordinary_account(config, files_[0], uid)
    as_user_refusals_and_user_switch.continue_in_time_limited_child(
        as_user_refusals_and_user_switch.LIMIT_S if verb == "look" else LONG_S
    )
    become_owner_program(
        as_user_refusals_and_user_switch.switch_to_user(uid), PROGRAM, (verb, *(dataset for dataset, _ in let), *names)
    )


def read_delegated_dataset(name: str) -> tuple[str, int]:
    """Return the dataset that a permission file names, and the uid of the file's owner."""
    person, _, file = name.partition("/")
    letter, _, suffix = person.partition(".")
    number, _, token = suffix.partition(".")
    unique = file.removeprefix(KEPT_DATASET)
    words = (unique, token or "0")
    is_ours = letter == "u" and unique != file and number.isdigit() and number.isascii()
    if not (is_ours and all(word.isascii() and word.isalnum() for word in words)):
        raise AsUserRequestRefusal(f"{name[:80]!r} is not the name of a dataset's file")
    try:
        folder = f"{CAMPAIGNS}/{person}"
        if os.lstat(folder).st_uid != int(number):  # another user may have moved the file into the folder
            raise AsUserRequestRefusal(f"{folder}: not owned by uid {int(number)}")
        data, facts = safe_files.read_file_only_owner_writes(f"{CAMPAIGNS}/{name}", 1024, int(number))
        dataset = json.loads(data)["dataset"]
    except as_user_refusals_and_user_switch.UNREADABLE as error:
        raise AsUserRequestRefusal(f"{name}: {error!r}") from error
    if not _is_dataset_name(dataset):
        raise AsUserRequestRefusal(f"{name}: the dataset has an invalid name")
    return dataset, facts.st_uid


def _is_dataset_name(name: object) -> bool:
    is_name = isinstance(name, str) and 0 < len(name) <= 100 and name[0].isalnum()
    text = str(name)
    return is_name and text.isascii() and all(letter in NAME_LETTERS for letter in text.lower())


def become_owner_program(person: str, program: tuple[str, ...], words: tuple[str, ...]) -> NoReturn:
    """Replace this process, which runs as `person`, by a module of gridbridge with checked arguments."""
    import pwd  # imported here, so that refusals are faster

    environment = as_user_refusals_and_user_switch.environment_of_person(person, pwd.getpwnam(person).pw_dir)
    argv = (sys.executable, *program, *words)
    os.execve(sys.executable, argv, environment)  # noqa: S606 - all words were checked
