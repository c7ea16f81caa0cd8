"""Print the results of qalter_remote and qdel_remote."""

from collections.abc import Iterable
from dataclasses import asdict

from gridbridge.cli import output_and_errors
from gridbridge.transfer.cli.owner_remote_job_access import RemoteJobActResult

NOT_DONE = 1


def print_remote_job_act_results(program: str, outcomes: Iterable[RemoteJobActResult], is_json: bool) -> None:
    """Print changes to standard output and failures to standard error; SystemExit(1) after a failure."""
    results = []
    for result in outcomes:
        results.append(result)
        if is_json:
            continue
        if result.is_done:
            output_and_errors.print_line(result.text)
        else:
            output_and_errors.print_error(f"{program}: {result.text}")
    if is_json:
        output_and_errors.print_json([asdict(result) for result in results])
    if not all(result.is_done for result in results):
        raise SystemExit(NOT_DONE)
