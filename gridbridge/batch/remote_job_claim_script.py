"""Writes the part of a remote job's wrapper that claims the task (model/transfer/claim_and_guard)."""

import os

from gridbridge.errors import StateError
from gridbridge.model.transfer import claim_and_guard
from gridbridge.shell.program_runs import quote_for_sh
from gridbridge.shell.safe_files import random_file_name, replace_file_atomically

GRANTS = ".gridbridge/grants"  # folder in the service account's home on the remote cluster
HERE = __file__.rpartition("/")[0]


def new_remote_job_claim(route_says: str) -> str:
    """Return a new claim of the kind that the route names, with a random token of two halves."""
    return random_file_name(random_file_name(f"{route_says.partition(' ')[0]}."))


def write_remote_job_claim_key(of: str, spool: str, uid: int) -> None:
    """Write the key file of a claim of kind `file`, readable only by the caller.

    Raises StateError on failure, or unless the spool's owner owns the keys' folder: any user may create folders.
    """
    if claim_and_guard.split_claim_name(of)[0] != claim_and_guard.FILE:
        return
    folder = f"{spool}/{claim_and_guard.CLAIMS_FOLDER}"
    name, word = claim_and_guard.claim_key_file_name_and_contents(of, uid)
    try:
        is_services = os.lstat(folder).st_uid == os.stat(spool).st_uid
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error
    if not is_services:
        raise StateError(f"{folder}: {claim_and_guard.CLAIMS_FOLDER_NOT_OWNED_BY_SERVICE}")
    replace_file_atomically(f"{folder}/{name}", f"{word}\n".encode(), mode=0o600, durable=False)


def remote_job_claim_shell_lines(of: str, route_says: str, spool: str, uid: int) -> str:
    kind = claim_and_guard.split_claim_name(of)[0]
    if kind == claim_and_guard.FILE:
        name, _ = claim_and_guard.claim_key_file_name_and_contents(of, uid)
        assignments = f"gb_key={quote_for_sh(f'{spool}/{claim_and_guard.CLAIMS_FOLDER}/{name}')}\n"
    else:
        _, patience_s, account = route_says.split()
        name = claim_and_guard.claim_file_name(of, uid)
        assignments = f"gb_claim=~{account}/{GRANTS}/{name} gb_patience={patience_s}\n"
    with open(f"{HERE}/{kind}.sh", encoding="utf-8") as body:
        return assignments + body.read()
