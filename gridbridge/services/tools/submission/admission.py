"""What the site's admission rules make of a campaign that somebody is about to bring."""

import os
from dataclasses import replace

from gridbridge.config import admission
from gridbridge.config.submission.jdl import Said
from gridbridge.decisions.campaigns import admission as rules
from gridbridge.errors import ConfigError
from gridbridge.model.campaigns.admission import Admitted, Candidate
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.places import ADMISSION, CONFIG
from gridbridge.services.tools import configured
from gridbridge.shell import host, trust


def admitted(said: Said, folder: str = ADMISSION, owner: int = trust.ROOT) -> Admitted:
    """Apply the site's rules to a campaign of ours.

    Raises Untrusted for rules that others than root could have written, and ConfigError.
    """
    return rules.admit(admission.load(folder, owner), _candidate(said))


def require_admitted(
    said: Said, folder: str = ADMISSION, owner: int = trust.ROOT, path: str = CONFIG
) -> Said:
    """Return a campaign of ours as the site's rules want it.

    Raises ConfigError when they refuse it, or a cluster can't be asked for such hosts.
    """
    told = admitted(said, folder, owner)
    if told.refusal:
        raise ConfigError((told.refusal,))
    refuse_hosts(told.jdl, path)
    return replace(said, jdl=told.jdl)


def require_as_it_is(said: Said, folder: str = ADMISSION, owner: int = trust.ROOT) -> None:
    """Let a campaign of ours be only as it was brought, with so many tasks; else ConfigError."""
    if problem := rules.unsettled(admission.load(folder, owner), _candidate(said)):
        raise ConfigError((problem,))


def refuse_hosts(jdl: Jdl, path: str = CONFIG) -> None:
    """Raise ConfigError for clusters of a campaign that can't be asked for the hosts it wants."""
    asked = {name: one.properties for name, one in jdl.clusters.items() if one.properties}
    if not asked:
        return
    from gridbridge.apply.campaigns import hosts  # batch systems are slow to load

    policy, _ = configured.load(path)
    if problems := tuple(hosts.refused(policy, asked)):
        raise ConfigError(problems)


def _candidate(said: Said) -> Candidate:
    user = trust.name_of(os.getuid())
    groups = frozenset(host.groups_of(user))
    return Candidate(user=user, groups=groups, tasks=len(said.parameters), jdl=said.jdl)
