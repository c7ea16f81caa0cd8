"""Hot programs import few modules, because each module costs a transfer about 0.2 ms of CPU."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = "/usr/bin/python3"  # what gridbridge is installed with
SHOW = "import sys; sys.path.append({root!r}); import {module}; print(*sorted(sys.modules))"

INTERPRETER = {"_abc", "_collections_abc", "_stat", "abc", "genericpath", "os", "os.path", "posixpath", "stat"}


def modules(names: str) -> set[str]:
    return {f"gridbridge{name if name != '.' else ''}" if name.startswith(".") else name for name in names.split()}


BUDGET = tomllib.loads(Path(__file__).with_name("import_budget.toml").read_text())
ALLOWED = {
    program: modules(" ".join(BUDGET["parts"].get(word, word) for word in words.split()))
    for program, words in BUDGET["programs"].items()
}


def loaded(module: str = "sys") -> set[str]:
    """Return the modules that an import loads without site packages."""
    argv = (PYTHON, "-I", "-S", "-c", SHOW.format(root=str(ROOT), module=module))
    return set(subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split())


@pytest.mark.parametrize("module", ALLOWED)
def test_a_hot_program_imports_only_its_allowed_modules(module: str) -> None:
    """A new module in a hot program is a decision: add it to import_budget.toml and look at `make bench`."""
    surplus = loaded(module) - loaded() - INTERPRETER - ALLOWED[module]

    assert set() == surplus


@pytest.mark.parametrize(
    "read",
    [
        "remote_job_script_writer as h; h.home_job_id_shell_lines(7, '1')",
        "remote_job_claim_script as c; c.remote_job_claim_shell_lines(c.new_remote_job_claim('file'), 'file', '/s', 1)",
    ],
)
def test_script_writers_load_no_codec(read: str) -> None:
    assert "encodings.ascii" not in loaded(f"gridbridge.batch.{read}")


@pytest.mark.parametrize(
    ("away", "other"),
    [
        (
            "GridEngineCellAccessSettings(root='', cell='', qmaster_port='', execd_port='', binaries='', timeout_s=1)",
            "oar",
        ),
        ("OarServerAccessSettings(timeout_s=1)", "gridengine"),
        ("EmbeddedClusterAccessSettings(folder='', python='', timeout_s=1)", "gridengine"),
    ],
    ids=["gridengine", "oar", "embedded"],
)
def test_a_transfer_imports_only_the_adapter_of_its_cluster(away: str, other: str) -> None:
    take = f"route; from gridbridge import batch; batch.load_submit_adapter(route.{away})"

    assert f"gridbridge.batch.{other}.job_submission_and_control" not in loaded(
        f"gridbridge.model.transfer_route as {take}"
    )


def test_the_import_check_finds_an_imported_module() -> None:
    assert "gridbridge.decisions.transfer.starter_message_acceptance" in loaded(
        "gridbridge.decisions.transfer.starter_message_acceptance"
    )
