"""gridbridge rebalance: plan and make moves of waiting tasks and replicas between hosts."""

import sys
from dataclasses import replace

import click

from gridbridge.cli import output_and_errors, plot_files
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, JSON, FullSentenceCommandGroup
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import RejectedMove, ValidAndDroppedMoves
from gridbridge.rebalance.mover.rebalance_plan_by_target import (
    RebalancePlanWithInputs,
    RebalanceTarget,
    RebalanceTargetKind,
    describe_move,
)
from gridbridge.shell import log_file_reopening_and_line_limits

MOST_SHOWN = 20
ENDS = """For root and the service account.
    Exit status: 0 done, also without any move; 1 another round runs; 2 an error."""


@click.group(cls=FullSentenceCommandGroup)
def rebalance() -> None:
    """Plan and make moves of waiting tasks and replicas to better hosts.

    A host is a cluster. A job is a campaign, or a job with transferred tasks. Only waiting tasks are moved: a
    campaign's task is deleted and sent to another cluster; a transferred task comes home, and Grid Engine sends the
    task on. For datasets, a host is a storage area and a job is a dataset, OWNER/NAME; a process of the owner copies
    and removes replicas.

    \b
    Example:
      gridbridge rebalance plan
      gridbridge rebalance auto --apply
    """


@rebalance.command()
@click.argument(
    "what", required=False, type=click.Choice([request.value for request in RebalanceTargetKind if request])
)
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--from", "source", metavar="FILE", help="Plan for the hosts, jobs and tasks in FILE.")
@click.option(
    "--plot",
    "picture",
    metavar="FILE",
    callback=plot_files.require_image_file_suffix,
    help="Plot each host's load before and after the moves: .png, .svg ...",
)
@CONFIG_FILE
@JSON
def plan(what: str | None, name: str | None, source: str | None, picture: str | None, path: str, is_json: bool) -> None:
    """List planned moves, and tasks that are not moved with the reasons; move nothing.

    Without an argument the plan is that of a round: first repairs after failures, then the lightest and the heaviest
    host, then a job. `host NAME` evens a host out, `job NAME` repairs a job or spreads its tasks evenly, and `fail
    NAME` takes everything from a host. The plan concerns all clusters with their waiting tasks, and all storage areas
    with delegated datasets; or the file of --from, which the page about rebalancing describes. --plot draws the disk
    usage and load of every host before and after the moves. Without a file: for root and the service account. Exit
    status: 0 done, also without any move; 2 a wrong option or file.

    \b
    Example:
      gridbridge rebalance plan
      gridbridge rebalance plan host h17 --from hosts.json --json
      gridbridge rebalance plan fail h17 --from hosts.json --plot h17.png
    """
    if what and not name:
        raise click.UsageError(f"{what}: no name; expected {what} NAME")
    question = RebalanceTarget(what=RebalanceTargetKind(what or ""), name=name or "")
    if source:
        from gridbridge.rebalance.mover import snapshot_file_plan

        planned = snapshot_file_plan.plan_from_snapshot_file(source, question.what, question.name)
    else:
        from gridbridge.rebalance.mover.service_account_and_policy import load_policy_begin_ssh_logins

        policy = load_policy_begin_ssh_logins(path)
        from gridbridge.rebalance.mover import rebalance_round_runner  # the import takes a third of a second

        planned = rebalance_round_runner.plan_rebalance_round(question, policy)
    if picture:
        from gridbridge.rebalance.cli import rebalance_plot  # the import takes half a second

        rebalance_plot.draw_host_loads(planned.host_load_changes, planned.advice.sentence, picture)
    print_move_plan(planned, None, is_json=is_json)


def _register_rebalance_subcommand(word: str, question: RebalanceTarget, help_text: str) -> None:
    @rebalance.command(word, help=help_text.format(ends=ENDS))
    @click.option("--apply", "is_acting", is_flag=True, help="Make the planned moves.")
    @CONFIG_FILE
    @JSON
    def plan_or_make_moves(*, is_acting: bool, path: str, is_json: bool, name: str = "") -> None:
        from gridbridge.rebalance.mover import rebalance_round_runner

        about = replace(question, name=name)
        planned, checked = rebalance_round_runner.run_rebalance_round(about, path, is_acting=is_acting)
        print_move_plan(planned, checked, is_json=is_json)

    if question.what:
        plan_or_make_moves.params.insert(0, click.Argument(["name"]))


