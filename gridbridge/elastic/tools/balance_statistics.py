"""Read the statistics that the balancer wrote."""

from gridbridge.elastic.store import statistics_file as stored
from gridbridge.model.elastic.published_balance import BalanceRoundStatistics
from gridbridge.model.places import BALANCE_ACCOUNT
from gridbridge.shell.account import leave_root_for


def read_statistics_rows_of_file(
    path: str,
) -> tuple[tuple[BalanceRoundStatistics, ...], tuple[int, ...]]:
    """Return a file's rows, and the numbers of its invalid lines.

    Raises StateError for an unreadable file, ParseError for a file without a row.
    """
    return stored.read_statistics_rows(path)


def become_balance_account() -> None:
    """Change from root to the balancer's account, which owns the folder of the plots."""
    leave_root_for(BALANCE_ACCOUNT)
