"""What the service publishes of itself: where its queues lead, and its configuration."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.model.published_status_and_reports import PublishedConfigurationStatus
from gridbridge.shell.clock import Clock
from gridbridge.state import published_json
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from tests.transfer.poller.test_published_views import NOW, POLICY


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "published")


def test_the_service_status_shows_the_active_configuration_and_problems_of_the_new_file(folder: str) -> None:
    known = PublishedConfigurationStatus(sha256="1f", since=NOW)
    refusing = replace(known, refused_sha256="2e", refused=("FILE: wrong",))
    views = TransferStatePublisher(POLICY, Clock(), folder, known)
    views.publish_routes(frozenset())
    first = published_json.read_published_service_status(folder)
    views.publish_configuration_status(refusing)
    second = published_json.read_published_service_status(folder)

    assert first
    assert (first.configuration, second) == (known, replace(first, configuration=refusing))
