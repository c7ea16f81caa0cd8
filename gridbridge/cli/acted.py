"""What the commands that act on remote jobs share: how they tell what came of it."""

from collections.abc import Iterable
from dataclasses import asdict

from gridbridge.cli import output
from gridbridge.services.tools.remote_half import Told

NOT_DONE = 1


def tell(program: str, told: Iterable[Told], is_json: bool) -> None:
    """Tell what was done, and complain of what was not; SystemExit with NOT_DONE for that."""
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
