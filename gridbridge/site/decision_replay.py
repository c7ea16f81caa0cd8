"""Replays journalled decisions: decides again from the same rows with this version's rules."""

import os
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType

from gridbridge.campaigns.nikita import task_deletion_cycle
from gridbridge.campaigns.runner import campaign_runner
from gridbridge.config import policy_file
from gridbridge.elastic.balancer import balance_journal
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_SET_UP, BALANCE_STATE, CONFIG
from gridbridge.model.status_report import JournalledProgramDecision
from gridbridge.program.decision_journal import InputsNotJournalled, ProgramDecisionReplay
from gridbridge.rebalance.mover import rebalance_journal
from gridbridge.shell.process_account import switch_process_to_account
from gridbridge.state.database import StateFile
from gridbridge.state.database.decision_journal_table import JournalledDecisionRows
from gridbridge.transfer.poller import poller_decision_journal

# Programs that journal their decisions.
PROGRAMS = MappingProxyType(
    {
        program.name: program
        for program in (
            ProgramDecisionReplay(
                poller_decision_journal.PLAN_PROGRAM,
                poller_decision_journal.replay_transfer_plan,
                poller_decision_journal.summarize_transfer_actions,
            ),
            ProgramDecisionReplay(poller_decision_journal.RECALL_PROGRAM, poller_decision_journal.replay_recalls),
            ProgramDecisionReplay(
                poller_decision_journal.REFUSAL_PROGRAM, poller_decision_journal.replay_refused_starter_message
            ),
            ProgramDecisionReplay(campaign_runner.RUNNER_PROGRAM, campaign_runner.replay_campaign_cycle_decision),
            ProgramDecisionReplay(task_deletion_cycle.NIKITA_PROGRAM, task_deletion_cycle.replay_nikita_deletions),
            ProgramDecisionReplay(balance_journal.PROGRAM, balance_journal.replay_balancer_round_decision),
            ProgramDecisionReplay(rebalance_journal.PROGRAM, rebalance_journal.replay_rebalance_decision),
        )
    }
)

SQLITE = "sqlite:///"


class UnknownDecision(GridbridgeError):
    """Raised when no journalled decision has the requested number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReplay:
    """A journalled decision, and the decision of this version for the same rows."""

    decision: JournalledProgramDecision
    kept: tuple[str, ...]  # journalled actions, one sentence each
    now: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Say whether both decisions have the same actions in the same order."""
        return self.kept == self.now

    def summarize(self, actions: Iterable[str]) -> list[str]:
        """Return the decision's actions as sentences for people."""
        return PROGRAMS[self.decision.program].summarize(list(actions))


def replay_decision(number: int, path: str = CONFIG, *, is_balancers: bool = False) -> DecisionReplay:
    """Decide again from a decision's rows, without acting.

    The balancer's decisions have their own numbers.
    """
    with closing(_balancers() if is_balancers else _open(path)) as database:
        decision = JournalledDecisionRows(database).find(number)
    if decision is None:
        raise UnknownDecision(f"decision {number}: none of this number is kept")
    try:
        now = PROGRAMS[decision.program].replay(decision.inputs)
        actions = tuple(map(str, decision.inputs["actions"]))  # type: ignore[call-overload]
    except InputsNotJournalled as error:
        raise StateError(f"decision {number}: can't be made again; {error}") from error
    except Exception as error:  # inputs of another version can have any form
        why = "it was kept by another version of gridbridge"
        raise StateError(f"decision {number}: can't be made again; {why}") from error
    return DecisionReplay(decision=decision, kept=actions, now=tuple(now))


def newest_journal_decisions(
    count: int, path: str = CONFIG, *, is_balancers: bool = False
) -> tuple[JournalledProgramDecision, ...]:
    """Return the newest decisions, oldest first; raises like `replay_decision`."""
    with closing(_balancers() if is_balancers else _open(path)) as database:
        return JournalledDecisionRows(database).last(count)


def _open(path: str) -> StateFile:
    """Open an existing state file as its owner."""
    policy = policy_file.load_configuration(path)
    if not policy.is_personal:
        switch_process_to_account(policy.site.service_account)
    url = policy.site.state
    if url.startswith(SQLITE) and not os.path.exists(url.removeprefix(SQLITE)):
        raise StateError(f"{url.removeprefix(SQLITE)}: there is none; no service has run here yet")
    return StateFile.open(url)


def _balancers() -> StateFile:
    """Open the balancer's state file as its account."""
    switch_process_to_account(BALANCE_ACCOUNT, BALANCE_SET_UP)
    if not os.path.exists(BALANCE_STATE):
        raise StateError(f"{BALANCE_STATE}: no round of gridbridge-balance has acted yet")
    return StateFile.open(f"{SQLITE}{BALANCE_STATE}", is_unchanged=True)
