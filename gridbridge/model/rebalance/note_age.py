"""How long ago something was that was noted with this host's clock, which may be set back."""

from datetime import UTC, datetime, timedelta

AHEAD = timedelta(minutes=1)  # of another host's clock, by which a shared state file is written
STUCK = timedelta(minutes=15)  # after which what is to be moved counts as on its way no more
NEVER = datetime.min.replace(tzinfo=UTC)


def is_lately(at: datetime, now: datetime, limit: timedelta) -> bool:
    """Say whether something was less than `limit` ago: `now - limit < at <= now + AHEAD`.

    A moment that is yet to come was noted by a clock that was ahead, and proves nothing: else what
    rests for minutes would rest until then.
    """
    return at <= now + AHEAD and now - at < limit


def known(at: datetime, now: datetime) -> datetime:
    """Return a moment, NEVER for one that is yet to come."""
    return at if at <= now + AHEAD else NEVER
