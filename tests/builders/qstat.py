"""Job lists as qstat prints them in XML, with the elements that a test needs."""

from collections.abc import Iterable, Mapping


def job_row(number: object, state: str = "qw", *more: str, kind: str = "pending", **elements: object) -> str:
    """Return a job; `elements` replace or follow the usual ones, and `more` is other XML."""
    usual = {"JB_job_number": number, "JB_name": "a", "state": state, "slots": 1}
    return f'<job_list state="{kind}">{_elements(usual | elements)}{"".join(more)}</job_list>'


def queue_row(name: str, used: int, total: int, *more: str, state: str = "") -> str:
    """Return a queue instance; `more` is the XML of its jobs and resources."""
    slots = {"slots_used": used, "slots_resv": 0, "slots_total": total}
    return f"<Queue-List>{_elements({'name': name, 'qtype': 'B', **slots, 'state': state})}{''.join(more)}</Queue-List>"


def resource(name: str, value: object, kind: str = "qf") -> str:
    return f'<resource name="{name}" type="{kind}">{value}</resource>'


def job_list(*waiting: str, queues: Iterable[str] = ()) -> bytes:
    """Return a document of waiting jobs, and of queue instances with their running jobs."""
    parts = f"<queue_info>{''.join(queues)}</queue_info><job_info>{''.join(waiting)}</job_info>"
    return f"<job_info>{parts}</job_info>".encode()


def _elements(values: Mapping[str, object]) -> str:
    return "".join(f"<{name}>{value}</{name}>" for name, value in values.items())
