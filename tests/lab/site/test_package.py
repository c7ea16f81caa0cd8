"""The Debian package on a host without gridbridge: installed, upgraded under running jobs, removed and purged."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.lab.grid import ROOT, Grid
from tests.lab.grid import unprepared_grid as unprepared_grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

HOST, USER = "delta-n1", "al_delta"
MASTER = "delta-master"
FAR, FAR_USER = "gamma-master", "al_gamma"
PACKAGE, LATER = "/tmp/gridbridge.deb", "/tmp/gridbridge-later.deb"
EDITED = "/etc/logrotate.d/gridbridge"
KEPT = "/etc/gridbridge/gridbridge.toml"
TOML = """[site]
cluster = "delta"
[cluster.delta]
qmaster_port = 6444
execd_port = 6445
[cluster.gamma]
kind = "oar"
ssh = "gamma-master"
[cluster.gamma.users]
al_delta = "al_gamma"
gridbridge = "gb_gamma"
"""
PATHS = (
    "find /etc /opt /usr /var /lib -path /var/lib/dpkg -prune -o -path /var/spool/gridengine -prune -o"
    " -path '/var/cache/*' -prune -o -print"
)
SECRETS = ("/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-")  # copies of useradd, which stay
EMPTIED = "purge --yes gridbridge"
WAITS = "until [ -e /home/al_gamma/go ]; do sleep 0.2; done; exit 7"
CONTROL = "dpkg-deb -R {0} {1} && sed -i '/^Version:/s/$/+later/' {1}/DEBIAN/control && dpkg-deb -Zxz -z0 -b {1} {2}"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    subprocess.run((ROOT / "tools/deb", folder), check=True, capture_output=True)
    (path,) = folder.glob("*.deb")
    return path


@pytest.fixture
def bare(grid: Grid, package: Path) -> Iterator[Grid]:
    """Return the lab, whose host has the package's file and no gridbridge."""
    copy(package, PACKAGE)
    yield grid
    grid.sh(HOST, f"dpkg --purge gridbridge; rm -f {PACKAGE} {LATER}; mkdir -p /opt/gridbridge /var/spool/gridbridge")


def copy(file: Path, path: str) -> None:
    with file.open("rb") as opened:
        argv = (ROOT / "lab/lab", "on", HOST, "--", "tee", path)
        subprocess.run(argv, stdin=opened, stdout=subprocess.DEVNULL, check=True)


def install(grid: Grid, path: str) -> None:
    done = grid.on(HOST, "env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--install", path, timeout_s=200)
    assert done.status == 0, done


def paths(grid: Grid) -> set[str]:
    return set(grid.sh(HOST, PATHS).splitlines()) - set(SECRETS)


def test_the_package_needs_no_network_serves_users_and_leaves_nothing_when_purged(bare: Grid) -> None:
    bare.sh(HOST, "rmdir /opt/gridbridge /var/spool/gridbridge")  # which every host of the lab has
    before = paths(bare)
    install(bare, PACKAGE)
    version = bare.sh(HOST, "cd && gridbridge --version && gridsub --help && man -w gridsub gridbridge.toml", user=USER)
    accounts = bare.sh(HOST, "getent passwd gridbridge gridbridge-admin; sudo -l -U gridbridge")
    completion = bare.on(
        HOST, "bash", "-c", ". /usr/share/bash-completion/completions/gridsub; complete -p gridsub"
    ).out
    wrong = bare.sh(HOST, "find /opt/gridbridge ! -user root -o -perm /022 ! -type l")
    bare.on(HOST, "tee", KEPT, stdin="[site]\ncluster = 'hub'\n")
    bare.sh(HOST, "gridbridge setup host --apply && touch /var/lib/gridbridge/state.db")

    bare.sh(HOST, "dpkg --remove gridbridge")
    removed = bare.sh(HOST, f"ls {KEPT} {EDITED} /var/lib/gridbridge/state.db; ls /usr/bin/grid* /opt/gridbridge || :")
    bare.sh(HOST, "dpkg --purge gridbridge")

    assert "Usage: gridsub" in version
    assert accounts.count("made by Debian's package gridbridge") == 2
    assert "NOPASSWD: /opt/gridbridge/bin/gridbridge-as-user" in accounts
    assert "gridsub" in completion
    assert wrong == ""
    assert removed.splitlines() == [KEPT, EDITED, "/var/lib/gridbridge/state.db"]
    assert paths(bare) - before == set()
    assert bare.on(HOST, "getent", "passwd", "gridbridge", "gridbridge-admin").out == ""


