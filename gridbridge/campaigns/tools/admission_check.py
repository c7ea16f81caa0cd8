"""What the site's admission rules make of a campaign that somebody is about to bring."""

import os
from dataclasses import replace

from gridbridge.campaigns.submission import admission_rules
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.decisions.campaigns import admission_decision as rules
from gridbridge.decisions.transfer.requests.offered_names import of_numbers
from gridbridge.errors import ConfigError
from gridbridge.model import vocabulary
from gridbridge.model.campaigns.admission import AdmissionResult, CampaignCandidate
from gridbridge.model.campaigns.host_properties import either, wanted
from gridbridge.model.places import ADMISSION, CONFIG, PUBLISHED
from gridbridge.model.request import JobRequest
from gridbridge.program import users_configuration
from gridbridge.shell import host, trust
from gridbridge.state.published_values import read_vocabulary


def admitted(said: ParsedJdl, folder: str = ADMISSION, owner: int = trust.ROOT) -> AdmissionResult:
    """Apply the site's rules to a campaign of ours.

    Raises Untrusted for rules that others than root could have written, and ConfigError.
    """
    return rules.admit(admission_rules.load(folder, owner), _candidate(said))


def require_admitted(
    said: ParsedJdl,
    folder: str = ADMISSION,
    owner: int = trust.ROOT,
    path: str = CONFIG,
    published: str = PUBLISHED,
) -> ParsedJdl:
    """Return a campaign of ours as the site's rules want it.

    Raises ConfigError when they refuse it, or a cluster can't be asked for such hosts.
    """
    told = admitted(said, folder, owner)
    if told.refusal:
        raise ConfigError((told.refusal,))
    refuse_hosts(replace(said, jdl=told.jdl), path, published)
    return replace(said, jdl=told.jdl)


def require_as_it_is(said: ParsedJdl, folder: str = ADMISSION, owner: int = trust.ROOT) -> None:
    """Let a campaign of ours be only as it was brought, with so many tasks; else ConfigError."""
    if problem := rules.unsettled(admission_rules.load(folder, owner), _candidate(said)):
        raise ConfigError((problem,))


def refuse_hosts(said: ParsedJdl, path: str = CONFIG, published: str = PUBLISHED) -> None:
    """Raise ConfigError for clusters of a campaign that can't be asked for the hosts it wants."""
    clusters = said.jdl.clusters.items()
    asked = {name: cluster.properties for name, cluster in clusters if cluster.properties}
    if not asked:
        return
    from gridbridge.campaigns.acts import unsupported_properties  # batch systems are slow to load

    policy, _ = users_configuration.load(path)
    wrong = {
        name: next(unsupported_properties.refused(policy, {name: text}), "")
        or _of_numbers(name, text, published)
        for name, text in asked.items()
    }
    if problems := {name: problem for name, problem in wrong.items() if problem}:
        places = {name: f"{place}: " for name, place in said.places.items() if place}
        raise ConfigError(tuple(places.get(name, "") + problems[name] for name in problems))


def _of_numbers(cluster: str, text: str, folder: str) -> str:
    """Say which conditions on numbers and booleans a cluster has no form for; else nothing.

    Which resources are strings is known from what the cluster told the poller.
    """
    told = read_vocabulary(cluster, folder)
    request = JobRequest(hard=wanted(text), either=either(text))
    odd = ", ".join(of_numbers(vocabulary.decode(told), request)) if told else ""
    why = "no string there, and so asked for by NAME = VALUE alone"
    return f"{cluster}.properties: {why}: {odd}" if odd else ""


def _candidate(said: ParsedJdl) -> CampaignCandidate:
    user = trust.name_of(os.getuid())
    groups = frozenset(host.groups_of(user))
    return CampaignCandidate(user=user, groups=groups, tasks=len(said.parameters), jdl=said.jdl)
