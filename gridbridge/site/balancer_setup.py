"""Sets up, checks and removes the balancer on the qmaster's host."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.decisions.site import account_and_file_findings, balancer_setup_requirements
from gridbridge.decisions.site.sge_configuration_findings import QUEUE_ORDER
from gridbridge.elastic.balancer import balancer_statistics_and_publication
from gridbridge.errors import CommandFailed, GridbridgeError, StateError
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.fixed_paths import (
    AS_ROOT,
    BALANCE_ACCOUNT,
    BALANCE_CRON,
    BALANCE_HOME,
    BALANCE_LOCK,
    BALANCE_SUDOERS,
    BALANCE_UNIT,
)
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.setup_findings_and_edits import CheckFinding
from gridbridge.model.site.site_check_facts import BalancerCellFacts, BalancerFacts, LastPublishedBalancerRound
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_route import BARE
from gridbridge.shell import local_host_facts, program_lock_file
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import run_program
from gridbridge.site import storage_provider_and_runner_checks
from gridbridge.site.transfer_queue_request import refuse_setup_of_embedded_site
from gridbridge.site.transfer_queue_setup import (
    SetupStep,
    apply_setup_steps,
    require_correctable_findings,
    setup_steps_of_edits,
    setup_steps_of_findings,
)

SUDO_S = 10.0
ROUND_S, LOOK_S = 120.0, 0.2  # longest wait for the end of a round, and the pause between looks
LEAVING = (ElasticNodeState.REMOVING.value, ElasticNodeState.GONE.value)
TRIED = ("unname", "gridbridge-check")  # `sudo -l` is asked about gridbridge-as-root with these arguments


def plan_balancer_setup(policy: Policy) -> tuple[SetupStep, ...]:
    """Return the steps of the balancer's set-up; raise GridbridgeError if the qmaster is on another host."""
    facts = _visible_balancer_facts(policy)
    if master := balancer_setup_requirements.qmaster_host_unless_this_host(facts):
        raise GridbridgeError(f"the balancer runs on the qmaster's host; expected this command on {master}")
    findings = balancer_setup_requirements.balancer_setup_findings(facts, policy)
    return setup_steps_of_findings(policy, require_correctable_findings(findings))


def plan_balancer_removal(policy: Policy) -> tuple[SetupStep, ...]:
    """Return the steps that remove the balancer's rights, then its account and files unless they are still needed."""
    facts = _visible_balancer_facts(policy)
    return (*_plan_rights_removal(policy, facts), *_plan_account_removal(policy, facts))


def apply_balancer_removal(_: Sequence[SetupStep], policy: Policy, report: Callable[[SetupStep], None]) -> None:
    """Remove the rights, await the end of a round, and look again for nodes: that round may have added nodes."""
    apply_setup_steps(_plan_rights_removal(policy, _visible_balancer_facts(policy)), policy, report)
    clock = Clock()
    until_s = clock.steady_s() + ROUND_S
    while program_lock_file.is_lock_file_held(BALANCE_LOCK):
        if clock.steady_s() > until_s:
            raise GridbridgeError(f"a round of the balancer still runs, and holds {BALANCE_LOCK}; repeat this later")
        clock.sleep(LOOK_S)
    apply_setup_steps(_plan_account_removal(policy, _visible_balancer_facts(policy)), policy, report)


def why_balancer_account_stays(policy: Policy) -> str:
    """Return why the balancer's account and files are not removed; empty if they are not needed."""
    if master := balancer_setup_requirements.qmaster_host_unless_this_host(_visible_balancer_facts(policy)):
        return f"the qmaster runs on {master}: the manager and account {BALANCE_ACCOUNT} stay for a balancer there"
    return _why_nodes_need_account()


def _why_nodes_need_account() -> str:
    """Return why nodes of the last published round need the account; once it is removed, no program removes nodes."""
    try:
        published = balancer_statistics_and_publication.read_published_balance()
    except StateError as error:
        return f"{error}: the account {BALANCE_ACCOUNT} and its files stay"
    rows = published.nodes if published else ()
    nodes = sum(row.nodes for row in rows if row.pool and row.state not in LEAVING)
    last = f"the last round saw {number_with_noun(nodes, 'node')} of pools, which nobody will remove"
    return f"{last}: the account {BALANCE_ACCOUNT} and its files stay" if nodes else ""


def _plan_rights_removal(policy: Policy, facts: BalancerFacts) -> tuple[SetupStep, ...]:
    return setup_steps_of_edits(policy, balancer_setup_requirements.balancer_rights_removal_edits(facts))


