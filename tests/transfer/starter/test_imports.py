"""What the hot programs load: each module costs every transfer about 0.2 ms of CPU."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = "/usr/bin/python3"  # what gridbridge is installed with
SHOW = "import sys; sys.path.append({root!r}); import {module}; print(*sorted(sys.modules))"

INTERPRETER = {"_abc", "_collections_abc", "_stat", "abc", "genericpath", "os", "os.path", "posixpath", "stat"}
MESSAGES = {
    "gridbridge",
    "gridbridge.errors",
    "gridbridge.transfer",
    "gridbridge.transfer.starter",
    "gridbridge.model",
    "gridbridge.model.transfer",
    "gridbridge.model.transfer.claim_and_guard",
    "gridbridge.model.transfer_messages_in_spool",
    "gridbridge.model.fixed_paths",
    "gridbridge.model.transfer_route",
    "gridbridge.shell",
    "gridbridge.shell.safe_files",
    "gridbridge.state",
    "gridbridge.state.published_file_formats",
}
COMMANDS = {
    "gridbridge.batch",
    "gridbridge.batch.gridengine",
    "gridbridge.batch.gridengine.client_commands",
    "gridbridge.batch.gridengine.job_request_parser",
    "gridbridge.batch.gridengine.submit",
    "gridbridge.batch.batch_submission_outcome",
    "gridbridge.transfer.starter.task_notes",
    "gridbridge.transfer.starter.local_task",
    "gridbridge.model.transfer_name",
    "gridbridge.model.job_request",
    "gridbridge.shell.program_runs",
    "gridbridge.state.spool",
    "pwd",
    "select",
    "time",
}
STARTER = {
    "gridbridge.batch.remote_job_script_writer",
    "gridbridge.transfer.starter.starter_step_context",
    "gridbridge.transfer.starter.first_note_and_guard",
    "gridbridge.transfer.starter.remote_job_submission_step",
    "gridbridge.transfer.starter.remote_job_state_match",
    "gridbridge.transfer.starter.starter",
}
SENSOR = {
    "fcntl",
    "gridbridge.decisions",
    "gridbridge.decisions.transfer",
    "gridbridge.decisions.transfer.transfer_queue_closing",
    "gridbridge.transfer.starter.sensor",
    "gridbridge.model.transfer",
    "gridbridge.model.transfer.transfer_queue_load_values",
    "gridbridge.shell.program_lock_file",
    "select",
}
ADAPTER = {
    "gridbridge.model.fixed_paths",
    "gridbridge",
    "gridbridge.batch",
    "gridbridge.batch.embedded",
    "gridbridge.batch.embedded.embedded_program_calls",
    "gridbridge.batch.embedded.submit",
    "gridbridge.batch.batch_submission_outcome",
    "gridbridge.errors",
    "gridbridge.model",
    "gridbridge.model.transfer_messages_in_spool",
    "gridbridge.model.job_request",
    "gridbridge.model.transfer_route",
    "gridbridge.shell",
    "gridbridge.shell.program_runs",
    "select",
}
OAR = {
    "gridbridge.batch.oar",
    "gridbridge.batch.oar.oar_commands",
    "gridbridge.batch.oar.submit",
    "gridbridge.shell.safe_files",
    "gridbridge.shell.ssh",
    "pwd",
}
BY_SSH = {
    "gridbridge",
    "gridbridge.errors",
    "gridbridge.model",
    "gridbridge.model.transfer",
    "gridbridge.model.transfer_messages_in_spool",
    "gridbridge.model.transfer_route",
    "gridbridge.shell",
    "gridbridge.shell.safe_files",
    "gridbridge.shell.program_runs",
    "gridbridge.shell.ssh",
    "pwd",
    "select",
}
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
    """Return what a program without any site's additions has loaded after an import."""
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
        "remote_job_script_writer as h; h.home_job_id_commands_script(7, '1')",
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
        ("EmbeddedClusterAccess(path='', python='', timeout_s=1)", "gridengine"),
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
