"""OAR's hooks store power requests, which `gridbridge balance power` carries out."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.decisions.elastic.site_host_power_lifecycle import (
    latest_oar_power_request_by_node,
    unfinished_oar_power_requests,
)
from gridbridge.elastic.balancer import oar_power_requests
from gridbridge.errors import StateError
from gridbridge.model.elastic.elastic_nodes import HostCheckBeforeRemoval
from gridbridge.model.elastic.standby_and_wake_plan import OarPowerRequest, OarRequestedPowerState
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from tests.builders.programs import write_program

SWITCH = """#!/bin/sh
case $2 in
    n8) exit 75 ;;
    n9) exit 1 ;;
esac
echo "$1 $2" >>{log}
"""
WAITS = """#!/bin/sh
echo "$2" >>{log}
for _ in $(seq 100); do
    [ "$(wc -l <{log})" -lt 3 ] || exit 0
    sleep 0.1
done
exit 1
"""


class Rack:
    def __init__(self, folder: Path) -> None:
        self.spool, self.log, self.config = folder / "wishes", folder / "log", folder / "conf.toml"
        self.spool.mkdir()
        program = write_program(folder / "switch", SWITCH.format(log=self.log))
        powered = "".join(f'[power.{name}]\nprovider = "rack"\n' for name in ("n1", "n8", "n9"))
        self.config.write_text(
            '[site]\ncluster = "gamma"\n[cluster.gamma]\nkind = "oar"\n[provider.rack]\n'
            f'kind = "power"\nway = "command"\nprogram = "{program}"\n{powered}'
        )
        self.config.chmod(0o600)
        self.seen = HostCheckBeforeRemoval(is_idle=True, is_closed=True)

    def check_host_before_removal(self, _: str) -> HostCheckBeforeRemoval:
        return self.seen

    def asks(self, hook: str, names: str, at_s: int) -> None:
        """Call a power hook of OAR as if at the given time."""
        before = set(self.notes())
        assert call_hook(hook, self.spool, names.encode()) == 0
        (new,) = set(self.notes()) - before
        now = new.stat().st_mtime
        os.utime(new, (now + at_s, now + at_s))

    def notes(self) -> list[Path]:
        return [one for one in self.spool.iterdir() if not one.name.startswith(".")]

    def settle(self, *options: str) -> Result:
        asked = ("balance", "power", "--folder", str(self.spool), "--config", str(self.config))
        return CliRunner().invoke(gridbridge, [*asked, *options])

    def done(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rack:
    found = Rack(tmp_path)
    monkeypatch.setattr(oar_power_requests, "home_cluster_host_membership", lambda _: found)
    return found


def test_the_last_request_for_a_node_is_carried_out_and_deleted(rack: Rack) -> None:
    rack.asks("sleep", "n1", -20)
    rack.asks("wake-up", "n1", -10)
    told = rack.settle()
    before = rack.done()
    done = rack.settle("--apply")
    again = rack.settle("--apply")

    assert (told.output, before) == ("n1: wake\n", [])
    assert (done.exit_code, done.output, rack.done()) == (0, "n1: wake\n", ["on n1"])
    assert (again.exit_code, again.output, rack.notes()) == (0, "", [])
    assert (rack.spool / ".lock").stat().st_mode & 0o777 == 0o660  # for the group


@pytest.mark.parametrize(
    ("seen", "status", "noted"),
    [
        (HostCheckBeforeRemoval(is_idle=False, is_closed=True), 1, []),
        (HostCheckBeforeRemoval(is_idle=False, is_closed=False), 1, []),
        (HostCheckBeforeRemoval(is_idle=True, is_closed=False), 75, ["n1\n"]),
    ],
    ids=["a job is there", "a job started", "one may start"],
)
def test_a_node_that_may_run_a_job_is_not_powered_off(
    rack: Rack, seen: HostCheckBeforeRemoval, status: int, noted: list[str]
) -> None:
    """Minutes may pass between the request of OAR and the power-off."""
    rack.seen = seen
    rack.asks("sleep", "n1", -20)
    done = rack.settle("--apply")

    assert (done.exit_code, rack.done()) == (status, [])
    assert [one.read_text() for one in rack.notes()] == noted


def test_an_unfinished_request_is_kept_and_does_not_undo_a_later_request(rack: Rack) -> None:
    rack.asks("wake-up", "n1 n8", -20)
    first = rack.settle("--apply")
    rack.asks("sleep", "n1", -10)
    second = rack.settle("--apply")

    assert (first.exit_code, second.exit_code) == (75, 75)
    assert rack.done() == ["on n1", "off n1"]
    assert [one.read_text() for one in rack.notes()] == ["n8\n"]


def test_a_request_that_cannot_be_carried_out_is_reported_once(rack: Rack) -> None:
    rack.asks("sleep", "n7 n9", -1)
    done = rack.settle("--apply", "--json")
    told = {one["host"]: one["why"] for one in json.loads(done.output)}

    assert done.exit_code == 1
    assert told["n7"] == "no provider can switch the host on or off; expected a section [power.n7]"
    assert "exit status 1" in told["n9"]
    assert rack.notes() == []


def test_an_old_request_is_dropped(rack: Rack) -> None:
    rack.asks("sleep", "n1", -4000)
    done = rack.settle("--apply")

    assert (done.output, rack.done(), rack.notes()) == ("", [], [])


def test_a_missing_request_folder_is_an_error_with_the_command_that_creates_the_folder(rack: Rack) -> None:
    rack.spool.rmdir()
    done = rack.settle("--apply")

    assert isinstance(done.exception, StateError)
    assert str(done.exception) == (
        f"{rack.spool}: No such file or directory;"
        f" `install -d -m 2775 -o oar -g gridbridge-admin {rack.spool}` makes it"
    )


def test_only_one_call_at_a_time_switches_nodes(rack: Rack) -> None:
    rack.asks("wake-up", "n1", -20)
    with MomentaryProgramLock(f"{rack.spool}/.lock"):
        other = rack.settle("--apply")
    after = rack.settle("--apply")

    assert (other.exit_code, after.exit_code, rack.done()) == (3, 0, ["on n1"])


def test_nodes_are_switched_in_parallel(rack: Rack) -> None:
    program = rack.spool.parent / "switch"
    program.write_text(WAITS.format(log=rack.log))
    rack.asks("wake-up", "n1 n8 n9", -20)
    done = rack.settle("--apply")

    assert (done.exit_code, sorted(rack.done())) == (0, ["n1", "n8", "n9"])


def test_requests_of_one_moment_are_ordered_by_file_name() -> None:
    notes = tuple(
        OarPowerRequest(file=file, at_s=5.0, wish=wish, hosts=("n1",))
        for file, wish in (("wake.b", OarRequestedPowerState.WAKE), ("sleep.a", OarRequestedPowerState.SLEEP))
    )

    assert latest_oar_power_request_by_node(notes, 6.0) == {"n1": OarRequestedPowerState.WAKE}
    assert [one.hosts for one in unfinished_oar_power_requests(notes, {"n1": OarRequestedPowerState.WAKE}, 6.0)] == [
        ("n1",),
        (),
    ]


HOOKS = Path(__file__).parents[3] / "oar-hooks"
WISHES = pytest.mark.parametrize(("hook", "wish"), [("wake-up", "wake"), ("sleep", "sleep")])
LIMIT_S = 1.0  # OAR's metascheduler waits for a hook


OAR = "#!/bin/sh\nprintf '%s\\n' \"$*\" >>{log}\n"


def asked(folder: Path) -> Path:
    return folder.parent / f"{folder.name}-oar" / "asked"


def call_hook(hook: str, folder: Path, names: bytes) -> int:
    oar = asked(folder).parent
    oar.mkdir(exist_ok=True)
    (oar / "oarnodesetting").write_text(OAR.format(log=asked(folder)))
    (oar / "oarnodesetting").chmod(0o755)
    env = {"PATH": f"{oar}:/usr/bin:/bin", "GRIDBRIDGE_POWER": str(folder)}
    done = subprocess.run((str(HOOKS / hook),), input=names, env=env, capture_output=True, timeout=LIMIT_S, check=False)
    return done.returncode


@WISHES
@pytest.mark.parametrize(
    "names", [b"n1\nn2.example\n", b"n1 n2.example\n", b"n1\t n2.example"], ids=["lines", "blanks", "tab"]
)
def test_a_hook_stores_the_names_of_nodes(hook: str, wish: str, names: bytes, tmp_path: Path) -> None:
    """OAR passes one name in each line, or all names in one line."""
    assert call_hook(hook, tmp_path, names) == 0

    (file,) = tmp_path.iterdir()
    assert file.name.startswith(f"{wish}.")
    assert file.read_text() == "n1\nn2.example\n"


def test_the_sleep_hook_sets_nodes_absent_in_oar(tmp_path: Path) -> None:
    """OAR would otherwise start jobs on the nodes."""
    call_hook("wake-up", tmp_path, b"n1\n")
    call_hook("sleep", tmp_path, b"n1 n2.example\n")
    call_hook("sleep", tmp_path, b"')--\n")

    words = "-n -s Absent --sql network_address IN ('n1','n2.example')\n"
    assert asked(tmp_path).read_text() == words


@WISHES
@pytest.mark.parametrize("names", [b"", b"\n", b"../../etc/passwd\n", b"-n;id\n", b"$(id)\n"])
def test_a_hook_ignores_invalid_node_names(hook: str, wish: str, names: bytes, tmp_path: Path) -> None:
    assert call_hook(hook, tmp_path, names) == 0
    assert list(tmp_path.glob(f"*{wish}*")) == []


@WISHES
def test_a_hook_fails_without_its_folder(hook: str, wish: str, tmp_path: Path) -> None:
    assert call_hook(hook, tmp_path / wish, b"n1\n") == 1


@WISHES
def test_two_hook_calls_write_two_files(hook: str, wish: str, tmp_path: Path) -> None:
    call_hook(hook, tmp_path, b"n1\n")
    call_hook(hook, tmp_path, b"n2\n")

    assert sorted(one.read_text() for one in tmp_path.glob(f"{wish}.*")) == ["n1\n", "n2\n"]
