"""Reads what `qstat -j JOB -xml` prints, of all versions."""

from gridbridge.batch.gridengine.parse.documents import leaf_texts, read_xml, unescaped, walk
from gridbridge.errors import ParseError
from gridbridge.model.job import JobDetail

_Leafs = dict[str, list[str]]


def parse_job_detail(data: bytes) -> tuple[JobDetail, ...]:
    """Read `qstat -j JOB -xml`: one value a job found, none when the job is unknown.

    A name or pattern finds several. The names of the lists around the leafs vary by version
    and by the job's history, so only the leafs are read, in their order.
    """
    return read_xml(data, _read_details)


def parse_begun(data: bytes) -> list[int]:
    """Read the tasks of `qstat -j ARRAY -xml` that have begun; it names no others."""
    return read_xml(data, _read_begun)


def parse_judged(data: bytes) -> dict[int, tuple[str, str]]:
    """Read of `qstat -j JOB,JOB -xml` each job's group and checkpointing environment, or none."""
    return read_xml(data, _read_judged)


def _read_judged(document: bytes) -> dict[int, tuple[str, str]]:
    judgements, job = dict[int, tuple[str, str]](), 0
    for tag, text in leaf_texts(walk(document)):
        if tag == "JB_job_number":
            job = int(text)
            judgements[job] = "", ""
        elif job and tag == "JB_group":
            judgements[job] = unescaped(text), judgements[job][1]
        elif job and tag == "JB_checkpoint_name":
            judgements[job] = judgements[job][0], unescaped(text)
    return judgements


def parse_caps(data: bytes) -> dict[int, int]:
    """Read of `qstat -j JOB,JOB -xml` how many tasks of each array may run at once (qsub(1) -tc).

    Jobs that may run any number are left out.
    """
    return read_xml(data, _read_caps)


def _read_details(document: bytes) -> tuple[JobDetail, ...]:
    """Begin a new job at each JB_job_number: that leaf comes first in every version."""
    jobs: list[_Leafs] = []
    walked = walk(document)
    for tag, text in leaf_texts(walked):
        if tag == "JB_job_number":
            jobs.append({})
        if jobs:
            jobs[-1].setdefault(tag, []).append(unescaped(text))
    if not jobs and walked.root.tag != "unknown_jobs":
        raise ParseError(f"qstat: no job in <{walked.root.tag}>")
    messages = jobs[-1].get("MES_message", []) if jobs else []  # printed once, after all jobs
    return tuple(_detail(job, messages) for job in jobs)


def _read_begun(document: bytes) -> list[int]:
    return [int(text) for tag, text in leaf_texts(walk(document)) if tag == "JAT_task_number"]


def _read_caps(document: bytes) -> dict[int, int]:
    caps, job = dict[int, int](), 0
    for tag, text in leaf_texts(walk(document)):
        if tag == "JB_job_number":
            job = int(text)
        elif tag == "JB_ja_task_concurrency" and int(text) > 0:
            caps[job] = int(text)
    return caps


def _detail(leafs: _Leafs, messages: list[str]) -> JobDetail:
    first = {tag: texts[0] for tag, texts in leafs.items()}
    return JobDetail(
        job_id=int(first["JB_job_number"]),
        name=first["JB_job_name"],
        owner=first["JB_owner"],
        account=first.get("JB_account", ""),
        begun=tuple(map(int, leafs.get("JAT_task_number", ()))),
        errors=tuple(leafs.get("QIM_message", ())),
        messages=tuple(messages),
    )
