"""An end means the same whatever batch system tells it, and in whatever order."""

import pytest

from gridbridge.decisions.campaigns.ending.outcomes import outcome_of, outcome_of_wiped
from gridbridge.model.campaigns.campaign import Outcome
from gridbridge.model.campaigns.wiping import WipedFor
from gridbridge.model.job import JobEnd, KilledFor

WALLTIME_S = 60


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (JobEnd(exit_status=0), Outcome.SUCCESS),
        (JobEnd(exit_status=3), Outcome.PROGRAM_ERROR),
        (JobEnd(exit_status=66), Outcome.RESUBMIT),
        (JobEnd(exit_status=67), Outcome.RESUBMIT_LAST),
        (JobEnd(exit_status=199), Outcome.PROGRAM_ERROR),
        (JobEnd(signal=63), Outcome.PROGRAM_ERROR),
        (JobEnd(exit_status=200, reason="WORKING_DIRECTORY: no"), Outcome.SETUP_ERROR),
        (JobEnd(signal=11), Outcome.SIGNAL),
        (JobEnd(signal=55), Outcome.PREEMPTED),
        (JobEnd(signal=56, wallclock_s=61), Outcome.PREEMPTED),
        (JobEnd(signal=57), Outcome.SETUP_ERROR),
        (JobEnd(signal=9, wallclock_s=61), Outcome.WALLTIME),
        (JobEnd(signal=9, wallclock_s=59), Outcome.SIGNAL),
        (JobEnd(signal=9, killed_for=KilledFor.WALLTIME), Outcome.WALLTIME),
        (JobEnd(signal=9, killed_for=KilledFor.DELETION), Outcome.CANCELLED),
        (JobEnd(signal=9, killed_for=KilledFor.PLACE), Outcome.PREEMPTED),
        (JobEnd(is_preempted=True), Outcome.PREEMPTED),
        (JobEnd(reason="failed 100"), Outcome.SITE_FAULT),
    ],
)
def test_an_end_has_one_meaning(end: JobEnd, outcome: Outcome) -> None:
    """What the cluster did comes before what the program said."""
    assert outcome_of(end, WALLTIME_S) is outcome


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (JobEnd(exit_status=0), Outcome.SUCCESS),
        (JobEnd(exit_status=3), Outcome.PROGRAM_ERROR),
        (JobEnd(exit_status=66), Outcome.UNWANTED),
        (JobEnd(signal=9, killed_for=KilledFor.DELETION), Outcome.UNWANTED),
        (JobEnd(is_preempted=True), Outcome.UNWANTED),
        (JobEnd(reason="failed 100"), Outcome.UNWANTED),
    ],
)
def test_a_task_that_its_owner_cancelled_is_never_run_again(end: JobEnd, outcome: Outcome) -> None:
    """It may have ended by itself before it was deleted."""
    found = outcome_of(end, WALLTIME_S)

    assert outcome_of_wiped(end, found, WipedFor.UNWANTED) is outcome
