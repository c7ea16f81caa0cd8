"""gridbridge-as-root VERB ...: one of the few acts on the master that only root may do.

The account gridbridge-admin runs this program as root through sudo. All arguments are names and
addresses, never commands or paths. Exit status: 0 done, 1 failed, 2 refused.

  name HOST ADDRESS   map HOST to ADDRESS in gridbridge's block of /etc/hosts
  unname HOST         remove HOST from that block
  export HOST         run the program in key `export` of [bootstrap] in root's gridbridge.toml
  unexport HOST       run the program in key `unexport` of [bootstrap]; without a program do nothing
  node drain HOST     on an OAR server: start no more jobs on a node
  node settle HOST    request the state Alive again, for a node that is Alive
  node halt HOST      mark a node as halted and wakeable
  node undrain HOST   start jobs on a drained node again
  node open HOST      start jobs on a halted node again
  node tag HOST [TAGS]  set a node's tags in OAR
  node owns           exit with 0 if OAR's own energy saving, which also halts nodes, is off

Example: sudo -n /opt/gridbridge/bin/gridbridge-as-root name alpha-n7 10.77.0.13
"""

import fcntl
import ipaddress
import os
import re
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

from gridbridge.config import configuration_file
from gridbridge.elastic import oar_nodes
from gridbridge.errors import ConfigError, GridbridgeError, describe_error
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.shell import program_startup, safe_files
from gridbridge.shell.program_runs import run_program
from gridbridge.shell.program_startup import version_with_commit

HOSTS = "/etc/hosts"
LOCK = "/run/gridbridge-as-root.hosts"
BEGIN, END = "# gridbridge: nodes that come and go", "# gridbridge: end"
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]*[A-Za-z0-9])*")
HOST_MAX = 253
LIMIT_S = 50.0
OAR_CONF = "/etc/oar/oar.conf"
OFF = (("drain",), ("halt",))  # requests that conflict with OAR's energy saving
USAGE = "usage: gridbridge-as-root name HOST ADDRESS | unname|export|unexport HOST | node VERB HOST [TAGS]"
ENV = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
FAILED, REFUSED = 1, 2
FAMILIES = (socket.AF_INET, socket.AF_INET6)  # address families, queried one after the other
NO_SUCH_NAME = (socket.EAI_NONAME, socket.EAI_NODATA)  # errors for a name that does not exist (getaddrinfo(3))


class NameLookupFailure(GridbridgeError):
    """Raised when a name service gives no answer; nothing was done."""


class AsRootRequestRefusal(GridbridgeError):
    """Raised for a request that gridbridge-as-root refuses to every caller."""


def main() -> None:
    """Carry out the request in the command line; print an error in one line on standard error."""
    program_startup.print_help_or_version_if_asked(__doc__, version_with_commit)
    os.umask(0o022)
    os.chdir("/")
    clear_caller_environment()
    try:
        perform_as_root_request(tuple(sys.argv[1:]))
    except (GridbridgeError, OSError) as error:
        os.write(2, f"gridbridge-as-root: {describe_error(error).splitlines()[0]}\n".encode())
        sys.exit(REFUSED if isinstance(error, AsRootRequestRefusal | ConfigError) else FAILED)


def clear_caller_environment() -> None:
    """Drop the caller's resource limits and environment variables, which could change name lookups.

    sudo passes on limits, and at some sites variables such as HOSTALIASES (resolver(3)).
    """
    os.environ.clear()
    program_startup.raise_resource_limits()


def perform_as_root_request(words: tuple[str, ...], hosts: str = HOSTS, path: str = CONFIG) -> None:
    """Check all words of a request to gridbridge-as-root, then carry out the request."""
    verb, names = words[:1], words[1:]
    if verb == ("name",) and len(names) == 2:
        host, address = _host(names[0]), _address(names[1])
        leads = frozenset[str]() if _is_nodes(host, path) else _leads_to(host)
        replace_file_locked(hosts, lambda text: add_name_to_hosts_file(text, host, address, leads))
    elif verb == ("unname",) and len(names) == 1:
        replace_file_locked(hosts, lambda text: remove_name_from_hosts_file(text, _host(names[0])))
    elif verb in (("export",), ("unexport",)) and len(names) == 1:
        run_site_export_program(verb[0], _host(names[0]), path)
    elif verb == ("node",):
        set_or_tag_oar_node_as_root(names)
    else:
        raise AsRootRequestRefusal(USAGE)


def set_or_tag_oar_node_as_root(words: tuple[str, ...], conf: str = OAR_CONF) -> None:
    """Change or tag an OAR node; raise AsRootRequestRefusal if OAR itself halts and wakes nodes."""
    if words[:1] in (("owns",), *OFF):
        _require_ours(conf)
    if words == ("owns",):
        return
    commands = oar_nodes.oar_node_root_commands(words)
    if not commands:
        raise AsRootRequestRefusal(USAGE)
    _host(words[1])
    if not oar_nodes.are_valid_oar_tags("".join(words[2:])):
        raise AsRootRequestRefusal(f"{words[2][:80]!r} are invalid tags; expected letters, digits and :._+-")
    for argv in commands:
        run_program(argv, dict(ENV), LIMIT_S).checked()


