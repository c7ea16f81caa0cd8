"""Up, down and power: the order in which keeper, bases, hosts and clusters come and go.

What differs between batch systems is in BATCH: modules with the same functions.
"""

import shutil
from collections.abc import Sequence

from gridlab import bare, base, cell, furnish, keeper, keys, lock, oar, paths, presence, remote
from gridlab import host as hosts
from gridlab.errors import LabError
from gridlab.output import say
from gridlab.provider import daemon as provider
from gridlab.topology import CLUSTER_OF_HOST, CLUSTERS, HOST_BY_NAME, POWER_SERVICE, PROVIDED, Cluster, Host, Kind

BATCH = {Kind.GRID_ENGINE: cell, Kind.OAR: oar}


def up(clusters: Sequence[Cluster]) -> None:
    """Start the missing parts of these clusters; take over a lab of another checkout.

    The remains of an interrupted `up` are deleted first: its disks may be half written.
    """
    if lock.owner() not in ("", str(paths.CHECKOUT)):
        say(f"taking the lab over from {lock.owner()}")
        down()
    elif paths.UNFINISHED.exists() or presence.keeper() is None:
        down()
    lock.claim()
    paths.UNFINISHED.touch()
    for name in ("hosts", "cells", "spools", "domains", "base"):
        (paths.STATE / name).mkdir(parents=True, exist_ok=True)
    keeper.start()
    _furnish(clusters)
    were_on = {name for name, host in HOST_BY_NAME.items() if presence.init_of(host) is not None}
    if PROVIDED in clusters:
        _report_start(POWER_SERVICE, was_on=not provider.start())
    newcomers = [(cluster, _start_cluster(cluster)) for cluster in clusters]
    for cluster, fresh in newcomers:  # load reports take seconds: all clusters wait together
        _settle(cluster, _workers(cluster.initial_hosts), fresh)
        for host in cluster.initial_hosts:
            _report_start(host, was_on=host.name in were_on)
    paths.UNFINISHED.unlink()


def _furnish(clusters: Sequence[Cluster]) -> None:
    """Make the parts that hosts are made of: base systems, keys, homes and folders."""
    for kind in {cluster.kind for cluster in clusters}:
        base.ensure(kind)
    keys.ensure(clusters[0].kind)
    furnish.add_homes()
    for cluster in CLUSTERS:  # hosts mount cells and spools of clusters that may come later
        (paths.STATE / "cells" / cluster.name).mkdir(exist_ok=True)
        paths.spool(cluster.name).mkdir(exist_ok=True)


def down() -> None:
    """End all processes of the lab and delete all files but the cache."""
    provider.end()
    keeper.end()
    _check_nothing_mounted()
    for folder in (paths.STATE, paths.RUN):
        if folder.exists():
            shutil.rmtree(folder)


def purge() -> None:
    """Delete the cache: downloaded packages and the base systems built from them, which running labs mount."""
    if running := [name for name in paths.NAMES.values() if (paths.RUN.parent / name / paths.KEEPER.name).exists()]:
        raise LabError(f"the cache stays, because {', '.join(running)} use it; expected no running lab: lab/lab down")
    if paths.CACHE.exists():
        shutil.rmtree(paths.CACHE)


def switch_on(host: Host) -> None:
    """Boot a host and join it to its cluster; while the master is off, the host joins later by itself."""
    cluster = _built_cluster(host)
    if bare.is_bare(host):
        hosts.switch_on(host)
        _report(host, "on, bare")
        return
    hosts.make_disk(host)
    furnish.introduce(host)
    if host == cluster.master:
        hosts.switch_on(host)
        BATCH[cluster.kind].wait_answering(cluster)
    if presence.init_of(cluster.master) is None:
        hosts.switch_on(host)
    else:
        newcomers = _join(cluster, [host])
        _settle(cluster, _workers([host]), newcomers)
    _report(host, "on")


def switch_on_bare(host: Host, name: str) -> None:
    """Boot a host of the reserve as a new machine with a name of its own, in no cluster."""
    _built_cluster(host)
    if host.initial or paths.host_dir(host.name).exists():
        raise LabError(f"{host.name} has a disk already; only a new host of the reserve is bare")
    bare.mark(host, name)
    hosts.switch_on(host)
    _report(host, f"on, bare, as {name}")


def throw_away(host: Host) -> None:
    """End a bare host and delete its disk, so that another can be made of it."""
    if paths.host_dir(host.name).exists() and not bare.is_bare(host):
        raise LabError(f"{host.name} is not bare: its cluster knows it; switch it off instead")
    hosts.throw_away(host)
    _report(host, "gone")


def _built_cluster(host: Host) -> Cluster:
    cluster = CLUSTER_OF_HOST[host.name]
    if not paths.built(cluster.name).exists():
        raise LabError(f"{cluster.name} is not built; do: lab/lab up {cluster.name}")
    return cluster


def _start_cluster(cluster: Cluster) -> list[Host]:
    """Boot the master, build its cluster once, boot the other hosts; return the new hosts."""
    hosts.switch_on(cluster.master)
    batch = BATCH[cluster.kind]
    if not paths.built(cluster.name).exists():
        batch.build(cluster)
        paths.built(cluster.name).touch()
    remote.script(cluster.master, "/etc/gridlab/boot")
    batch.wait_answering(cluster)
    return _join(cluster, cluster.initial_hosts)


def _join(cluster: Cluster, members: Sequence[Host]) -> list[Host]:
    """Boot hosts that may then register; return the workers that the cluster did not know."""
    batch = BATCH[cluster.kind]
    workers = _workers(members)
    known = batch.known_hosts(cluster) if workers else set()
    newcomers = [host for host in workers if host.name not in known]
    for host in newcomers:
        batch.admit(cluster, host)
    for host in members:
        hosts.switch_on(host)
    for host in workers:
        batch.start_worker(host)
    return newcomers


def _settle(cluster: Cluster, workers: Sequence[Host], newcomers: Sequence[Host]) -> None:
    """Wait until the cluster has reports from the workers, and give new hosts their slots."""
    batch = BATCH[cluster.kind]
    batch.wait_joined(cluster, [host.name for host in workers])
    for host in newcomers:
        batch.settle(cluster, host)


def _workers(members: Sequence[Host]) -> list[Host]:
    return [host for host in members if host.is_worker]


def _report_start(host: Host, *, was_on: bool) -> None:
    _report(host, "was on" if was_on else "started")


def _report(host: Host, state: str) -> None:
    say(f"{host.name:<14}{host.address:<12}{state}")


def _check_nothing_mounted() -> None:
    """Refuse to delete through a mount; the lab itself mounts nothing on the machine."""
    with open("/proc/self/mountinfo") as stream:
        targets = [line.split()[4] for line in stream]
    below = [target for target in targets if target.startswith(f"{paths.STATE}/")]
    if below:
        raise LabError(f"not deleting {paths.STATE}: somebody mounted {', '.join(below)}")