def _plan_account_removal(policy: Policy, facts: BalancerFacts) -> tuple[SetupStep, ...]:
    if balancer_setup_requirements.qmaster_host_unless_this_host(facts) or _why_nodes_need_account():
        return ()
    home = (BALANCE_HOME,) if BALANCE_HOME in facts.paths else ()
    edits = account_and_file_findings.account_removal_edits(BALANCE_ACCOUNT, facts.uid, home)
    return setup_steps_of_edits(policy, edits)


def check_balancer(policy: Policy, clock: Clock) -> Iterator[CheckFinding]:
    """Check the balancer's set-up if the balancer is configured, or if a part of the set-up exists."""
    begun = any(map(os.path.exists, (BALANCE_CRON, BALANCE_UNIT, BALANCE_SUDOERS)))
    if not balancer_setup_requirements.is_balancer_configured(policy) and not begun:
        return
    try:
        facts = _gather_balancer_facts(policy)
    except GridbridgeError as error:
        yield storage_provider_and_runner_checks.unchecked_part_finding("balancer", error)
        return
    if master := balancer_setup_requirements.qmaster_host_unless_this_host(facts):
        yield CheckFinding.weakness_finding("balancer", f"not checked here: the balancer runs on {master}")
        return
    yield from balancer_setup_requirements.balancer_setup_findings(facts, policy)
    yield from balancer_setup_requirements.running_balancer_findings(facts, policy, clock.now())
    yield from storage_provider_and_runner_checks.check_provider_lists(policy)


def _visible_balancer_facts(policy: Policy) -> BalancerFacts:
    refuse_setup_of_embedded_site(policy)
    facts = _gather_balancer_facts(policy)
    if facts.hidden:
        raise GridbridgeError(f"{min(facts.hidden)}: not visible to this user; run this command as root")
    return facts


def _gather_balancer_facts(policy: Policy) -> BalancerFacts:
    home = configured_cluster_access(policy, policy.site.cluster)
    ours = (*balancer_setup_requirements.FOLDERS, BALANCE_SUDOERS, BALANCE_CRON, policy.bootstrap.key)
    looked = (*filter(None, ours), *balancer_setup_requirements.provider_programs_in_use(policy).values())
    by_path = {path: local_host_facts.read_owner_mode_and_kind(path) for path in looked}
    unreadable = {BALANCE_SUDOERS} if local_host_facts.is_file_unreadable(BALANCE_SUDOERS) else set()
    last = None
    with suppress(StateError):
        if published := balancer_statistics_and_publication.read_published_balance():
            last = LastPublishedBalancerRound(
                at=published.at, is_acting=published.is_acting, sentence=published.sentence, trouble=published.trouble
            )
    return BalancerFacts(
        host=local_host_facts.this_host_name(),
        uid=local_host_facts.uid_of_account(BALANCE_ACCOUNT),
        paths={path: facts for path, facts in by_path.items() if facts},
        hidden=frozenset(filter(local_host_facts.is_path_access_denied, looked)) | unreadable,
        sudoers=local_host_facts.read_text_or_empty(BALANCE_SUDOERS),
        cron=local_host_facts.read_text_or_empty(BALANCE_CRON),
        has_unit=os.path.exists(BALANCE_UNIT),
        cell=_balancer_cell_facts(policy),
        has_fixed_nodes=batch_adapter_of_cluster(home).has_fixed_nodes,
        may_be_root=_may_account_run_as_root(BALANCE_ACCOUNT),
        service_may_too=_may_account_run_as_root(policy.site.service_account),
        last=last,
    )


def _balancer_cell_facts(policy: Policy) -> BalancerCellFacts | None:
    home = configured_cluster_access(policy, policy.site.cluster)
    makes = batch_adapter_of_cluster(home).makes_queues
    if makes is None:
        return None
    setup = makes.read_home_setup(home, local_host_facts.this_host_name())
    return BalancerCellFacts(
        name=policy.site.cluster,
        master=setup.master,
        managers=setup.managers,
        admin_hosts=setup.admin_hosts,
        queue_order=setup.scheduler.get(QUEUE_ORDER, ""),
        queues=frozenset(setup.queues),
        host_groups=frozenset(setup.host_groups),
    )


def _may_account_run_as_root(account: str) -> bool | None:
    if os.geteuid() != 0 or not local_host_facts.uid_of_account(account):
        return None
    try:
        argv = ("/usr/bin/sudo", "-n", "-l", "-U", account, AS_ROOT, *TRIED)
        return run_program(argv, BARE, SUDO_S).status == 0
    except CommandFailed:
        return None
