"""Grid Engine cells whose client programs are scripts of a test."""

from pathlib import Path

from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from tests.builders.programs import write_program


def fake_cell(name: str) -> str:
    """Return a client program of the fake cell, or what such a program prints."""
    return (Path(__file__).with_name("fake_cell") / name).read_text()


def cell_of_scripts(folder: Path, timeout_s: float = 15.0, **programs: str) -> GridEngineCellAccessSettings:
    """Return a cell whose client programs run the given lines of sh."""
    for name, lines in programs.items():
        write_program(folder / name, f"#!/bin/sh\n{lines}\n")
    root = binaries = str(folder)
    return GridEngineCellAccessSettings(
        root=root, cell="b", qmaster_port="1", execd_port="2", binaries=binaries, timeout_s=timeout_s
    )
