"""Reads what Grid Engine's clients print as XML: lists, jobs, and any short document."""

from gridbridge.batch.gridengine.parse.details import (
    parse_begun,
    parse_caps,
    parse_job_detail,
    parse_judged,
)
from gridbridge.batch.gridengine.parse.documents import (
    QUEUE,
    check_whole,
    drop,
    read_xml,
    take_rows,
    walk,
    whole,
)
from gridbridge.batch.gridengine.parse.lists import (
    BATCH,
    FIXED,
    TRUE,
    count_tasks,
    moment,
    parse_status,
    read_state,
)

__all__ = (
    "BATCH",
    "FIXED",
    "QUEUE",
    "TRUE",
    "check_whole",
    "count_tasks",
    "drop",
    "moment",
    "parse_begun",
    "parse_caps",
    "parse_job_detail",
    "parse_judged",
    "parse_status",
    "read_state",
    "read_xml",
    "take_rows",
    "walk",
    "whole",
)
