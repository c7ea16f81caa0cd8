"""Parses a job's request and environment without lxml and re, because each starter imports it.

In `qstat -j N -xml` of 8.1.9, lists lose inner tags after a qalter, and `<` is `%lt;` (tests/golden).
Only execd's file active_jobs/N.T/environment has values over 10 kB.
"""

from gridbridge.errors import ParseError
from gridbridge.model.job_request import JobRequest, Pairs
from gridbridge.model.transfer_name import parse_qstat_task_ranges

AUTOMATIC = b"__SGE_PREFIX__"  # prefix of variables that qsub adds to a job
PRIORITY_ZERO = 1024  # value of JB_priority for `qsub -p 0`
INTERACTIVE = 0x1E  # bits of JB_type that are set for jobs of qsh, qlogin and qrsh (sge_job.h)
ARRAY = 0x80  # bit of JB_type that is set for jobs of `qsub -t`
RERUN = {b"1": "yes", b"2": "no"}  # {JB_restart: value of `qsub -r`}; 0: the queue's setting `rerun` counts
_ESCAPES = ((b"%lt;", b"<"), (b"&lt;", b"<"), (b"&gt;", b">"), (b"&quot;", b'"'), (b"&apos;", b"'"))


def parse_job_request(xml: bytes) -> JobRequest:
    """Parse a job's request from `qstat -j -xml`; raise ParseError if the output has no job."""
    if b"<JB_job_number>" not in xml:
        raise ParseError("qstat -j: the job does not exist, or qstat did not answer")
    return JobRequest(
        owner=_element_text(xml, b"JB_owner"),
        hard=_parse_resource_list(xml, b"JB_hard_resource_list"),
        soft=_parse_resource_list(xml, b"JB_soft_resource_list"),
        context=_name_value_pairs_in_xml(_element_content(xml, b"JB_context"), b"VA_variable", b"VA_value"),
        variables=frozenset(
            _unescape_xml_text(name)
            for name in _element_texts(_element_content(xml, b"JB_env_list"), b"VA_variable")
            if not name.startswith(AUTOMATIC)
        ),
        queues=",".join(
            map(_unescape_xml_text, _element_texts(_element_content(xml, b"JB_hard_queue_list"), b"QR_name"))
        ),
        ranges=parse_slot_ranges(xml),
        project=_element_text(xml, b"JB_project"),
        checkpoint=_element_text(xml, b"JB_checkpoint_name"),
        notify=_element_text(xml, b"JB_notify") == "true",
        priority=int(_element_text(xml, b"JB_priority") or PRIORITY_ZERO) - PRIORITY_ZERO,
        share=int(_element_text(xml, b"JB_jobshare") or 0),
        start=int(_element_text(xml, b"JB_execution_time") or 0),
        submitted=_element_text(xml, b"JB_submission_time"),
        rerun=RERUN.get(_element_content(xml, b"JB_restart"), ""),
    )


def _parse_resource_list(xml: bytes, tag: bytes) -> Pairs:
    return _name_value_pairs_in_xml(_element_content(xml, tag), b"CE_name", b"CE_stringval")


def parse_owner_and_account(xml: bytes) -> tuple[str, str]:
    """Parse a job's owner and account string; raise ParseError if the output has no job."""
    if b"<JB_job_number>" not in xml:
        raise ParseError("qstat -j: the answer is incomplete")
    return _element_text(xml, b"JB_owner"), _element_text(xml, b"JB_account")


def parse_recorded_submit_variable(xml: bytes, variable: bytes) -> frozenset[bytes]:
    """Return the values of one of the variables SGE_O_*, in which qsub recorded its own environment."""
    variables = _element_content(xml, b"JB_env_list").split(b"<VA_variable>")
    parts = (text.partition(b"</VA_variable>") for text in variables)
    values = (_element_texts(content, b"VA_value") for name, _, content in parts if name == variable)
    return frozenset(value for group in values for value in group)


def parse_array_ids(xml: bytes) -> tuple[int, ...]:
    """Return the ids of all arrays in `qstat -xml`; raise ParseError if the output is truncated."""
    return _job_ids_in_qstat_rows([row for row in _split_job_list(xml) if b"<tasks>" in row])


def parse_job_ids_by_name(xml: bytes, name: str, owner: str) -> tuple[int, ...]:
    """Return the ids of a user's jobs whose name may be `name`; raise ParseError for truncated XML.

    A match is uncertain, because qstat may print only the beginning of a name.
    """
    rows = (row for row in _split_job_list(xml) if _element_text(row, b"JB_owner") == owner)
    return _job_ids_in_qstat_rows([row for row in rows if name.startswith(_element_text(row, b"JB_name"))])


def _job_ids_in_qstat_rows(rows: list[bytes]) -> tuple[int, ...]:
    ids = {_element_text(row, b"JB_job_number") for row in rows}
    if not all(map(str.isdecimal, ids)):
        raise ParseError("qstat -xml: a job without a job id")
    return tuple(sorted(map(int, ids)))


