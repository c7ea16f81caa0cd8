"""The daemons' own logs, read from the hosts' disks, even of hosts that are off."""

from collections.abc import Iterator
from pathlib import Path

from gridlab import paths
from gridlab.output import say
from gridlab.topology import CLUSTER_OF_HOST, Domain, Host

PATTERNS = (
    "var/spool/gridengine/*/qmaster/messages",
    "var/spool/gridengine/*/execd/*/messages",
    "tmp/*_messages*",  # what a daemon says before it knows its spool folder
    "var/log/**/*",
)
SHOWN_BYTES = 200_000  # of the end of each file


def show(host: Host) -> None:
    """Print every log of a host, each under a heading."""
    folder = paths.host_dir(host.name)
    for path in [folder / "console.log", *_logs(folder / "upper")]:
        _print(f"{host.name}: /{_inside(path, folder)}", path)


def show_mail(domain: Domain) -> None:
    """Print the mail of the domain's users."""
    box = paths.home(domain.name) / ".mail"
    for path in sorted(path for path in box.glob("*/*") if not path.name.startswith(".")):
        _print(f"{domain.name}: mail to {path.parent.name}, {path.name}", path)


def domain_of(host: Host) -> Domain:
    """Return the domain whose mail a host stores."""
    return CLUSTER_OF_HOST[host.name].domain


def _logs(disk: Path) -> Iterator[Path]:
    for pattern in PATTERNS:
        yield from sorted(path for path in disk.glob(pattern) if path.is_file())


def _inside(path: Path, folder: Path) -> Path:
    relative = path.relative_to(folder)
    return Path(*relative.parts[1:]) if relative.parts[0] == "upper" else relative


def _print(heading: str, path: Path) -> None:
    if not path.is_file() or path.is_symlink():
        return
    content = path.read_bytes()[-SHOWN_BYTES:]
    if content.strip():
        say(f"==> {heading} <==")
        say(content.decode(errors="replace").rstrip() + "\n")