@contextmanager
def let_in(grid: Grid, account: str, home: str, far: str) -> Iterator[None]:
    """Let an account of the host log in at gamma as `far`."""
    allowed = f"/home/{far}/.ssh/authorized_keys"
    make = (
        f"mkdir -p {home}/.ssh && ssh-keygen -q -t ed25519 -N '' -f {home}/.ssh/package && cat {home}/.ssh/package.pub"
    )
    key = grid.sh(HOST, f"runuser -u {account} -- sh -c '{make.replace(chr(39), chr(34))}'")
    config = f"Host gamma-master\n  IdentityFile {home}/.ssh/package\n"
    grid.on(HOST, "runuser", "-u", account, "--", "tee", f"{home}/.ssh/config", stdin=config)
    grid.sh(FAR, f"cp -p {allowed} {allowed}.kept")
    try:
        grid.on(FAR, "tee", "-a", allowed, stdin=key)
        yield
    finally:
        grid.sh(FAR, f"mv {allowed}.kept {allowed}; rm -f /home/al_gamma/go")
        grid.sh(HOST, f"rm -f {home}/.ssh/package* {home}/.ssh/config")


@pytest.fixture
def site(bare: Grid, package: Path, tmp_path: Path) -> Iterator[Grid]:
    """Return the lab, whose host has the package, a transfer queue to gamma, and the file of a later package."""
    later = tmp_path / "later.deb"
    repack = CONTROL.format(f'"{package}"', f'"{tmp_path}/tree"', f'"{later}"')
    subprocess.run(("sh", "-c", repack), check=True, capture_output=True)
    copy(later, LATER)
    install(bare, PACKAGE)
    with ExitStack() as kept:
        bare.on(HOST, "tee", KEPT, stdin=TOML)
        bare.sh(HOST, "gridbridge setup host --apply")
        kept.enter_context(let_in(bare, "gridbridge", "/var/lib/gridbridge", "gb_gamma"))
        kept.enter_context(let_in(bare, USER, f"/home/{USER}", FAR_USER))
        bare.sh(MASTER, f"qconf -ah {HOST}")
        kept.callback(bare.sh, MASTER, f"qconf -dh {HOST}")
        bare.sh(HOST, "gridbridge setup transfer gamma --slots 4 --pending-limit 8 --apply", timeout_s=200)
        kept.callback(bare.sh, HOST, "gridbridge setup transfer gamma --remove --apply", timeout_s=200)
        yield bare
        bare.sh(HOST, "qdel -f -u '*' || :")


def submit(grid: Grid) -> str:
    words = (
        "qsub",
        "-terse",
        "-q",
        "transfer-gamma",
        "-o",
        "/dev/null",
        "-j",
        "y",
        "-b",
        "y",
        "sh",
        "-c",
        f"'{WAITS}'",
    )
    done = grid.on(HOST, *words, user=USER)
    assert done.status == 0, done
    return done.out.strip()


def starters(grid: Grid) -> list[str]:
    return grid.on(HOST, "pgrep", "-u", USER, "-f", "sge-methods/starter").out.split()


def exit_status(grid: Grid, job: str) -> str:
    rows = [line.split() for line in grid.on(HOST, "qacct", "-j", job).out.splitlines()]
    return next((row[1] for row in rows if row[:1] == ["exit_status"]), "")


@pytest.mark.long
def test_jobs_run_on_during_an_upgrade_which_keeps_changed_conffiles(site: Grid) -> None:
    site.sh(HOST, f"echo '# ours' >>{EDITED}")
    jobs = [submit(site), submit(site)]
    running = "oarstat | grep -c ' R '"
    site.until(lambda: site.on(FAR, "sh", "-c", running).out.strip() == "2", "both jobs to run at gamma", 120)
    before = starters(site)
    environment = site.sh(HOST, "readlink /opt/gridbridge/venv")
    poller = site.sh(HOST, "pgrep -u gridbridge -f transfer.poller.program").split()

    install(site, LATER)
    assert starters(site) == before
    jobs.append(submit(site))
    site.sh(FAR, "touch /home/al_gamma/go", user=FAR_USER)
    site.until(lambda: all(exit_status(site, job) for job in jobs), "the ends of all jobs", 180)

    assert [exit_status(site, job) for job in jobs] == ["7", "7", "7"]
    assert site.sh(HOST, "readlink /opt/gridbridge/venv") != environment
    assert site.sh(HOST, f"tail -n 1 {EDITED}; dpkg-query -W -f '${{Version}}' gridbridge").endswith("+later")
    assert site.sh(HOST, f"tail -n 1 {EDITED}; cat {KEPT}").startswith("# ours\n[site]")
    assert not {*poller} & {*site.sh(HOST, "pgrep -u gridbridge -f transfer.poller.program").split()}
