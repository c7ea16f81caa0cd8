"""Makes, reads and removes, by ssh, the remote folder that contains a transfer's staged files."""

from gridbridge.errors import CommandFailed, ParseError, UnsafeRemoteFolder, UnstageablePaths
from gridbridge.model.transfer_name import is_transfer_name
from gridbridge.model.transfer_route import BARE, SshLogin
from gridbridge.shell import ssh

STAGE_DIR = ".gridbridge/stage"  # folder in the account's home directory
WORK = "work"
MARK = ".gridbridge"  # if this file is missing, its filesystem is not mounted
TAKEN = 73  # exit status: another account owns the folder
MISSING, LOOSE = 75, 76  # exit statuses: stage_dir is missing; other accounts may replace folders in stage_dir
ANOTHERS = f"""{{
    echo "$own: belongs to another account" >&2
    exit {TAKEN}
}}
"""
# Whoever may write to a folder without sticky bit can rename all files in the folder.
# A group with its owner's name and no other member is private, as created by useradd(8).
JUDGE = f"""place=${{place%/}}
[ -d "$place/" ] || exit {MISSING}
is_own() {{ [ "$3" = "$4" ] && case $(getent group "$4") in *:|*:"$4"|'') ;; *) false ;; esac; }}
facts=$(ls -ld -- "$place/") || exit
case $facts in
?????????[tT]*) ;;
????????w*) exit {LOOSE} ;;
?????w*) is_own $facts || exit {LOOSE} ;;
esac
"""
PLACE = f"""own=${{1%/*}}
case $1 in
/*) # the account's own folder below an absolute stage_dir
    place=${{own%/*}}
    {JUDGE}
    [ -e "$own" ] || [ -L "$own" ] || mkdir -- "$own" || exit
    {{ [ -d "$own" ] && [ -O "$own" ] && [ ! -L "$own" ]; }} || {ANOTHERS}
    chmod 700 -- "$own" || exit
    [ -e "$own/{MARK}" ] || : >"$own/{MARK}" || exit
    ;;
*) mkdir -p -- "$own" || exit ;;
esac
"""
OURS = f"""own=$1; {{ [ -O "$own" ] && [ ! -L "$own" ]; }} || {ANOTHERS}"""
MAKE = f"""umask 077
{PLACE}
rm -rf -- "$1" && mkdir -- "$1" "$1/{WORK}" && cd -- "$1" && pwd"""
KEEP = f"""umask 077
{PLACE}
mkdir -- "$1" 2>/dev/null || {{ {OURS} }}
mkdir -p -- "$1/{WORK}" && cd -- "$1" && pwd"""
KNOWN = f"""[ -e {MARK} ] || [ "${{1#/}}" = "$1" ] || {{
    echo "${{1%/*}}: the file {MARK} is missing; is the filesystem mounted?" >&2
    exit 74
}}
"""
LOOK = f"""cd -- "${{1%/*}}" || exit
me=./${{1##*/}}
if [ ! -e "$me" ] && [ ! -L "$me" ]; then
    {KNOWN}
    echo gone
    exit 0
fi
cd -- "$me" || exit
[ -x ./{WORK} ] || [ ! -d ./{WORK} ] || chmod u+rwx ./{WORK} || exit
shift
"""
LOOK += """
at=0
for name; do
    if [ -e "./$name" ] && [ -L "./$name" ]; then
        echo "$at leads"
    elif [ -e "./$name" ] || [ -L "./$name" ]; then
        echo "$at is"
    fi
    at=$((at + 1))
done"""
READ = 'cd -- "$1" && exec head -c "$3" -- "./$2"'
REMOVE = f"""case $1 in
    /*) cd -- "${{1%/*}}" || exit ;;  # without the parent folder, the filesystem is not mounted
    *) [ -d "${{1%/*}}" ] || exit 0; cd -- "${{1%/*}}" || exit ;;
esac
me=./${{1##*/}}
if [ ! -e "$me" ] && [ ! -L "$me" ]; then
    {KNOWN}
    exit 0
fi
rm -rf -- "$me" 2>/dev/null || {{ chmod -R u+rwx -- "$me"; rm -rf -- "$me"; }}"""


def parent_of_remote_stage_folder(stage_dir: str, account: str) -> str:
    if stage_dir.startswith("/"):
        return f"{stage_dir}/{account}"
    return stage_dir or STAGE_DIR


