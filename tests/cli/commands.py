"""The commands of a program, by their names."""

import click


def commands_by_name(command: click.Command, name: str) -> dict[str, click.Command]:
    commands = {name: command}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            subcommand = command.get_command(context, word)
            assert subcommand
            commands |= commands_by_name(subcommand, f"{name} {word}")
    return commands
