"""Name a remote cluster's load values, by which the home scheduler opens and closes transfer queues.

Each report has all values: execd may never report a value again that was missing once, and its queue would stay closed.
"""

UP, PENDING, FREE = "up", "pending", "free"
CLOSED = {UP: "0", PENDING: "999999", FREE: "0"}  # each of these values alone closes the queue


def load_value_complex_attribute(cluster: str, value: str) -> str:
    return f"gb_{cluster.replace('-', '_')}_{value}"


def queue_closing_load_values(names: "list[str]") -> "dict[str, str]":
    """Return a value for each named load value; the values close every transfer queue."""
    return {name: CLOSED.get(name.rpartition("_")[2], "0") for name in names}
