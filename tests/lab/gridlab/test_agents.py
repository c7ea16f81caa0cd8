"""A command run by a resident agent behaves as one run by `lab on`."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.lab.agents import LAB, Agents, Done
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

HOST = "alpha-n2"
KILLED, OFF = 137, 125  # exit statuses of `lab on`


def by_lab_on(host: str, user: str, argv: tuple[str, ...], stdin: str) -> Done:
    command = [LAB, "on", host, "-u", user, "--", *argv]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    return Done(status=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.parametrize(
    ("host", "user", "argv"),
    [
        (HOST, "bob", ("sh", "-c", "cat; pwd; id; env | sort; umask; echo bad >&2; exit 37")),
        ("gamma-master", "al_gamma", ("sh", "-c", "pwd; id; env | sort")),
        (HOST, "root", ("sh", "-c", "kill -9 $$")),
        (HOST, "alice", ("printf", r"\377\0")),
        (HOST, "alice", ("no-such-program",)),
        (HOST, "alice", ("/etc/passwd",)),
        (HOST, "zoe", ("true",)),
        ("alpha-n6", "alice", ("true",)),
    ],
    ids=["streams", "oar", "killed", "bytes", "unknown", "no program", "nobody", "off"],
)
def test_a_command_by_an_agent_behaves_as_by_lab_on(host: str, user: str, argv: tuple[str, ...]) -> None:
    stdin = "hello é\n"
    by_agent = Agents().run(host, argv, user, stdin, 20)
    if argv[0] == "printf":
        assert by_agent.out == "\ufffd\0"
    else:
        assert by_agent == by_lab_on(host, user, argv, stdin)


def test_a_command_over_its_time_limit_is_killed_with_its_children() -> None:
    agents = Agents()
    with pytest.raises(subprocess.TimeoutExpired):
        agents.run(HOST, ("sh", "-c", "sleep 4713 & sleep 4713"), "alice", "", 0.5)

    left = agents.run(HOST, ("pgrep", "-x", "-f", "sleep 4713"), "root", "", 20)
    assert (left.status, left.out) == (1, "")


def test_simultaneous_commands_have_an_agent_each(grid: Grid) -> None:
    """The first command ends only once the second has started."""
    meet = "touch /tmp/meet.$0; until [ -e /tmp/meet.$1 ]; do sleep 0.02; done"
    with ThreadPoolExecutor(2) as threads:
        one, other = (
            threads.submit(grid.sh, HOST, f"set -- {there}; {meet.replace('$0', here)}")
            for here, there in (("a", "b"), ("b", "a"))
        )
        told = one.result(), other.result()
    grid.sh(HOST, "rm /tmp/meet.*")

    assert told == ("", "")


def test_a_host_that_was_off_has_another_agent(grid: Grid) -> None:
    """A command that runs while its host is switched off is killed with the host."""
    agents, told = Agents(), []

    def ask() -> int:
        told.append(agents.run(HOST, ("true",), "root", "", 20))
        return told[-1].status

    before = ask()
    grid.lab("power", HOST, "cut")
    try:
        grid.until(lambda: ask() == OFF, "it to be off")
    finally:
        grid.lab("power", HOST, "on")

    assert (before, ask()) == (0, 0)
    assert {each.status for each in told} <= {0, KILLED, OFF}
    assert told[-2].err == f"lab: {HOST} is off; switch it on with: lab/lab power {HOST} on\n"
