"""Debian's simulator of a management controller; the state of the simulated host is in a file."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.builders.programs import write_program
from tests.packages import unpack

HERE = "127.0.0.1"
LIMIT_S = 60.0
PACKAGES = ("ipmitool", "libfreeipmi17", "libopenipmi0", "libpopt0", "openipmi")
AUTHS = "\n".join(f"  allowed_auths_{who} none md2 md5 straight" for who in ("callback", "user", "operator", "admin"))
CONTROLLER = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\n"
CHASSIS = """\
#!/bin/sh
# CONTROLLER get|set THING [VALUE]: the chassis of a simulated host
echo "$2 $3 $4" >>{at}/asked
case "$2 $3" in
"get power") echo "power:$(cat {at}/power)" ;;
"set power") echo "$4" >{at}/power ;;
"set shutdown") echo 0 >{at}/power ;;
esac
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    simulator: str
    ipmitool: str
    libraries: str

    def write(self, path: Path) -> str:
        known = f"LD_LIBRARY_PATH={self.libraries} exec {self.ipmitool} -C 3"
        return str(write_program(path, f'#!/bin/sh\n{known} "$@"\n'))


def found(folder: Path) -> Tools:
    """Return the tools, unpacked from Debian packages if necessary.

    Raise AssertionError if the tools are unavailable.
    """
    simulator, ipmitool = shutil.which("ipmi_sim"), shutil.which("ipmitool")
    if simulator and ipmitool:
        return Tools(simulator=simulator, ipmitool=ipmitool, libraries="")
    root = unpack(folder, *PACKAGES)
    (libraries,) = (root / "usr/lib").glob("*-linux-gnu")
    programs = root / "usr/bin"
    return Tools(simulator=str(programs / "ipmi_sim"), ipmitool=str(programs / "ipmitool"), libraries=str(libraries))


@contextmanager
def controller(tools: Tools, at: Path, user: str, password: str) -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind((HERE, 0))
        port = free.getsockname()[1]
    (at / "state").mkdir()
    (at / "power").write_text("0\n")
    write_program(at / "chassis", CHASSIS.format(at=at))
    (at / "commands").write_text(f"{CONTROLLER}mc_enable 0x20\n")
    (at / "lan.conf").write_text(
        f'name "sim"\nset_working_mc 0x20\nstartlan 1\n  addr {HERE} {port}\n'
        f"  priv_limit admin\n{AUTHS}\n  guid a123456789abcdefa123456789abcdef\nendlan\n"
        f'chassis_control "{at}/chassis 0x20"\n'
        f'user 2 true "{user}" "{password}" admin 10 none md2 md5 straight\n'
    )
    argv = (tools.simulator, "-c", at / "lan.conf", "-f", at / "commands", "-s", at / "state", "-n")
    env = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": tools.libraries}
    with open(at / "log", "wb") as log:
        running = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait(port, running, at)
        yield port
    finally:
        running.terminate()
        running.wait(LIMIT_S)


def wait(port: int, running: "subprocess.Popen[bytes]", at: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(0.2)
        while running.poll() is None and time.monotonic() < deadline:
            try:
                asking.sendto(bytes.fromhex("0600ff06000011be80000000"), (HERE, port))
                asking.recv(64)
            except OSError:
                continue
            return
    raise AssertionError(f"ipmi_sim: {running.poll()}: {(at / 'log').read_text()}")
