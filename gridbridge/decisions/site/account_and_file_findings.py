"""Checks system accounts, the owners and modes of files and programs, and the sudoers file.

`gridbridge setup host` makes the account, folders and sudoers line; `gridbridge check` prints all findings.
"""

import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from types import MappingProxyType

from gridbridge.model.fixed_paths import AS_USER, CAMPAIGNS, CONFIG, HOME, METHODS, PUBLISHED, PYTHON, SPOOL, SUDOERS
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, SetupEdit
from gridbridge.model.site.site_check_facts import NonRootWritablePaths, PathFacts, TransferHostFacts
from gridbridge.model.site.site_section import SiteSection

NO_COMMENT = re.compile(r"\s*#(\s*[0-9]|include)")
UNSEEN = "not visible to this user"


def system_account_finding(name: str, uid: int, home: str) -> CheckFinding:
    """Check that a system account of gridbridge exists; uid 0: no such account."""
    item = f"account {name}"
    if uid:
        return CheckFinding.ok(item, f"uid {uid}")
    add = f"useradd --system --user-group --home-dir {home} --shell /usr/sbin/nologin {name}"
    return CheckFinding.broken(item, "missing", "a system account", SetupEdit.shell(add))


def account_folder_finding(
    path: str, mode: int, facts: PathFacts | None, owner: tuple[str, int], hidden: Set[str], *, is_within: bool = False
) -> CheckFinding:
    """Check a folder's owner and mode; `owner` is the account and its uid (0: the account does not exist).

    A folder inside the account's own folder (`is_within`) is made by a process of the account: the account could
    replace the path by a symlink while root works on the path.
    """
    item, (name, uid), quoted = f"folder {path}", owner, shlex.quote(path)
    right = f"{name}'s, mode {mode:04o}"
    mends = f"install -d -o {name} -g {name} -m {mode:04o} {quoted}"
    if is_within:
        mends = run_as_account_shell_line(name, f"install -d -m {mode:04o} {quoted}")
    if path in hidden:
        return CheckFinding.warning(item, UNSEEN, right)
    if facts is None:
        return CheckFinding.broken(item, "missing", right, SetupEdit.shell(mends))
    if not facts.is_folder:
        moved = f"mv -T {quoted} {quoted}.wrong"
        aside = f"{run_as_account_shell_line(name, moved) if is_within else moved} && {mends}"
        return CheckFinding.broken(item, "not a folder", right, SetupEdit.shell(aside))
    if uid and facts.owner == uid and facts.mode == mode:
        return CheckFinding.ok(item, describe_owner_and_mode(facts))
    make_and_give = f"chown -h {name}: {quoted} && {mends}" if is_within else mends
    return CheckFinding.broken(item, describe_owner_and_mode(facts), right, SetupEdit.shell(make_and_give))


def run_as_account_shell_line(name: str, command: str) -> str:
    """Return the command line by which root runs a command as another account."""
    return f"runuser -u {name} -- {command}"


def sudoers_file_finding(path: str, line: str, facts: PathFacts | None, text: str, hidden: Set[str]) -> CheckFinding:
    """Check a sudoers file that has to contain exactly one line."""
    item, mend = f"sudoers {path}", setup_edit_writing_root_file(path, line, 0o440)
    if facts and (facts.owner, facts.mode) != (0, 0o440):
        return CheckFinding.broken(
            item, describe_owner_and_mode(facts), "root's, mode 0440: sudo refuses other modes", mend
        )
    if path in hidden:
        return CheckFinding.warning(item, UNSEEN, line)
    if facts is None:
        return CheckFinding.broken(item, "missing", line, mend)
    if line not in text.splitlines():
        return CheckFinding.broken(item, "without the expected line", line, mend)
    if more := tuple(extra_line for extra_line in _meaningful_lines(text) if extra_line != line):
        return CheckFinding.broken(item, f"has another line: {more[0]}", f"{line}, and no other line", mend)
    return CheckFinding.ok(item, line)


def _meaningful_lines(text: str) -> Iterator[str]:
    """Yield a sudoers file's lines without comments and blank lines; `#1000` and `#include` are no comments."""
    for line in text.splitlines():
        is_comment = line.lstrip().startswith("#") and not NO_COMMENT.match(line)
        if line.strip() and not is_comment:
            yield line


def describe_owner_and_mode(facts: PathFacts) -> str:
    """Return the owner and the mode of a path as text."""
    return f"{facts.owner_name}'s, mode {facts.mode:04o}"


def setup_edit_writing_root_file(path: str, line: str, mode: int) -> SetupEdit:
    """Return the edit that writes a file with one line, owned by root."""
    install = f"install -m {mode:04o} -o root -g root /dev/stdin {path}"
    return SetupEdit.shell(f"echo {shlex.quote(line)} | {install}")


