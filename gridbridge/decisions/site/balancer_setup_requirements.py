"""Checks the set-up of gridbridge-balance: account, folders, rights, and cron or systemd."""

import shlex
from collections.abc import Iterator
from datetime import datetime

from gridbridge.decisions.site import account_and_file_findings
from gridbridge.decisions.site.sge_configuration_findings import BY_NUMBER, QUEUE_ORDER, scheduler_setting_finding
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, MachineBootstrapSection
from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.fixed_paths import (
    AS_ROOT,
    BALANCE_ACCOUNT,
    BALANCE_CRON,
    BALANCE_HOME,
    BALANCE_LOG,
    BALANCE_PROGRAM,
    BALANCE_PUBLISHED,
    BALANCE_SUDOERS,
    BALANCE_UNIT,
)
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity, SetupEdit, SetupEditVerb
from gridbridge.model.site.site_check_facts import BalancerCellFacts, BalancerFacts
from gridbridge.model.site_configuration import Policy

VERBS = ("name", "unname", "export", "unexport", "node")
SUDOERS_LINE = f"{BALANCE_ACCOUNT} ALL=(root) NOPASSWD: " + ", ".join(f"{AS_ROOT} {verb} *" for verb in VERBS)
CRON_LINE = f"* * * * * {BALANCE_ACCOUNT} {BALANCE_PROGRAM} >>{BALANCE_LOG} 2>&1"
FOLDERS = {BALANCE_HOME: 0o711, BALANCE_PUBLISHED: 0o755}
PRIVATE = 0o077  # permission bits of group and others
RUNS = 0o111  # permission bits of an executable
LATE_ROUNDS = 5  # the balancer counts as late after this many missed rounds
CRON_S = 60.0


def is_balancer_configured(policy: Policy) -> bool:
    """Say whether gridbridge.toml sets max_nodes and a provider of nodes."""
    has_pools = any(pool.provider for pool in policy.pools.values())
    return bool(policy.balance.max_nodes and (has_pools or policy.powered))


def balancer_setup_findings(facts: BalancerFacts, policy: Policy) -> Iterator[CheckFinding]:
    """Check the set-up of `setup balance` in the order of the steps; cron or systemd comes last."""
    yield account_and_file_findings.system_account_finding(BALANCE_ACCOUNT, facts.uid, BALANCE_HOME)
    yield from account_and_file_findings.account_folder_findings(
        FOLDERS, BALANCE_HOME, facts.paths, (BALANCE_ACCOUNT, facts.uid), facts.hidden
    )
    if cell := facts.cell:
        yield _host_or_manager_admission_finding(cell, "admin host", "admin", facts.host, cell.admin_hosts)
        yield _host_or_manager_admission_finding(cell, "manager", "manager", BALANCE_ACCOUNT, cell.managers)
        if policy.balance.fill_first:  # fill_first works only if the scheduler sorts queues by seq_no
            item, values = f"{cell.name}: queue order", (cell.queue_order, BY_NUMBER)
            yield scheduler_setting_finding(item, cell.name, QUEUE_ORDER, values, FindingSeverity.BROKEN, undo=False)
    if facts.cell or facts.has_fixed_nodes:
        path_facts = facts.paths.get(BALANCE_SUDOERS)
        yield account_and_file_findings.sudoers_file_finding(
            BALANCE_SUDOERS, SUDOERS_LINE, path_facts, facts.sudoers, facts.hidden
        )
    yield from _bootstrap_key_findings(facts, policy.bootstrap)
    yield _balancer_start_finding(facts)


