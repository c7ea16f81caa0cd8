"""Encodes text for SQLite: names may contain any bytes, but SQLite's own text is UTF-8."""

from typing import Any


def decode_stored_text(content: bytes) -> str:
    """Decode a stored text."""
    return content.decode("utf-8", "surrogateescape")


def encode_for_sqlite(value: object) -> object:
    """Encode a text as bytes, and leave other values as they are."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def decode_from_sqlite(value: Any) -> Any:
    """Decode a stored value: bytes become text."""
    return decode_stored_text(value) if isinstance(value, bytes) else value
