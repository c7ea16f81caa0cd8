"""What an embedded home is asked about jobs that no other cluster takes."""

import os
from collections.abc import Iterable

from gridbridge.batch.embedded import embedded_commands
from gridbridge.model.request import JobRequest, Variant
from gridbridge.model.route import EmbeddedFolder
from gridbridge.shell.runner import run

REFUSED = ""  # it keeps no context


def keep(
    folder: EmbeddedFolder, job: str, own: JobRequest, variants: Iterable[Variant], reason: str
) -> bool:
    """Let a job start in the cluster's own slots only; False when it has too few for it."""
    del own, variants
    argv = embedded_commands.stay(folder, job, reason)
    answer = run(argv, folder.environment(), folder.timeout_s)
    return answer.status != os.EX_DATAERR and bool(answer.checked())


def pin(folder: EmbeddedFolder, job: str, queue: str) -> None:
    """Let a job start in this queue only; without one, in those that it asked for."""
    run(embedded_commands.pin(folder, job, queue), folder.environment(), folder.timeout_s).checked()
