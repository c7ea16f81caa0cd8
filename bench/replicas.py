"""Speed of making dataset replicas at a cluster by ssh, against plain rsync in the same run.

A tree of files of random bytes, by turns: `rsync -a` over ssh, and what `gridbridge data` and the
rounds of the service do, into an empty folder each time. The better of two tries of each counts.
The 0.8 of plain rsync is the target of the carrying alone; a replica is besides read where it lies
before it counts, which is in the second row and has no target: plain rsync reads nothing again.
"""

from bench.brief import sized
from bench.rows import Row, Size
from bench.site import Site

MB, FILES = sized(400, 40), 4
LEAST = 0.8  # of the rate of plain rsync

# Carry files of so many MB together, by turns; print the seconds of each kind's best.
CARRY = """
import glob, json, os, shutil, subprocess, sys, time
sys.path[:0] = glob.glob("/opt/gridbridge/venv/lib/python3*/site-packages")
from gridbridge.rebalance.replicas import storage_area_shell_scripts as areas, dataset_records_and_originals
from gridbridge.rebalance.replicas.storage_area_shell_scripts import StorageAreaForAccount
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import ReplicaCopier, LocalOrSshFolder
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import copy_files_by_rsync
from gridbridge.model.rebalance.datasets import Dataset
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell.clock import Clock
from gridbridge.shell.rsync import RsyncLimitAndProgress
megabytes, files = map(int, sys.argv[1:3])
account, host = sys.argv[3:]  # without a host all is here
folder = os.path.expanduser("~/gb-bench-replicas")
login = SshLogin(host=host, user=account) if host else None
far = f"{account}@{host}"
def sh(script):
    by = ("ssh", "-o", "BatchMode=yes", far) if host else ("/bin/sh", "-c")
    told = subprocess.run((*by, script), check=True, stdout=subprocess.PIPE,
                          cwd=os.path.expanduser("~"))
    return told.stdout.decode().strip()
def empty():
    sh("rm -rf gb-bench && mkdir -m 700 gb-bench gb-bench/into")
    os.sync()
def plain():
    to = f"{far}:gb-bench/into/" if host else f"{home}/gb-bench/into/"
    subprocess.run(("rsync", "-a", "-e", "ssh -o BatchMode=yes", f"{folder}/", to), check=True)
def carried():
    names = [f"{number}" for number in range(files)]
    target = LocalOrSshFolder(login=login, folder=f"{home}/gb-bench/into")
    copy_files_by_rsync(
        LocalOrSshFolder(login=None, folder=folder),
        target,
        names,
        RsyncLimitAndProgress(tell=lambda _: None),
    )
def made():
    area = StorageAreaForAccount(name="bench", clusters=("delta",), path=f"{home}/gb-bench", account=account,
                login=login, timeout_s=60)
    copier = ReplicaCopier(clock=Clock(), tell=lambda _: None)
    source = LocalOrSshFolder(login=None, folder=folder)
    areas.prepare_new_replica_folder(area, dataset, is_known=False)
    copier.copy_replica(dataset, original.sums, source, area, relay="")
def timed(act):
    empty()
    begun = time.monotonic()
    act()
    return time.monotonic() - begun
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
try:
    home = sh("pwd")
    for number in range(files):
        script = f"head -c {megabytes // files}M /dev/urandom >{folder}/{number}"
        subprocess.run(script, shell=True, check=True)
    original = dataset_records_and_originals.checksum_original_files(folder)
    dataset = Dataset(name="bench", path=folder, is_tree=True, files=files, wished=1,
                      size_bytes=original.size_bytes, sha256="")
    kinds = {"plain": plain, "carried": carried, "made": made}
    tries = [{kind: timed(act) for kind, act in kinds.items()} for _ in range(2)]
    print(json.dumps({kind: min(each[kind] for each in tries) for kind in kinds}))
finally:
    shutil.rmtree(folder, ignore_errors=True)
    sh("rm -rf gb-bench")
"""


def rate(site: Site, _: Size) -> list[Row]:
    """Measure the copied bytes a second, and the speed of making complete replicas."""
    far = ("al_delta", "delta-master")
    best_s = site.run(CARRY, str(MB), str(FILES), *far, user="alice")
    assert isinstance(best_s, dict)
    plain = MB / best_s["plain"]
    return [
        Row(
            what=f"a replica of {MB} MB, carried",
            measured=MB / best_s["carried"],
            unit="MB/s",
            limit=LEAST * plain,
            baseline=plain,
            is_least=True,
            needs_whole=True,
        ),
        Row(what="  and read where it lies", measured=MB / best_s["made"], unit="MB/s", baseline=plain),
    ]
