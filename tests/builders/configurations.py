"""Texts of gridbridge.toml with the few keys that a test needs."""


def site_text(*clusters: str, **keys: str) -> str:
    """Return sections of Grid Engine clusters, each with these keys; the first cluster is the home cluster."""
    more = "".join(f'{name} = "{value}"\n' for name, value in keys.items())
    sections = (f"[cluster.{name}]\nqmaster_port = 1\nexecd_port = 2\n{more}" for name in clusters)
    return f'[site]\ncluster = "{clusters[0]}"\n{"".join(sections)}'


def queue_text(cluster: str, pending_limit: int = 1, slots: int = 1) -> str:
    """Return the section of the transfer queue to a cluster."""
    limits = f"pending_limit = {pending_limit}\nslots = {slots}\n"
    return f'[queue.transfer-{cluster}]\ncluster = "{cluster}"\n{limits}'
