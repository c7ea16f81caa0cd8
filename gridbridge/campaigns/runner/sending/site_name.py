"""Holds the site's name while arrays are away that bear it.

A cluster knows an array, and tells its ends, by a name that begins with the site's: under another
one none of them would be found, and each of their tasks would count as lost.
"""

from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.errors import ConfigError, StateError
from gridbridge.model.places import CONFIG, RUNNER_SITE
from gridbridge.shell import files

MAX_BYTES = 1 << 10
OTHER = (
    '{}: [site] cluster = "{}": tasks of campaigns are away under the name "{}"; put that back,'
    " and change it when none is away"
)


def require(name: str, campaigns: CampaignRows, path: str = RUNNER_SITE, *, is_dry: bool) -> None:
    """Take the site's name; ConfigError for another one while arrays are away."""
    if (before := _saved_name(path)) == name:
        return
    if before and campaigns.open_arrays():
        raise ConfigError((OTHER.format(CONFIG, name, before),))
    if not is_dry:
        files.replace(path, name.encode())


def _saved_name(path: str) -> str:
    """Return the name that was taken last; empty where none is kept."""
    try:
        return files.read(path, MAX_BYTES)[0].decode("ascii", "replace")
    except (OSError, StateError):
        return ""
