"""Checks system accounts, the owners and modes of files and programs, and the sudoers file."""

import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType

from gridbridge.model.fixed_paths import AS_USER, CAMPAIGNS, CONFIG, HOME, METHODS, PUBLISHED, PYTHON, SPOOL, SUDOERS
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, SetupEdit, SetupEditVerb
from gridbridge.model.site.site_check_facts import NonRootWritablePaths, PathFacts, TransferHostFacts
from gridbridge.model.site.site_section import SiteSection

IS_COMMENT = re.compile(r"\s*#(?!\s*[0-9]|include)").match  # `#1000` and `#include` are not comments in sudoers(5)
UNSEEN = "not visible to this user"


def system_account_finding(name: str, uid: int, home: str) -> CheckFinding:
    """Check that a system account of gridbridge exists; `uid` 0 means a missing account."""
    add = SetupEdit.shell_command_edit(
        f"useradd --system --user-group --home-dir {home} --shell /usr/sbin/nologin {name}"
    )
    actual = f"uid {uid}" if uid else "missing"
    return CheckFinding.finding_by_condition(bool(uid), f"account {name}", actual, "a system account", add)


def account_folder_findings(
    modes: Mapping[str, int], home: str, paths: Mapping[str, PathFacts], owner: tuple[str, int], hidden: Set[str]
) -> Iterator[CheckFinding]:
    """Check the owner and mode of folders; `owner` is the account and its uid (0: missing account).

    Root makes no folder inside `home`, because the account could replace the path by a symlink meanwhile.
    """
    for path, mode in modes.items():
        yield _account_folder_finding(path, mode, paths.get(path), owner, hidden, is_within=path.startswith(f"{home}/"))


def _account_folder_finding(
    path: str, mode: int, facts: PathFacts | None, owner: tuple[str, int], hidden: Set[str], *, is_within: bool
) -> CheckFinding:
    item, (name, uid), quoted = f"folder {path}", owner, shlex.quote(path)
    right = f"{name}'s, mode {mode:04o}"
    make = f"install -d -o {name} -g {name} -m {mode:04o} {quoted}"
    if is_within:
        make = run_as_account_shell_line(name, f"install -d -m {mode:04o} {quoted}")
    if path in hidden:
        return CheckFinding.warning_finding(item, UNSEEN, right)
    if facts is None:
        return CheckFinding.fault_finding(item, "missing", right, SetupEdit.shell_command_edit(make))
    if not facts.is_folder:
        move = f"mv -T {quoted} {quoted}.wrong"
        aside = f"{run_as_account_shell_line(name, move) if is_within else move} && {make}"
        return CheckFinding.fault_finding(item, "not a folder", right, SetupEdit.shell_command_edit(aside))
    give = SetupEdit.shell_command_edit(f"chown -h {name}: {quoted} && {make}" if is_within else make)
    return CheckFinding.finding_by_condition(
        bool(uid) and (facts.owner, facts.mode) == (uid, mode), item, facts.owner_and_mode_text, right, give
    )


def run_as_account_shell_line(name: str, command: str) -> str:
    return f"runuser -u {name} -- {command}"


def sudoers_file_finding(path: str, line: str, facts: PathFacts | None, text: str, hidden: Set[str]) -> CheckFinding:
    """Check a sudoers file that has to contain exactly one line."""
    comments = [other for other in text.splitlines() if IS_COMMENT(other)]
    item, mend = f"sudoers {path}", setup_edit_writing_root_file(path, (*comments, line), 0o440)
    if facts and (facts.owner, facts.mode) != (0, 0o440):
        return CheckFinding.fault_finding(
            item, facts.owner_and_mode_text, "root's, mode 0440: sudo refuses other modes", mend
        )
    if path in hidden:
        return CheckFinding.warning_finding(item, UNSEEN, line)
    if facts is None:
        return CheckFinding.fault_finding(item, "missing", line, mend)
    if line not in text.splitlines():
        return CheckFinding.fault_finding(item, "without the expected line", line, mend)
    extra = [other for other in text.splitlines() if other.strip() and other != line and not IS_COMMENT(other)]
    if extra:
        return CheckFinding.fault_finding(item, f"has another line: {extra[0]}", f"{line}, and no other line", mend)
    return CheckFinding.ok_finding(item, line)


