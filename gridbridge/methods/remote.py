"""The remote job of a record, whose id its starter may not have lived to note."""

from gridbridge.batch import submitter
from gridbridge.methods.task import me
from gridbridge.model.message import Kind, Message
from gridbridge.model.route import Away


def find(away: Away, record: Message) -> str:
    """Return our remote job that an earlier step submitted and did not note."""
    owner = away.login.user if away.login else me()
    return submitter(away).find_held(away, record.transfer, owner)


def delete_remote(away: Away, record: Message) -> None:
    """Delete the remote job of a record if the other cluster can be asked just now."""
    if record.kind == Kind.RECORD and (remote_id := record.remote_id or find(away, record)):
        submitter(away).delete(away, remote_id)
