"""The load values of a cluster, by which the scheduler at home opens and closes queues.

A value is never left out once it was reported. execd sends what has changed alone: a value that
was missing from one report, and comes back before the qmaster has acknowledged that, is never sent
again, and a queue whose threshold has no value stays closed. Hot programs load this module.
"""

UP, PENDING, FREE = "up", "pending", "free"
CLOSED = {UP: "0", PENDING: "999999", FREE: "0"}  # each closes a queue that looks at it alone


def load_value_complex(cluster: str, value: str) -> str:
    """Return the complex attribute of a cluster's load value."""
    return f"gb_{cluster.replace('-', '_')}_{value}"


def closing_load_values(names: "list[str]") -> "dict[str, str]":
    """Return values of these names that close every queue."""
    return {name: CLOSED.get(name.rpartition("_")[2], "0") for name in names}
