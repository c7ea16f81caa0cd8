"""What a round looks at: a cell as it is, or as somebody saved it."""

from dataclasses import replace
from datetime import datetime

from gridbridge.apply.elastic import cells
from gridbridge.errors import OutputError
from gridbridge.model.elastic.plan import Situation
from gridbridge.model.policy import Policy
from gridbridge.state.elastic import saved


def look(policy: Policy, now: datetime) -> Situation:
    """Return the site's own cluster as it is now; NotSeen when it does not tell.

    Prices and schedules go by the zone of this machine.
    """
    seen = cells.situation(*cells.printed(policy, now), where=policy.site.cluster)
    return replace(seen, local=now.astimezone())


def look_at(folder: str) -> Situation:
    """Return what a folder tells; NotSeen or ParseError for one that is no whole answer."""
    return cells.situation(*saved.read(folder), where=folder)


def save(policy: Policy, folder: str, now: datetime) -> None:
    """Save what a round looks at now in a folder; NotSeen, or OutputError when it can't be."""
    documents, kept = cells.printed(policy, now)
    try:
        saved.write(folder, documents, kept)
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: {error.strerror}") from error
