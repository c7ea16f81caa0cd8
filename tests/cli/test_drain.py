"""drain and undrain as administrators see them."""

import os
import pwd
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.decisions.transfer.health import judge_queue
from gridbridge.errors import GridbridgeError
from gridbridge.services.tools.drain import MAX_CHARACTERS
from gridbridge.state import drains
from gridbridge.state import shown as files
from tests.shown import publish, shown


@pytest.fixture
def folder(tmp_path: Path) -> str:
    published = publish(tmp_path, shown())
    drains.make_folder(published)
    return published


def run(folder: str, *words: str) -> Result:
    return CliRunner().invoke(gridbridge, [*words, "--published", folder])


def test_a_drained_cluster_closes_its_queue_and_tells_who_drained_it_and_why(folder: str) -> None:
    assert run(folder, "drain", "beta", "--reason", "disk 100 % full").exit_code == 0

    seen = files.read_all(folder)
    assert seen.service
    judged = judge_queue(seen.service.routes[0], seen, datetime.now(UTC))
    me = pwd.getpwuid(os.getuid()).pw_name
    assert (judged.is_open, drains.names(folder)) == (False, {"beta"})
    assert seen.drained["beta"].reason == "disk 100 % full"
    assert me == seen.drained["beta"].by


def test_a_drain_is_taken_back_once(folder: str) -> None:
    run(folder, "drain", "beta", "--reason", "x")
    first, second = (run(folder, "undrain", "beta") for _ in range(2))

    assert (first.exit_code, drains.names(folder)) == (0, frozenset())
    assert isinstance(second.exception, GridbridgeError)
    assert str(second.exception) == "beta is not drained; those that are: none"


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("gamma", "--reason", "x"), "no transfer queue leads to 'gamma'; there are some to: beta"),
        (("../load", "--reason", "x"), "no transfer queue leads to '../load'"),
        (("beta", "--reason", ""), "the reason is one line of at most 500 characters"),
        (("beta", "--reason", "a\nb"), "the reason is one line"),
        (("beta", "--reason", "x" * (MAX_CHARACTERS + 1)), "the reason is one line"),
    ],
)
def test_what_is_wrong_is_told_and_drains_nothing(
    folder: str, words: tuple[str, ...], wrong: str
) -> None:
    told = run(folder, "drain", *words)

    assert isinstance(told.exception, GridbridgeError)
    assert wrong in str(told.exception)
    assert drains.names(folder) == frozenset()


@pytest.mark.parametrize("words", [("drain", "beta", "--reason", "x"), ("undrain", "beta")])
def test_who_may_not_is_told_who_may(
    folder: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)

    told = run(folder, *words)

    me = pwd.getpwuid(os.getuid()).pw_name
    assert str(told.exception) == f"only {me} and root may do this: sudo -u {me} ..."


def test_a_drain_that_is_none_is_told_and_still_closes(folder: str) -> None:
    """A queue stays closed whatever stands in its cluster's file."""
    Path(folder, "drained", "beta").write_text("what\n")

    assert drains.names(folder) == {"beta"}
    with pytest.raises(GridbridgeError, match="not what gridbridge drain writes"):
        files.read_all(folder)
