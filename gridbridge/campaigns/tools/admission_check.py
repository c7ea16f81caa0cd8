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


def admitted(
    parsed: ParsedJdl, folder: str = ADMISSION, owner: int = trust.ROOT
) -> AdmissionResult:
    """Apply the site's rules to a campaign of ours.

    Raises Untrusted for rules that others than root could have written, and ConfigError.
    """
    return rules.admit(admission_rules.load(folder, owner), _candidate(parsed))


def require_admitted(
    parsed: ParsedJdl,
    folder: str = ADMISSION,
    owner: int = trust.ROOT,
    path: str = CONFIG,
    published: str = PUBLISHED,
) -> ParsedJdl:
    """Return a campaign of ours as the site's rules want it.

    Raises ConfigError when they refuse it, or a cluster can't be asked for such hosts.
    """
    admission = admitted(parsed, folder, owner)
    if admission.refusal:
        raise ConfigError((admission.refusal,))
    refuse_hosts(replace(parsed, jdl=admission.jdl), path, published)
    return replace(parsed, jdl=admission.jdl)


def require_as_it_is(parsed: ParsedJdl, folder: str = ADMISSION, owner: int = trust.ROOT) -> None:
    """Let a campaign of ours be only as it was brought, with so many tasks; else ConfigError."""
    if problem := rules.unsettled(admission_rules.load(folder, owner), _candidate(parsed)):
        raise ConfigError((problem,))


def refuse_hosts(parsed: ParsedJdl, path: str = CONFIG, published: str = PUBLISHED) -> None:
    """Raise ConfigError for clusters of a campaign that can't be asked for the hosts it wants."""
    clusters = parsed.jdl.clusters.items()
    conditions = {name: cluster.properties for name, cluster in clusters if cluster.properties}
    if not conditions:
        return
    from gridbridge.campaigns.acts import unsupported_properties  # batch systems are slow to load

    policy, _ = users_configuration.load(path)
    wrong = {
        name: next(unsupported_properties.refused(policy, {name: text}), "")
        or _of_numbers(name, text, published)
        for name, text in conditions.items()
    }
    if problems := {name: problem for name, problem in wrong.items() if problem}:
        locations = {name: f"{location}: " for name, location in parsed.places.items() if location}
        raise ConfigError(tuple(locations.get(name, "") + problems[name] for name in problems))


def _of_numbers(cluster: str, text: str, folder: str) -> str:
    """Say which conditions on numbers and booleans a cluster has no form for; else nothing.

    Which resources are strings is known from what the cluster told the poller.
    """
    published = read_vocabulary(cluster, folder)
    request = JobRequest(hard=wanted(text), either=either(text))
    odd = ", ".join(of_numbers(vocabulary.decode(published), request)) if published else ""
    why = "no string there, and so asked for by NAME = VALUE alone"
    return f"{cluster}.properties: {why}: {odd}" if odd else ""


def _candidate(parsed: ParsedJdl) -> CampaignCandidate:
    user = trust.name_of(os.getuid())
    groups = frozenset(host.groups_of(user))
    return CampaignCandidate(user=user, groups=groups, tasks=len(parsed.parameters), jdl=parsed.jdl)
