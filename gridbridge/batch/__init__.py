"""Batch systems: an adapter each, whose two modules are as batch/protocol.py says."""

from gridbridge.model.route import Away, Folder, Home, OarServer

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from gridbridge.batch.protocol import AtHome, Submit


def submitter(away: Away) -> "Submit[Away]":
    """Return the hot half of a cluster's adapter; no other is loaded."""
    if isinstance(away, OarServer):
        from gridbridge.batch.oar import submit as oar

        return oar  # type: ignore[return-value] # it takes no other kind, and gets none
    if isinstance(away, Folder):
        from gridbridge.batch.embedded import submit as embedded

        return embedded  # type: ignore[return-value] # as above
    from gridbridge.batch.gridengine import submit as gridengine

    return gridengine  # type: ignore[return-value] # as above


def keeper_of(home: Home) -> "AtHome[Home]":
    """Return what a starter asks of the cluster that its queue is in: of the same module."""
    return submitter(home)  # type: ignore[return-value] # of OAR, which has none, no home is
