"""Refuse a changed site name while tasks of campaigns are at the clusters.

Job names at a cluster begin with the site's name. Under a new name no job would be found, and every
task would count as lost.
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
    """Store the site's name; ConfigError if the name changed while arrays are unfinished."""
    if (before := _saved_name(path)) == name:
        return
    if before and campaigns.open_arrays():
        raise ConfigError((OTHER.format(CONFIG, name, before),))
    if not is_dry:
        files.replace(path, name.encode())


def _saved_name(path: str) -> str:
    """Return the stored site name; empty if none is stored."""
    try:
        return files.read(path, MAX_BYTES)[0].decode("ascii", "replace")
    except (OSError, StateError):
        return ""