def running_balancer_findings(facts: BalancerFacts, policy: Policy, now: datetime) -> Iterator[CheckFinding]:
    """Check the balancer's rights, the service's rights, and the balancer's last round."""
    service = policy.site.service_account
    if (facts.cell or facts.has_fixed_nodes) and facts.may_be_root is not None:
        item, actual = f"account {BALANCE_ACCOUNT}", f"sudo does not let the account run {AS_ROOT}"
        hint = f"sudo -l -U {BALANCE_ACCOUNT} lists its rights; see #includedir in /etc/sudoers"
        barred = CheckFinding.fault_finding(item, actual, SUDOERS_LINE, hint=hint)
        yield CheckFinding.ok_finding(item, f"may run {AS_ROOT} as root") if facts.may_be_root else barred
    if facts.cell and service in facts.cell.managers:
        edit = SetupEdit(verb=SetupEditVerb.DISMISS, cell=facts.cell.name, kind="manager", name=service)
        yield CheckFinding.fault_finding(f"{facts.cell.name}: manager {service}", "a manager", "only an operator", edit)
    if facts.service_may_too:
        hint = f"look for {AS_ROOT} in /etc/sudoers and /etc/sudoers.d"
        yield CheckFinding.fault_finding(
            f"account {service}", f"may run {AS_ROOT} as root", f"only {BALANCE_ACCOUNT}", hint=hint
        )
    yield from _provider_program_findings(facts, policy)
    if facts.cell:
        yield from _missing_balancer_queue_findings(facts.cell, policy)
    yield _last_balancer_round_finding(facts, policy.balance, now)


def provider_programs_in_use(policy: Policy) -> dict[str, str]:
    """Map each provider in use to its program, which makes nodes or switches hosts on and off."""
    used = {pool.provider for pool in policy.pools.values()}
    used |= {powered.provider for powered in policy.powered.values()}
    by_provider = {name: policy.providers[name].program for name in sorted(used & policy.providers.keys())}
    return {name: program for name, program in by_provider.items() if program}


def _missing_balancer_queue_findings(cell: BalancerCellFacts, policy: Policy) -> Iterator[CheckFinding]:
    named = {("queue", policy.balance.queue): "[balance] queue"}
    for name, pool in policy.pools.items():
        for key, kind, text in (("queues", "queue", pool.queues), ("hostgroups", "host group", pool.hostgroups)):
            for place_name in text.split() if pool.provider else ():
                named.setdefault((kind, place_name), f"[pool.{name}] {key}")
    existing = {"queue": cell.queues, "host group": cell.host_groups}
    makes = {"queue": "-aq", "host group": "-ahgrp"}
    for (kind, place_name), key in named.items():
        if place_name not in existing[kind]:
            yield CheckFinding.fault_finding(
                f"{cell.name}: {kind} {place_name}",
                "missing",
                f"present, because {key} names it",
                hint=f"qconf {makes[kind]} {place_name} makes the {kind}; or correct {key}",
            )


def _provider_program_findings(facts: BalancerFacts, policy: Policy) -> Iterator[CheckFinding]:
    for name, program in provider_programs_in_use(policy).items():
        item, path_facts = f"provider {name}: {program}", facts.paths.get(program)
        if program in facts.hidden:
            yield CheckFinding.warning_finding(item, account_and_file_findings.UNSEEN, "a program")
        elif path_facts and not path_facts.is_folder and path_facts.mode & RUNS:
            yield CheckFinding.ok_finding(item, path_facts.owner_and_mode_text)
        else:
            actual, hint = (
                path_facts.owner_and_mode_text if path_facts else "missing",
                f"correct the program in [provider.{name}]",
            )
            yield CheckFinding.fault_finding(item, actual, "a program", hint=hint)


def qmaster_host_unless_this_host(facts: BalancerFacts) -> str:
    master = facts.cell.master if facts.cell else ""
    return "" if is_same_host(master, facts.host) else master


def balancer_rights_removal_edits(facts: BalancerFacts) -> Iterator[SetupEdit]:
    """Yield the edits that remove the balancer's rights, and its cron file or systemd unit.

    If this is not the master's host, the manager right stays, because the master's balancer may use the account.
    """
    if facts.has_unit:
        stop = f"systemctl disable --now {BALANCE_UNIT.rpartition('/')[2]}"
        yield SetupEdit(verb=SetupEditVerb.SHELL, name=f"stop {BALANCE_UNIT.rpartition('/')[2]}", value=stop)
        yield SetupEdit(verb=SetupEditVerb.REMOVE_FILE, name=BALANCE_UNIT)
    for path in (BALANCE_CRON, BALANCE_SUDOERS):
        if path in facts.paths:
            yield SetupEdit(verb=SetupEditVerb.REMOVE_FILE, name=path)
    if facts.cell and not qmaster_host_unless_this_host(facts) and BALANCE_ACCOUNT in facts.cell.managers:
        name = facts.cell.name
        yield SetupEdit(verb=SetupEditVerb.DISMISS, cell=name, kind="manager", name=BALANCE_ACCOUNT)


