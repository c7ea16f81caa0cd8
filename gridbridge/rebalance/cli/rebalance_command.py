"""gridbridge rebalance: plan and move waiting tasks and replicas between hosts."""

import sys
from dataclasses import replace

import click

from gridbridge.cli import output_and_errors, plot_files
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, JSON, FullSentenceCommandGroup
from gridbridge.model.rebalance.placement_snapshot_and_moves import (
    RebalanceMovePlan,
    RejectedMove,
    ValidAndDroppedMoves,
)
from gridbridge.rebalance.mover.rebalance_decision import (
    RebalancePlanWithInputs,
    RebalanceScope,
    RebalanceTarget,
    describe_move,
)
from gridbridge.shell import log_rotation_and_quota

MOST_SHOWN = 20
ENDS = """For root and the service account.
    Exit status: 0 also when nothing is to be moved, 1 another one runs, 2 for an error."""
APPLY = click.option("--apply", "is_acting", is_flag=True, help="Make the moves that still hold.")
FROM = click.option("--from", "source", metavar="FILE", help="Decide about this file.")
PLOT = click.option(
    "--plot",
    "picture",
    metavar="FILE",
    callback=plot_files.require_image_file_suffix,
    help="Draw the hosts before and after: .png, .svg ...",
)


@click.group(cls=FullSentenceCommandGroup)
def rebalance() -> None:
    """Say which waiting tasks and staged data should be on other hosts, and move them.

    A host is a cluster; a job is a campaign, or one whose tasks transfer queues have sent away. A
    task is moved only while it waits: it is deleted there, and its campaign sends it to another
    cluster, or it comes home, and Grid Engine sends it on. A host is a storage area, too, and a job
    a dataset, OWNER/NAME: its replicas are copied and removed by the owner's own process.

    \b
    Example:
      gridbridge rebalance plan
      gridbridge rebalance auto --apply
    """


@rebalance.command()
@click.argument("what", required=False, type=click.Choice([request.value for request in RebalanceScope if request]))
@click.argument("name", required=False, metavar="[NAME]")
@FROM
@PLOT
@CONFIG_FILE
@JSON
def plan(what: str | None, name: str | None, source: str | None, picture: str | None, path: str, is_json: bool) -> None:
    """Say what would be moved, and what not, and why; nothing is done.

    Without a word it is what a round does by itself: what failed first, then the lightest and the
    heaviest host, then a job. `host NAME` evens one host out; `job NAME` repairs a job, and only a
    whole one is spread evenly; `fail NAME` takes everything from a host.
    It looks at the clusters and at the tasks that wait there, and at the storage areas and the
    datasets that their owners let the service look after; or at a file that is described on the
    page about rebalancing. --plot draws the disk and the load of every host as they are, and
    as they would be. Without a file: for root and the service account.
    Exit status: 0 also when nothing is to be moved, 2 for a wrong option or file.

    \b
    Example:
      gridbridge rebalance plan
      gridbridge rebalance plan host h17 --from hosts.json --json
      gridbridge rebalance plan fail h17 --from hosts.json --plot h17.png
    """
    if what and not name:
        raise click.UsageError(f"{what}: several; expected its name")
    question = RebalanceTarget(what=RebalanceScope(what or ""), name=name or "")
    planned = _of_file(source, question) if source else _of_site(path, question)
    if picture:
        from gridbridge.rebalance.cli import rebalance_plot  # half a second to import

        rebalance_plot.draw_host_loads(planned.loads, planned.advice.sentence, picture)
    print_move_plan(planned, None, is_json=is_json)


def _of_file(source: str, question: RebalanceTarget) -> RebalancePlanWithInputs:
    from gridbridge.rebalance.mover import snapshot_file_plan

    return snapshot_file_plan.plan_from_snapshot_file(source, question.what, question.name)


def _of_site(path: str, question: RebalanceTarget) -> RebalancePlanWithInputs:
    from gridbridge.rebalance.mover.rebalance_service_account import load_policy_begin_ssh_logins

    policy = load_policy_begin_ssh_logins(path)
    from gridbridge.rebalance.mover import rebalance_round_runner  # the import takes a third of a second

    return rebalance_round_runner.plan_rebalance_round(question, policy)


def _acting(word: str, question: RebalanceTarget, help_text: str) -> None:
    """Define a subcommand that plans moves, and applies them with --apply."""

    @rebalance.command(word, help=help_text.format(ends=ENDS))
    @APPLY
    @CONFIG_FILE
    @JSON
    def act(*, is_acting: bool, path: str, is_json: bool, name: str = "") -> None:
        from gridbridge.rebalance.mover import rebalance_round_runner

        about = replace(question, name=name)
        planned, checked = rebalance_round_runner.run_rebalance_round(about, path, is_acting=is_acting)
        print_move_plan(planned, checked, is_json=is_json)

    if question.what:
        act.params.insert(0, click.Argument(["name"]))


