"""The process of the power service: it runs on the machine, connected only to the lab's bridge.

It starts and ends hosts, which only the machine's side can; a keeper that ends takes it along.
"""

import os
import secrets
import select
import signal
import socket
import threading

from gridlab import namespaces, network, paths, presence
from gridlab.process import record_self
from gridlab.topology import POWER_SERVICE

PORT = 8077
WAITING = 64  # connections
END_LIMIT_S = 10.0


def start() -> bool:
    """Start the service and its token; return whether it did not run before."""
    token = paths.PROVIDER / "token"
    paths.PROVIDER.mkdir(mode=0o700, exist_ok=True)
    if not token.exists():
        token.write_text(secrets.token_hex(16))
    if presence.provider() is not None:
        return False
    namespaces.in_child(_spawn)
    return True


def end() -> None:
    """End the service; its nodes are hosts of the lab and end with the keeper."""
    process = presence.provider()
    if process is not None:
        process.send(signal.SIGKILL)
        process.wait_gone(END_LIMIT_S)


def run(handle: int) -> None:
    """Serve a listening socket until the keeper ends."""
    from gridlab.provider import server  # `lab on` and others need not load it

    keeper = os.pidfd_open(presence.running_keeper().pid)
    threading.Thread(target=_follow, args=(keeper,), daemon=True).start()
    server.serve(socket.socket(fileno=handle))


def _follow(keeper: int) -> None:
    select.select([keeper], [], [])
    os._exit(0)


def _spawn() -> None:
    keeper_pid = presence.running_keeper().pid
    if os.fork():
        return
    namespaces.leave_terminal(str(paths.PROVIDER / "log"))
    namespaces.unshare(namespaces.CLONE_NEWNET)
    network.plug_in(POWER_SERVICE, keeper_pid)
    listener = socket.create_server((POWER_SERVICE.address, PORT), backlog=WAITING)
    listener.set_inheritable(True)
    record_self(paths.PROVIDER_RECORD)
    os.chdir("/")
    program = str(paths.CHECKOUT / "lab" / "power-service")
    os.execv(program, ["power-service", str(listener.fileno())])
