"""The axis of times in pictures."""

from datetime import datetime

from matplotlib import dates
from matplotlib.axes import Axes


def on_axis(at: datetime) -> float:
    """Return where a moment is on it."""
    return float(dates.date2num(at))  # type: ignore[no-untyped-call]  # dates has no types


def clock(axes: Axes) -> None:
    """Write times by the reader's clock."""
    zone = datetime.now().astimezone().tzinfo
    locator = dates.AutoDateLocator(tz=zone)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]
