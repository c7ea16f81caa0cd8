"""How values are kept: names may hold any bytes, and SQLite's own texts only UTF-8."""

from typing import Any


def text(content: bytes) -> str:
    """Return what was kept as text."""
    return content.decode("utf-8", "surrogateescape")


def stored(value: object) -> object:
    """Return what SQLite keeps as it is."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def loaded(value: Any) -> Any:
    """Return the value that was kept."""
    return text(value) if isinstance(value, bytes) else value