def setup_edit_writing_root_file(path: str, lines: Iterable[str], mode: int) -> SetupEdit:
    """Return the edit that replaces a file of root by these lines."""
    return SetupEdit(
        verb=SetupEditVerb.WRITE_FILE, name=path, attribute=f"{mode:04o}", value="".join(f"{line}\n" for line in lines)
    )


def setup_edit_making_file_private(path: str, owner: str) -> SetupEdit:
    """Return the edit that makes a file readable by its owner account only.

    Root never changes a symlink's target, because the account may have made the symlink.
    """
    name = shlex.quote(path)
    return SetupEdit.shell_command_edit(
        f"chown -h {owner}: {name} && {run_as_account_shell_line(owner, f'chmod 0600 {name}')}"
    )


ACCOUNT = re.compile(r"(?=.*[^0-9])[A-Za-z0-9_][A-Za-z0-9_.-]{0,255}")  # a name of digits only would be a uid
FOLDER = "d"  # the letter that find(1) -printf %y prints for a folder
SHOWN = 5


def account_folders_with_wrong_owner(entries: Iterable[str]) -> dict[str, str]:
    """Map each entry with an account's name that is no folder of this account to the entry's owner.

    An entry is `OWNER TYPE NAME`; NAME may contain newlines. An account NAME need not exist.
    """
    fields = (fields for entry in entries if len(fields := entry.split(" ", 2)) == 3)
    return {
        name: owner for owner, kind, name in fields if ACCOUNT.fullmatch(name) and (kind != FOLDER or owner != name)
    }


def storage_area_owner_findings(
    storage: str, path: str, host: str, owners_by_name: Mapping[str, str] | None, most: int = 0
) -> Iterator[CheckFinding]:
    """Check that in a storage area each folder with an account's name belongs to this account.

    `owners_by_name` is None for an unreadable area. `most` is how many names were checked; 0 means all.
    """
    if owners_by_name is None:
        return
    item = f"storage {storage}: names"
    if most:
        yield CheckFinding.warning_finding(
            f"{item} that were not checked",
            f"{path} has more than {most} names; only the first {most} were checked",
            f"at most {most} names",
            where=host,
            hint="another user's entry with an account's name may be unchecked; this command counts the names"
            f" of each user: find {path}/ -mindepth 1 -maxdepth 1 -printf '%u\\n' | sort | uniq -c",
        )
    if not owners_by_name and not most:
        yield CheckFinding.ok_finding(item, path)
    if not owners_by_name:
        return
    owners = [f"{name} is {owner}'s" for name, owner in sorted(owners_by_name.items())]
    more = f", and {len(owners) - SHOWN} more" if len(owners) > SHOWN else ""
    yield CheckFinding.warning_finding(
        item,
        f"{path}: {', '.join(owners[:SHOWN])}{more}",
        "no account's name taken by another account",
        where=host,
        hint="replicas of these accounts go to folders NAME.WORD in this area; ask the owners to remove"
        f" these entries, or remove the entries as root: rm -r -- {path}/NAME",
    )


def shared_storage_area_findings(
    storage: str, paths: Mapping[str, str], listings: Mapping[str, Sequence[str] | None]
) -> Iterator[CheckFinding]:
    """Check that the clusters of a shared storage area list the same folders.

    `paths` and `listings` are by cluster; None stands for an unreadable folder, or a cluster that does not answer.
    """
    if len(paths) < 2:
        return
    item, folders = f"storage {storage}: shared", {cluster: f"{path} at {cluster}" for cluster, path in paths.items()}
    unread = [folders[cluster] for cluster, entries in listings.items() if entries is None]
    names = {cluster: _names_of_folder_entries(entries) for cluster, entries in listings.items() if entries is not None}
    first = max(names, key=lambda cluster: len(names[cluster]), default="")
    others = [folders[cluster] for cluster in names if names[cluster] != names[first]]
    right = f"one filesystem: the clusters of [storage.{storage}] list the same folders"
    if others:
        found = f"{' and '.join(others)} list other folders than {folders[first]}"
        hint = "tasks at these clusters don't find the replicas: mount the filesystem there, or correct clusters"
        yield CheckFinding.warning_finding(item, found, right, hint=f"{hint} of [storage.{storage}]")
    elif unread:
        yield CheckFinding.weakness_finding(item, f"not checked: {' and '.join(unread)} can't be listed")
    else:
        yield CheckFinding.ok_finding(item, ", ".join(folders.values()))


