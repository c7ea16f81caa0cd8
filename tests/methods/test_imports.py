"""What the hot programs load: each module costs every transfer about 0.2 ms of CPU."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"  # what gridbridge is installed with
SHOW = "import sys; sys.path.append({root!r}); import {module}; print(*sorted(sys.modules))"

INTERPRETER = {
    "_abc",
    "_collections_abc",
    "_stat",
    "abc",
    "genericpath",
    "os",
    "os.path",
    "posixpath",
    "stat",
}
MESSAGES = {
    "gridbridge",
    "gridbridge.errors",
    "gridbridge.methods",
    "gridbridge.model",
    "gridbridge.model.transfer",
    "gridbridge.model.transfer.guard",
    "gridbridge.model.lines",
    "gridbridge.model.message",
    "gridbridge.model.places",
    "gridbridge.model.route",
    "gridbridge.shell",
    "gridbridge.shell.files",
    "gridbridge.state",
    "gridbridge.state.published",
}
COMMANDS = {
    "gridbridge.batch",
    "gridbridge.batch.gridengine",
    "gridbridge.batch.gridengine.commands",
    "gridbridge.batch.gridengine.request",
    "gridbridge.batch.gridengine.submit",
    "gridbridge.batch.submission",
    "gridbridge.methods.intents",
    "gridbridge.methods.notes",
    "gridbridge.methods.task",
    "gridbridge.model.ids",
    "gridbridge.model.request",
    "gridbridge.shell.runner",
    "gridbridge.state.spool",
    "pwd",
    "select",
    "time",
}
STARTER = {
    "gridbridge.batch.home_id",
    "gridbridge.batch.wrapper",
    "gridbridge.methods.answers",
    "gridbridge.methods.begin",
    "gridbridge.methods.guard",
    "gridbridge.methods.job",
    "gridbridge.methods.remote",
    "gridbridge.methods.sending",
    "gridbridge.methods.starter",
    "gridbridge.methods.step",
}
SENSOR = {
    "fcntl",
    "gridbridge.methods.sensor",
    "gridbridge.model.transfer",
    "gridbridge.model.transfer.load",
    "gridbridge.shell.lock",
    "select",
}
ADAPTER = {
    "gridbridge.model.places",
    "gridbridge",
    "gridbridge.batch",
    "gridbridge.batch.embedded",
    "gridbridge.batch.embedded.answers",
    "gridbridge.batch.embedded.commands",
    "gridbridge.batch.embedded.submit",
    "gridbridge.batch.submission",
    "gridbridge.errors",
    "gridbridge.model",
    "gridbridge.model.lines",
    "gridbridge.model.request",
    "gridbridge.model.route",
    "gridbridge.shell",
    "gridbridge.shell.runner",
    "select",
}
OAR = {
    "gridbridge.batch.oar",
    "gridbridge.batch.oar.commands",
    "gridbridge.batch.oar.submit",
    "gridbridge.shell.files",
    "gridbridge.shell.ssh",
    "pwd",
}
BY_SSH = {
    "gridbridge",
    "gridbridge.errors",
    "gridbridge.model",
    "gridbridge.model.transfer",
    "gridbridge.model.lines",
    "gridbridge.model.route",
    "gridbridge.shell",
    "gridbridge.shell.files",
    "gridbridge.shell.runner",
    "gridbridge.shell.ssh",
    "pwd",
    "select",
}
ALLOWED = {
    "gridbridge.batch.embedded.submit": ADAPTER,
    "gridbridge.batch.oar.submit": ADAPTER | OAR,
    "gridbridge.methods.starter": MESSAGES | COMMANDS | STARTER,
    "gridbridge.methods.control": MESSAGES | COMMANDS | STARTER | {"gridbridge.methods.control"},
    "gridbridge.methods.sensor": MESSAGES | SENSOR,
    "gridbridge.shell.ssh": BY_SSH,
    "gridbridge.shell.session": BY_SSH | {"fcntl", "gridbridge.shell.session", "termios"},
}


def loaded(module: str = "sys") -> set[str]:
    """Return what a program without any site's additions has loaded after an import."""
    argv = (PYTHON, "-I", "-S", "-c", SHOW.format(root=str(ROOT), module=module))
    return set(subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split())


@pytest.mark.parametrize("module", ALLOWED)
def test_a_hot_program_loads_nothing_but_what_it_may(module: str) -> None:
    """A new module in a hot program is a decision: add it here and look at `make bench`."""
    surplus = loaded(module) - loaded() - INTERPRETER - ALLOWED[module]

    assert set() == surplus


@pytest.mark.parametrize(
    "read",
    [
        "home_id as h; h.lines(7, '1')",
        "claim as c; c.lines(c.make('file'), 'file', '/s', 1)",
    ],
)
def test_no_codec_is_loaded_for_our_own_texts(read: str) -> None:
    """All are UTF-8, whose codec the interpreter has."""
    assert "encodings.ascii" not in loaded(f"gridbridge.batch.{read}")


@pytest.mark.parametrize(
    ("away", "other"),
    [
        ("Cell(root='', cell='', qmaster_port='', execd_port='', binaries='', timeout_s=1)", "oar"),
        ("OarServer(timeout_s=1)", "gridengine"),
        ("Folder(path='', python='', timeout_s=1)", "gridengine"),
    ],
    ids=["gridengine", "oar", "embedded"],
)
def test_a_transfer_loads_the_adapter_of_its_cluster_alone(away: str, other: str) -> None:
    take = f"route; from gridbridge.batch import submitter; submitter(route.{away})"

    assert f"gridbridge.batch.{other}.submit" not in loaded(f"gridbridge.model.route as {take}")


def test_what_is_loaded_is_seen() -> None:
    """The test above can fail: a module that no hot program may load shows up."""
    assert "gridbridge.decisions.transfer.receive" in loaded(
        "gridbridge.decisions.transfer.receive"
    )
