"""gridbridge replay: repeats a decision from the journal with the rules of this version."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from gridbridge.campaigns.nikita import task_deletion_cycle
from gridbridge.campaigns.runner import campaign_runner
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, JSON, format_local_time
from gridbridge.config import configuration_file
from gridbridge.elastic.balancer import balance_journal
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_SET_UP, BALANCE_STATE, CONFIG
from gridbridge.model.published_status_and_reports import JournalledDecisionWithInputs, replace_control_characters
from gridbridge.rebalance.mover import rebalance_decision_journal
from gridbridge.shell.program_startup import switch_process_to_account
from gridbridge.state.decision_journal import DecisionJournal, InputsNotJournalled, ProgramDecisionReplay
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller import poller_decision_journal

PROGRAMS: Mapping[str, ProgramDecisionReplay] = {
    program.name: program
    for program in (
        ProgramDecisionReplay(
            poller_decision_journal.PLAN_PROGRAM,
            poller_decision_journal.replay_transfer_plan,
            poller_decision_journal.summarize_transfer_actions,
        ),
        ProgramDecisionReplay(poller_decision_journal.RECALL_PROGRAM, poller_decision_journal.replay_recalls),
        ProgramDecisionReplay(poller_decision_journal.REFUSAL_PROGRAM, poller_decision_journal.replay_message_decision),
        ProgramDecisionReplay(campaign_runner.RUNNER_PROGRAM, campaign_runner.replay_campaign_cycle_decision),
        ProgramDecisionReplay(task_deletion_cycle.NIKITA_PROGRAM, task_deletion_cycle.replay_nikita_deletions),
        ProgramDecisionReplay(balance_journal.PROGRAM, balance_journal.replay_balancer_round_decision),
        ProgramDecisionReplay(rebalance_decision_journal.PROGRAM, rebalance_decision_journal.replay_rebalance_decision),
    )
}

SQLITE = "sqlite:///"


class JournalDecisionNotFound(GridbridgeError):
    """Raised if the journal has no decision of the requested number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReplay:
    decision: JournalledDecisionWithInputs
    kept: tuple[str, ...]  # the actions recorded in the journal, one sentence each
    now: tuple[str, ...]

    @property
    def is_decision_unchanged(self) -> bool:
        return self.kept == self.now


def replay_decision(number: int, path: str = CONFIG, *, is_balancers: bool = False) -> DecisionReplay:
    """Repeat a decision from the journal, without acting; the balancer's decisions are numbered separately."""
    with closing(_open_balancer_state_file() if is_balancers else _open_service_state_file(path)) as database:
        decision = DecisionJournal(database).find_decision(number)
    if decision is None:
        raise JournalDecisionNotFound(f"decision {number}: no decision of this number in the journal")
    try:
        now = PROGRAMS[decision.program].replay(decision.inputs)
        actions = tuple(map(str, decision.inputs["actions"]))  # type: ignore[call-overload]
    except InputsNotJournalled as error:
        raise StateError(f"decision {number}: can't be replayed; {error}") from error
    except Exception as error:  # the journal's inputs may come from another version, and have any form
        why = "another version of gridbridge wrote its inputs"
        raise StateError(f"decision {number}: can't be replayed; {why}") from error
    return DecisionReplay(decision=decision, kept=actions, now=tuple(now))


def _open_service_state_file(path: str) -> StateFile:
    policy = configuration_file.load_configuration(path)
    if not policy.is_single_user_site:
        switch_process_to_account(policy.site.service_account)
    url = policy.site.state
    if url.startswith(SQLITE) and not os.path.exists(url.removeprefix(SQLITE)):
        raise StateError(f"{url.removeprefix(SQLITE)}: no such file; no service has run here yet")
    return StateFile.open(url)


def _open_balancer_state_file() -> StateFile:
    switch_process_to_account(BALANCE_ACCOUNT, BALANCE_SET_UP)
    if not os.path.exists(BALANCE_STATE):
        raise StateError(f"{BALANCE_STATE}: no round of gridbridge-balance has acted yet")
    return StateFile.open(f"{SQLITE}{BALANCE_STATE}", is_unchanged=True)


DIFFERS = 1
LISTED = 20


@click.command()
@click.argument("number", metavar="[DECISION]", type=click.IntRange(min=1), required=False)
@click.option(
    "--balancer",
    "is_balancers",
    is_flag=True,
    help="Replay a decision of the balancer; `gridbridge balance history` lists the numbers.",
)
@CONFIG_FILE
@JSON
def replay(number: int | None, is_balancers: bool, path: str, is_json: bool) -> None:
    """Repeat a decision of the service or the balancer, from the input in the journal.

    Nothing is changed. The command prints the decision's actions; similar actions share a sentence. If this version of
    gridbridge decides otherwise, `-` marks the old actions and `+` the new actions. Without DECISION the last twenty
    decisions are listed. [site] keep_decisions_h in gridbridge.toml says how long decisions are kept. For root and the
    service account; with --balancer for root and gridbridge-admin. Exit status: 0 the same decision; 1 another
    decision, or no decision of this number; 2 an error.

    \b
    Example:
      gridbridge replay
      gridbridge replay 12
      gridbridge replay --balancer 12
    """
    if number is None:
        with closing(_open_balancer_state_file() if is_balancers else _open_service_state_file(path)) as database:
            print_decision_list(DecisionJournal(database).last_decisions(LISTED), is_json)
        return
    try:
        result = replay_decision(number, path, is_balancers=is_balancers)
    except JournalDecisionNotFound as error:
        output_and_errors.print_error(f"gridbridge: {error}")
        raise SystemExit(DIFFERS) from error
    if is_json:
        output_and_errors.print_json(
            {**_decision_as_json(result.decision), "actions": list(result.kept), "now": list(result.now)}
        )
    else:
        print_replayed_decision(result)
    raise SystemExit(0 if result.is_decision_unchanged else DIFFERS)


def print_decision_list(decisions: tuple[JournalledDecisionWithInputs, ...], is_json: bool) -> None:
    if is_json:
        output_and_errors.print_json([_decision_as_json(decision) for decision in decisions])
        return
    now = datetime.now(UTC)
    rows = [
        (
            *(str(decision.number), format_local_time(decision.at, now), decision.program),
            replace_control_characters(decision.sentence),
        )
        for decision in decisions
    ]
    output_and_errors.print_table(("decision", "at", "program", "what and why"), rows, numbers=("decision",))


def print_replayed_decision(result: DecisionReplay) -> None:
    parts = (
        ("", [action for action in result.kept if action in result.now]),
        ("- ", [action for action in result.kept if action not in result.now]),
        ("+ ", [action for action in result.now if action not in result.kept]),
    )
    for sign, actions in parts:
        for action in PROGRAMS[result.decision.program].summarize(actions):
            output_and_errors.print_line(replace_control_characters(sign + action))


def _decision_as_json(decision: JournalledDecisionWithInputs) -> dict[str, object]:
    return {
        "decision": decision.number,
        "at": decision.at.isoformat(),
        "program": decision.program,
        "sentence": decision.sentence,
    }
