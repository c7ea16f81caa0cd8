"""Lines of `key=value`, the form of all messages between gridbridge processes.

A value is printable ASCII. Every other byte, and `%`, is written `%XX`, so that sh and Python can
read and write the lines. The module imports only the errors, for fast starters.
"""

from gridbridge.errors import ParseError

_HEX = "0123456789ABCDEF"


def encode_key_value_lines(values: dict[str, str]) -> bytes:
    """Encode values as lines of key=value, without empty values."""
    return "".join(f"{key}={_quote(value)}\n" for key, value in values.items() if value).encode()


def decode_key_value_lines(data: bytes, keys: tuple[str, ...] | None) -> dict[str, str]:
    """Decode key=value lines; ParseError for invalid keys or escapes, or a truncated end.

    Unknown and repeated keys are errors. With `keys` None, every key is allowed.
    """
    if not data.endswith(b"\n"):
        raise ParseError("the last line is incomplete")
    values: dict[str, str] = {}
    for line in data[:-1].split(b"\n"):
        key, equals, value = line.decode("latin-1").partition("=")
        is_known = keys is None or key in keys
        if not equals or not is_known or key in values or not line.isascii():
            raise ParseError(f"unknown, repeated or broken line {line[:40]!r}")
        values[key] = _unquote(value)
    return values


def _quote(value: str) -> str:
    raw = value.encode("utf-8", "surrogateescape")
    if raw.isalnum() or not any(byte < 0x20 or byte > 0x7E or byte == 0x25 for byte in raw):
        return value
    return "".join(chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x25 else f"%{byte:02X}" for byte in raw)


def _unquote(value: str) -> str:
    if "%" not in value:
        return value
    head, *escaped = value.split("%")
    try:
        raw = b"".join(
            bytes((_HEX.index(part[0]) * 16 + _HEX.index(part[1]),)) + part[2:].encode("ascii") for part in escaped
        )
    except (ValueError, IndexError) as error:
        raise ParseError(f"bad escape in {value[:40]!r}") from error
    return (head.encode("ascii") + raw).decode("utf-8", "surrogateescape")
