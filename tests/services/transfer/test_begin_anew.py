"""A poller that begins anew from its state file may take as long for it as at its start."""

from types import SimpleNamespace

import pytest

from gridbridge.errors import StateError
from gridbridge.services.transfer import rounds
from gridbridge.shell.clock import Clock


def test_a_service_is_put_together_within_the_time_of_a_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A state file on a slow disk: a build of over a minute would be taken for a hung poller."""
    done: list[str] = []
    heart = SimpleNamespace(begin=lambda: done.append("begin"), beat=lambda: None)

    def build(*_: object) -> object:
        done.append("build")
        if len(done) < 4:
            raise StateError("still full")
        return SimpleNamespace(round=lambda: None)

    monkeypatch.setattr(rounds, "build", build)
    monkeypatch.setattr(rounds, "_set_level", lambda _: None)
    failed = SimpleNamespace(shut_down=lambda: None, ledger=SimpleNamespace(stays=None))
    signals = SimpleNamespace(is_stopped=False, wait=lambda _: True, hung_up=lambda: False)
    configuration = SimpleNamespace(take=lambda *_: False, keep=lambda: None, policy=None)

    rounds._again(configuration, failed, StateError("full"), signals, heart, Clock())  # type: ignore[arg-type]  # what it needs of them

    assert done == ["begin", "build"] * 2
