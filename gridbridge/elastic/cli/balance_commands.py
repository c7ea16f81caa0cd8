"""The command group `gridbridge balance`; the module of a subcommand is loaded when the subcommand is called."""

import click

from gridbridge.cli.command_groups_and_options import LazyCommandGroup

MODULES = {
    "drain": "elastic.cli.balance_node_commands",
    "explain": "elastic.cli.balance_node_commands",
    "history": "elastic.cli.balance_node_commands",
    "keep": "elastic.cli.balance_node_commands",
    "plan": "elastic.cli.balance_plan_and_plot",
    "plot": "elastic.cli.balance_plan_and_plot",
    "power": "elastic.cli.oar_power_request_command",
    "snapshot": "elastic.cli.balance_plan_and_plot",
    "status": "elastic.cli.balance_node_commands",
    "tag": "elastic.cli.balance_node_commands",
}


@click.group(cls=LazyCommandGroup, modules=MODULES)
def balance() -> None:
    """Show the nodes of an elastic cluster; drain, keep, tag or switch nodes.

    Most commands change nothing. `drain` and `keep` record a request for the balancer, `tag`
    changes the cell, and `power --apply` switches nodes of an OAR cluster.

    \b
    Example:
      gridbridge balance plan --max-nodes 20
    """
