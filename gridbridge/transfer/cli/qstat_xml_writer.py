"""Writes open transfers as XML with the elements of `qstat -xml`; values that the service does not know are missing."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from xml.etree import ElementTree as ET

from gridbridge.model.published_status_and_reports import TransferAndAwaitedEvent, TransferQueueReport
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.transfer.cli.qstat_remote import is_pending

SCHEMA = {"xmlns:xsd": "http://www.w3.org/2001/XMLSchema"}


def transfers_as_qstat_xml(reports: Iterable[TransferAndAwaitedEvent], queues: Sequence[TransferQueueReport]) -> str:
    """Return the XML of `qstat -xml`; with queues, of `qstat -f -xml`, which lists running jobs below their queue."""
    root = ET.Element("job_info", SCHEMA)
    running = ET.SubElement(root, "queue_info")
    pending = ET.SubElement(root, "job_info")
    below = {queue.queue: _add_queue(running, queue) for queue in queues}
    for report in reports:
        is_waiting = is_pending(report.transfer)
        _add_job(pending if is_waiting else below.get(report.transfer.queue, running), report, is_waiting=is_waiting)
    ET.indent(root)
    return f"<?xml version='1.0'?>\n{ET.tostring(root, encoding='unicode')}"


def _add_queue(parent: ET.Element, queue: TransferQueueReport) -> ET.Element:
    element = ET.SubElement(parent, "Queue-List")
    _add_texts(element, {"name": queue.queue, "slots_used": queue.used, "slots_total": queue.total})
    _add_texts(element, {"cluster": queue.cluster, "closed_because": queue.why})
    return element


def _add_job(parent: ET.Element, report: TransferAndAwaitedEvent, *, is_waiting: bool) -> None:
    transfer = report.transfer
    name = parse_transfer_name(transfer.transfer)
    element = ET.SubElement(parent, "job_list", state="pending" if is_waiting else "running")
    texts: dict[str, str | int | datetime | None] = {
        "JB_job_number": name.job,
        "JB_name": transfer.name,
        "JB_owner": transfer.owner,
    }
    texts |= {"state": transfer.remote_state, "JB_submission_time" if is_waiting else "JAT_start_time": transfer.since}
    texts |= {"queue_name": transfer.queue, "tasks": name.task or None}
    texts |= {"cluster": transfer.remote, "remote_job_number": transfer.remote_id, "remote_host": transfer.remote_host}
    _add_texts(element, texts | {"home_state": transfer.local_state, "waits_for": report.waits_for})


def _add_texts(parent: ET.Element, texts: dict[str, str | int | datetime | None]) -> None:
    for name, value in texts.items():
        if value not in (None, ""):
            text = f"{value.astimezone():%Y-%m-%dT%H:%M:%S}" if isinstance(value, datetime) else str(value)
            ET.SubElement(parent, name).text = text
