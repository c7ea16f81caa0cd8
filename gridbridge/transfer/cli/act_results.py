"""How the commands that act on remote jobs print their results."""

from collections.abc import Iterable
from dataclasses import asdict

from gridbridge.cli import output
from gridbridge.transfer.remote_tools.remote_job import ActResult

NOT_DONE = 1


def show_results(program: str, told: Iterable[ActResult], is_json: bool) -> None:
    """Print what was done, and on standard error what was not; SystemExit(NOT_DONE) then."""
    seen = []
    for each in told:
        seen.append(each)
        if is_json:
            continue
        if each.is_done:
            output.line(each.text)
        else:
            output.complain(f"{program}: {each.text}")
    if is_json:
        output.as_json([asdict(each) for each in seen])
    if not all(each.is_done for each in seen):
        raise SystemExit(NOT_DONE)