def _names_of_folder_entries(entries: Iterable[str]) -> frozenset[str]:
    return frozenset(entry.split(" ", 2)[-1] for entry in entries)


SPOOL_MODE = 0o1733  # any user may add a message; only the service may list messages
CAMPAIGNS_MODE = 0o3733  # SPOOL_MODE with setgid, so that new files get the service's group
PROGRAMS = (
    *(f"{METHODS}/{name}" for name in ("sensor", "starter", "suspend", "resume", "terminate", "epilog", "usage")),
    PYTHON,
    AS_USER,
)
FOLDERS: Mapping[str, int] = MappingProxyType(  # {folder of the service account: mode}
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
        *account_folder_findings(FOLDERS, HOME, facts.paths, (site.service_account, facts.service_uid), facts.hidden),
        sudoers_file_finding(
            SUDOERS, service_sudoers_line(site), facts.paths.get(SUDOERS), facts.sudoers, facts.hidden
        ),
    )


def account_removal_edits(name: str, uid: int, paths: Iterable[str]) -> Iterator[SetupEdit]:
    """Yield the edits that end an account's processes, and remove files and folders, and last the account.

    A folder that is a mount point stays, but empty: it belongs to the administrator again.
    """
    if uid:
        wait = f"timeout 30 sh -c 'while pgrep -u {name} >/dev/null; do sleep 0.2; done'"
        yield SetupEdit(verb=SetupEditVerb.SHELL, name=f"end the processes of {name}", value=f"pkill -u {name}; {wait}")
    for path in paths:
        quoted = shlex.quote(path)
        emptied = f"find {quoted} -mindepth 1 -delete && chown root:root {quoted} && chmod 0755 {quoted}"
        line = f"if mountpoint -q {quoted}; then {emptied}; else rm -rf {quoted}; fi"
        yield SetupEdit(verb=SetupEditVerb.SHELL, name=f"remove {path} with its content", value=line)
    if uid:
        yield SetupEdit(verb=SetupEditVerb.SHELL, name=f"remove account {name}", value=f"userdel {name}")


def service_account_finding(uid: int, site: SiteSection) -> CheckFinding:
    """Check that the service account exists; `uid` 0 means a missing account."""
    return system_account_finding(site.service_account, uid, HOME)


def program_file_findings(facts: TransferHostFacts) -> Iterator[CheckFinding]:
    """Check gridbridge.toml and the program files that Grid Engine and sudo run."""
    yield from (_program_file_finding(path, facts) for path in PROGRAMS)
    yield from (_root_program_folder_finding(top, facts_of_tree) for top, facts_of_tree in facts.trees.items())
    yield _python_interpreter_finding(facts)
    yield _configuration_file_finding(facts)


def state_file_privacy_finding(facts: TransferHostFacts, site: SiteSection) -> CheckFinding:
    """Check that only the service account may read the state file."""
    path = sqlite_state_file_path(site)
    path_facts, item = facts.paths.get(path), "state file"
    if path in facts.hidden:
        return CheckFinding.warning_finding(item, UNSEEN)
    if not path or path_facts is None:
        return CheckFinding.ok_finding(item, "not made yet" if path else "a database")
    owner, is_right = site.service_account, (path_facts.owner, path_facts.mode) == (facts.service_uid, 0o600)
    mend = setup_edit_making_file_private(path, owner)
    return CheckFinding.finding_by_condition(
        is_right, item, path_facts.owner_and_mode_text, f"{owner}'s, mode 0600", mend
    )


