"""Groups of commands for click: full sentences in help, suggestions, modules loaded late."""

import ast
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click


class FullSentenceCommandGroup(click.Group):
    """A group of commands whose help shows the whole first sentence of each command.

    click itself truncates these sentences at the end of the line.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for an unknown word suggest the nearest one."""
        word, commands = args[0], self.list_commands(ctx)
        if word in commands or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = get_close_matches(word, commands, 1)
        hint = f"{near[0]} is the nearest" if near else f"the commands are {', '.join(commands)}"
        raise click.UsageError(f"No such command {word!r}; {hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the name and the first sentence of each command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first(self.help_of(ctx, name))) for name in self.list_commands(ctx)])

    def help_of(self, ctx: click.Context, name: str) -> str:
        """Return the whole help text of a command."""
        command = self.get_command(ctx, name)
        return (command and command.help) or ""


class LazyCommandGroup(FullSentenceCommandGroup):
    """A group whose commands are imported only when they are called.

    Importing all commands takes ten times as long.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self._modules = {name: f"gridbridge.{module}" for name, module in modules.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None for an unknown name."""
        if cmd_name not in self._modules:
            return None
        command: click.Command = getattr(import_module(self._modules[cmd_name]), cmd_name)
        return command

    def help_of(self, ctx: click.Context, name: str) -> str:
        """Return a command's help text from the source of its module, without import."""
        spec = find_spec(self._modules[name])
        assert spec
        assert spec.origin
        function = next(
            node
            for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef) and node.name == name
        )
        return ast.get_docstring(function) or ""


def _first(text: str) -> str:
    """Return the first paragraph of a help text, which is one sentence."""
    return " ".join(text.partition("\n\n")[0].split())
