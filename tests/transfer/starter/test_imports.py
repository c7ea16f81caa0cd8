"""Hot programs import few modules, because each module costs a transfer about 0.2 ms of CPU."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = "/usr/bin/python3"  # what gridbridge is installed with
SHOW = "import sys; sys.path.append({root!r}); import {module}; print(*sorted(sys.modules))"

INTERPRETER = {"_abc", "_collections_abc", "_stat", "abc", "genericpath", "os", "os.path", "posixpath", "stat"}


def modules(names: str) -> set[str]:
    """Return full module names; a leading dot stands for `gridbridge.`, and a dot alone for the package."""
    return {f"gridbridge{name if name != '.' else ''}" if name.startswith(".") else name for name in names.split()}


MESSAGES = modules(
    """
    . .errors .model .model.fixed_paths .model.transfer .model.transfer.claim_and_guard
    .model.transfer_messages_in_spool .model.transfer_route .shell .shell.safe_files .state
    .state.published_file_formats .transfer .transfer.starter
    """
)
COMMANDS = modules(
    """
    .batch .batch.batch_submission_outcome .batch.gridengine .batch.gridengine.client_commands
    .batch.gridengine.job_request_parser .batch.gridengine.submit .model.job_request .model.transfer_name
    .shell.program_runs .state.spool .transfer.starter.local_task .transfer.starter.task_notes pwd select time
    """
)
STARTER = modules(
    """
    .batch.remote_job_script_writer .transfer.starter.first_note_and_guard .transfer.starter.remote_job_state_match
    .transfer.starter.remote_job_submission_step .transfer.starter.starter .transfer.starter.starter_step_context
    """
)
SENSOR = modules(
    """
    fcntl .decisions .decisions.transfer .decisions.transfer.transfer_queue_closing .model.transfer
    .model.transfer.transfer_queue_load_values .shell.program_lock_file .transfer.starter.sensor select
    """
)
ADAPTER = modules(
    """
    . .batch .batch.batch_submission_outcome .batch.embedded .batch.embedded.embedded_program_calls
    .batch.embedded.submit .errors .model .model.fixed_paths .model.job_request .model.transfer_messages_in_spool
    .model.transfer_route .shell .shell.program_runs select
    """
)
OAR = modules(
    """
    .batch.oar .batch.oar.oar_commands .batch.oar.submit .shell.safe_files .shell.ssh pwd
    """
)
BY_SSH = modules(
    """
    . .errors .model .model.transfer .model.transfer_messages_in_spool .model.transfer_route .shell
    .shell.program_runs .shell.safe_files .shell.ssh pwd select
    """
)
ALLOWED = {
    "gridbridge.batch.embedded.submit": ADAPTER,
    "gridbridge.batch.oar.submit": ADAPTER | OAR,
    "gridbridge.transfer.starter.starter": MESSAGES | COMMANDS | STARTER,
    "gridbridge.transfer.starter.control_methods": MESSAGES
    | COMMANDS
    | STARTER
    | {"gridbridge.transfer.starter.control_methods"},
    "gridbridge.transfer.starter.sensor": MESSAGES | SENSOR,
    "gridbridge.shell.ssh": BY_SSH,
    "gridbridge.shell.ssh_session": BY_SSH | {"fcntl", "gridbridge.shell.ssh_session", "termios"},
}


def loaded(module: str = "sys") -> set[str]:
    """Return the modules that an import loads without site packages."""
    argv = (PYTHON, "-I", "-S", "-c", SHOW.format(root=str(ROOT), module=module))
    return set(subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split())


@pytest.mark.parametrize("module", ALLOWED)
def test_a_hot_program_imports_only_its_allowed_modules(module: str) -> None:
    """A new module in a hot program is a decision: add it here and look at `make bench`."""
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
        ("GridEngineCellAccess(root='', cell='', qmaster_port='', execd_port='', binaries='', timeout_s=1)", "oar"),
        ("OarServerAccess(timeout_s=1)", "gridengine"),
        ("EmbeddedClusterAccess(folder='', python='', timeout_s=1)", "gridengine"),
    ],
    ids=["gridengine", "oar", "embedded"],
)
def test_a_transfer_imports_only_the_adapter_of_its_cluster(away: str, other: str) -> None:
    take = f"route; from gridbridge import batch; batch.load_submit_adapter(route.{away})"

    assert f"gridbridge.batch.{other}.submit" not in loaded(f"gridbridge.model.transfer_route as {take}")


def test_the_import_check_finds_an_imported_module() -> None:
    assert "gridbridge.decisions.transfer.starter_message_acceptance" in loaded(
        "gridbridge.decisions.transfer.starter_message_acceptance"
    )
