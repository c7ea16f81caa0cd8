"""Grants: files of the service's own account at a remote cluster, created by ssh."""

from gridbridge.batch.wrapper_claim import GRANTS
from gridbridge.errors import ParseError
from gridbridge.model.route import BARE, Away
from gridbridge.shell import ssh

# Jobs of other users must see a grant. A waiting job can't tell a hidden grant from a missing one.
GIVE = f"""umask 022
mkdir -p {GRANTS} && chmod a+x .gridbridge && chmod a+rx {GRANTS} || exit
case $(ls -ld .) in
    ?????????[xt]*) ;;
    *) echo "$PWD has to let jobs pass to {GRANTS}: chmod a+x" >&2; exit 1 ;;
esac
for name; do true >"{GRANTS}/$name" || exit; done"""
REMOVE = f'rm -f -- "{GRANTS}/$1"'


def create_remote_grants(remote: Away, names: tuple[str, ...]) -> None:
    """Create grant files at a remote cluster; CommandFailed unless all files exist."""
    _ask(remote, GIVE, names)


def remove_remote_grant(remote: Away, name: str) -> None:
    """Remove a grant file at a remote cluster; safe to repeat."""
    _ask(remote, REMOVE, (name,))


def _ask(remote: Away, script: str, names: tuple[str, ...]) -> None:
    if not all(name.isascii() and name.replace(".", "0").isalnum() for name in names):
        raise ParseError(f"{names!r}: expected names of grants")
    argv = ("/bin/sh", "-c", script, "sh", *names)
    ssh.run_over_ssh(remote.login, argv, dict(BARE), remote.timeout_s).checked()
