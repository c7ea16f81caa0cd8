"""gridbridge balance: what the balancer would do, and what it looks at."""

import click

from gridbridge.cli.command_group import LazyCommands

MODULES = {
    "drain": "seeing.nodes",
    "explain": "seeing.nodes",
    "history": "seeing.nodes",
    "keep": "seeing.nodes",
    "plan": "balancing.planning",
    "plot": "seeing.plot",
    "power": "balancing.power",
    "snapshot": "balancing.planning",
    "status": "seeing.nodes",
    "tag": "seeing.tag",
}


@click.group(cls=LazyCommands, modules=MODULES)
def balance() -> None:
    """Look at the cluster's nodes as it grows and shrinks, and drain, keep, tag or switch them.

    Most of these commands change nothing. `drain` and `keep` ask the balancer to act on a node,
    `tag` is noted in the cell, and `power --apply` switches nodes of an OAR cluster.

    \b
    Example:
      gridbridge balance plan --max-nodes 20
    """