def _host_or_manager_admission_finding(
    cell: BalancerCellFacts, role: str, kind: str, name: str, admitted: tuple[str, ...]
) -> CheckFinding:
    is_admitted = any(is_same_host(name, admitted_name) for admitted_name in admitted)
    edit = SetupEdit(verb=SetupEditVerb.ADMIT, cell=cell.name, kind=kind, name=name)
    actual = "admitted" if is_admitted else "not admitted"
    return CheckFinding.finding_by_condition(is_admitted, f"{cell.name}: {role} {name}", actual, "admitted", edit)


def _bootstrap_key_findings(facts: BalancerFacts, bootstrap: MachineBootstrapSection) -> Iterator[CheckFinding]:
    path, owner = bootstrap.key, BALANCE_ACCOUNT
    if not bootstrap.steps or not path:
        return
    item, right, name = f"file {path}", f"{owner}'s, mode 0600", shlex.quote(path)
    path_facts = facts.paths.get(path)
    if path in facts.hidden:
        yield CheckFinding.warning_finding(item, account_and_file_findings.UNSEEN, right)
    elif path_facts is None:
        make = f"ssh-keygen -q -t ed25519 -N '' -C {owner} -f {name}"
        is_within = path.startswith(f"{BALANCE_HOME}/")  # the account's home may contain any symlink
        give = f"{make} && chown -h {owner}: {name} {name}.pub"
        mend = SetupEdit.shell_command_edit(
            account_and_file_findings.run_as_account_shell_line(owner, make) if is_within else give
        )
        yield CheckFinding.fault_finding(item, "missing", right, mend)
    else:
        is_right = path_facts.owner == facts.uid and not path_facts.mode & PRIVATE
        mend = account_and_file_findings.setup_edit_making_file_private(path, owner)
        yield CheckFinding.finding_by_condition(is_right, item, path_facts.owner_and_mode_text, right, mend)


def _balancer_start_finding(facts: BalancerFacts) -> CheckFinding:
    item, right = f"file {BALANCE_CRON}", "a round each minute"
    if facts.has_unit:
        return CheckFinding.ok_finding(item, "not needed: systemd runs the balancer")
    lines = (*facts.cron.splitlines(), CRON_LINE)
    mend = account_and_file_findings.setup_edit_writing_root_file(BALANCE_CRON, lines, 0o644)
    if BALANCE_CRON not in facts.paths:
        return CheckFinding.fault_finding(item, "missing", right, mend)
    if not any(BALANCE_PROGRAM in line for line in facts.cron.splitlines()):
        return CheckFinding.fault_finding(item, f"without {BALANCE_PROGRAM}", right, mend)
    return CheckFinding.ok_finding(item, "there")


def _last_balancer_round_finding(facts: BalancerFacts, balance: BalanceSection, now: datetime) -> CheckFinding:
    item, last = "balancer", facts.last
    acts = balance.apply or facts.has_unit  # the systemd unit runs with --apply
    if (last is None or not last.is_acting or not acts) and balance.apply:
        return CheckFinding.warning_finding(item, "no round yet", hint=f"wait a minute; the log is {BALANCE_LOG}")
    if last is None or not last.is_acting or not acts:
        hint = "see gridbridge balance plan, then set apply = true in [balance]"
        return CheckFinding.weakness_finding(item, "only plans, and changes nothing", hint=hint)
    age_s = (now - last.at).total_seconds()
    if age_s > LATE_ROUNDS * max(CRON_S, balance.interval_s):
        actual, hint = f"the last round was {age_s:.0f} s ago", f"the log is {BALANCE_LOG}"
        return CheckFinding.fault_finding(item, actual, "a round each minute", hint=hint)
    if last.trouble:
        return CheckFinding.warning_finding(item, f"could not observe the cluster {age_s:.0f} s ago: {last.trouble}")
    return CheckFinding.ok_finding(item, f"{age_s:.0f} s ago: {last.sentence}")
