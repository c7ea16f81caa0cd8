"""The running init processes of keeper and hosts, from their records.

Apart from keeper.py and host.py, which make them, so that `lab on` imports little.
"""

from gridlab import paths
from gridlab.errors import LabError
from gridlab.process import Process, recorded
from gridlab.topology import Host


def keeper() -> Process | None:
    """Return the running keeper."""
    return recorded(paths.KEEPER)


def running_keeper() -> Process:
    """Return the keeper, or raise LabError when there is no lab."""
    process = keeper()
    if process is None:
        raise LabError("the lab is down; start it with: lab/lab up")
    return process


def provider() -> Process | None:
    """Return the running power service."""
    return recorded(paths.PROVIDER_RECORD)


def init_of(host: Host) -> Process | None:
    """Return the init process of a host; None when it is off."""
    return recorded(paths.host_record(host.name))


def running_init(host: Host) -> Process:
    """Return the init process of a host, or raise LabError when it is off."""
    process = init_of(host)
    if process is None:
        running_keeper()
        raise LabError(f"{host.name} is off; switch it on with: lab/lab power {host.name} on")
    return process
