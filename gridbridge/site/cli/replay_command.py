"""gridbridge replay: replays a journalled decision with this version's rules."""

from datetime import UTC, datetime

import click

from gridbridge.cli import output
from gridbridge.cli.shared_options import CONFIG_FILE, JSON, format_local_time
from gridbridge.model.status_report import JournalledProgramDecision, replace_control_characters
from gridbridge.site import decision_replay as service

DIFFERS = 1
LISTED = 20


@click.command()
@click.argument("number", metavar="[DECISION]", type=click.IntRange(min=1), required=False)
@click.option(
    "--balancer",
    "is_balancers",
    is_flag=True,
    help="Take DECISION from the balancer's own, as `gridbridge balance history` has them.",
)
@CONFIG_FILE
@JSON
def replay(number: int | None, is_balancers: bool, path: str, is_json: bool) -> None:
    """Make a decision of the service or the balancer again, from the rows that it looked at.

    Nothing is done. Printed are the decision's actions, in one sentence those that are alike.
    Where this version of gridbridge would decide otherwise, `-` stands before what was decided and
    `+` before what would be now. Without DECISION the last twenty are listed with their numbers.
    Decisions are kept as long as [site] keep_decisions_h in gridbridge.toml says. For root and the
    service account; the balancer's for root and gridbridge-admin.
    Exit status: 0 the same, 1 another one or none of this number, 2 for anything else.

    \b
    Example:
      gridbridge replay
      gridbridge replay 12
      gridbridge replay --balancer 12
    """
    if number is None:
        print_decision_list(service.newest_journal_decisions(LISTED, path, is_balancers=is_balancers), is_json)
        return
    try:
        result = service.replay_decision(number, path, is_balancers=is_balancers)
    except service.UnknownDecision as error:
        output.print_error(f"gridbridge: {error}")
        raise SystemExit(DIFFERS) from error
    if is_json:
        output.print_json({**_plain(result.decision), "actions": list(result.kept), "now": list(result.now)})
    else:
        print_replayed_decision(result)
    raise SystemExit(0 if result.is_same else DIFFERS)


def print_decision_list(decisions: tuple[JournalledProgramDecision, ...], is_json: bool) -> None:
    """Print a line for each journalled decision."""
    if is_json:
        output.print_json([_plain(decision) for decision in decisions])
        return
    now = datetime.now(UTC)
    rows = [
        [
            str(decision.number),
            format_local_time(decision.at, now),
            decision.program,
            replace_control_characters(decision.sentence),
        ]
        for decision in decisions
    ]
    output.print_table(("decision", "at", "program", "what and why"), rows, numbers=("decision",))


def print_replayed_decision(result: service.DecisionReplay) -> None:
    """Print a decision's actions, and how a replay differs."""
    parts = (
        ("", [action for action in result.kept if action in result.now]),
        ("- ", [action for action in result.kept if action not in result.now]),
        ("+ ", [action for action in result.now if action not in result.kept]),
    )
    for sign, actions in parts:
        for action in result.summarize(actions):
            output.print_line(replace_control_characters(sign + action))


def _plain(decision: JournalledProgramDecision) -> dict[str, object]:
    return {
        "decision": decision.number,
        "at": decision.at.isoformat(),
        "program": decision.program,
        "sentence": decision.sentence,
    }
