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

import ipaddress
import os
import re
import socket
import sys
from functools import partial

from gridbridge.batch.oar import oar_node_power_and_tags
from gridbridge.config import configuration_file
from gridbridge.errors import ConfigError, GridbridgeError, describe_error
from gridbridge.model.fixed_paths import CONFIG
from gridbridge.privileged import hosts_file_block
from gridbridge.privileged.hosts_file_block import AsRootRequestRefusal, HostsFile
from gridbridge.shell import program_startup, safe_files
from gridbridge.shell.program_runs import run_program

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]*[A-Za-z0-9])*")
LIMIT_S = 50.0
USAGE = "usage: gridbridge-as-root name HOST ADDRESS | unname|export|unexport HOST | node VERB HOST [TAGS]"
ENV = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
HOSTS_FILE = HostsFile()
NO_SUCH_NAME = (socket.EAI_NONAME, socket.EAI_NODATA)  # errors for a name that does not exist (getaddrinfo(3))


class NameLookupFailure(GridbridgeError):
    """Raised if a name service gives no answer; the request had no effect."""


def main() -> None:
    """Carry out the request in the command line; print an error in one line on standard error."""
    program_startup.print_help_or_version_if_asked(__doc__, program_startup.version_with_commit)
    os.umask(0o022)
    os.chdir("/")
    # sudo passes on the caller's limits, and at some sites variables that change name lookups (HOSTALIASES)
    os.environ.clear()
    program_startup.raise_resource_limits()
    try:
        perform_as_root_request(tuple(sys.argv[1:]))
    except (GridbridgeError, OSError) as error:
        os.write(2, f"gridbridge-as-root: {describe_error(error).splitlines()[0]}\n".encode())
        sys.exit(2 if isinstance(error, AsRootRequestRefusal | ConfigError) else 1)


def perform_as_root_request(words: tuple[str, ...], hosts: HostsFile = HOSTS_FILE, path: str = CONFIG) -> None:
    """Check all words of a request to gridbridge-as-root, then carry out the request."""
    match words:
        case ("name", name, text):
            host, address = _checked_host_name(name), _checked_ip_address(text)
            leads = set[str]() if _is_name_of_balancer_node(host, path) else _look_up_host_addresses(host)
            hosts_file_block.replace_hosts_block_locked(
                hosts, partial(hosts_file_block.hosts_block_with_name, host, address, leads)
            )
        case ("unname", name):
            host = _checked_host_name(name)
            hosts_file_block.replace_hosts_block_locked(
                hosts, lambda _, block: [line for line in block if line.split()[1:] != [host]]
            )
        case ("export" | "unexport" as verb, name):
            host = _checked_host_name(name)
            program: str = getattr(configuration_file.load_configuration(path).bootstrap, verb)
            if program:
                safe_files.require_trusted_path(program, owner=os.geteuid())
                run_program((program, host), dict(ENV), LIMIT_S).require_success()
        case ("node", *node_words):
            set_or_tag_oar_node_as_root(tuple(node_words))
        case _:
            raise AsRootRequestRefusal(USAGE)


def set_or_tag_oar_node_as_root(words: tuple[str, ...], conf: str = "/etc/oar/oar.conf") -> None:
    """Change or tag an OAR node; raise AsRootRequestRefusal if OAR itself halts and wakes nodes."""
    if words[:1] in (("owns",), ("drain",), ("halt",)):
        with open(conf, encoding="utf-8", errors="replace") as file:
            line = oar_node_power_and_tags.find_oar_energy_saving_setting(file.read())
        if line:
            raise AsRootRequestRefusal(f"{conf} has {line[:80]!r}: OAR itself halts and wakes nodes")
    if words == ("owns",):
        return
    commands = oar_node_power_and_tags.oar_node_root_commands(words)
    if not commands:
        raise AsRootRequestRefusal(USAGE)
    _checked_host_name(words[1])
    if not oar_node_power_and_tags.TAG_WORDS.fullmatch("".join(words[2:])):
        raise AsRootRequestRefusal(f"{words[2][:80]!r} are invalid tags; expected letters, digits and :._+-")
    for argv in commands:
        run_program(argv, dict(ENV), LIMIT_S).require_success()


def _checked_host_name(text: str) -> str:
    if not HOST.fullmatch(text) or len(text) > 253 or text.lower() == "localhost":
        raise AsRootRequestRefusal(f"{text[:80]!r} is not a host name; expected letters, digits, - and .")
    return text


def _checked_ip_address(text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise AsRootRequestRefusal(f"{text[:80]!r} is not an IP address") from error
    if "%" in text:  # an IPv6 address may have any text after %
        raise AsRootRequestRefusal(f"{text[:80]!r} is a link-local address; expected an address without %")
    plain = getattr(address, "ipv4_mapped", None) or address
    if plain.is_loopback or plain.is_unspecified or plain.is_multicast:
        raise AsRootRequestRefusal(f"{address}: loopback, unspecified or multicast; expected the address of a node")
    return str(address)


def _is_name_of_balancer_node(host: str, path: str) -> bool:
    try:
        policy = configuration_file.load_configuration(path)
    except ConfigError:
        return False
    prefix = policy.balance.node_name_prefix(policy.site.cluster)
    return host.startswith(prefix) and host.removeprefix(prefix).isdigit()


def _look_up_host_addresses(host: str) -> set[str]:
    """Return all addresses of a host name; empty if the name does not exist.

    Raises NameLookupFailure if no name service answers: the name may exist, and the caller can block a name service.
    """
    addresses = set[str]()
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            addresses |= {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, family)}
        except OSError as error:
            if not (isinstance(error, socket.gaierror) and error.errno in NO_SUCH_NAME):
                why = f"{host}: no name service says whether another machine has that name"
                raise NameLookupFailure(f"{why} ({error.strerror or error}); expected an answer, try again") from error
    return addresses
