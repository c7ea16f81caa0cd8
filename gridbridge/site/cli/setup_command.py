"""gridbridge setup: shows what sets the site up, prints it as a shell script, or makes the changes."""

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import wraps

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FullSentenceCommandGroup
from gridbridge.config import configuration_file
from gridbridge.errors import GridbridgeError
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.setup_findings_and_edits import BestEffortSetupRequest
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfer_config_sections import MAX_SLOTS
from gridbridge.shell import local_host_facts, program_lock_file, safe_files
from gridbridge.site import (
    balancer_setup,
    besteffort_setup,
    campaign_and_data_setup,
    configuration_wait,
    transfer_queue_setup,
)
from gridbridge.site.setup_preview import SetupPreview, restarted_programs
from gridbridge.site.transfer_queue_request import TransferQueueOptions
from gridbridge.site.transfer_queue_setup import (
    SetupStep,
    apply_setup_steps,
    plan_queue_leftover_removal,
    plan_transfer_queue_setup,
)


def _wait_for_other_setup(_: click.Context, __: click.Parameter, is_applied: bool) -> bool:
    """Allow one setup at a time on this host: two at once could lose a section of gridbridge.toml."""
    if is_applied and os.geteuid() == safe_files.ROOT and os.path.exists(CONFIG):
        path = f"{CONFIG}.lock"
        if not program_lock_file.wait_for_lock_until_exit(
            path, lambda: output_and_errors.print_error("setup: waiting for the end of another setup")
        ):
            raise GridbridgeError(f"another setup still runs, and holds {path}; repeat this command later")
    return is_applied


NOTHING = "nothing to do"
TO_GO_ON = "nothing is changed yet: --apply makes the changes, --script prints the commands"
ApplySteps = Callable[[Sequence[SetupStep], Policy, Callable[[SetupStep], None]], None]
Command = Callable[..., None]


class SetupAction(StrEnum):
    SHOW = "--dry-run"
    SCRIPT = "--script"
    APPLY = "--apply"


def action_options(command: Command) -> Command:
    """Give a command the options --apply, --script and --dry-run as one argument `action`."""

    @wraps(command)
    def command_with_action(*, is_applied: bool, is_script: bool, is_dry: bool, **arguments: object) -> None:
        if is_applied + is_script + is_dry > 1:
            raise click.UsageError("--apply, --script and --dry-run exclude each other; expected one option")
        action = SetupAction.APPLY if is_applied else SetupAction.SCRIPT if is_script else SetupAction.SHOW
        command(action=action, **arguments)

    for option in (
        click.option("--dry-run", "is_dry", is_flag=True, help="Only show the changes, as without the option."),
        click.option("--script", "is_script", is_flag=True, help="Print the commands as a shell script for root."),
        click.option("--apply", "is_applied", is_flag=True, callback=_wait_for_other_setup, help="Make the changes."),
    ):
        command_with_action = option(command_with_action)
    return command_with_action


REMOVE = click.option("--remove", "is_removed", is_flag=True, help="Remove what the command has made.")


@click.group(cls=FullSentenceCommandGroup)
def setup() -> None:
    """Set up this host and its cluster.

    Without an option the commands show what would change: a sentence for each change, a diff of Grid Engine's objects
    and of files, and the programs that restart. --script prints the changes as a shell script for root on the transfer
    host. --apply makes the changes one by one; a repeated run completes an interrupted one.

    \b
    Example:
      gridbridge setup host --apply
      gridbridge setup transfer beta
      gridbridge setup transfer beta --apply
    """


@setup.command(name="host")
@action_options
@REMOVE
def setup_host(action: SetupAction, is_removed: bool) -> None:
    """Make the service's account, folders and sudoers line.

    --remove ends the service, and removes account, state file, spool, root's ledger and logs: save what you want to
    keep. It refuses while transfer queues, the campaign service or its campaigns need the service. gridbridge.toml
    stays.

    \b
    Example:
      gridbridge setup host --apply
      gridbridge setup host --remove
    """
    _act_on_plan(
        campaign_and_data_setup.plan_host_removal if is_removed else transfer_queue_setup.plan_host_setup, action
    )
    if is_removed and action is SetupAction.APPLY:
        safe_files.remove_file(f"{CONFIG}.lock")