def parse_array_indices_in_job_list(
    xml: bytes, arrays: dict[str, str] | tuple[str, ...], state: bytes = b"", letter: str = ""
) -> dict[str, tuple[range, ...]]:
    """Return array tasks' indices from `qstat -xml`; raise ParseError if truncated.

    Arrays are identified by id, because operators can rename arrays. `state` (`pending` or `running`) and `letter`
    select tasks.
    """
    indices: dict[str, tuple[range, ...]] = dict.fromkeys(arrays, ())
    for row in _split_job_list(xml):
        array = _element_text(row, b"JB_job_number")
        is_wanted = row.startswith(b'state="%b' % state) and letter in _element_text(row, b"state")
        if is_wanted and array in indices:
            indices[array] += tuple(parse_qstat_task_ranges(_element_text(row, b"tasks")))
    return indices


def _split_job_list(xml: bytes) -> list[bytes]:
    if not xml.rstrip().endswith(b"</job_info>"):
        raise ParseError("qstat -xml: the answer is truncated")
    return xml.split(b"<job_list ")[1:]


def parse_execd_environment(data: bytes) -> dict[str, str]:
    """Parse execd's file `environment`: lines NAME=VALUE with escaped newlines and backslashes."""
    pairs = (line.partition(b"=") for line in data.split(b"\n") if line)
    return {_decode_text(name): _decode_text(_unescape_execd_value(value)) for name, _, value in pairs}


def parse_execd_config(data: bytes) -> dict[str, str]:
    """Parse execd's file `config`: lines NAME=VALUE."""
    pairs = (line.partition(b"=") for line in data.split(b"\n") if line)
    return {_decode_text(name): _decode_text(value) for name, _, value in pairs}


def parse_job_cwd(xml: bytes) -> str:
    """Return the working directory that a job requested; empty for the owner's home directory."""
    return _element_text(xml, b"JB_cwd")


def parse_parallel_request(xml: bytes) -> tuple[str, int]:
    """Return a job's parallel environment (empty for a serial job) and its maximal number of slots."""
    name = _element_text(xml, b"JB_pe")
    ends = _element_texts(_element_content(xml, b"JB_pe_range"), b"RN_max") if name else ()
    return name, max(map(int, ends), default=1)


def parse_minimum_slots(xml: bytes) -> int:
    return min(map(int, _element_texts(_element_content(xml, b"JB_pe_range"), b"RN_min")), default=1)


def is_interactive_job(xml: bytes) -> bool:
    return bool(_job_type_bits(xml) & INTERACTIVE)


def has_array_task(xml: bytes, task: int) -> bool:
    """Say whether a job was submitted with a task of this number; the task may have ended."""
    tasks = _element_content(xml, b"JB_ja_structure")
    ends = (map(int, _element_texts(tasks, tag)) for tag in (b"RN_min", b"RN_max", b"RN_step"))
    ranges = (range(low, high + 1, max(step, 1)) for low, high, step in zip(*ends, strict=True))
    return bool(_job_type_bits(xml) & ARRAY) and any(task in span for span in ranges)


def _job_type_bits(xml: bytes) -> int:
    return int(_element_text(xml, b"JB_type") or 0)


def parse_slot_ranges(xml: bytes) -> str:
    """Return a requested parallel environment with slots, such as `smp 2-4,8`; empty for a serial job."""
    name = _element_text(xml, b"JB_pe")
    ranges = _element_content(xml, b"JB_pe_range")
    ends = zip(_element_texts(ranges, b"RN_min"), _element_texts(ranges, b"RN_max"), strict=False)
    words = ",".join(f"{_unescape_xml_text(low)}-{_unescape_xml_text(high)}" for low, high in ends)
    return f"{name} {words}" if name else ""


def _element_content(xml: bytes, tag: bytes) -> bytes:
    """Return the content of the first element with a tag; elements of this tag must not be nested."""
    return xml.partition(b"<" + tag + b">")[2].partition(b"</" + tag + b">")[0]


def _element_texts(xml: bytes, tag: bytes) -> list[bytes]:
    return [part.partition(b"</")[0] for part in xml.split(b"<" + tag + b">")[1:]]


def _element_text(xml: bytes, tag: bytes) -> str:
    return _unescape_xml_text(_element_content(xml, tag))


def _name_value_pairs_in_xml(xml: bytes, name: bytes, value: bytes) -> Pairs:
    entries = xml.split(b"<" + name + b">")[1:]
    return tuple((_unescape_xml_text(entry.partition(b"</")[0]), _element_text(entry, value)) for entry in entries)


def _unescape_xml_text(raw: bytes) -> str:
    if b"&" in raw or b"%" in raw:
        for escape, meaning in _ESCAPES:
            raw = raw.replace(escape, meaning)
        raw = raw.replace(b"&amp;", b"&")
    return _decode_text(raw)


def _unescape_execd_value(value: bytes) -> bytes:
    if b"\\" not in value:
        return value
    return b"\\".join(part.replace(b"\\n", b"\n") for part in value.split(b"\\\\"))


def _decode_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
