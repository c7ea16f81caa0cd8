"""A cluster's load values, by which the home scheduler opens and closes queues.

A reported load value is reported ever after. execd sends only changed values. execd never resends
a value that was missing from one report and returns before the qmaster's acknowledgement. A queue
whose threshold lacks its value stays closed. The load sensor loads this module.
"""

UP, PENDING, FREE = "up", "pending", "free"
CLOSED = {UP: "0", PENDING: "999999", FREE: "0"}  # each of these load values closes a queue


def load_value_complex_attribute(cluster: str, value: str) -> str:
    """Return the name of the complex attribute for a cluster's load value."""
    return f"gb_{cluster.replace('-', '_')}_{value}"


def queue_closing_load_values(names: "list[str]") -> "dict[str, str]":
    """Return load values of the given names that close every transfer queue."""
    return {name: CLOSED.get(name.rpartition("_")[2], "0") for name in names}
