"""Starts gridbridge-runner and gridbridge-nikita as the service account, once or in a loop.

Exit status: 0 for success, 1 if the program already runs or leads on another host, 2 for a wrong configuration or
option, 3 if campaigns' files or root's ledger are not those of the other masters.
"""

import argparse
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from gridbridge.batch import privileged_helper_calls
from gridbridge.errors import MasterFoldersNotShared, describe_error
from gridbridge.model.campaigns.campaign_master_lease import MasterProgram
from gridbridge.model.site.site_section import POSTGRESQL
from gridbridge.model.site_configuration import Policy
from gridbridge.program import service_cycle
from gridbridge.program.configuration_in_force import ReloadableConfiguration
from gridbridge.program.service_cycle import CycleDaemon, ReloadingDaemon, StopSignals
from gridbridge.program.threads_and_backoff import is_thread_start_failure
from gridbridge.shell import program_runs
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_startup import switch_process_to_account, version_with_commit
from gridbridge.shell.service_signals_and_heartbeat import ServiceHeartbeat, StopAndReloadSignals

if TYPE_CHECKING:
    from gridbridge.campaigns.runner.campaign_master_lead import CampaignMasterLead

ANOTHER_RUNS, WRONG, NOT_SHARED = 1, 2, 3
SINGLE_RUN_S = 300.0  # a run without --loop waits no longer for programs that it started
LOOK_S = 0.5

_log = logging.getLogger(__name__)


class CampaignDaemon(CycleDaemon[Any, Any], Protocol):
    @property
    def has_background_work(self) -> bool:
        """Whether a program that a cycle started works, or the next cycle uses what an ended program did."""


class CampaignProgramFactory(Protocol):
    """Creates gridbridge-runner or gridbridge-nikita; may raise GridbridgeError."""

    def __call__(
        self, policy: Policy, clock: Clock, *, is_dry: bool, lead: "CampaignMasterLead | None"
    ) -> CampaignDaemon:
        """Open the state (read-only in a dry run, and as the leading master with `lead`); return the program."""


class OneLineErrorArgumentParser(argparse.ArgumentParser):
    """An argument parser that reports a wrong option in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {message}; --help lists the options\n")


def start_campaign_program(
    name: str, does: str, every_s: int, lock: str, load: Callable[[], CampaignProgramFactory]
) -> None:
    """Parse the options and run a campaign program; `load` imports the program, which is slow."""
    parser = OneLineErrorArgumentParser(prog=name, description=does, epilog=f"Example: {name} --dry-run")
    parser.add_argument("--loop", action="store_true", help=f"run a cycle every {every_s} s until SIGTERM")
    parser.add_argument("--dry-run", action="store_true", help="print what one cycle would do, and do nothing")
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    options = parser.parse_args()
    if options.version:
        print(name, version_with_commit())  # noqa: T201 - the answer
        return
    try:
        _run_campaign_program(name, lock, load, is_loop=options.loop, is_dry=options.dry_run)
    except service_cycle.FAILURES as error:
        if isinstance(error, RuntimeError) and not is_thread_start_failure(error):
            raise
        print(f"{name}: {describe_error(error)}", file=sys.stderr)  # noqa: T201 - no log may exist
        sys.exit(NOT_SHARED if isinstance(error, MasterFoldersNotShared) else WRONG)


def _run_campaign_program(
    name: str, lock: str, load: Callable[[], CampaignProgramFactory], *, is_loop: bool, is_dry: bool
) -> None:
    make = load()
    signals, clock = StopAndReloadSignals(), Clock()
    configuration = ReloadableConfiguration(clock)
    policy = configuration.policy
    if not policy.is_single_user_site:
        switch_process_to_account(policy.site.service_account)
    privileged_helper_calls.choose_sudo_or_direct_user_call(policy)
    service_cycle.start_service_log_on_stderr(policy)
    if not is_dry:
        service_cycle.take_program_lock(lock, name, ANOTHER_RUNS)
    lead = None
    if policy.site.state.startswith(POSTGRESQL) and not is_dry:
        from gridbridge.campaigns.runner import campaign_master_lead  # imports the database's library, as `load` does

        lead = campaign_master_lead.make_master_lead(MasterProgram(name.removeprefix("gridbridge-")), policy, clock)
    if is_loop and not is_dry:
        _run_cycles_whenever_leading(make, configuration, lead, signals, ServiceHeartbeat(lock), clock)
    elif lead and not lead.try_to_lead():
        print(f"{name}: another master leads: {lead.leader}", file=sys.stderr)  # noqa: T201 - no log may exist
        sys.exit(ANOTHER_RUNS)
    else:
        stops = lead.signals_while_leading(signals) if lead else signals
        run_cycles_until_programs_end(make(policy, clock, is_dry=is_dry, lead=lead), stops, clock, is_dry=is_dry)
    if lead:
        lead.give_up()


def _run_cycles_whenever_leading(
    make: CampaignProgramFactory,
    configuration: ReloadableConfiguration,
    lead: "CampaignMasterLead | None",
    signals: StopAndReloadSignals,
    life_sign: ServiceHeartbeat,
    clock: Clock,
) -> None:
    """Run cycles until a signal comes; without `lead` always, otherwise whenever this process leads."""

    def make_daemon_of_configuration(policy: Policy) -> CycleDaemon[Any, Any]:
        if lead:
            lead.lease_s = policy.site.master_lease_s
        return make(policy, clock, is_dry=False, lead=lead)

    while not signals.is_stopped and (lead is None or lead.wait_for_lead(signals, life_sign)):
        lasting = ReloadingDaemon(
            make_daemon_of_configuration(configuration.policy), configuration, make_daemon_of_configuration
        )
        stops = lead.signals_while_leading(signals) if lead else signals
        run_cycles_until_signal(lasting, stops, life_sign, clock)


def run_cycles_until_programs_end(daemon: CampaignDaemon, signals: StopSignals, clock: Clock, *, is_dry: bool) -> None:
    """Run a cycle, as from cron, and further cycles for at most SINGLE_RUN_S while programs of owners work.

    Notifications that the cycles started are waited for.
    """
    until_s = clock.steady_s() + SINGLE_RUN_S
    is_due = True
    while is_due:
        with daemon.open_cycle() as program:
            service_cycle.run_cycle_once(program, print, is_dry=is_dry)
        is_due = not is_dry and _wait_for_programs(daemon, signals, clock, until_s)
    daemon.release()


def _wait_for_programs(daemon: CampaignDaemon, signals: StopSignals, clock: Clock, until_s: float) -> bool:
    """Wait until a cycle is due, and return True; return False if no program works, or nothing more may begin."""
    due_s = clock.steady_s() + daemon.pause_s
    while daemon.has_background_work and not signals.is_stopped and (now_s := clock.steady_s()) < until_s:
        if now_s >= due_s or daemon.should_start_cycle_early():
            return True
        signals.wait_for_signal(LOOK_S)
    return False


def run_cycles_until_signal(
    daemon: CycleDaemon[Any, Any], signals: StopSignals, life_sign: ServiceHeartbeat, clock: Clock
) -> None:
    """Run cycles until a signal arrives; the end of each call to a cluster resets the watchdog."""
    program_runs.call_after_each_program_end(life_sign.send_heartbeat)
    service_cycle.run_cycles_forever(daemon, signals, life_sign, clock, log_cycle_sentence)
    daemon.release()


def log_cycle_sentence(sentence: str) -> None:
    _log.info("event=round does=%r", sentence)
