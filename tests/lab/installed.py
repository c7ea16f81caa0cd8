"""Gridbridge on a lab host that lacks it, so that the host is a site other than alpha's."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.agents import LAB
from tests.lab.grid import Grid

NOT_NEEDED = ("botocore/data", "matplotlib", "numpy", "PIL")  # of what is installed
FOLDERS = (
    *("/opt/gridbridge", "/etc/gridbridge", "/var/spool/gridbridge"),
    *("/var/lib/gridbridge", "/var/lib/gridbridge-ledger", "/var/lib/gridbridge-admin"),
)
AWAY = f"""for name in gridbridge gridbridge-admin; do
    userdel $name 2>/dev/null
    rm -f /etc/sudoers.d/$name
done
rm -rf {" ".join(FOLDERS)} /etc/cron.d/gridbridge-balance
mkdir /opt/gridbridge /var/spool/gridbridge  # empty on every host of the lab
"""


def is_older(name: str, used: str) -> bool:
    return name.startswith("venv-") and name != used


@contextmanager
def installed(grid: Grid, host: str) -> Iterator[None]:
    opt = subprocess.run([LAB, "path", "opt"], check=True, capture_output=True, text=True).stdout
    left_out = [f"--exclude={one}" for one in NOT_NEEDED]
    used = os.readlink(f"{opt.strip()}/venv")
    left_out += [f"--exclude=./{one}" for one in os.listdir(opt.strip()) if is_older(one, used)]
    packed = subprocess.run(["tar", "-C", opt.strip(), *left_out, "-c", "."], check=True, capture_output=True).stdout
    grid.sh(host, "mkdir -p /opt/gridbridge /etc/gridbridge")
    onto = [LAB, "on", host, "--", "tar", "-C", "/opt/gridbridge", "-x"]
    subprocess.run(onto, check=True, input=packed, capture_output=True)
    try:
        yield
    finally:
        grid.sh(host, AWAY)
