"""gridbridge-as-user look|verify|copy|drop FILE...: replicas of a dataset, as its owner.

FILE is the one by which the owner lets the service look after a dataset, `u.UID/data.HEX` in the
folder of campaign files; the dataset's name stands in it alone. The other words are names of
storage areas that root has configured. What is done is decided anew, by the owner's own record, in
a process of the owner's: `look` tells it, `verify` reads its replicas, `copy FILE TO [LEAVING]`
makes one that is missing, and `drop FILE STORAGE` removes one of which enough others are whole.
"""

import json
import os
import sys
from typing import NoReturn

from gridbridge.model.places import CAMPAIGNS, CONFIG, KEPT_DATASET
from gridbridge.privileged import owner
from gridbridge.privileged.owner import OwnerRefusal
from gridbridge.shell import files

MAX_BYTES = 1024
AREAS = {"look": (0, 0), "verify": (0, 0), "copy": (1, 2), "drop": (1, 1)}
MOST_LOOKED_AT = 50  # files of one person
LONG_S = 86400.0  # of carrying and reading; what was carried is not carried again
PROGRAM = ("-I", "-m", "gridbridge.rebalance.replicas.owner_program")
NAME_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_.+-"
MOST_LETTERS = 100


def perform(arguments: list[str]) -> NoReturn:
    """Check everything, then act in a process of its own as the owner of the dataset."""
    verb, *words = arguments
    least, most = AREAS[verb]
    shown = " ".join(["STORAGE"] * least + ["[STORAGE]"] * (most - least))
    files_, names = (words, []) if verb == "look" else (words[:1], words[1:])
    if not 0 < len(files_) <= MOST_LOOKED_AT or not least <= len(names) <= most:
        raise OwnerRefusal(f"usage: gridbridge-as-user {verb} FILE {shown}".rstrip())
    config = owner.read_config(CONFIG)
    areas = config.get("storage", {})
    for name in names:
        if name not in areas:
            raise OwnerRefusal(f"{CONFIG}: no storage area {name[:80]!r}")
    let = [read(file) for file in files_]
    if len({uid for _, uid in let}) > 1:
        raise OwnerRefusal("the files are of several people")
    uid = let[0][1]
    owner.require_person(config, files_[0], uid)
    owner.go_on_apart(owner.LIMIT_S if verb == "look" else LONG_S)
    _run(owner.become(uid), verb, [dataset for dataset, _ in let], names)


def read(name: str) -> tuple[str, int]:
    """Return the dataset of a file by which its owner lets the service act, and who that is."""
    person, _, file = name.partition("/")
    letter, _, suffix = person.partition(".")
    number, _, token = suffix.partition(".")
    unique = file.removeprefix(KEPT_DATASET)
    words = (unique, token or "0")
    is_ours = letter == "u" and unique != file and number.isdigit() and number.isascii()
    if not (is_ours and all(word.isascii() and word.isalnum() for word in words)):
        raise OwnerRefusal(f"{name[:80]!r} is no name of such a file")
    try:
        _require_own(f"{CAMPAIGNS}/{person}", int(number))
        data, facts = files.read(f"{CAMPAIGNS}/{name}", MAX_BYTES, int(number))
        dataset = json.loads(data)["dataset"]
    except owner.UNREADABLE as error:
        raise OwnerRefusal(f"{name}: {error!r}") from error
    if not _is_dataset(dataset):
        raise OwnerRefusal(f"{name}: no name of a dataset")
    return dataset, facts.st_uid


def _require_own(folder: str, uid: int) -> None:
    """Refuse what lies in a folder that is not that person's: another could have moved it there."""
    if os.lstat(folder).st_uid != uid:
        raise OwnerRefusal(f"{folder}: not uid {uid}'s")


def _is_dataset(name: object) -> bool:
    is_name = isinstance(name, str) and 0 < len(name) <= MOST_LETTERS and name[0].isalnum()
    text = str(name)
    return is_name and text.isascii() and all(letter in NAME_LETTERS for letter in text.lower())


def _run(person: str, verb: str, datasets: list[str], names: list[str]) -> NoReturn:
    import pwd  # only who acts needs it

    home = pwd.getpwnam(person).pw_dir
    identity = {"HOME": home, "USER": person, "LOGNAME": person}
    environment = {**identity, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    argv = (sys.executable, *PROGRAM, verb, *datasets, *names)
    os.execve(sys.executable, argv, environment)  # noqa: S606 - no word of it is the service's
