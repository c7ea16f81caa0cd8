"""Executables that stand for programs of a site."""

from pathlib import Path


def write_program(path: Path, text: str) -> Path:
    """Write an executable file, and return its path."""
    path.write_text(text)
    path.chmod(0o755)
    return path
