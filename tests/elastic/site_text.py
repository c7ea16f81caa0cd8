"""Sections of gridbridge.toml that the tests of the balancer share."""

ALPHA = """
[site]
cluster = "alpha"
[cluster.alpha]
qmaster_port = 6444
execd_port = 6445
"""
RACK = """
[provider.rack]
kind = "power"
way = "command"
program = "/bin/true"
"""


def powered_hosts(*names: str) -> str:
    """Return a section for each host that provider rack powers on and off."""
    return "".join(f'[power."{name}"]\nprovider = "rack"\n' for name in names)