_register_rebalance_subcommand(
    "auto",
    RebalanceTarget(),
    """Run one round: repairs after failures, then the lightest and the heaviest host, then a job.

    Without --apply the command only prints its plan. Let cron run the rounds. {ends}

    \b
    Example:
      gridbridge rebalance auto
      gridbridge rebalance auto --apply
    """,
)
_register_rebalance_subcommand(
    "data",
    RebalanceTarget(is_of_data=True),
    """Run one round about datasets: repairs after failures, then missing replicas, then uneven disks.

    Without --apply the command only prints its plan. With --apply the command waits for its copies,
    then verifies replicas that were not read for `verify_every_s`. A killed round's copies are
    continued. {ends}

    \b
    Example:
      gridbridge rebalance data
      gridbridge rebalance data --apply
    """,
)
_register_rebalance_subcommand(
    "host",
    RebalanceTarget(what=RebalanceTargetKind.HOST),
    """Even a host out: move tasks until the host has its share of each job.

    Without --apply the command only prints its plan. {ends}

    \b
    Example:
      gridbridge rebalance host beta --apply
    """,
)
_register_rebalance_subcommand(
    "job",
    RebalanceTarget(what=RebalanceTargetKind.JOB),
    """Spread the waiting tasks of a job evenly.

    The name of a campaign is its number. The name of alpha's job 12 with transferred tasks is
    gb.alpha.12. Without --apply the command only prints its plan. {ends}

    \b
    Example:
      gridbridge rebalance job 12 --apply
      gridbridge rebalance job gb.alpha.12 --apply
    """,
)
_register_rebalance_subcommand(
    "fail",
    RebalanceTarget(what=RebalanceTargetKind.FAIL),
    """Move all waiting tasks or replicas off a drained or failed host.

    Without --apply the command only prints its plan. {ends}

    \b
    Example:
      gridbridge rebalance fail beta --apply
    """,
)


@rebalance.command()
@click.option("--off", "is_off", is_flag=True, help="Allow moves again.")
@CONFIG_FILE
@JSON
def quiesce(is_off: bool, path: str, is_json: bool) -> None:
    """Pause all moves of tasks and replicas, until --off.

    The pause begins at once, without --apply. Moves under way continue. For root and the service account. Exit status:
    0 done; 2 an error.

    \b
    Example:
      gridbridge rebalance quiesce
      gridbridge rebalance quiesce --off
    """
    from gridbridge.rebalance.mover import rebalance_round_runner

    rebalance_round_runner.pause_or_resume_rebalancing(path, is_quiesced=not is_off)
    if is_json:
        output_and_errors.print_json({"quiesced": not is_off})
    else:
        output_and_errors.print_line("moves are allowed again" if is_off else "all moves are paused")


def print_move_plan(planned: RebalancePlanWithInputs, checked: ValidAndDroppedMoves | None, *, is_json: bool) -> None:
    advice = planned.advice
    if is_json:
        moves = [
            {
                "kind": move.kind.value,
                "job": move.job,
                "number": move.number,
                "from": move.source or None,
                "to": move.target or None,
            }
            for move in advice.moves
        ]
        table = {"moves": moves, "rejected": [*map(_rejected_move_json, advice.rejected)], "sentence": advice.sentence}
        made = {"moved": len(checked.moves), "dropped": [*map(_rejected_move_json, checked.dropped)]} if checked else {}
        output_and_errors.print_json(table | made)
        return
    _print_line_with_time(advice.sentence)
    for move in advice.moves:
        _print_line_with_time(f"  {describe_move(move)}")
    for rejected in advice.rejected[:MOST_SHOWN]:
        _print_line_with_time(f"  not {_describe_rejected_move(rejected)}: {rejected.reason}")
    if (more := len(advice.rejected) - MOST_SHOWN) > 0:
        _print_line_with_time(f"  and {more} more that are not moved; --json lists all")
    if checked:
        _print_line_with_time(f"moved: {len(checked.moves)}, dropped: {len(checked.dropped)}")
        for rejected in checked.dropped:
            _print_line_with_time(f"  not {_describe_rejected_move(rejected)} any more: {rejected.reason}")


def _print_line_with_time(text: str) -> None:
    """Print a line, which begins with the time if standard output is a log file."""
    output_and_errors.print_line(log_file_reopening_and_line_limits.prefix_lines_with_time(text, sys.stdout))


def _rejected_move_json(rejected: RejectedMove) -> dict[str, object]:
    return {"job": rejected.job, "number": rejected.number, "to": rejected.target or None, "reason": rejected.reason}


def _describe_rejected_move(rejected: RejectedMove) -> str:
    return f"{rejected.job} {rejected.number}{f' to {rejected.target}' if rejected.target else ''}"
