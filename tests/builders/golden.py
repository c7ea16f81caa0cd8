"""Folders of outputs that real programs printed (CAPTURED), or that were built from documentation (UNSEEN)."""

from pathlib import Path

CAPTURED, UNSEEN = (Path(__file__).parents[1] / "golden" / name for name in ("gridengine-8.1.9", "unseen"))
