"""Which changes of gridbridge.toml a running service takes."""

from gridbridge.model.places import CONFIG
from gridbridge.model.policy import Policy

ANEW = "only a new service takes that: end the poller when nothing is away"


def unchangeable(before: Policy, after: Policy, path: str = CONFIG) -> tuple[str, ...]:
    """Return what a running service can't take, a line each as `config.load` writes them.

    Transfers bear the cluster's name, a site of embedded clusters has other rights, a process has
    its account for life, and another state file knows nothing of what is away.
    """
    changed = {
        "[site] cluster": (before.site.cluster, after.site.cluster),
        "[site] service_account": (before.site.service_account, after.site.service_account),
        "[site] state": (before.site.state, after.site.state),
        f"[cluster.{after.site.cluster}] kind": (before.local.kind.value, after.local.kind.value),
    }
    return tuple(
        f'{path}: {key} = "{new}": the service has "{old}"; {ANEW}'
        for key, (old, new) in changed.items()
        if old != new
    )
