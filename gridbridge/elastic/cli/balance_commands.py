"""The command group `gridbridge balance`; each subcommand's module is loaded on use."""

import click

from gridbridge.cli.command_groups_and_options import LazyCommandGroup

MODULES = {
    "drain": "elastic.cli.node_commands",
    "explain": "elastic.cli.node_commands",
    "history": "elastic.cli.node_commands",
    "keep": "elastic.cli.node_commands",
    "plan": "elastic.cli.plan_command",
    "plot": "elastic.cli.plot_command",
    "power": "elastic.cli.balance_power",
    "snapshot": "elastic.cli.plan_command",
    "status": "elastic.cli.node_commands",
    "tag": "elastic.cli.tag_command",
}


@click.group(cls=LazyCommandGroup, modules=MODULES)
def balance() -> None:
    """Look at the cluster's nodes as it grows and shrinks, and drain, keep, tag or switch them.

    Most of these commands change nothing. `drain` and `keep` ask the balancer to act on a node,
    `tag` is noted in the cell, and `power --apply` switches nodes of an OAR cluster.

    \b
    Example:
      gridbridge balance plan --max-nodes 20
    """
