"""What a balancer wrote down about its cluster."""

from gridbridge.model.elastic.seeing import Statistics
from gridbridge.state.elastic import rows as stored


def rows(path: str) -> tuple[tuple[Statistics, ...], tuple[int, ...]]:
    """Return the rows of a file, and the numbers of the lines that are none.

    Raises StateError for a file that can't be read, ParseError for one without a row.
    """
    return stored.read(path)