_acting(
    "auto",
    RebalanceTarget(),
    """Do one round: what failed first, then the lightest and the heaviest host, then a job.

    Without --apply it says what it would do. A line of cron has it go on by itself. {ends}

    \b
    Example:
      gridbridge rebalance auto
      gridbridge rebalance auto --apply
    """,
)
_acting(
    "data",
    RebalanceTarget(is_of_data=True),
    """Do one round about datasets: what failed first, then what they lack, then uneven disks.

    With --apply the copies are waited for, and then replicas that nobody has read for long are
    read. What a round that was killed had begun goes on. {ends}

    \b
    Example:
      gridbridge rebalance data
      gridbridge rebalance data --apply
    """,
)
_acting(
    "host",
    RebalanceTarget(what=RebalanceScope.HOST),
    """Even a host out: give it its share of each job, and no more.

    Without --apply it says what it would do. {ends}

    \b
    Example:
      gridbridge rebalance host beta --apply
    """,
)
_acting(
    "job",
    RebalanceTarget(what=RebalanceScope.JOB),
    """Spread the waiting tasks of a job evenly.

    A campaign is called by its number, and job 12 of alpha whose tasks transfer queues have sent
    away gb.alpha.12. Without --apply it says what it would do. {ends}

    \b
    Example:
      gridbridge rebalance job 12 --apply
      gridbridge rebalance job gb.alpha.12 --apply
    """,
)
_acting(
    "fail",
    RebalanceTarget(what=RebalanceScope.FAIL),
    """Take what waits from a host that is drained, or is to be given up.

    Without --apply it says what it would do. {ends}

    \b
    Example:
      gridbridge rebalance fail beta --apply
    """,
)


@rebalance.command()
@click.option("--off", "is_off", is_flag=True, help="Let tasks be moved again.")
@CONFIG_FILE
@JSON
def quiesce(is_off: bool, path: str, is_json: bool) -> None:
    """Let nothing be moved, whoever asks for it, until --off.

    It acts at once, without --apply: it moves nothing. What is on its way goes on. For root and the
    service account. Exit status: 0, 2 for an error.

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
        output_and_errors.print_line("tasks may be moved again" if is_off else "nothing is moved any more")


def print_move_plan(planned: RebalancePlanWithInputs, checked: ValidAndDroppedMoves | None, *, is_json: bool) -> None:
    """Print a plan of moves, and which moves were made or dropped."""
    advice = planned.advice
    if is_json:
        moved = {"moved": len(checked.moves)} if checked else {}
        dropped = {"dropped": [_rejected(rejected) for rejected in checked.dropped]} if checked else {}
        output_and_errors.print_json(move_plan_json(advice) | moved | dropped)
        return
    _say(advice.sentence)
    for move in advice.moves:
        _say(f"  {describe_move(move)}")
    for rejected in advice.rejected[:MOST_SHOWN]:
        _say(f"  not {_named(rejected)}: {rejected.reason}")
    if (more := len(advice.rejected) - MOST_SHOWN) > 0:
        _say(f"  and {more} more that are not moved; --json has all")
    if checked:
        _say(f"moved: {len(checked.moves)}, dropped: {len(checked.dropped)}")
        for rejected in checked.dropped:
            _say(f"  not {_named(rejected)} any more: {rejected.reason}")


def _say(text: str) -> None:
    """Print a line, prefixed with the time when standard output is a log file."""
    output_and_errors.print_line(log_rotation_and_quota.prefix_lines_with_time(text, sys.stdout))


def move_plan_json(advice: RebalanceMovePlan) -> dict[str, object]:
    """Return a plan of moves in its JSON form."""
    return {
        "moves": [
            {
                "kind": move.kind.value,
                "job": move.job,
                "number": move.number,
                "from": move.source or None,
                "to": move.target or None,
            }
            for move in advice.moves
        ],
        "rejected": [_rejected(rejected) for rejected in advice.rejected],
        "sentence": advice.sentence,
    }


def _rejected(rejected: RejectedMove) -> dict[str, object]:
    return {"job": rejected.job, "number": rejected.number, "to": rejected.target or None, "reason": rejected.reason}


def _named(rejected: RejectedMove) -> str:
    return f"{rejected.job} {rejected.number}{f' to {rejected.target}' if rejected.target else ''}"
