"""Providers of each kind for the contract suite."""

from pathlib import Path

import pytest

from gridbridge.providers.command import CommandProvider
from tests.providers.sites import Site

RENTAL = Path(__file__).with_name("rental")


@pytest.fixture
def by_command(tmp_path: Path) -> Site:
    """Return a provider whose machines are files of a folder."""
    env = {"PATH": "/usr/bin:/bin", "RENTAL": str(tmp_path)}
    return Site(
        provider=CommandProvider(program=str(RENTAL), timeout_s=20, env=env),
        be_full=(tmp_path / "full").touch,
        be_busy=(tmp_path / "later").touch,
    )
