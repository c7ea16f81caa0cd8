"""Where the nodes of a cluster that grows come from: clouds, power supplies, any command."""
