"""Which clusters can't be asked for the hosts that a campaign wants; none of them is asked."""

from collections.abc import Iterator, Mapping

from gridbridge.batch.adapters import adapter_of
from gridbridge.batch.clusters import away
from gridbridge.model.campaigns.host_properties import either, wanted
from gridbridge.model.policy import Policy
from gridbridge.model.request import JobRequest


def refused(policy: Policy, properties: Mapping[str, str]) -> Iterator[str]:
    """Give a line for each such cluster, by the properties that are wanted there."""
    for cluster, text in properties.items():
        if cluster in policy.clusters:
            request = JobRequest(hard=wanted(text), either=either(text))
            reason = adapter_of(away(policy, cluster)).explains.refusal(request)
            if reason:
                yield f"{cluster}.properties: {reason}"