def setup_edit_making_file_private(path: str, owner: str) -> SetupEdit:
    """Return the edit that makes a file readable by its owner account only.

    The account may have replaced the file by a symlink, so root never changes the symlink's target.
    """
    name = shlex.quote(path)
    return SetupEdit.shell(f"chown -h {owner}: {name} && {run_as_account_shell_line(owner, f'chmod 0600 {name}')}")


ACCOUNT = re.compile(r"(?=.*[^0-9])[A-Za-z0-9_][A-Za-z0-9_.-]{0,255}")  # only digits would be a uid
FOLDER = "d"  # find(1), -printf %y
SHOWN = 5


def misowned_account_folders(entries: Iterable[str]) -> dict[str, str]:
    """Return the entries of a storage area that have an account's name, but are no folder or have another owner.

    Each entry is `OWNER TYPE NAME`; NAME may contain newlines. The result maps NAME to OWNER. An account called NAME
    need not exist.
    """
    owners = {}
    for entry in entries:
        owner, _, kind_and_name = entry.partition(" ")
        kind, _, name = kind_and_name.partition(" ")
        if ACCOUNT.fullmatch(name) and (kind != FOLDER or owner != name):
            owners[name] = owner
    return owners


def storage_area_owner_findings(
    storage: str, path: str, host: str, owners_by_name: Mapping[str, str] | None, most: int = 0
) -> Iterator[CheckFinding]:
    """Check that no account's name in a storage area is taken by another account.

    `owners_by_name` is None if the area was not readable. `most` is the number of checked names if the area has more
    names; 0: all names were checked.
    """
    if owners_by_name is None:
        return
    item = f"storage {storage}: names"
    if most:
        yield CheckFinding.warning(
            f"{item} that were not checked",
            f"{path} has more than {most} names; only the first {most} were checked",
            f"at most {most} names",
            where=host,
            hint="an account's name taken by another user may be unchecked; to count each user's"
            f" names: find {path}/ -mindepth 1 -maxdepth 1 -printf '%u\\n' | sort | uniq -c",
        )
    if not owners_by_name and not most:
        yield CheckFinding.ok(item, path)
    if not owners_by_name:
        return
    owners = [f"{name} is {owner}'s" for name, owner in sorted(owners_by_name.items())]
    more = f", and {len(owners) - SHOWN} more" if len(owners) > SHOWN else ""
    yield CheckFinding.warning(
        item,
        f"{path}: {', '.join(owners[:SHOWN])}{more}",
        "no account's name taken by another account",
        where=host,
        hint="replicas of these accounts go to folders NAME.WORD in this area; ask the owners to remove"
        f" these entries, or remove the entries as root: rm -r -- {path}/NAME",
    )


SPOOL_MODE = 0o1733  # any user may add a message; only the service may list messages
CAMPAIGNS_MODE = 0o3733  # like SPOOL_MODE, with the service's group for new files
PROGRAMS = (
    *(f"{METHODS}/{name}" for name in ("sensor", "starter", "suspend", "resume", "terminate", "epilog", "usage")),
    PYTHON,
    AS_USER,
)
FOLDERS: Mapping[str, int] = MappingProxyType(  # mode of each folder of the service account
    {
        HOME: 0o755,
        PUBLISHED: 0o755,
        f"{PUBLISHED}/queues": 0o755,
        f"{PUBLISHED}/verdicts": 0o755,
        SPOOL: SPOOL_MODE,
        f"{SPOOL}/wake": SPOOL_MODE,
        f"{SPOOL}/claims": SPOOL_MODE,
        CAMPAIGNS: CAMPAIGNS_MODE,
    }
)
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def transfer_host_findings(facts: TransferHostFacts, site: SiteSection) -> tuple[CheckFinding, ...]:
    """Check the items of `setup host`: service account, folders and sudoers file."""
    return (
        service_account_finding(facts.service_uid, site),
        *(_folder(path, mode, facts, site) for path, mode in FOLDERS.items()),
        sudoers_file_finding(
            SUDOERS, service_sudoers_line(site), facts.paths.get(SUDOERS), facts.sudoers, facts.hidden
        ),
    )


def service_account_finding(uid: int, site: SiteSection) -> CheckFinding:
    """Check that the service account exists; uid 0: no such account."""
    return system_account_finding(site.service_account, uid, HOME)


def program_file_findings(facts: TransferHostFacts) -> Iterator[CheckFinding]:
    """Check the programs that Grid Engine and sudo run, and gridbridge.toml."""
    yield from (_program(path, facts) for path in PROGRAMS)
    yield from (_tree(top, facts_of_tree) for top, facts_of_tree in facts.trees.items())
    yield _interpreter(facts)
    yield _configuration(facts)


