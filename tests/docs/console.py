"""The console blocks of the documentation: commands and their expected output."""

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")}))
RUNBOOK = ROOT / "docs/how-to/troubleshooting.md"  # its commands are typed during the symptoms
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HERE = re.compile(r"<<'(\S+)'$")  # a here-document: what is typed goes on to the line that it names
ANYTHING = "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command with its expected output; `prompt` is # for root and $ for a user."""

    prompt: str
    command: str
    expected: str


def console(page: str) -> list[Typed]:
    return [typed for block in BLOCK.findall(page) for typed in _commands(block)]


def _commands(block: str) -> list[Typed]:
    found: list[Typed] = []
    lines = iter(block.splitlines())
    for line in lines:
        if line[:2] in ("$ ", "# "):
            typed = "\n".join((line[2:], *_rest(line, lines)))
            found.append(Typed(prompt=line[0], command=typed, expected=""))
        elif found:
            last = found.pop()
            expected = f"{last.expected}{line}\n"
            found.append(Typed(prompt=last.prompt, command=last.command, expected=expected))
        else:
            raise AssertionError(f"a console block begins with a prompt, not {line!r}")
    return found


def _rest(line: str, lines: Iterator[str]) -> Iterator[str]:
    if begun := HERE.search(line):
        for following in lines:
            yield following
            if following == begun[1]:
                return
        raise AssertionError(f"nothing ends the here-document of {line!r}")


def matches(expected: str, actual: str) -> bool:
    """Compare an output; `...` matches any text, and any lines if it is alone on its line."""
    pattern = "".join(map(_pattern, expected.strip().splitlines()))
    printed = "".join(f"{line}\n" for line in actual.strip().splitlines())
    return bool(re.fullmatch(pattern, printed))


def _pattern(line: str) -> str:
    if line == ANYTHING:
        return r"(?:.*\n)*"
    return ".*?".join(map(re.escape, line.split(ANYTHING))) + r"\n"


def lab_module(name: str) -> ModuleType:
    """Import a program of the folder lab."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "lab" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
