"""Judges accounts, files and folders of this host: whose they are, and with which modes."""

import re
import shlex
from collections.abc import Iterator, Set

from gridbridge.model.site.host_facts import PathFacts
from gridbridge.model.site.setup_findings import CheckFinding, EditVerb, FindingState, SetupEdit

NO_COMMENT = re.compile(r"\s*#(\s*[0-9]|include)")
UNSEEN = "not visible to this user"


def account(name: str, uid: int, home: str) -> CheckFinding:
    """Judge a system account of ours; uid 0: there is none of that name."""
    item = f"account {name}"
    if uid:
        return CheckFinding(item=item, state=FindingState.OK, found=f"uid {uid}")
    add = f"useradd --system --user-group --home-dir {home} --shell /usr/sbin/nologin {name}"
    return broken(item, "missing", "a system account", shell(add))


def folder(
    path: str,
    mode: int,
    facts: PathFacts | None,
    owner: tuple[str, int],
    hidden: Set[str],
    *,
    is_within: bool = False,
) -> CheckFinding:
    """Judge a folder that has to be an account's; `owner` is its name and uid, 0 while it lacks.

    What lies in another folder of that account's is made as that account: it could put a link there
    whenever root looks away.
    """
    item, (name, uid), quoted = f"folder {path}", owner, shlex.quote(path)
    right = f"{name}'s, mode {mode:04o}"
    mends = f"install -d -o {name} -g {name} -m {mode:04o} {quoted}"
    if is_within:
        mends = as_account(name, f"install -d -m {mode:04o} {quoted}")
    if path in hidden:
        return unseen(item, right)
    if facts is None:
        return broken(item, "missing", right, shell(mends))
    if not facts.is_folder:
        moved = f"mv -T {quoted} {quoted}.wrong"
        aside = f"{as_account(name, moved) if is_within else moved} && {mends}"
        return broken(item, "not a folder", right, shell(aside))
    if uid and facts.owner == uid and facts.mode == mode:
        return CheckFinding(item=item, state=FindingState.OK, found=shown(facts))
    make_and_give = f"chown -h {name}: {quoted} && {mends}" if is_within else mends
    return broken(item, shown(facts), right, shell(make_and_give))


def as_account(name: str, command: str) -> str:
    """Return the line of root's by which an account does something itself."""
    return f"runuser -u {name} -- {command}"


def sudoers(
    path: str, line: str, facts: PathFacts | None, text: str, hidden: Set[str]
) -> CheckFinding:
    """Judge a file of sudo's that has to hold one line and nothing else."""
    item, mend = f"sudoers {path}", written(path, line, 0o440)
    if facts and (facts.owner, facts.mode) != (0, 0o440):
        return broken(item, shown(facts), "root's, mode 0440: sudo reads no other", mend)
    if path in hidden:
        return unseen(item, line)
    if facts is None:
        return broken(item, "missing", line, mend)
    if line not in text.splitlines():
        return broken(item, "without its line", line, mend)
    if more := tuple(extra_line for extra_line in _meaningful_lines(text) if extra_line != line):
        return broken(item, f"says more: {more[0]}", f"{line}, and nothing else", mend)
    return CheckFinding(item=item, state=FindingState.OK, found=line)


def _meaningful_lines(text: str) -> Iterator[str]:
    """Give the lines that mean something; `#1000` is a user and `#include` a file (sudoers(5))."""
    for line in text.splitlines():
        is_comment = line.lstrip().startswith("#") and not NO_COMMENT.match(line)
        if line.strip() and not is_comment:
            yield line


def shown(facts: PathFacts) -> str:
    """Say whose it is, and with which mode."""
    return f"{facts.owner_name}'s, mode {facts.mode:04o}"


def shell(line: str) -> SetupEdit:
    """Return the edit that runs a line on this host."""
    return SetupEdit(verb=EditVerb.SHELL, value=line)


def written(path: str, line: str, mode: int) -> SetupEdit:
    """Return the edit that makes a file of root's with one line."""
    install = f"install -m {mode:04o} -o root -g root /dev/stdin {path}"
    return shell(f"echo {shlex.quote(line)} | {install}")


def closed(path: str, owner: str) -> SetupEdit:
    """Return the edit that has a file be an account's, and nobody else's to read.

    That account may have put a link in its place, which would give away a file of root's.
    """
    name = shlex.quote(path)
    return shell(f"chown -h {owner}: {name} && {as_account(owner, f'chmod 0600 {name}')}")


def unseen(item: str, right: str = "") -> CheckFinding:
    """Return the finding about files that this user may not look at: neither right nor broken."""
    return CheckFinding(item=item, state=FindingState.WARNING, found=UNSEEN, right=right)


def broken(item: str, actual: str, right: str, mend: SetupEdit) -> CheckFinding:
    """Return the finding about what one line corrects."""
    return CheckFinding(
        item=item, state=FindingState.BROKEN, found=actual, right=right, mend=(mend,)
    )
