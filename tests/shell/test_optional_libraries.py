"""A missing optional library gives one line with the command that installs the library."""

import subprocess
import sys

import pytest

from gridbridge.errors import HostNotReached
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell.optional_libraries import missing_library_message
from gridbridge.shell.ssh_connections_shared_by_threads import LazyKeptSshConnections

RUN = "import sys; sys.modules[{library!r}] = None; from gridbridge.{module} import main; main()"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("cli.main", ("simulate", "--accounting", "/nosuch", "--plot", "a.svg")),
        ("cli.main", ("rebalance", "plan", "--plot", "a.svg")),
        ("cli.main", ("balance", "plot", "--stats", "/nosuch", "--output-dir", "/nosuch")),
        ("campaigns.cli.gridstat", ("1", "--plot", "a.png")),
    ],
    ids=lambda words: words if isinstance(words, str) else words[0],
)
def test_a_command_without_matplotlib_prints_the_line_that_installs_it(module: str, words: tuple[str, ...]) -> None:
    argv = (sys.executable, "-c", RUN.format(library="matplotlib", module=module), *words)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.partition(": ")[2] == f"{missing_library_message('matplotlib')}\n"


def test_the_progress_of_campaigns_is_shown_without_matplotlib() -> None:
    module = "gridbridge.campaigns.cli.campaign_progress_display"
    script = f"import sys; sys.modules['matplotlib'] = None; import {module}"

    subprocess.run((sys.executable, "-c", script), check=True)


def test_an_ssh_request_without_paramiko_fails_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paramiko", None)
    for name in ("kept_ssh_connections", "paramiko_login"):
        monkeypatch.delitem(sys.modules, f"gridbridge.shell.{name}", raising=False)
    login = SshLogin(host="beta")

    with pytest.raises(HostNotReached, match=r"paramiko is not installed; to install it, run: .* 'paramiko>=3\.4'"):
        LazyKeptSshConnections().run_ssh_request(login, "", b"", 1.0)
