"""Load gridbridge.toml for users' commands; an invalid file falls back to the one in force."""

import os

from gridbridge.config import policy_file
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.fixed_paths import CONFIG, IN_FORCE
from gridbridge.model.policy import Policy
from gridbridge.model.site.site_section import SiteSection
from gridbridge.shell import file_trust, safe_files


def load_config_or_one_in_force(path: str) -> tuple[Policy, str]:
    """Return the policy, and the error of the current file if it is not in force.

    While the current file is invalid, users' commands use the file in force, as the service does.
    Root never uses that file, because the service could have written it. Raises ConfigError.
    """
    try:
        return policy_file.load_configuration(path), ""
    except ConfigError as error:
        in_force = None if path != CONFIG or file_trust.required_trusted_file_owner() is not None else _in_force()
        if in_force is None:
            raise
        return in_force, error.problems[0]


def load_config_with_home_cluster(path: str) -> Policy:
    """Return a policy that has a section for the site's own cluster.

    Raises ConfigError if the section is missing.
    """
    policy, _ = load_config_or_one_in_force(path)
    own = policy.site.cluster
    if own not in policy.clusters:
        names = ", ".join(f"[cluster.{name}]" for name in sorted(policy.clusters)) or "none"
        wrong = f"there is no [cluster.{own}], the site's own cluster; there are {names}"
        raise ConfigError((f'{path}: [site] cluster = "{own}": {wrong}',))
    return policy


def load_config_of_folder_or_site(folder: str, path: str) -> Policy:
    """Return the policy for a saved folder, or the site's policy without a folder.

    A folder needs no configuration file: without a file all keys have their defaults.
    """
    if not folder:
        return load_config_with_home_cluster(path)
    if not path:
        return Policy(site=SiteSection(cluster=""), clusters={}, queues={})
    return load_config_or_one_in_force(path)[0]


def _in_force() -> Policy | None:
    """Return the file in force as the service saved it; None without a saved file."""
    try:
        service = os.stat(os.path.dirname(IN_FORCE)).st_uid
        return policy_file.parse_configuration(
            IN_FORCE, safe_files.read_file_only_owner_writes(IN_FORCE, policy_file.MAX_BYTES, service)[0]
        )
    except (OSError, GridbridgeError):
        return None
