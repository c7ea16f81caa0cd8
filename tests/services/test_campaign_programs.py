"""The runner and nikita take a changed gridbridge.toml, as the poller does."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from gridbridge.model.policy import Policy
from gridbridge.services.campaigns.starting import Reloading
from gridbridge.services.configuration import Configuration
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
