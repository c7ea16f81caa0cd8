"""What a balancer wrote down about its cluster."""

from gridbridge.elastic.store import statistics_file as stored
from gridbridge.model.elastic.published_balance import BalanceRoundStatistics
from gridbridge.model.places import BALANCE_ACCOUNT
from gridbridge.shell.account import leave_root


def rows(path: str) -> tuple[tuple[BalanceRoundStatistics, ...], tuple[int, ...]]:
    """Return the rows of a file, and the numbers of the lines that are none.

    Raises StateError for a file that can't be read, ParseError for one without a row.
    """
    return stored.read(path)


def own() -> None:
    """Have root go on as the balancer's account, which writes into its folder afterwards."""
    leave_root(BALANCE_ACCOUNT)
