"""Keeps host tags in their cell as the value gb_tags of each execution host.

The value is a string of a complex that jobs can't request. Tags are joined by +, because a comma
and = are special in such values. The value stays while a host is silent or off, and is deleted with
the host.
"""

from collections.abc import Mapping

from gridbridge.batch.gridengine import client_commands, qconf
from gridbridge.batch.gridengine.cell_demand_reader import parse_qhost
from gridbridge.batch.gridengine.execution_hosts import list_execution_hosts
from gridbridge.batch.gridengine.submit import run_client
from gridbridge.errors import CommandFailed
from gridbridge.model.site.setup_findings_and_edits import SetupEdit, SetupEditVerb
from gridbridge.model.transfer_route import GridEngineCellAccess

NAME = "gb_tags"
BETWEEN = "+"
COMPLEX = f"{NAME} {NAME} RESTRING == NO NO NONE 0"
VALUES = "complex_values"


def query_host_tags(cell: GridEngineCellAccess) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of all tagged hosts."""
    document = run_client(cell, client_commands.list_execution_hosts_command(cell, (NAME,))).checked().stdout
    return parse_cell_host_tags(document)


def list_taggable_hosts(cell: GridEngineCellAccess) -> tuple[str, ...]:
    """Return all execution hosts."""
    return list_execution_hosts(cell)


def parse_cell_host_tags(document: bytes) -> Mapping[str, tuple[str, ...]]:
    """Parse the tags of hosts from `qhost -F gb_tags -xml`."""
    texts = ((host.name, dict(host.values).get(NAME, "")) for host in parse_qhost(document))
    return {name: tuple(text.split(BETWEEN)) for name, text in texts if text}


def replace_host_tags(cell: GridEngineCellAccess, host: str, host_tags: tuple[str, ...]) -> None:
    """Replace all tags of a host; CommandFailed if the cell refuses."""
    complexes = qconf.parse_complex_table(run_client(cell, qconf.qconf_command(cell, "-sc")).checked().stdout)
    if NAME not in complexes:
        line = qconf.setup_edit_shell_line(SetupEdit(verb=SetupEditVerb.SET_COMPLEX, name=NAME, value=COMPLEX))
        answer = run_client(cell, ("/bin/sh", "-c", f"{qconf.cell_environment_shell_line(cell)}; {line}"))
        if answer.status:  # the error names qconf, not the shell
            raise CommandFailed(("qconf", "-Mc"), answer.status, answer.stdout, answer.stderr)
    if host_tags:
        options = ("-mattr", "exechost", VALUES, f"{NAME}={BETWEEN.join(host_tags)}", host)
        run_client(cell, qconf.qconf_command(cell, *options)).checked()
    elif host in query_host_tags(cell):
        run_client(cell, qconf.qconf_command(cell, "-dattr", "exechost", VALUES, NAME, host)).checked()
