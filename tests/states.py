"""States in tests, written in the letters of qstat(1); empty for an unlisted job or an open queue."""

from collections.abc import Mapping

from gridbridge.batch.qstat_state_letters import parse_job_state_letters, parse_queue_state_letters
from gridbridge.model.job_and_queue_states import UNSEEN, JobState, QueueInstanceState


def job_state(letters: str) -> JobState:
    return parse_job_state_letters(letters) if letters else UNSEEN


def queue_state(letters: str) -> QueueInstanceState:
    return parse_queue_state_letters(letters)


def read_states(values: Mapping[str, object]) -> dict[str, object]:
    told = {name: values[name] for name in ("local_state", "remote_state") if name in values}
    read = {name: job_state(one) for name, one in told.items() if isinstance(one, str)}
    return {**values, **read}
