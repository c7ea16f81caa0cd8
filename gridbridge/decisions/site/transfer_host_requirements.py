"""Transfer host checks: account, folders, programs, sudoers (design.md 5).

`gridbridge setup host` makes the account, folders and sudoers line; `gridbridge check` checks all.
"""

import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from gridbridge.decisions.site.account_and_file_findings import (
    account_folder_finding,
    broken_finding_with_fix,
    describe_owner_and_mode,
    invisible_file_finding,
    setup_edit_making_file_private,
    setup_edit_running_shell_line,
    sudoers_file_finding,
    system_account_finding,
)
from gridbridge.model.fixed_paths import AS_USER, CAMPAIGNS, CONFIG, HOME, METHODS, PUBLISHED, PYTHON, SPOOL, SUDOERS
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site.transfer_host_facts import NonRootWritablePaths, TransferHostFacts

SPOOL_MODE = 0o1733  # any user may add a message; only the service may list messages
CAMPAIGNS_MODE = 0o3733  # mode of SPOOL_MODE, with the service's group for new files
PROGRAMS = (
    *(f"{METHODS}/{name}" for name in ("sensor", "starter", "suspend", "resume", "terminate", "epilog", "usage")),
    PYTHON,
    AS_USER,
)
FOLDERS: Mapping[str, int] = MappingProxyType(  # folders of the service account, with modes
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
    """Check programs that Grid Engine and sudo run, and gridbridge.toml."""
    yield from (_program(path, facts) for path in PROGRAMS)
    yield from (_tree(top, facts_of_tree) for top, facts_of_tree in facts.trees.items())
    yield _interpreter(facts)
    yield _configuration(facts)


def state_file_privacy_finding(facts: TransferHostFacts, site: SiteSection) -> CheckFinding:
    """Check that only the service account may read the state file."""
    path = sqlite_state_file_path(site)
    path_facts, item = facts.paths.get(path), "state file"
    if path in facts.hidden:
        return invisible_file_finding(item)
    if not path or path_facts is None:
        return CheckFinding(item=item, state=FindingSeverity.OK, found="not there yet" if path else "a database")
    if path_facts.owner == facts.service_uid and path_facts.mode == 0o600:
        return CheckFinding(item=item, state=FindingSeverity.OK, found=describe_owner_and_mode(path_facts))
    owner = site.service_account
    return broken_finding_with_fix(
        item, describe_owner_and_mode(path_facts), f"{owner}'s, mode 0600", setup_edit_making_file_private(path, owner)
    )


def sqlite_state_file_path(site: SiteSection) -> str:
    """Return the path of the SQLite state file; empty for a database server."""
    return site.state.partition("://")[2][1:] if site.state.startswith("sqlite:") else ""


def non_root_writable_file_finding(path: str, wrong: str, mend: str) -> CheckFinding:
    """Return the finding about a file that users other than root can change."""
    return CheckFinding(
        item=f"file {path}",
        state=FindingSeverity.BROKEN,
        found=wrong,
        right="the file and each folder above are root's, and only root writes there",
        mend=(setup_edit_running_shell_line(mend),),
        hint="read the file first: another user may have changed the file",
    )


def _folder(path: str, mode: int, facts: TransferHostFacts, site: SiteSection) -> CheckFinding:
    owner = (site.service_account, facts.service_uid)
    path_facts, is_within = facts.paths.get(path), path.startswith(f"{HOME}/")
    return account_folder_finding(path, mode, path_facts, owner, facts.hidden, is_within=is_within)


def service_sudoers_line(site: SiteSection) -> str:
    """Return the sudoers line: the service account runs one program as root."""
    return f"{site.service_account} ALL=(root) NOPASSWD: {AS_USER}"


def _program(path: str, facts: TransferHostFacts) -> CheckFinding:
    item, path_facts, name = f"program {path}", facts.paths.get(path), shlex.quote(path)
    if closed := facts.closed_to_others.get(path):
        mend = setup_edit_running_shell_line(f"chmod a+rx {shlex.quote(closed)}")
        return broken_finding_with_fix(item, f"others can't pass {closed}", "readable by every user", mend)
    if path_facts is None:
        hint = "install gridbridge again: tools/install in its source folder"
        return CheckFinding(item=item, state=FindingSeverity.BROKEN, found="missing", right="there", hint=hint)
    is_trusted = path_facts.owner == 0 and not path_facts.mode & OTHERS_WRITE
    if is_trusted and path_facts.mode & 0o005 == 0o005:
        return CheckFinding(item=item, state=FindingSeverity.OK, found=describe_owner_and_mode(path_facts))
    mend = setup_edit_running_shell_line(f"chown root:root {name} && chmod a+rx,go-w {name}")
    return broken_finding_with_fix(
        item, describe_owner_and_mode(path_facts), "root's, for others to read and run", mend
    )


def _tree(top: str, tree: NonRootWritablePaths) -> CheckFinding:
    """Check files that root runs: a user who can change a file becomes root."""
    item, name = f"folder {top}", shlex.quote(top)
    if not tree.wrong:
        return CheckFinding(item=item, state=FindingSeverity.OK, found=f"root's alone, {tree.files} files")
    more = f", and {len(tree.wrong) - 1} more" if tree.wrong[1:] else ""
    within = f"chown -hR root:root {name}/ && chmod -R go-w {name}/"  # a final / follows symlinks
    mend = setup_edit_running_shell_line(" && ".join((*tree.above, within)))
    right = "root's with all in it, and nobody else writes there"
    hint = "what others wrote stays: install gridbridge again if you can't tell what that is"
    return replace(broken_finding_with_fix(item, f"{tree.wrong[0]}{more}", right, mend), hint=hint)


def _interpreter(facts: TransferHostFacts) -> CheckFinding:
    item = "programs run as a user"
    if not facts.import_trouble:
        return CheckFinding(item=item, state=FindingSeverity.OK, found="yes")
    folder = PYTHON.removesuffix("/bin/python3")
    mend = setup_edit_running_shell_line(f"chown -hR root:root {folder}/ && chmod -R a+rX,go-w {folder}/")
    return broken_finding_with_fix(item, facts.import_trouble, "yes", mend)


def _configuration(facts: TransferHostFacts) -> CheckFinding:
    item, path_facts = f"file {CONFIG}", facts.paths.get(CONFIG)
    if path_facts is None:
        copy = "install -D -m 0644 /opt/gridbridge/conf/gridbridge.toml"
        return broken_finding_with_fix(item, "missing", "there", setup_edit_running_shell_line(f"{copy} {CONFIG}"))
    if path_facts.owner == 0 and not path_facts.mode & OTHERS_WRITE and path_facts.mode & stat.S_IROTH:
        return CheckFinding(item=item, state=FindingSeverity.OK, found=describe_owner_and_mode(path_facts))
    mend = setup_edit_running_shell_line(f"chown root:root {CONFIG} && chmod 0644 {CONFIG}")
    return broken_finding_with_fix(
        item, describe_owner_and_mode(path_facts), "root's, for all to read, mode 0644", mend
    )
