"""Find a machine's ssh host key in the console output of its boot.

cloud-init prints the public keys between two marks (documentation of cloud-init, "Keys to
Console"). Console output that is read by the provider's API comes from the machine itself, so
nobody on the network can replace the keys.
"""

import re

from gridbridge.elastic.providers import answer_validation

BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
BEST_FIRST = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
LOG = re.compile(r"^\[ *[0-9.]+\] cloud-init\[[0-9]+\]: |^ci-info: ")


def find_console_host_key(printed: str) -> str:
    """Return the best host key that the last boot printed; empty for an incomplete block.

    RSA keys are skipped, because they do not fit into an EC2 tag.
    """
    block = printed.rpartition(BEGIN)[2] if BEGIN in printed else ""
    if END not in block:
        return ""
    lines = STEERING.sub("", block.partition(END)[0]).splitlines()
    words = (LOG.sub("", line).split() for line in lines)
    keys = {word[0]: f"{word[0]} {word[1]}" for word in words if len(word) > 1}
    candidates = (keys[kind] for kind in BEST_FIRST if kind in keys)
    return next((key for key in candidates if answer_validation.is_ssh_host_key(key)), "")
