"""What a squeeze would do now, as root asks for it."""

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.errors import NotSeen
from gridbridge.model.places import BALANCE_ACCOUNT
from gridbridge.services.tools import squeeze

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SITE = """
[site]
cluster = "alpha"
[cluster.alpha]
qmaster_port = 6444
execd_port = 6445
"""


def test_root_looks_as_the_balancers_account_whose_files_providers_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_root = Mock()
    monkeypatch.setattr(squeeze, "leave_root", leave_root)
    monkeypatch.setattr(squeeze.looking, "look", Mock(side_effect=NotSeen("enough")))
    path = tmp_path / "gridbridge.toml"
    path.write_text(SITE)

    with pytest.raises(NotSeen):
        squeeze.plan(NOON, path=str(path))

    leave_root.assert_called_once_with(BALANCE_ACCOUNT)