def state_file_privacy_finding(facts: TransferHostFacts, site: SiteSection) -> CheckFinding:
    """Check that only the service account may read the state file."""
    path = sqlite_state_file_path(site)
    path_facts, item = facts.paths.get(path), "state file"
    if path in facts.hidden:
        return CheckFinding.warning(item, UNSEEN)
    if not path or path_facts is None:
        return CheckFinding.ok(item, "not made yet" if path else "a database")
    if path_facts.owner == facts.service_uid and path_facts.mode == 0o600:
        return CheckFinding.ok(item, describe_owner_and_mode(path_facts))
    owner = site.service_account
    return CheckFinding.broken(
        item, describe_owner_and_mode(path_facts), f"{owner}'s, mode 0600", setup_edit_making_file_private(path, owner)
    )


def sqlite_state_file_path(site: SiteSection) -> str:
    """Return the path of the SQLite state file; empty for a database server."""
    return site.state.partition("://")[2][1:] if site.state.startswith("sqlite:") else ""


def non_root_writable_file_finding(path: str, wrong: str, mend: str) -> CheckFinding:
    """Return the finding about a file that users other than root can change."""
    return CheckFinding.broken(
        f"file {path}",
        wrong,
        "the file and each folder above are owned and writable by root only",
        SetupEdit.shell(mend),
        hint="read the file first: another user may have changed the file",
    )


def _folder(path: str, mode: int, facts: TransferHostFacts, site: SiteSection) -> CheckFinding:
    owner = (site.service_account, facts.service_uid)
    path_facts, is_within = facts.paths.get(path), path.startswith(f"{HOME}/")
    return account_folder_finding(path, mode, path_facts, owner, facts.hidden, is_within=is_within)


def service_sudoers_line(site: SiteSection) -> str:
    """Return the sudoers line by which the service account runs one program as root."""
    return f"{site.service_account} ALL=(root) NOPASSWD: {AS_USER}"


def _program(path: str, facts: TransferHostFacts) -> CheckFinding:
    item, path_facts, name = f"program {path}", facts.paths.get(path), shlex.quote(path)
    if closed := facts.closed_to_others.get(path):
        mend = SetupEdit.shell(f"chmod a+rx {shlex.quote(closed)}")
        return CheckFinding.broken(item, f"other users can't enter {closed}", "readable by every user", mend)
    if path_facts is None:
        hint = "install gridbridge again: tools/install in its source folder"
        return CheckFinding.broken(item, "missing", "there", hint=hint)
    is_trusted = path_facts.owner == 0 and not path_facts.mode & OTHERS_WRITE
    if is_trusted and path_facts.mode & 0o005 == 0o005:
        return CheckFinding.ok(item, describe_owner_and_mode(path_facts))
    mend = SetupEdit.shell(f"chown root:root {name} && chmod a+rx,go-w {name}")
    return CheckFinding.broken(
        item, describe_owner_and_mode(path_facts), "root's, readable and executable by all users", mend
    )


def _tree(top: str, tree: NonRootWritablePaths) -> CheckFinding:
    """Check files that root runs: a user who can change a file becomes root."""
    item, name = f"folder {top}", shlex.quote(top)
    if not tree.wrong:
        return CheckFinding.ok(item, f"owned by root only, {tree.files} files")
    more = f", and {len(tree.wrong) - 1} more" if tree.wrong[1:] else ""
    within = f"chown -hR root:root {name}/ && chmod -R go-w {name}/"  # the final / makes chown follow a symlink
    mend = SetupEdit.shell(" && ".join((*tree.above, within)))
    right = "owned by root with all its files, and writable by root only"
    hint = "the owner changes, not the content: install gridbridge again if another user may have changed a file"
    return replace(CheckFinding.broken(item, f"{tree.wrong[0]}{more}", right, mend), hint=hint)


def _interpreter(facts: TransferHostFacts) -> CheckFinding:
    item = "programs run as a user"
    if not facts.import_trouble:
        return CheckFinding.ok(item, "yes")
    folder = PYTHON.removesuffix("/bin/python3")
    mend = SetupEdit.shell(f"chown -hR root:root {folder}/ && chmod -R a+rX,go-w {folder}/")
    return CheckFinding.broken(item, facts.import_trouble, "yes", mend)


def _configuration(facts: TransferHostFacts) -> CheckFinding:
    item, path_facts = f"file {CONFIG}", facts.paths.get(CONFIG)
    if path_facts is None:
        copy = "install -D -m 0644 /opt/gridbridge/conf/gridbridge.toml"
        return CheckFinding.broken(item, "missing", "there", SetupEdit.shell(f"{copy} {CONFIG}"))
    if path_facts.owner == 0 and not path_facts.mode & OTHERS_WRITE and path_facts.mode & stat.S_IROTH:
        return CheckFinding.ok(item, describe_owner_and_mode(path_facts))
    mend = SetupEdit.shell(f"chown root:root {CONFIG} && chmod 0644 {CONFIG}")
    return CheckFinding.broken(
        item, describe_owner_and_mode(path_facts), "root's, readable by all users, mode 0644", mend
    )
