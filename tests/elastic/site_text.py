"""Sections of gridbridge.toml that the tests of the balancer share."""

from tests.builders.configurations import site_text

ALPHA = site_text("alpha")
RACK = """
[provider.rack]
kind = "power"
way = "command"
program = "/bin/true"
"""


def powered_hosts(*names: str) -> str:
    """Return a section for each host that provider rack powers on and off."""
    return "".join(f'[power."{name}"]\nprovider = "rack"\n' for name in names)
