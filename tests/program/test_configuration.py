"""A changed gridbridge.toml takes force once it is complete and valid; until then the old one stays."""

import logging
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.errors import ConfigError
from gridbridge.program import configuration_in_force
from gridbridge.program.configuration_in_force import SETTLE_S, ReloadableConfiguration, sha256_of_file
from gridbridge.shell.clock import Clock
from gridbridge.shell.service_signals_and_heartbeat import StopAndReloadSignals
from gridbridge.transfer.poller import poller_daemon
from tests.builders.configurations import site_text

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RIGHT = f"{site_text('alpha')}[poller]\n"
SLOWER = f"{RIGHT}interval_s = 7\n"
WRONG = f"{RIGHT}interval_s = 1\nlost_polls = 0\n"
DELTA = 'qmaster_port = 1\nexecd_port = 2\nssh = "delta"\nusers = { alice = "al" }\n'
FAR = RIGHT.replace("[poller]", f"[cluster.delta]\n{DELTA}[poller]")
OTHERS = RIGHT.replace("[cluster.alpha]", 'service_account = "grid"\n[cluster.alpha]')


class Site:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_s = 100.0
        self.write(RIGHT)
        self.configuration = ReloadableConfiguration(Clock(steady=lambda: self.now_s), str(path))

    def write(self, text: str) -> None:
        beside = self.path.with_name("new")
        beside.write_text(text)
        beside.replace(self.path)

    def turn(self, passed_s: float = SETTLE_S) -> bool:
        self.now_s += passed_s
        return self.configuration.reload_if_changed()

    def settle(self) -> None:
        """Read the file twice, so that the service finds the file unchanged."""
        self.turn()
        self.turn()

    @property
    def interval_s(self) -> float:
        return self.configuration.policy.poller.interval_s

    @property
    def refused(self) -> tuple[str, ...]:
        """Return the published problems, with FILE for the path."""
        shown = self.configuration.status_to_publish().refused
        return tuple(line.replace(str(self.path), "FILE") for line in shown)


