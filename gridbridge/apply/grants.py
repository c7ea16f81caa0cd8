"""Grants at the far end of ssh: files that only the service's own account there can make."""

from gridbridge.batch.claim import GRANTS
from gridbridge.errors import ParseError
from gridbridge.model.route import BARE, Away
from gridbridge.shell import ssh

# Jobs of others have to see them; whether they do is not found out by a job that waits.
GIVE = f"""umask 022
mkdir -p {GRANTS} && chmod a+x .gridbridge && chmod a+rx {GRANTS} || exit
case $(ls -ld .) in
    ?????????[xt]*) ;;
    *) echo "$PWD has to let jobs pass to {GRANTS}: chmod a+x" >&2; exit 1 ;;
esac
for token; do true >"{GRANTS}/$token" || exit; done"""
REMOVE = f'rm -f -- "{GRANTS}/$1"'


def give(away: Away, tokens: tuple[str, ...]) -> None:
    """Make grants; CommandFailed when it is not known that each is there."""
    _ask(away, GIVE, tokens)


def remove(away: Away, token: str) -> None:
    """Remove a grant; one that is not there is removed."""
    _ask(away, REMOVE, (token,))


def _ask(away: Away, script: str, tokens: tuple[str, ...]) -> None:
    if not all(token.isascii() and token.isalnum() for token in tokens):
        raise ParseError(f"{tokens!r}: not all of them are grants")
    argv = ("/bin/sh", "-c", script, "sh", *tokens)
    ssh.run(away.login, argv, dict(BARE), away.timeout_s).checked()
