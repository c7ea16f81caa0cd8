"""Finds a machine's host key in what it printed on its console while it booted.

cloud-init prints the public keys between two marks (its module keys_to_console; documentation of
cloud-init, "Keys to Console"). Who reads the console by the provider's own interface has the keys
from the machine itself, and nobody on the network in between can put others there.
"""

import re

from gridbridge.elastic.providers import answer_validation

BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
BEST_FIRST = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
LOG = re.compile(r"^\[ *[0-9.]+\] cloud-init\[[0-9]+\]: |^ci-info: ")


def host_key(printed: str) -> str:
    """Return the best key of the last boot, empty when none is there as a whole.

    RSA keys are left out: a tag of EC2's is too short for them.
    """
    block = printed.rpartition(BEGIN)[2] if BEGIN in printed else ""
    if END not in block:
        return ""
    lines = STEERING.sub("", block.partition(END)[0]).splitlines()
    words = (LOG.sub("", line).split() for line in lines)
    keys = {word[0]: f"{word[0]} {word[1]}" for word in words if len(word) > 1}
    candidates = (keys[kind] for kind in BEST_FIRST if kind in keys)
    return next((key for key in candidates if answer_validation.is_host_key(key)), "")
