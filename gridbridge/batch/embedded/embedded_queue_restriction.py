"""Controls in which queues of an embedded home cluster a job may start."""

import os
from collections.abc import Iterable

from gridbridge.batch.embedded import embedded_commands
from gridbridge.model.job_request import JobRequest, Variant
from gridbridge.model.transfer_route import EmbeddedClusterAccess
from gridbridge.shell.runner import run_program

REFUSED = ""  # embedded jobs have no context


def keep_refused_job_home(
    folder: EmbeddedClusterAccess, job: str, own: JobRequest, variants: Iterable[Variant], reason: str
) -> bool:
    """Restrict a job to the cluster's own slots; False if the cluster has too few."""
    del own, variants
    argv = embedded_commands.keep_on_own_slots_command(folder, job, reason)
    answer = run_program(argv, folder.environment(), folder.timeout_s)
    return answer.status != os.EX_DATAERR and bool(answer.checked())


def pin_job_to_queue(folder: EmbeddedClusterAccess, job: str, queue: str) -> None:
    """Restrict a job to one queue; an empty queue lifts the restriction."""
    run_program(
        embedded_commands.pin_to_queue_command(folder, job, queue), folder.environment(), folder.timeout_s
    ).checked()
