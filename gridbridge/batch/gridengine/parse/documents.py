"""Reads XML that Grid Engine's clients print, whole or row by row; the only module that knows lxml.

A broken answer is a ParseError and never an empty cluster, since an idle cluster is sent work.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import TypeVar

from lxml import etree

from gridbridge.errors import ParseError

ROW, QUEUE = "job_list", "Queue-List"
_PARTS = {"queue_info", "job_info"}  # elements that qstat prints even if empty
_Value = TypeVar("_Value")


def parse_repaired_xml(data: bytes, read: Callable[[bytes], _Value], program: str = "qstat") -> _Value:
    """Parse a document, repaired if necessary; the ParseError names the program."""
    if b"<!" in data:  # a DTD: its entities could expand to anything; qstat escapes each `<`
        raise ParseError(f"{program}: a document with declarations")
    try:
        return _attempt(data, read, program)
    except etree.XMLSyntaxError as broken:
        if not data.lstrip().startswith(b"<"):
            raise ParseError(_not_xml(data, program)) from broken
    try:
        return _attempt(_repair(data), read, program)
    except etree.XMLSyntaxError as broken:
        raise ParseError(f"{program}: broken XML: {broken.msg}") from broken


def _attempt(document: bytes, read: Callable[[bytes], _Value], program: str) -> _Value:
    try:
        return read(document)
    except KeyError as missing:
        raise ParseError(f"{program}: a job or queue without {missing.args[0]}") from missing
    except ValueError as wrong:
        raise ParseError(f"{program}: {wrong}") from wrong


def _not_xml(data: bytes, program: str) -> str:
    lines = data.decode("utf-8", "replace").splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    return f"{program}: no XML but {first[:100]!r}" if first else f"{program}: an empty answer"


def iterate_xml_elements(document: bytes, *tags: str) -> "etree.iterparse[tuple[str, etree._Element]]":
    """Yield a document's elements of these tags as they end; all elements without tags."""
    return etree.iterparse(
        BytesIO(document),
        tag=tags or None,
        remove_blank_text=True,  # half of the nodes, a fifth of the time
        collect_ids=False,
        resolve_entities=False,
        no_network=True,
        huge_tree=True,
    )


def parse_short_xml(data: bytes, program: str = "qstat") -> etree._Element:
    """Parse a short document, repaired if necessary; the ParseError names the program."""
    return parse_repaired_xml(data, etree.fromstring, program)


def for_each_listed_job_and_queue(document: bytes, take: Callable[[etree._Element], None]) -> None:
    """Call `take` with each job and queue of a list; ParseError for another document.

    A queue comes after its jobs.
    """
    walked = iterate_xml_elements(document, ROW, QUEUE)
    for _, element in walked:
        take(element)
        free_parsed_element(element)
    require_job_list(walked.root)


def free_parsed_element(element: etree._Element) -> None:
    """Empty an element, and unlink the one before it; lxml still needs the current one."""
    element.clear()
    before, around = element.getprevious(), element.getparent()
    if before is not None and around is not None and before.tag == element.tag:
        around.remove(before)


def require_job_list(root: etree._Element) -> None:
    """Raise ParseError unless the document is a list of queues and jobs."""
    if root.tag == "job_info" and {child.tag for child in root} >= _PARTS:
        return
    words = " ".join(word for text in root.itertext() for word in str(text).split())
    raise ParseError(f"qstat: <{root.tag}> is not a job list: {words[:100] or 'no words in it'}")


def iterate_leaf_texts(walk: Iterable[tuple[str, etree._Element]]) -> Iterator[tuple[str, str]]:
    """Yield the tags and texts of the elements that contain no other elements."""
    for _, element in walk:
        if len(element) == 0:
            yield str(element.tag), element.text or ""


def unescape_less_than(raw: str) -> str:
    """Undo the escape by which 8.1.9 writes a `<`."""
    return raw.replace("%lt;", "<")


_TAG = re.compile(r"<(?![?!])[^<>]*>")
_GOOD_TAG = re.compile(r"""</?[A-Za-z_][\w.-]*(\s+[\w:.-]+\s*=\s*("[^"]*"|'[^']*'))*\s*/?>""")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_BARE_AND = re.compile(r"&(?!#?\w+;)")


def _repair(data: bytes) -> bytes:
    """Repair XML errors that Grid Engine is known to make; a missing end is never added."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    text = _UNPRINTABLE.sub("", _DECLARATION.sub("", text))
    text = _BARE_AND.sub("&amp;", text.replace("%lt;", "&lt;"))
    return _TAG.sub(lambda tag: tag[0] if _GOOD_TAG.fullmatch(tag[0]) else "", text).encode()