def _require_ours(conf: str) -> None:
    with open(conf, encoding="utf-8", errors="replace") as file:
        line = oar_nodes.find_oar_energy_saving_line(file.read())
    if line:
        raise AsRootRequestRefusal(f"{conf} has {line[:80]!r}: OAR itself halts and wakes nodes")


def _host(text: str) -> str:
    if not HOST.fullmatch(text) or len(text) > HOST_MAX or text.lower() == "localhost":
        raise AsRootRequestRefusal(f"{text[:80]!r} is not a host name; expected letters, digits, - and .")
    return text


def _address(text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise AsRootRequestRefusal(f"{text[:80]!r} is not an IP address") from error
    if "%" in text:  # behind %, an IPv6 address may contain any text
        raise AsRootRequestRefusal(f"{text[:80]!r} is a link-local address; expected an address without %")
    plain = getattr(address, "ipv4_mapped", None) or address
    if plain.is_loopback or plain.is_unspecified or plain.is_multicast:
        raise AsRootRequestRefusal(f"{address} is not an address for a node")
    return str(address)


def _is_nodes(host: str, path: str) -> bool:
    try:
        policy = configuration_file.load_configuration(path)
    except ConfigError:
        return False
    prefix = policy.balance.prefix_at(policy.site.cluster)
    return host.startswith(prefix) and host.removeprefix(prefix).isdigit()


def _leads_to(host: str) -> frozenset[str]:
    """Return all addresses of a host name; empty if the name does not exist.

    Raises NameLookupFailure if a name service gives no answer, because the caller may block a name service, for
    instance by holding all ports.
    """
    return frozenset(address for family in FAMILIES for address in _addresses(host, family))


def _addresses(host: str, family: socket.AddressFamily) -> set[str]:
    try:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, family)}
    except OSError as error:
        if isinstance(error, socket.gaierror) and error.errno in NO_SUCH_NAME:
            return set()
        why = f"{host}: no name service says whether another machine has that name"
        raise NameLookupFailure(f"{why} ({error.strerror or error}); expected an answer, try again") from error


def add_name_to_hosts_file(text: str, host: str, address: str, leads: frozenset[str] = frozenset()) -> str:
    """Return the text of a hosts file with a name added to gridbridge's block.

    Raises AsRootRequestRefusal if a line outside the block has the name or the address, or if the name has another
    address and so belongs to another machine: a qmaster rejects a host whose address has another name. Host names
    ignore case (hosts(5)).
    """
    before, ours, after = split_hosts_file(text)
    for line in before + after:
        if {host.lower(), address} & set(line.partition("#")[0].lower().split()):
            raise AsRootRequestRefusal(f"{HOSTS} has {line[:80]!r} outside gridbridge's block: {host} is not added")
    if leads - {address} and not any(host in line.split() for line in ours):
        raise AsRootRequestRefusal(f"{host} already has the address {min(leads)[:80]}: no address is added")
    remaining = [line for line in ours if not {host, address} & set(line.split())]
    return join_hosts_file(before, [*remaining, f"{address} {host}"], after)


def remove_name_from_hosts_file(text: str, host: str) -> str:
    """Return the text of a hosts file without a name in gridbridge's block."""
    before, ours, after = split_hosts_file(text)
    return join_hosts_file(before, [line for line in ours if line.split()[1:] != [host]], after)


def split_hosts_file(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return the lines of a hosts file before, in and after gridbridge's block.

    Raises AsRootRequestRefusal if the first or last line of the block is missing.
    """
    lines = text.removesuffix("\n").split("\n") if text else []  # splitlines() would split at form feeds
    if lines.count(BEGIN) != lines.count(END) or lines.count(BEGIN) > 1:
        raise AsRootRequestRefusal(f"{HOSTS}: incomplete block; expected both lines {BEGIN!r} and {END!r}")
    if BEGIN not in lines:
        return lines, [], []
    first, last = lines.index(BEGIN), lines.index(END)
    if last < first:
        raise AsRootRequestRefusal(f"{HOSTS}: {END!r} comes before {BEGIN!r}")
    return lines[:first], lines[first + 1 : last], lines[last + 1 :]


def join_hosts_file(before: list[str], ours: list[str], after: list[str]) -> str:
    """Return the text of a hosts file; an empty block is left out."""
    block = [BEGIN, *ours, END] if ours else []
    return "".join(f"{line}\n" for line in (*before, *block, *after))


def replace_file_locked(path: str, edit: Callable[[str], str], lock: str = LOCK) -> None:
    """Replace a file atomically by the result of `edit`, under a lock.

    Only root may open the lock file, because any reader could lock it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(lock, flags, 0o600), "wb") as held:
        os.fchmod(held.fileno(), 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            before = file.read()
        after = edit(before)
        if after != before:
            _replace(path, after)


def _replace(path: str, text: str) -> None:
    new = f"{path}.gridbridge"
    with suppress(FileNotFoundError):
        os.unlink(new)
    end = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with open(end, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def run_site_export_program(verb: str, host: str, path: str) -> None:
    """Run the site's program for a verb, if root's configuration names a program."""
    settings = configuration_file.load_configuration(path).bootstrap
    programs: Mapping[str, str] = {"export": settings.export, "unexport": settings.unexport}
    if programs[verb]:
        safe_files.require_trusted_path(programs[verb], owner=os.geteuid())
        run_program((programs[verb], host), dict(ENV), LIMIT_S).checked()