def make_remote_stage_folder(login: SshLogin, folder: str, timeout_s: float) -> str:
    """Make a transfer's folder anew; return its path, or raise UnstageablePaths or UnsafeRemoteFolder."""
    try:
        path = _run_remote_shell_script(login, MAKE, (_require_valid_transfer_folder(folder),), timeout_s).removesuffix(
            b"\n"
        )
    except CommandFailed as error:
        if error.status != TAKEN:
            raise
        raise UnstageablePaths(
            f"{folder.rpartition('/')[0]} at {login.host} belongs to another account; remove the folder"
        ) from error
    if not path.startswith(b"/"):
        raise ParseError(f"{folder}: the remote host did not make the folder")
    return path.decode("utf-8", "surrogateescape")


def require_safe_stage_dir(login: SshLogin, stage_dir: str, timeout_s: float) -> None:
    """Raise UnsafeRemoteFolder if other accounts could replace an account's folders in `stage_dir`."""
    argv = ("/bin/sh", "-c", f"place=$1\n{JUDGE}", "sh", stage_dir)
    try:
        ssh.run_over_ssh(login, argv, dict(BARE), timeout_s).require_success()
    except CommandFailed as error:
        raise _unsafe_stage_folder_error(error, stage_dir, login.host) or error from error


def _unsafe_stage_folder_error(error: CommandFailed, stage_dir: str, host: str) -> UnsafeRemoteFolder | None:
    from shlex import quote

    subject = f"stage_dir {stage_dir} at {host}"
    if error.status == MISSING:
        return UnsafeRemoteFolder(f"{subject}: no such folder", f"mkdir -p -m 1777 {quote(stage_dir)}")
    if error.status == LOOSE:
        wrong = f"{subject}: other accounts may write to the folder, which is not sticky"
        return UnsafeRemoteFolder(wrong, f"chmod +t {quote(stage_dir)}")
    return None


def restore_remote_stage_folder(login: SshLogin, folder: str, timeout_s: float) -> None:
    """Make a removed remote folder of a transfer again; an existing folder keeps its files."""
    _run_remote_shell_script(login, KEEP, (_require_valid_transfer_folder(folder),), timeout_s)


def find_existing_staged_files(
    login: SshLogin, folder: str, names: tuple[str, ...], timeout_s: float
) -> dict[str, bool] | None:
    """Return each existing name, with True for a symlink; None if the folder is gone.

    Raises CommandFailed if the filesystem of the folder is not mounted.
    """
    lines = _run_remote_shell_script(
        login, LOOK, (_require_valid_transfer_folder(folder), *names), timeout_s
    ).splitlines()
    if lines == [b"gone"]:
        return None
    entries = (line.split() for line in lines)
    return {names[int(at)]: word == b"leads" for at, word in entries}


def read_remote_file(login: SshLogin, folder: str, name: str, most: int, timeout_s: float) -> bytes:
    return _run_remote_shell_script(login, READ, (_require_valid_transfer_folder(folder), name, str(most)), timeout_s)


def remove_remote_stage_folder(login: SshLogin, folder: str, timeout_s: float) -> None:
    """Remove a transfer's remote folder with all files, if the folder exists."""
    _run_remote_shell_script(login, REMOVE, (_require_valid_transfer_folder(folder),), timeout_s)


def remove_stage_folder_of_record(login: SshLogin | None, folder: str, transfer: str, timeout_s: float) -> None:
    """Remove a transfer's remote folder; raise ParseError for another folder name or without a login."""
    if login is None or folder.rpartition("/")[2] != transfer:
        raise ParseError(f"{folder!r} is no remote folder of {transfer}")
    remove_remote_stage_folder(login, folder, timeout_s)


def _require_valid_transfer_folder(folder: str) -> str:
    if not is_transfer_name(folder.rpartition("/")[2]) or ".." in folder.split("/"):
        raise ParseError(f"{folder!r} is no folder of a transfer")
    return folder


def _run_remote_shell_script(login: SshLogin, script: str, arguments: tuple[str, ...], timeout_s: float) -> bytes:
    argv = ("/bin/sh", "-c", script, "sh", *arguments)
    try:
        return ssh.run_over_ssh(login, argv, dict(BARE), timeout_s).require_success().stdout
    except CommandFailed as error:
        stage_dir = arguments[0].rpartition("/")[0].rpartition("/")[0]
        raise _unsafe_stage_folder_error(error, stage_dir, login.host) or error from error
