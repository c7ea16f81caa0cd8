"""Makes the edits of a set-up, and records the former values of settings shared with the site."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.batch.gridengine import qconf_parser_and_edits
from gridbridge.errors import StateError
from gridbridge.model.fixed_paths import CONFIG, FORMER, PYTHON
from gridbridge.model.site.setup_findings_and_edits import SetupEdit, SetupEditVerb, SharedSettingUndo
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import safe_files
from gridbridge.shell.program_runs import run_program

MAX_BYTES = 1 << 20
HERE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
RESTART_S = 120  # time limit of a shell line: an execd reports its jobs before it stops, and shared disks are slow


def run_setup_edit(edit: SetupEdit, policy: Policy) -> None:
    """Run the shell line of an edit; raise CommandFailed with the error message."""
    limit_s: float = RESTART_S
    if edit.verb not in HOST_RENDERERS and cell_environment_line_for_edit(edit, policy):
        limit_s = configured_cluster_access(policy, edit.cell).timeout_s
    run_program(("/bin/sh", "-c", edit_as_standalone_shell_line(edit, policy)), HERE, limit_s).require_success()


def setup_edit_command(edit: SetupEdit) -> str:
    """Return an edit's command, for a shell with the cluster's environment."""
    render = HOST_RENDERERS.get(edit.verb, qconf_parser_and_edits.setup_edit_shell_line)
    return render(edit)


def _shell_line_writing_file(edit: SetupEdit) -> str:
    """Return the line that replaces a file; sudo and cron ignore files with a dot in their names."""
    lines = [shlex.quote(line) for line in edit.value.splitlines()]
    content = f"echo {lines[0]}" if len(lines) == 1 else f"printf '%s\\n' {' '.join(lines)}"
    return f"{content} | {_installation_of_file('/dev/stdin', edit)}"


def _installation_of_file(source: str, edit: SetupEdit) -> str:
    path = shlex.quote(edit.name)
    return f"install -m {edit.attribute} -o root -g root {source} {path}.new && mv -T {path}.new {path}"


def _shell_line_editing_configuration(verb: str, edit: SetupEdit) -> str:
    return shlex.join((*EDIT_PROGRAM, CONFIG, verb, edit.kind, edit.name, *edit.value.splitlines()))


EDIT_PROGRAM = (PYTHON, "-I", "-m", "gridbridge.config.edit")
HOST_RENDERERS: Mapping[SetupEditVerb, Callable[[SetupEdit], str]] = {
    SetupEditVerb.SHELL: lambda edit: edit.value,
    SetupEditVerb.RESTART: lambda edit: edit.value,
    SetupEditVerb.WRITE_FILE: _shell_line_writing_file,
    SetupEditVerb.COPY_FILE: lambda edit: _installation_of_file(shlex.quote(edit.value), edit),
    SetupEditVerb.REMOVE_FILE: lambda edit: f"rm -f {shlex.quote(edit.name)} {shlex.quote(edit.name)}.new",
    SetupEditVerb.PUT_KEYS: partial(_shell_line_editing_configuration, "put"),
    SetupEditVerb.DROP_SECTION: partial(_shell_line_editing_configuration, "drop"),
}


def cell_environment_line_for_edit(edit: SetupEdit, policy: Policy) -> str:
    """Return the line that selects an edit's cluster in a shell; empty for an edit of this host."""
    cluster = configured_cluster_access(policy, edit.cell) if edit.cell else None
    line_of = batch_adapter_of_cluster(cluster).shell_environment_line if cluster else None
    return line_of(cluster) if cluster and line_of else ""


def edit_as_standalone_shell_line(edit: SetupEdit, policy: Policy) -> str:
    """Return a shell line that makes an edit from any shell of root."""
    before, line = cell_environment_line_for_edit(edit, policy), setup_edit_command(edit)
    return f"({before}; {line})" if before else line


def record_former_settings(undo: tuple[SharedSettingUndo, ...], path: str = FORMER) -> None:
    """Record the former values of settings shared with the site; an earlier record of the same setting is kept."""
    earlier = read_former_settings(path)
    keys = {_setup_edit_without_value(setting) for setting in earlier}
    new = [setting for setting in undo if _setup_edit_without_value(setting) not in keys]
    if new:
        rows = [asdict(setting) for setting in (*earlier, *new)]
        safe_files.replace_file_atomically(path, json.dumps(rows, indent=1).encode() + b"\n")


def read_former_settings(path: str = FORMER) -> list[SharedSettingUndo]:
    try:
        data, _ = safe_files.read_file_only_owner_writes(path, MAX_BYTES, owner=0)
        return [
            SharedSettingUndo(done=_decode_setup_edit(row["done"]), undo=_decode_setup_edit(row["undo"]))
            for row in json.loads(data)
        ]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path}: invalid record of former settings: {error}") from error


def delete_former_settings(path: str = FORMER) -> None:
    safe_files.remove_file(path)


def _setup_edit_without_value(setting: SharedSettingUndo) -> SetupEdit:
    return replace(setting.done, value="")


def _decode_setup_edit(row: dict[str, Any]) -> SetupEdit:
    return SetupEdit(**{**row, "verb": SetupEditVerb(row["verb"])})
