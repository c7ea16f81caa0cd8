"""When the runner and nikita begin a cycle: by a changed gridbridge.toml, or at once."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from gridbridge.model.campaigns.campaign import Attempt, Outcome
from gridbridge.model.campaigns.plan import Plan
from gridbridge.model.policy import Policy
from gridbridge.services.campaigns.runner import Daemon, Runner
from gridbridge.services.configuration import Configuration
from gridbridge.services.reloading import Reloading
from gridbridge.shell.clock import Clock

BEFORE = '[site]\ncluster = "alpha"\n[cluster.alpha]\nkind = "embedded"\nfolder = "/x"\n'
PAUSE = "[runner]\ninterval_s = {}\n"


class Program:
    """A program that notes what is asked of it."""

    def __init__(self, policy: Policy) -> None:
        self.pause_s = policy.runner.interval_s
        self.is_released = False

    def open_cycle(self) -> AbstractContextManager[object]:
        """Begin a cycle."""
        return nullcontext(self)

    def has_news(self) -> bool:
        """There is none."""
        return False

    def recover(self) -> None:
        """Take up what is kept."""

    def release(self) -> None:
        """Let go."""
        self.is_released = True


def test_a_changed_file_counts_from_the_next_cycle_on(tmp_path: Path) -> None:
    """A wrong one changes nothing; the program before lets go of its state file."""
    now_s = [0.0]
    path = tmp_path / "gridbridge.toml"
    path.write_text(BEFORE + PAUSE.format(15))
    configuration = Configuration(Clock(lambda: 0.0, lambda: now_s[0]), str(path))
    first = Program(configuration.policy)
    daemon = Reloading(first, configuration, Program)  # type: ignore[arg-type]  # a test's

    def pause_after(text: str) -> float:
        path.write_text(text)
        for _ in range(2):  # it has to stay the same for a moment
            with daemon.open_cycle():
                now_s[0] += 1.0
        return daemon.pause_s

    assert pause_after(BEFORE + PAUSE.format(20)) == 20.0
    assert first.is_released
    assert pause_after(BEFORE + PAUSE.format("soon")) == 20.0
    assert pause_after(BEFORE + PAUSE.format(30)) == 30.0


def attempt(outcome: Outcome) -> Attempt:
    """Return an attempt that has ended."""
    return Attempt(campaign=1, task=0, attempt=1, array=1, place=1, outcome=outcome)


@pytest.mark.parametrize("outcome", [Outcome.MOVED, Outcome.RESUBMIT, Outcome.WIPED])
def test_only_what_was_moved_is_urgent(outcome: Outcome) -> None:
    """What a task or its cluster wants again and again would have cycles without a pause."""
    plan = Plan(ended=(attempt(Outcome.SUCCESS), attempt(outcome)))

    assert plan.is_urgent == (outcome is Outcome.MOVED)
    assert not Plan().is_urgent


@pytest.mark.parametrize("is_urgent", [True, False])
def test_the_next_cycle_comes_at_once_after_an_urgent_one(is_urgent: bool) -> None:
    daemon, runner = Daemon.__new__(Daemon), Runner.__new__(Runner)
    runner.is_urgent = is_urgent
    vars(runner)["take_in"] = lambda: 0
    daemon.runner = runner

    assert daemon.has_news() is is_urgent
