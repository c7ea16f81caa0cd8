"""Check the published state of rebalancing rounds, for `gridbridge check` and `status`."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

from gridbridge.decisions.site import hanging_round_findings as decisions
from gridbridge.errors import GridbridgeError
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.rebalance.published_rebalance_rounds import PublishedRebalanceRound, RebalanceRoundKind
from gridbridge.model.site.setup_findings_and_edits import CheckFinding
from gridbridge.state import published_json


def rebalance_round_findings(at: datetime, folder: str = PUBLISHED) -> Iterator[CheckFinding]:
    """Yield findings about rounds that never ended, and about paused rebalancing."""
    yield from decisions.rebalance_round_findings(_rounds(folder), at)
    if since := _quiesced(folder):
        yield decisions.paused_rebalance_finding(since, at)


def overdue_rebalance_sentences(at: datetime, folder: str = PUBLISHED) -> tuple[str, ...]:
    """Return sentences about rounds that are overdue, and about paused rebalancing."""
    since = _quiesced(folder)
    quiesced = (decisions.paused_rebalance_sentence(since, at),) if since else ()
    return (*decisions.late_rebalance_sentences(_rounds(folder), at), *quiesced)


def _quiesced(folder: str) -> datetime | None:
    with suppress(OSError, GridbridgeError):
        return published_json.rebalance_paused_since(folder)
    return None


def _rounds(folder: str) -> dict[RebalanceRoundKind, PublishedRebalanceRound]:
    rounds = {}
    for kind in RebalanceRoundKind:
        with suppress(OSError, GridbridgeError):
            if last := published_json.read_published_rebalance_round(kind, folder):
                rounds[kind] = last
    return rounds
