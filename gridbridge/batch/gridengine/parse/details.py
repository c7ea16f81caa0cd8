"""Parses the output of `qstat -j JOB -xml` in all versions."""

from gridbridge.batch.gridengine.parse.documents import (
    iterate_leaf_texts,
    iterate_xml_elements,
    parse_repaired_xml,
    unescape_less_than,
)
from gridbridge.errors import ParseError
from gridbridge.model.job import JobAccountAndErrors

_Leafs = dict[str, list[str]]


def parse_job_detail(data: bytes) -> tuple[JobAccountAndErrors, ...]:
    """Parse `qstat -j JOB -xml`: one value for each job found, none if the job is unknown.

    A name or pattern finds several jobs. The names of the enclosing lists vary by version and by
    the job's history, so only the elements without children are read, in their order.
    """
    return parse_repaired_xml(data, _read_details)


def parse_begun_tasks(data: bytes) -> list[int]:
    """Parse the begun tasks of `qstat -j ARRAY -xml`, which names no others."""
    return parse_repaired_xml(data, _read_begun)


def parse_unix_groups_and_ckpts(data: bytes) -> dict[int, tuple[str, str]]:
    """Parse each job's group and checkpointing environment from `qstat -j JOB,JOB -xml`."""
    return parse_repaired_xml(data, _read_judged)


def _read_judged(document: bytes) -> dict[int, tuple[str, str]]:
    judgements, job = dict[int, tuple[str, str]](), 0
    for tag, text in iterate_leaf_texts(iterate_xml_elements(document)):
        if tag == "JB_job_number":
            job = int(text)
            judgements[job] = "", ""
        elif job and tag == "JB_group":
            judgements[job] = unescape_less_than(text), judgements[job][1]
        elif job and tag == "JB_checkpoint_name":
            judgements[job] = judgements[job][0], unescape_less_than(text)
    return judgements


def parse_array_concurrency_limits(data: bytes) -> dict[int, int]:
    """Parse how many tasks of each array may run at once, from `qstat -j -xml` (qsub(1) -tc).

    Jobs without such a limit are left out.
    """
    return parse_repaired_xml(data, _read_caps)


def _read_details(document: bytes) -> tuple[JobAccountAndErrors, ...]:
    """Start a new job at each JB_job_number, the first element of a job in every version."""
    jobs: list[_Leafs] = []
    walked = iterate_xml_elements(document)
    for tag, text in iterate_leaf_texts(walked):
        if tag == "JB_job_number":
            jobs.append({})
        if jobs:
            jobs[-1].setdefault(tag, []).append(unescape_less_than(text))
    if not jobs and walked.root.tag != "unknown_jobs":
        raise ParseError(f"qstat: no job in <{walked.root.tag}>")
    messages = jobs[-1].get("MES_message", []) if jobs else []  # printed once, after all jobs
    return tuple(_detail(job, messages) for job in jobs)


def _read_begun(document: bytes) -> list[int]:
    return [int(text) for tag, text in iterate_leaf_texts(iterate_xml_elements(document)) if tag == "JAT_task_number"]


def _read_caps(document: bytes) -> dict[int, int]:
    caps, job = dict[int, int](), 0
    for tag, text in iterate_leaf_texts(iterate_xml_elements(document)):
        if tag == "JB_job_number":
            job = int(text)
        elif tag == "JB_ja_task_concurrency" and int(text) > 0:
            caps[job] = int(text)
    return caps


def _detail(leafs: _Leafs, messages: list[str]) -> JobAccountAndErrors:
    first = {tag: texts[0] for tag, texts in leafs.items()}
    return JobAccountAndErrors(
        job_id=int(first["JB_job_number"]),
        name=first["JB_job_name"],
        owner=first["JB_owner"],
        account=first.get("JB_account", ""),
        begun=tuple(map(int, leafs.get("JAT_task_number", ()))),
        errors=tuple(leafs.get("QIM_message", ())),
        messages=tuple(messages),
    )
