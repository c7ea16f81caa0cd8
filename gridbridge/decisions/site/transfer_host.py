"""What the transfer host itself needs: account, folders, programs, sudoers line (design.md 5).

`gridbridge setup host` makes the edits of the first half; `gridbridge check` judges all.
"""

import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from gridbridge.model.places import (
    AS_USER,
    CAMPAIGNS,
    CONFIG,
    HOME,
    METHODS,
    PUBLISHED,
    PYTHON,
    SPOOL,
    SUDOERS,
)
from gridbridge.model.site.host import HostFacts, PathFacts, TreeFacts
from gridbridge.model.site.sections import Site
from gridbridge.model.site.setup import Edit, Finding, State, Verb

SPOOL_MODE = 0o1733  # anybody may add a message, only the service lists them
CAMPAIGNS_MODE = 0o3733  # the same, and the service's group may read what is brought
PROGRAMS = (
    *(
        f"{METHODS}/{name}"
        for name in ("sensor", "starter", "suspend", "resume", "terminate", "epilog", "usage")
    ),
    PYTHON,
    AS_USER,
)
FOLDERS: Mapping[str, int] = MappingProxyType(  # the service account's, with their modes
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
NO_COMMENT = re.compile(r"\s*#(\s*[0-9]|include)")
UNSEEN = "not visible to this user"
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def host_findings(facts: HostFacts, site: Site) -> tuple[Finding, ...]:
    """Judge what `setup host` makes."""
    return (
        account_finding(facts.service_uid, site),
        *(_folder(path, mode, facts, site) for path, mode in FOLDERS.items()),
        _sudoers(facts, site),
    )


def account_finding(uid: int, site: Site) -> Finding:
    """Judge the service's account; 0: there is none of that name."""
    item = f"account {site.service_account}"
    if uid:
        return Finding(item=item, state=State.OK, found=f"uid {uid}")
    add = f"useradd --system --user-group --home-dir {HOME} --shell /usr/sbin/nologin"
    return _broken(item, "missing", "a system account", _shell(f"{add} {site.service_account}"))


def program_findings(facts: HostFacts) -> Iterator[Finding]:
    """Judge the files that Grid Engine and sudo run: a job's owner has to reach them."""
    yield from (_program(path, facts) for path in PROGRAMS)
    yield from (_tree(folder, found) for folder, found in facts.trees.items())
    yield _interpreter(facts)
    yield _configuration(facts)


def state_finding(facts: HostFacts, site: Site) -> Finding:
    """Judge the state file: nobody but the service may read it."""
    path = state_path(site)
    found, item = facts.paths.get(path), "state file"
    if path in facts.hidden:
        return _unseen(item)
    if not path or found is None:
        return Finding(item=item, state=State.OK, found="not there yet" if path else "a database")
    if found.owner == facts.service_uid and found.mode == 0o600:
        return Finding(item=item, state=State.OK, found=_shown(found))
    account, name = site.service_account, shlex.quote(path)
    mend = _shell(f"chown {account}: {name} && chmod 0600 {name}")
    return _broken(item, _shown(found), f"{account}'s, mode 0600", mend)


def state_path(site: Site) -> str:
    """Return where the state file lies, empty for a database."""
    return site.state.partition("://")[2][1:] if site.state.startswith("sqlite:") else ""


def untrusted(path: str, wrong: str, mend: str) -> Finding:
    """Return the finding about a file that root does not obey because others can change it."""
    return Finding(
        item=f"file {path}",
        state=State.BROKEN,
        found=wrong,
        right="root's, and so each folder above it; nobody else writes there",
        mend=(_shell(mend),),
        hint="read the file first: all in it may be somebody else's",
    )


def _folder(path: str, mode: int, facts: HostFacts, site: Site) -> Finding:
    item, found, account = f"folder {path}", facts.paths.get(path), site.service_account
    right = f"{account}'s, mode {mode:04o}"
    mends = f"install -d -o {account} -g {account} -m {mode:04o} {shlex.quote(path)}"
    if path in facts.hidden:
        return _unseen(item, right)
    if found is None:
        return _broken(item, "missing", right, _shell(mends))
    if not found.is_folder:
        aside = f"mv {shlex.quote(path)} {shlex.quote(path)}.wrong && {mends}"
        return _broken(item, "not a folder", right, _shell(aside))
    if found.owner == facts.service_uid and found.mode == mode:
        return Finding(item=item, state=State.OK, found=_shown(found))
    return _broken(item, _shown(found), right, _shell(mends))


def sudoers_line(site: Site) -> str:
    """Return the only thing that the service account may do as root."""
    return f"{site.service_account} ALL=(root) NOPASSWD: {AS_USER}"


def _sudoers(facts: HostFacts, site: Site) -> Finding:
    item, found, line = f"sudoers {SUDOERS}", facts.paths.get(SUDOERS), sudoers_line(site)
    install = f"install -m 0440 -o root -g root /dev/stdin {SUDOERS}"
    mend = _shell(f"echo {shlex.quote(line)} | {install}")
    if found and (found.owner, found.mode) != (0, 0o440):
        return _broken(item, _shown(found), "root's, mode 0440: sudo reads no other", mend)
    if SUDOERS in facts.hidden:
        return _unseen(item, line)
    if found is None:
        return _broken(item, "missing", line, mend)
    if line not in facts.sudoers.splitlines():
        return _broken(item, "without its line", line, mend)
    if more := tuple(each for each in _said(facts.sudoers) if each != line):
        return _broken(item, f"says more: {more[0]}", f"{line}, and nothing else", mend)
    return Finding(item=item, state=State.OK, found=line)


def _said(sudoers: str) -> Iterator[str]:
    """Give the lines that mean something; `#1000` is a user and `#include` a file (sudoers(5))."""
    for line in sudoers.splitlines():
        is_comment = line.lstrip().startswith("#") and not NO_COMMENT.match(line)
        if line.strip() and not is_comment:
            yield line


def _program(path: str, facts: HostFacts) -> Finding:
    item, found, name = f"program {path}", facts.paths.get(path), shlex.quote(path)
    if closed := facts.closed_to_others.get(path):
        mend = _shell(f"chmod a+rx {shlex.quote(closed)}")
        return _broken(item, f"others can't pass {closed}", "readable by every user", mend)
    if found is None:
        hint = "install gridbridge again: tools/install in its source folder"
        return Finding(item=item, state=State.BROKEN, found="missing", right="there", hint=hint)
    is_trusted = found.owner == 0 and not found.mode & OTHERS_WRITE
    if is_trusted and found.mode & 0o005 == 0o005:
        return Finding(item=item, state=State.OK, found=_shown(found))
    mend = _shell(f"chown root:root {name} && chmod a+rx,go-w {name}")
    return _broken(item, _shown(found), "root's, for others to read and run", mend)


def _tree(folder: str, found: TreeFacts) -> Finding:
    """Judge the files that root runs or obeys: a person who can change one is root."""
    item, name = f"folder {folder}", shlex.quote(folder)
    if not found.wrong:
        return Finding(item=item, state=State.OK, found=f"root's alone, {found.files} files")
    more = f", and {len(found.wrong) - 1} more" if found.wrong[1:] else ""
    within = f"chown -hR root:root {name} && chmod -R go-w {name}"
    mend = _shell(" && ".join((*found.above, within)))
    right = "root's with all in it, and nobody else writes there"
    hint = "what others wrote stays: install gridbridge again if you can't tell what that is"
    return replace(_broken(item, f"{found.wrong[0]}{more}", right, mend), hint=hint)


def _interpreter(facts: HostFacts) -> Finding:
    item = "programs run as a user"
    if not facts.import_trouble:
        return Finding(item=item, state=State.OK, found="yes")
    folder = PYTHON.removesuffix("/bin/python3")
    mend = _shell(f"chown -R root:root {folder} && chmod -R a+rX,go-w {folder}")
    return _broken(item, facts.import_trouble, "yes", mend)


def _configuration(facts: HostFacts) -> Finding:
    item, found = f"file {CONFIG}", facts.paths.get(CONFIG)
    if found is None:
        copy = "install -D -m 0644 /opt/gridbridge/conf/gridbridge.toml"
        return _broken(item, "missing", "there", _shell(f"{copy} {CONFIG}"))
    if found.owner == 0 and not found.mode & OTHERS_WRITE and found.mode & stat.S_IROTH:
        return Finding(item=item, state=State.OK, found=_shown(found))
    mend = _shell(f"chown root:root {CONFIG} && chmod 0644 {CONFIG}")
    return _broken(item, _shown(found), "root's, for all to read, mode 0644", mend)


def _shown(found: PathFacts) -> str:
    return f"{found.owner_name}'s, mode {found.mode:04o}"


def _shell(line: str) -> Edit:
    return Edit(verb=Verb.SHELL, value=line)


def _unseen(item: str, right: str = "") -> Finding:
    """Return the finding about files that this user may not look at: neither right nor broken."""
    return Finding(item=item, state=State.WARNING, found=UNSEEN, right=right)


def _broken(item: str, found: str, right: str, mend: Edit) -> Finding:
    return Finding(item=item, state=State.BROKEN, found=found, right=right, mend=(mend,))