@setup.command()
@click.argument("cluster")
@click.option("--queue", metavar="NAME", help="Name of the transfer queue [transfer-CLUSTER].")
@click.option("--host", metavar="HOST", help="Host of the transfer queue [this host].")
@click.option(
    "--slots",
    type=click.IntRange(1, MAX_SLOTS),
    metavar="N",
    help="Slots of the queue [a quarter of the remote slots].",
)
@click.option(
    "--pending-limit",
    type=click.IntRange(0, MAX_SLOTS),
    metavar="N",
    help="Close the queue while N jobs wait at CLUSTER; 0: never [a tenth of the remote slots].",
)
@click.option(
    "--short-jobs",
    is_flag=True,
    help="Set up for many short jobs: no pending limit, and --slots a tenth of the remote slots.",
)
@action_options
@click.option("--remove", "is_removed", is_flag=True, help="Remove the queue and its set-up.")
def transfer(
    cluster: str,
    queue: str | None,
    host: str | None,
    slots: int | None,
    pending_limit: int | None,
    short_jobs: bool,
    action: SetupAction,
    is_removed: bool,
) -> None:
    """Make a transfer queue whose jobs run on CLUSTER.

    Values that no option gives come from gridbridge.toml, else from an existing transfer queue of that name, else from
    the remote cluster's size. Some changes, such as queue order and load adjustments, concern the whole home cluster;
    --remove restores their former values. If CLUSTER does not answer, --remove changes the home cluster only.

    \b
    Example:
      gridbridge setup transfer beta --slots 40 --pending-limit 16
      gridbridge setup transfer beta --apply
      gridbridge setup transfer beta --remove --apply
    """
    if short_jobs and pending_limit:
        raise click.UsageError("--short-jobs and --pending-limit exclude each other; expected one option")
    policy = configuration_file.load_configuration(CONFIG)
    options = TransferQueueOptions(
        cluster=cluster, queue=queue, host=host, slots=slots, pending_limit=pending_limit, short_jobs=short_jobs
    )
    steps = _plan_transfer_queue_setup_or_removal(policy, options, is_removed)
    if not act_on_setup_steps(steps, policy, action=action):
        return
    if is_removed:
        transfer_queue_setup.delete_unneeded_former_settings_record(policy)
    plan_rest = plan_queue_leftover_removal if is_removed else plan_transfer_queue_setup
    refuse_remaining_setup_steps(plan_rest(configuration_file.load_configuration(CONFIG), options))
    is_new_here = not is_removed and host in (None, local_host_facts.this_host_name())
    if is_new_here and (closed := configuration_wait.configuration_lag_reason()):
        _print_warning(closed)


@setup.command(name="besteffort")
@click.argument("cluster", required=False)
@click.option(
    "--like", metavar="QUEUE", help="Local queue whose hosts and access lists are copied [the largest queue]."
)
@click.option(
    "--queues",
    "most",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Largest number of best-effort queues that divide a host's slots [the present number, else 8].",
)
@action_options
@click.option("--remove", "is_removed", is_flag=True, help="Remove the best-effort queues.")
def setup_besteffort(
    cluster: str | None, like: str | None, most: int | None, action: SetupAction, is_removed: bool
) -> None:
    """Make queues for best-effort tasks in a Grid Engine cell [the home cell].

    Campaigns send best-effort tasks to these queues. A local job that needs their slots preempts the tasks, which run
    again later or at another cluster. --remove preempts all tasks, then removes the queues and their set-up.

    \b
    Example:
      gridbridge setup besteffort
      gridbridge setup besteffort beta --apply
      gridbridge setup besteffort --remove --apply
    """
    policy = configuration_file.load_configuration(CONFIG)
    request = BestEffortSetupRequest(cluster=cluster or policy.site.cluster, like=like, most=most)
    planned = besteffort_setup.plan_besteffort_queue_removal if is_removed else besteffort_setup.plan_besteffort_setup
    for warning in () if is_removed else besteffort_setup.besteffort_consumable_warnings(policy, request):
        _print_warning(warning)
    if act_on_setup_steps(planned(policy, request), policy, action=action):
        refuse_remaining_setup_steps(planned(policy, request))


@setup.command(name="order")
@action_options
def setup_order(action: SetupAction) -> None:
    """Order the transfer queues by queue_order in [site].

    The first queue leads to the cluster with the least expected wait, by the service's last answers, or with the least
    cost. The queues exchange their seq_no; local queues still come first. Let cron repeat the command, because expected
    waits change. With queue_order = "seq_no" the queues get their original numbers back.

    \b
    Example:
      gridbridge setup order
      gridbridge setup order --apply
    """
    policy = configuration_file.load_configuration(CONFIG)
    steps = transfer_queue_setup.plan_queue_sequence_numbers(policy)
    apply = transfer_queue_setup.apply_queue_sequence_numbers
    act_on_setup_steps(steps, policy, action=action, apply=apply)


@setup.command(name="balance")
@action_options
@REMOVE
def setup_balance(action: SetupAction, is_removed: bool) -> None:
    """Make the balancer's account, which adds and removes nodes, on the qmaster's host.

    The account becomes a manager of the cell and may run gridbridge-as-root by sudo. Cron starts gridbridge-balance
    each minute under this account; gridbridge-balance only prints its plan until [balance] of gridbridge.toml has
    `apply = true`. --remove removes the rights, the line of cron or the systemd unit, and the account with its
    files; the account and its files stay while pools have nodes.

    \b
    Example:
      gridbridge setup balance
      gridbridge setup balance --apply
    """
    policy = configuration_file.load_configuration(CONFIG)
    planned = balancer_setup.plan_balancer_removal if is_removed else balancer_setup.plan_balancer_setup
    steps = planned(policy)
    if is_removed and (stays := balancer_setup.why_balancer_account_stays(policy)):
        _print_warning(stays)
    _require_root_to_apply(steps, action)
    apply = balancer_setup.apply_balancer_removal if is_removed else apply_setup_steps
    if act_on_setup_steps(steps, policy, action=action, apply=apply):
        refuse_remaining_setup_steps(planned(policy))