def sqlite_state_file_path(site: SiteSection) -> str:
    """Return the path of the SQLite state file; empty for a database server."""
    return site.state.partition("://")[2][1:] if site.state.startswith("sqlite:") else ""


def non_root_writable_file_finding(path: str, wrong: str, mend: str) -> CheckFinding:
    right = "the file and each folder above are owned and writable by root only"
    hint = "read the file first: another user may have changed the file"
    return CheckFinding.fault_finding(f"file {path}", wrong, right, SetupEdit.shell_command_edit(mend), hint=hint)


def service_sudoers_line(site: SiteSection) -> str:
    """Return the sudoers line by which the service account runs one program as root."""
    return f"{site.service_account} ALL=(root) NOPASSWD: {AS_USER}"


def _program_file_finding(path: str, facts: TransferHostFacts) -> CheckFinding:
    item, path_facts, name = f"program {path}", facts.paths.get(path), shlex.quote(path)
    if closed := facts.closed_to_others.get(path):
        mend = SetupEdit.shell_command_edit(f"chmod a+rx {shlex.quote(closed)}")
        return CheckFinding.fault_finding(item, f"other users can't enter {closed}", "readable by every user", mend)
    if path_facts is None:
        hint = "install gridbridge again: the package, or tools/install in a checkout"
        return CheckFinding.fault_finding(item, "missing", "there", hint=hint)
    is_right = path_facts.owner == 0 and not path_facts.mode & OTHERS_WRITE and path_facts.mode & 0o005 == 0o005
    mend = SetupEdit.shell_command_edit(f"chown root:root {name} && chmod a+rx,go-w {name}")
    return CheckFinding.finding_by_condition(
        is_right, item, path_facts.owner_and_mode_text, "root's, readable and executable by all users", mend
    )


def _root_program_folder_finding(top: str, tree: NonRootWritablePaths) -> CheckFinding:
    """Check files that root runs: a user who can change a file becomes root."""
    item, name = f"folder {top}", shlex.quote(top)
    if not tree.wrong:
        return CheckFinding.ok_finding(item, f"owned by root only, {tree.files} files")
    more = f", and {len(tree.wrong) - 1} more" if tree.wrong[1:] else ""
    within = f"chown -hR root:root {name}/ && chmod -R go-w {name}/"  # the final / makes chown follow a symlink
    mend = SetupEdit.shell_command_edit(" && ".join((*tree.above, within)))
    right = "owned by root with all its files, and writable by root only"
    hint = "the command changes owners, not contents: install gridbridge again if another user may have changed a file"
    return CheckFinding.fault_finding(item, f"{tree.wrong[0]}{more}", right, mend, hint=hint)


def _python_interpreter_finding(facts: TransferHostFacts) -> CheckFinding:
    folder, trouble = PYTHON.removesuffix("/bin/python3"), facts.import_trouble
    mend = SetupEdit.shell_command_edit(f"chown -hR root:root {folder}/ && chmod -R a+rX,go-w {folder}/")
    return CheckFinding.finding_by_condition(not trouble, "programs run as a user", trouble or "yes", "yes", mend)


def _configuration_file_finding(facts: TransferHostFacts) -> CheckFinding:
    item, path_facts = f"file {CONFIG}", facts.paths.get(CONFIG)
    if path_facts is None:
        copy = "install -D -m 0644 /opt/gridbridge/conf/gridbridge.toml"
        return CheckFinding.fault_finding(item, "missing", "there", SetupEdit.shell_command_edit(f"{copy} {CONFIG}"))
    is_right = path_facts.owner == 0 and not path_facts.mode & OTHERS_WRITE and path_facts.mode & stat.S_IROTH
    mend = SetupEdit.shell_command_edit(f"chown root:root {CONFIG} && chmod 0644 {CONFIG}")
    return CheckFinding.finding_by_condition(
        bool(is_right), item, path_facts.owner_and_mode_text, "root's, readable by all users, mode 0644", mend
    )
