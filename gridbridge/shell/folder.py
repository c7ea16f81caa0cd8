"""A transfer's own folder at the far end of ssh: made, looked into, and removed.

Its name is the transfer's, so that nobody removes anything else by mistake.
"""

from gridbridge.errors import ParseError
from gridbridge.model.ids import is_transfer
from gridbridge.model.route import BARE, Login
from gridbridge.shell import ssh

STAGE_DIR = ".gridbridge/stage"  # below the account's home
WORK = "work"
KEEP = f'umask 077; mkdir -p -- "$1/{WORK}" && cd -- "$1" && pwd'
MAKE = f'rm -rf -- "$1" && {{ {KEEP}; }}'
LOOK = f"""cd -- "${{1%/*}}" || exit
me=./${{1##*/}}
[ -e "$me" ] || [ -L "$me" ] || {{ echo gone; exit 0; }}
cd -- "$me" || exit
[ -x ./{WORK} ] || [ ! -d ./{WORK} ] || chmod u+rwx ./{WORK} || exit
shift
"""
LOOK += """
at=0
for name; do
    if [ -e "./$name" ] || [ -L "./$name" ]; then echo "$at"; fi
    at=$((at + 1))
done"""
REMOVE = """case $1 in
    /*) cd -- "${1%/*}" || exit ;;  # a filesystem that is not there has not lost it
    *) [ -d "${1%/*}" ] || exit 0; cd -- "${1%/*}" || exit ;;
esac
me=./${1##*/}
rm -rf -- "$me" 2>/dev/null || { chmod -R u+rwx -- "$me"; rm -rf -- "$me"; }"""


def make(login: Login, folder: str, timeout_s: float) -> str:
    """Make it anew with an empty working directory; return its absolute path."""
    path = _ask(login, MAKE, (_checked(folder),), timeout_s).removesuffix(b"\n")
    if not path.startswith(b"/"):
        raise ParseError(f"{folder}: not made there")
    return path.decode("utf-8", "surrogateescape")


def keep(login: Login, folder: str, timeout_s: float) -> None:
    """Make it again if somebody removed it; what is in it stays."""
    _ask(login, KEEP, (_checked(folder),), timeout_s)


def present(
    login: Login, folder: str, names: tuple[str, ...], timeout_s: float
) -> tuple[str, ...] | None:
    """Return which of these names it has; None when there is no such folder.

    CommandFailed when that can't be told, for what it lies in is not there just now.
    """
    told = _ask(login, LOOK, (_checked(folder), *names), timeout_s).split()
    return None if told == [b"gone"] else tuple(names[int(at)] for at in told)


def remove(login: Login, folder: str, timeout_s: float) -> None:
    """Remove it with all that is in it; one that is gone is removed."""
    _ask(login, REMOVE, (_checked(folder),), timeout_s)


def remove_own(login: Login | None, folder: str, transfer: str, timeout_s: float) -> None:
    """Remove the folder that a record names; ParseError if it is not its transfer's own."""
    if login is None or folder.rpartition("/")[2] != transfer:
        raise ParseError(f"{folder!r} is no folder of {transfer} elsewhere")
    remove(login, folder, timeout_s)


def _checked(folder: str) -> str:
    if not is_transfer(folder.rpartition("/")[2]) or ".." in folder.split("/"):
        raise ParseError(f"{folder!r} is no transfer's folder")
    return folder


def _ask(login: Login, script: str, arguments: tuple[str, ...], timeout_s: float) -> bytes:
    argv = ("/bin/sh", "-c", script, "sh", *arguments)
    return ssh.run(login, argv, dict(BARE), timeout_s).checked().stdout
