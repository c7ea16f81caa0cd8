"""Batch systems, with an adapter each. Hot programs load here only the adapter that they need.

The rest of an adapter is in batch/adapters, where mypy checks it against batch/protocol.py.
"""

from gridbridge.model.route import EMBEDDED, GRIDENGINE, OAR, Away, Home

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from types import ModuleType

    from gridbridge.batch.protocol import AtHome, MarksRefused, RecallsJobs, Submit, SubmitsArrays


def submitter(cluster: Away) -> "Submit[Away]":
    """Return the hot half of a cluster's adapter."""
    return HOT[cluster.kind]()


def arrays_of(cluster: Away) -> "SubmitsArrays[Away]":
    """Return what submits arrays, found by its name."""
    return HOT[cluster.kind]()


def keeper_of(home: Home) -> "AtHome[Home]":
    """Return what a starter asks of the cluster that its queue is in; OAR can't be that."""
    return HOT[home.kind]()


def marker_of(home: Home) -> "MarksRefused[Home]":
    """Return the module that marks a job which no other cluster takes."""
    return MARKERS[home.kind]()


def recaller_of(cluster: Away) -> "RecallsJobs[Away] | None":
    """Return the module that recalls a waiting job from a cluster; None where it can't be."""
    return RECALLERS[cluster.kind]() if cluster.kind in RECALLERS else None


def _gridengine() -> "ModuleType":
    from gridbridge.batch.gridengine import submit

    return submit


def _oar() -> "ModuleType":
    from gridbridge.batch.oar import submit

    return submit


def _embedded() -> "ModuleType":
    from gridbridge.batch.embedded import submit

    return submit


def _gridengine_home() -> "ModuleType":
    from gridbridge.batch.gridengine import home_queues as home

    return home


def _embedded_home() -> "ModuleType":
    from gridbridge.batch.embedded import embedded_home as home

    return home


HOT = {GRIDENGINE: _gridengine, OAR: _oar, EMBEDDED: _embedded}
RECALLERS = {GRIDENGINE: _gridengine}  # kinds whose deletion tells whether a job waited
MARKERS = {GRIDENGINE: _gridengine_home, EMBEDDED: _embedded_home}
