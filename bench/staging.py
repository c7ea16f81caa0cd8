"""Speed of staging files to a cluster by ssh and back, against plain rsync in the same run.

One file of 1 GB of random bytes, by turns: `rsync -a` over ssh, and shell/rsync as a starter's step
calls it, into an empty folder each time. The better of two tries of each counts.
"""

from bench.brief import sized
from bench.rows import Row, Size
from bench.site import Site

MB = sized(1000, 100)
LEAST = 0.8  # of the rate of plain rsync

# Carry a file of so many MB there and back, by turns; print the seconds of each kind's best.
CARRY = """
import glob, json, os, shutil, subprocess, sys, time
sys.path[:0] = glob.glob("/opt/gridbridge/venv/lib/python3*/site-packages")
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import rsync
megabytes = int(sys.argv[1])
folder = os.path.expanduser("~/gb-bench-staging")
login = SshLogin(host="delta-master", user="al_delta")
far = "al_delta@delta-master"
def sh(script):
    subprocess.run(("ssh", "-o", "BatchMode=yes", far, script), check=True)
def plain(*names):
    subprocess.run(("rsync", "-a", "-e", "ssh -o BatchMode=yes", *names), check=True)
def timed(act):
    begun = time.monotonic()
    act()
    return time.monotonic() - begun
def empty():
    shutil.rmtree(f"{folder}/back", ignore_errors=True)
    os.makedirs(f"{folder}/back")
    os.sync()
def there(act):
    sh("rm -rf gb-bench && mkdir gb-bench")
    os.sync()
    return timed(act)
def back(act):
    empty()
    return timed(act)
never = lambda: False
back_folder = f"{folder}/back/"
empty()
try:
    subprocess.run(f"head -c {megabytes}M /dev/urandom >{folder}/big", shell=True, check=True)
    kinds = {
        "plain there": (there, lambda: plain(f"{folder}/big", f"{far}:gb-bench/")),
        "there": (there, lambda: rsync.rsync_files_to_host(login, [f"{folder}/./big"], "gb-bench/", never)),
        "plain back": (back, lambda: plain(f"{far}:gb-bench/big", f"{folder}/back/")),
        "back": (back, lambda: rsync.rsync_files_from_host(login, ["big"], "gb-bench", back_folder, never)),
    }
    tries = [{kind: how(act) for kind, (how, act) in kinds.items()} for _ in range(2)]
    print(json.dumps({kind: min(each[kind] for each in tries) for kind in kinds}))
finally:
    shutil.rmtree(folder, ignore_errors=True)
    sh("rm -rf gb-bench")
"""


def rate(site: Site, _: Size) -> list[Row]:
    """Measure the copied bytes a second, in both directions."""
    best_s = site.run(CARRY, str(MB), user="alice")
    assert isinstance(best_s, dict)
    return [
        Row(
            what=f"staging of {MB} MB, {way}",
            measured=MB / best_s[way],
            unit="MB/s",
            limit=LEAST * MB / best_s[f"plain {way}"],
            baseline=MB / best_s[f"plain {way}"],
            is_least=True,
            needs_whole=True,
        )
        for way in ("there", "back")
    ]
