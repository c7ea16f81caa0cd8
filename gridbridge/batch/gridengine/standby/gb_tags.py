"""The tags of hosts, kept in their cell as a value of each execution host: gb_tags.

The value is a string of a complex that jobs can't ask for, with + between tags: a comma and = have
another meaning there. It stays when a host is silent or off, and goes with the host itself.
"""

from collections.abc import Mapping

from gridbridge.batch.gridengine import client_commands, qconf
from gridbridge.batch.gridengine.demand import read_hosts
from gridbridge.batch.gridengine.membership.execution_hosts import admitted
from gridbridge.batch.gridengine.submit import call
from gridbridge.errors import CommandFailed
from gridbridge.model.route import GridEngineCell
from gridbridge.model.site.setup_findings import EditVerb, SetupEdit

NAME = "gb_tags"
BETWEEN = "+"
COMPLEX = f"{NAME} {NAME} RESTRING == NO NO NONE 0"
VALUES = "complex_values"


def tags(cell: GridEngineCell) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of all hosts that have some; CommandFailed when the cell does not answer."""
    document = call(cell, client_commands.hosts(cell, (NAME,))).checked().stdout
    return read(document)


def hosts(cell: GridEngineCell) -> tuple[str, ...]:
    """Return all execution hosts."""
    return admitted(cell)


def read(document: bytes) -> Mapping[str, tuple[str, ...]]:
    """Read them from `qhost -F gb_tags -xml`."""
    texts = ((host.name, dict(host.values).get(NAME, "")) for host in read_hosts(document))
    return {name: tuple(text.split(BETWEEN)) for name, text in texts if text}


def set_tags(cell: GridEngineCell, host: str, host_tags: tuple[str, ...]) -> None:
    """Give a host exactly these tags; CommandFailed when the cell refuses."""
    complexes = qconf.complexes(call(cell, qconf.show(cell, "-sc")).checked().stdout)
    if NAME not in complexes:
        line = qconf.command(SetupEdit(verb=EditVerb.SET_COMPLEX, name=NAME, value=COMPLEX))
        answer = call(cell, ("/bin/sh", "-c", f"{qconf.environment(cell)}; {line}"))
        if answer.status:  # told as qconf's, not as the shell's
            raise CommandFailed(("qconf", "-Mc"), answer.status, answer.stdout, answer.stderr)
    if host_tags:
        options = ("-mattr", "exechost", VALUES, f"{NAME}={BETWEEN.join(host_tags)}", host)
        call(cell, qconf.show(cell, *options)).checked()
    elif host in tags(cell):
        call(cell, qconf.show(cell, "-dattr", "exechost", VALUES, NAME, host)).checked()