@setup.command(name="campaigns")
@action_options
@REMOVE
def setup_campaigns(action: SetupAction, is_removed: bool) -> None:
    """Start the campaign service: account, folders and sudoers line, and units of systemd or lines of cron.

    On a host with systemd the units of gridbridge-runner and gridbridge-nikita start the programs, elsewhere
    /etc/cron.d/gridbridge-campaigns. A site without transfer queues gets the poller's unit as well. --remove stops the
    units and removes the files; account and folders stay.

    \b
    Example:
      gridbridge setup campaigns
      gridbridge setup campaigns --apply
    """
    plan = campaign_and_data_setup.plan_campaign_removal if is_removed else campaign_and_data_setup.plan_campaign_setup
    _act_on_plan(plan, action)


@setup.command(name="data")
@action_options
@REMOVE
def setup_data(action: SetupAction, is_removed: bool) -> None:
    """Make the folders of storage areas, and the rounds that maintain the replicas of datasets.

    The folders are those of [storage.NAME] in gridbridge.toml. For a folder on a host that is reached by ssh, the
    command prints the line for an administrator of that host. --remove removes the rounds and empty folders.

    \b
    Example:
      gridbridge setup data
      gridbridge setup data --apply
    """
    setup_of_data = campaign_and_data_setup
    plan, warnings = (
        (setup_of_data.plan_data_removal, setup_of_data.unremoved_folder_warnings)
        if is_removed
        else (setup_of_data.plan_data_setup, setup_of_data.storage_folder_warnings)
    )
    for warning in warnings(configuration_file.load_configuration(CONFIG)):
        _print_warning(warning)
    _act_on_plan(plan, action)


def _act_on_plan(plan: Callable[[Policy], Sequence[SetupStep]], action: SetupAction) -> None:
    """Plan and act as root; a step that remains afterwards is an error."""
    policy = configuration_file.load_configuration(CONFIG)
    steps = plan(policy)
    _require_root_to_apply(steps, action)
    if act_on_setup_steps(steps, policy, action=action):
        refuse_remaining_setup_steps(plan(policy))


def _require_root_to_apply(steps: Sequence[SetupStep], action: SetupAction) -> None:
    if action is SetupAction.APPLY and steps and os.geteuid() != safe_files.ROOT:
        raise GridbridgeError("--apply: not root; expected root, or no --apply to see the changes")


def _plan_transfer_queue_setup_or_removal(
    policy: Policy, options: TransferQueueOptions, is_removed: bool
) -> Sequence[SetupStep]:
    if is_removed:
        return transfer_queue_setup.plan_transfer_queue_removal(policy, options, _print_warning)
    steps = plan_transfer_queue_setup(policy, options)
    for warning in transfer_queue_setup.uncorrectable_queue_warnings(policy, options):
        _print_warning(warning)
    return steps


def _print_warning(text: str) -> None:
    output_and_errors.print_error(f"warning: {text}")


def act_on_setup_steps(
    steps: Sequence[SetupStep], policy: Policy, *, action: SetupAction, apply: ApplySteps = apply_setup_steps
) -> bool:
    """Show the steps, print the steps as a script, or apply the steps; return whether the steps were applied."""
    if action is SetupAction.SCRIPT:
        print_setup_script(steps)
    elif not steps:
        output_and_errors.print_line(NOTHING)
    elif action is SetupAction.SHOW:
        print_setup_preview(steps, policy)
    else:
        apply(steps, policy, lambda step: output_and_errors.print_line(f"done: {step.what}"))
    return action is SetupAction.APPLY


def print_setup_preview(steps: Sequence[SetupStep], policy: Policy) -> None:
    difference = SetupPreview(policy).difference_after(steps)
    sentences = dict.fromkeys(f"  {step.what}{_host_of_step(step)}" for step in steps)
    restarts = restarted_programs(steps) or ("nothing",)
    parts = (
        (f"{number_with_noun(len(sentences), 'change')}, in this order:", *sentences),
        difference,
        (f"restarts: {', '.join(restarts)}", TO_GO_ON),
    )
    output_and_errors.print_line("\n\n".join("\n".join(lines) for lines in parts if lines))


def _host_of_step(step: SetupStep) -> str:
    return f" (to be run on {step.where})" if step.where else ""


def print_setup_script(steps: Sequence[SetupStep]) -> None:
    environment = ""
    for step in steps:
        if step.environment and step.environment != environment:
            environment = step.environment
            output_and_errors.print_line(environment)
        output_and_errors.print_line(f"# {step.what}{_host_of_step(step)}")
        output_and_errors.print_line(step.line)
    if not steps:
        output_and_errors.print_line(f"# {NOTHING}")


def refuse_remaining_setup_steps(steps: Sequence[SetupStep]) -> None:
    """Raise GridbridgeError if a step remains after a set-up."""
    if steps:
        raise GridbridgeError(f"still to be done: {steps[0].what}")
