"""Where gridbridge keeps things: fixed, so that no hot program has to read a configuration."""

CONFIG = "/etc/gridbridge/gridbridge.toml"
HOME = "/var/lib/gridbridge"  # the service account's; its owner is the service's uid
IN_FORCE = f"{HOME}/gridbridge.toml"  # what the service had last: what is away was sent by it
LOCK = f"{HOME}/poller.lock"  # held by the poller while it runs
PUBLISHED = f"{HOME}/published"
SPOOL = "/var/spool/gridbridge"
SENSOR_LOG = "/var/log/gridbridge-sensor.log"  # not in HOME: root writes nothing where others link
ENDED = "/opt/gridbridge/sge-methods/ended"
PYTHON = "/opt/gridbridge/venv/bin/python3"
AS_USER = "/opt/gridbridge/bin/gridbridge-as-user"
NOT_OURS = 3  # its exit status: the job of that id is not this transfer's
METHODS = "/opt/gridbridge/sge-methods"
FORMER = "/etc/gridbridge/former.json"  # what setup found before it changed shared settings
AT_HOME = ("remote", "hostname", "qname")  # resources that name places of the local cluster
OURS = "gb_"  # what the load values that the sensor reports begin with
# What root runs, and what it reads to do so.
ROOTS = (METHODS, "/opt/gridbridge/venv", "/opt/gridbridge/bin", "/etc/gridbridge")
SUDOERS = "/etc/sudoers.d/gridbridge"


def is_place(resource: str) -> bool:
    """Say whether a resource only names places at home: no other cluster is asked for it."""
    return resource in AT_HOME or resource.startswith(OURS)