@pytest.fixture
def site(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Site:
    caplog.set_level(logging.INFO)
    return Site(tmp_path / "gridbridge.toml")


def test_a_service_does_not_start_with_an_invalid_file(tmp_path: Path) -> None:
    (tmp_path / "gridbridge.toml").write_text(WRONG)

    with pytest.raises(ConfigError):
        ReloadableConfiguration(Clock(), str(tmp_path / "gridbridge.toml"))


def test_an_unchanged_file_causes_no_reload(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    assert [site.turn() for _ in range(3)] == [False] * 3
    assert caplog.text == ""


def test_a_changed_file_takes_force_after_it_stopped_changing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.write(SLOWER)
    first, early, then = site.turn(), site.turn(SETTLE_S / 2), site.turn(SETTLE_S / 2)

    assert (first, early, then, site.interval_s) == (False, False, True, 7)
    assert site.configuration.status_to_publish().sha256 == sha256_of_file(SLOWER.encode())
    assert caplog.messages == [f"event=configured cluster=alpha queues= sha256={sha256_of_file(SLOWER.encode()):.12}"]


def test_a_file_being_written_is_not_loaded(site: Site) -> None:
    """The first half of a file may be valid by itself."""
    seen = []
    for length in range(len(RIGHT), len(SLOWER), 4):
        site.path.write_text(SLOWER[:length])
        seen.append(site.turn(SETTLE_S * 0.9))
    site.path.write_text(SLOWER)

    assert (any(seen), site.turn(0), site.interval_s) == (False, False, 5)
    assert (site.turn(), site.interval_s) == (True, 7)


def test_a_requested_reload_happens_at_once(site: Site) -> None:
    site.write(SLOWER)

    assert (site.configuration.reload_if_changed(at_once=True), site.interval_s) == (True, 7)
    assert [site.turn() for _ in range(3)] == [False] * 3


def test_an_invalid_file_is_logged_once_and_the_old_one_stays_in_force(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.write(WRONG)
    news = [site.turn() for _ in range(4)]

    assert (news, site.interval_s) == ([False, True, False, False], 5)
    assert len(site.refused) == 2
    assert site.refused[0].startswith("FILE: [poller] interval_s = 1: out of range")
    assert [message.partition(" why")[0] for message in caplog.messages] == [
        f"event=misconfigured sha256={sha256_of_file(WRONG.encode()):.12}"
    ] * 2


def test_an_invalid_file_saved_again_is_logged_only_on_request(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.write(WRONG)
    site.settle()
    caplog.clear()
    site.write(WRONG)
    site.settle()
    quiet = caplog.messages[:]
    site.configuration.reload_if_changed(at_once=True)

    assert (quiet, len(caplog.messages)) == ([], 2)


def test_a_change_that_needs_a_restart_is_refused_as_a_whole(site: Site) -> None:
    site.write(f"{OTHERS}interval_s = 7\n")
    site.settle()

    (told,) = site.refused
    assert told.startswith('FILE: [site] service_account = "grid": the running service uses "gridbridge";')
    assert site.interval_s == 5


def test_a_remote_account_changes_only_without_jobs_of_that_account(site: Site) -> None:
    site.write(FAR)
    site.configuration.reload_if_changed(at_once=True)
    site.write(FAR.replace('"al"', '"other"'))

    site.configuration.reload_if_changed(at_once=True, away_jobs=lambda: [("alice", "delta", "q")])
    (told,) = site.refused
    site.configuration.reload_if_changed(at_once=True)

    assert told.startswith('FILE: [cluster.delta.users] alice = "other": a job of alice runs at delta')
    assert site.refused == ()
    assert site.configuration.policy.clusters["delta"].users == {"alice": "other"}


@pytest.mark.parametrize(("away", "account"), [([("alice", "delta", "q")], "al"), ([], "other")], ids=["away", "none"])
def test_a_restarted_service_keeps_the_accounts_of_its_remote_jobs(
    site: Site, away: list[tuple[str, str, str]], account: str
) -> None:
    kept = site.path.with_name("kept")
    site.write(FAR)
    site.configuration.reload_if_changed(at_once=True)
    site.configuration.save_for_next_run(str(kept))
    site.write(FAR.replace('"al"', '"other"'))

    site.configuration = ReloadableConfiguration(Clock(), str(site.path))
    earlier = configuration_in_force.read_config_saved_by_service(NOW, str(kept))
    assert earlier
    site.configuration.keep_earlier_configuration(earlier, lambda _: away)

    assert site.configuration.policy.clusters["delta"].users == {"alice": account}
    assert len(site.refused) == len(away)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o644  # people's commands read it, too


def test_a_service_started_with_an_invalid_file_uses_the_saved_configuration(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The service reports the problem, and later loads the corrected file."""
    kept = site.path.with_name("kept")
    site.configuration.save_for_next_run(str(kept))
    site.write(WRONG)

    site.configuration = ReloadableConfiguration(
        Clock(steady=lambda: site.now_s),
        str(site.path),
        lambda: configuration_in_force.read_config_saved_by_service(NOW, str(kept)),
    )
    site.configuration.log_refusal()
    begun, refused, told = site.interval_s, site.refused, caplog.messages[:]
    site.write(SLOWER)
    site.settle()

    assert (begun, len(refused)) == (5, 2)
    assert refused[0].startswith("FILE: [poller] interval_s = 1: out of range")
    assert [message.partition(" why")[0] for message in told] == [
        f"event=misconfigured sha256={sha256_of_file(WRONG.encode()):.12}"
    ] * 2
    assert (site.interval_s, site.refused) == (7, ())


SPOILS: dict[str, Callable[[Path], object]] = {
    "writable": lambda path: path.chmod(0o622),
    "linked": lambda path: path.with_name("beside").hardlink_to(path),
    "behind a link": lambda path: path.symlink_to(path.rename(path.with_name("there"))),
    "in an open folder": lambda path: path.parent.chmod(0o777),
    "of another version": lambda path: path.write_text("[of_another]\n"),
    **({} if os.geteuid() else {"of another account": lambda path: os.chown(path, 12345, -1)}),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_a_saved_configuration_that_others_could_have_written_is_ignored(
    site: Site, spoil: Callable[[Path], object]
) -> None:
    folder = site.path.with_name("home")
    folder.mkdir()
    kept = folder / "kept"
    site.configuration.save_for_next_run(str(kept))
    known = configuration_in_force.read_config_saved_by_service(NOW, str(kept))
    spoil(kept)
    site.write(WRONG)
    earlier = configuration_in_force.read_config_saved_by_service(NOW, str(kept))

    assert known is not None
    assert known.policy.poller.interval_s == 5
    with pytest.raises(ConfigError):
        ReloadableConfiguration(Clock(), str(site.path), lambda: earlier)


@pytest.mark.parametrize("text", [RIGHT, SLOWER], ids=["the old one", "a right one"])
def test_a_corrected_file_ends_the_refusal(site: Site, text: str, caplog: pytest.LogCaptureFixture) -> None:
    site.write(WRONG)
    site.settle()
    caplog.clear()
    site.write(text)
    news = [site.turn(), site.turn(), site.turn()]

    assert (news, site.refused) == ([False, True, False], ())
    assert [message.split()[0] for message in caplog.messages] == ["event=configured"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda _: None, "No such file or directory"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (os.mkfifo, "not a regular file"),
    ],
    ids=["nothing", "folder", "endless-link", "fifo"],
)
def test_an_unreadable_configuration_is_logged_in_one_line(
    site: Site,
    make: Callable[[Path], object],
    told: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(configuration_file, "CONFIG", str(site.path))
    site.path.unlink()
    make(site.path)
    for _ in range(4):
        site.turn()

    (message,) = caplog.messages
    assert f"FILE: {told}; " in message.replace(str(site.path), "FILE")
    assert (site.interval_s, len(site.refused)) == (5, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_configuration_is_logged_in_one_line(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.path.chmod(0)
    for _ in range(4):
        site.turn()
    site.path.chmod(0o644)
    mended = [site.turn(), site.turn()]

    assert "Permission denied" in caplog.messages[0]
    assert (mended, site.refused, len(caplog.messages)) == ([False, True], (), 2)


def test_a_briefly_missing_file_causes_no_message(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.path.rename(site.path.with_name("kept"))
    first = site.turn()
    site.path.with_name("kept").rename(site.path)
    later = [site.turn() for _ in range(3)]

    assert ([first, *later], caplog.messages) == ([False] * 4, [])


def test_a_symlinked_configuration_is_reloaded(site: Site) -> None:
    there = site.path.with_name("there")
    there.write_text(SLOWER)
    site.path.unlink()
    site.path.symlink_to(there)
    site.settle()
    taken = site.interval_s
    there.write_text(RIGHT)
    site.settle()

    assert (taken, site.interval_s) == (7, 5)


def test_a_requested_reload_logs_the_configuration_in_force(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    news = [site.configuration.reload_if_changed(at_once=True) for _ in range(2)]

    assert news == [False, False]
    assert [message.split()[0] for message in caplog.messages] == ["event=configured"] * 2


@pytest.mark.parametrize(("is_folder", "item"), [(False, "FILE: FILE has mode "), (True, "")], ids=["file", "folder"])
def test_a_file_that_others_may_write_takes_force_after_the_chmod(site: Site, is_folder: bool, item: str) -> None:
    """Everybody who can write the file or replace it in its folder could do everything that the service may do."""
    path = site.path.parent if is_folder else site.path
    site.write(SLOWER)
    path.chmod(0o777 if is_folder else 0o666)
    site.settle()
    taken, refused = site.interval_s, site.refused
    path.chmod(0o755 if is_folder else 0o644)
    site.settle()

    assert taken == 5
    assert refused[0].startswith(f"others could have written {item}")
    assert ". Check the file, then run: chmod" in refused[0]
    assert (site.interval_s, site.refused) == (7, ())


def test_a_valid_file_leaves_the_saved_configuration_unread_at_start(site: Site) -> None:
    """Another service may still be changing the saved file."""
    looked: list[str] = []

    ReloadableConfiguration(Clock(), str(site.path), lambda: looked.append("kept"))

    assert looked == []


def test_only_the_service_account_runs_the_poller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gridbridge.toml"
    path.write_text(OTHERS)
    monkeypatch.setattr(
        poller_daemon, "ReloadableConfiguration", lambda clock, **_: ReloadableConfiguration(clock, str(path))
    )

    with pytest.raises(ConfigError, match=r'service_account = "grid": .* expected grid'):
        poller_daemon.run_poller(StopAndReloadSignals())


def test_the_configuration_of_an_embedded_site_may_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    path = tmp_path / "gridbridge.toml"
    path.write_text('[site]\ncluster = "a"\n[cluster.a]\nkind = "embedded"\nfolder = "/a"\n')
    path.chmod(0o666)

    assert ReloadableConfiguration(Clock(), str(path)).policy.is_single_user_site
