"""A group of commands of which each is imported when it is asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class Commands(click.Group):
    """Commands by name, each with the module that has it: all together take ten times as long."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, None for an unknown name."""
        if cmd_name not in self._modules:
            return None
        module = import_module(f"gridbridge.cli.{self._modules[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command
