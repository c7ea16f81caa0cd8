"""Checks of system accounts, and of owners and modes of files on this host."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Set

from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity, SetupEdit, SetupEditVerb
from gridbridge.model.site.transfer_host_facts import PathFacts

NO_COMMENT = re.compile(r"\s*#(\s*[0-9]|include)")
UNSEEN = "not visible to this user"


def system_account_finding(name: str, uid: int, home: str) -> CheckFinding:
    """Check that a system account of gridbridge exists; uid 0: no such account."""
    item = f"account {name}"
    if uid:
        return CheckFinding(item=item, state=FindingSeverity.OK, found=f"uid {uid}")
    add = f"useradd --system --user-group --home-dir {home} --shell /usr/sbin/nologin {name}"
    return broken_finding_with_fix(item, "missing", "a system account", setup_edit_running_shell_line(add))


def account_folder_finding(
    path: str, mode: int, facts: PathFacts | None, owner: tuple[str, int], hidden: Set[str], *, is_within: bool = False
) -> CheckFinding:
    """Check a folder's owner and mode; `owner` is account and uid (0: no account).

    A folder within the account's own folder (`is_within`) is made as that account. The account
    could replace the path by a symlink while root works on the path.
    """
    item, (name, uid), quoted = f"folder {path}", owner, shlex.quote(path)
    right = f"{name}'s, mode {mode:04o}"
    mends = f"install -d -o {name} -g {name} -m {mode:04o} {quoted}"
    if is_within:
        mends = run_as_account_shell_line(name, f"install -d -m {mode:04o} {quoted}")
    if path in hidden:
        return invisible_file_finding(item, right)
    if facts is None:
        return broken_finding_with_fix(item, "missing", right, setup_edit_running_shell_line(mends))
    if not facts.is_folder:
        moved = f"mv -T {quoted} {quoted}.wrong"
        aside = f"{run_as_account_shell_line(name, moved) if is_within else moved} && {mends}"
        return broken_finding_with_fix(item, "not a folder", right, setup_edit_running_shell_line(aside))
    if uid and facts.owner == uid and facts.mode == mode:
        return CheckFinding(item=item, state=FindingSeverity.OK, found=describe_owner_and_mode(facts))
    make_and_give = f"chown -h {name}: {quoted} && {mends}" if is_within else mends
    return broken_finding_with_fix(item, describe_owner_and_mode(facts), right, setup_edit_running_shell_line(make_and_give))


def run_as_account_shell_line(name: str, command: str) -> str:
    """Return the command line by which root runs a command as another account."""
    return f"runuser -u {name} -- {command}"


def sudoers_file_finding(path: str, line: str, facts: PathFacts | None, text: str, hidden: Set[str]) -> CheckFinding:
    """Check a sudoers file that has to hold exactly one line."""
    item, mend = f"sudoers {path}", setup_edit_writing_root_file(path, line, 0o440)
    if facts and (facts.owner, facts.mode) != (0, 0o440):
        return broken_finding_with_fix(
            item, describe_owner_and_mode(facts), "root's, mode 0440: sudo reads no other", mend
        )
    if path in hidden:
        return invisible_file_finding(item, line)
    if facts is None:
        return broken_finding_with_fix(item, "missing", line, mend)
    if line not in text.splitlines():
        return broken_finding_with_fix(item, "without its line", line, mend)
    if more := tuple(extra_line for extra_line in _meaningful_lines(text) if extra_line != line):
        return broken_finding_with_fix(item, f"says more: {more[0]}", f"{line}, and nothing else", mend)
    return CheckFinding(item=item, state=FindingSeverity.OK, found=line)


def _meaningful_lines(text: str) -> Iterator[str]:
    """Give a sudoers file's lines; `#1000` and `#include` are no comments."""
    for line in text.splitlines():
        is_comment = line.lstrip().startswith("#") and not NO_COMMENT.match(line)
        if line.strip() and not is_comment:
            yield line


def describe_owner_and_mode(facts: PathFacts) -> str:
    """Return the owner and the mode of a path as text."""
    return f"{facts.owner_name}'s, mode {facts.mode:04o}"


def setup_edit_running_shell_line(line: str) -> SetupEdit:
    """Return the edit that runs a command line on this host."""
    return SetupEdit(verb=SetupEditVerb.SHELL, value=line)


def setup_edit_writing_root_file(path: str, line: str, mode: int) -> SetupEdit:
    """Return the edit that writes a file with one line, owned by root."""
    install = f"install -m {mode:04o} -o root -g root /dev/stdin {path}"
    return setup_edit_running_shell_line(f"echo {shlex.quote(line)} | {install}")


def setup_edit_making_file_private(path: str, owner: str) -> SetupEdit:
    """Return the edit that makes a file readable by its owner account only.

    The account may have replaced the file by a symlink, so root never changes the symlink's target.
    """
    name = shlex.quote(path)
    return setup_edit_running_shell_line(f"chown -h {owner}: {name} && {run_as_account_shell_line(owner, f'chmod 0600 {name}')}")


def invisible_file_finding(item: str, right: str = "") -> CheckFinding:
    """Return the finding about a file that is not visible to the user of the check."""
    return CheckFinding(item=item, state=FindingSeverity.WARNING, found=UNSEEN, right=right)


def broken_finding_with_fix(item: str, actual: str, right: str, mend: SetupEdit) -> CheckFinding:
    """Return a finding in state BROKEN that one edit corrects."""
    return CheckFinding(item=item, state=FindingSeverity.BROKEN, found=actual, right=right, mend=(mend,))


ACCOUNT = re.compile(r"(?=.*[^0-9])[A-Za-z0-9_][A-Za-z0-9_.-]{0,255}")  # digits only would be a uid
FOLDER = "d"  # find(1), -printf %y
SHOWN = 5


def misowned_account_folders(entries: Iterable[str]) -> dict[str, str]:
    """Return entries that have an account's name but are not the account's folder.

    Each entry is `OWNER TYPE NAME`; NAME may contain newlines. The value is the entry's owner. An
    account of that name need not exist.
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

    `owners_by_name` is None if the area was not readable. `most` is the number of checked names if
    the area has more names; 0: all names were checked.
    """
    if owners_by_name is None:
        return
    item = f"storage {storage}: names"
    if most:
        yield CheckFinding(
            item=f"{item} that were not looked at",
            state=FindingSeverity.WARNING,
            found=f"{path} has more than {most} names; the first {most} were looked at",
            right=f"{most} names at most",
            where=host,
            hint="an account's name taken by another user may be unchecked; see who made so"
            f" many: find {path}/ -mindepth 1 -maxdepth 1 -printf '%u\\n' | sort | uniq -c",
        )
    if not owners_by_name and not most:
        yield CheckFinding(item=item, state=FindingSeverity.OK, found=path)
    if not owners_by_name:
        return
    owners = [f"{name} is {owner}'s" for name, owner in sorted(owners_by_name.items())]
    more = f", and {len(owners) - SHOWN} more" if len(owners) > SHOWN else ""
    yield CheckFinding(
        item=item,
        state=FindingSeverity.WARNING,
        found=f"{path}: {', '.join(owners[:SHOWN])}{more}",
        right="no account's name taken by another account",
        where=host,
        hint="replicas of these accounts go to folders NAME.WORD there; ask the owners to remove"
        f" these entries, or remove the entries as root: rm -r -- {path}/NAME",
    )
