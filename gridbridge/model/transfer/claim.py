"""The claim on a remote job: home or the job has it, and whichever has it runs the task.

In records a claim is `KIND.TOKEN`. `file`: the first side to create the file TOKEN in the shared
spool has the claim. Everybody can read a job's script, so the script names only the first half of
the token; the second half is in the claim's key, a file that only the job's owner can read.
`grant`: home has the claim, until the state file says that it was given to the job.
"""

FILE, GRANT = "file", "grant"
HOME, JOB = "home", "job"  # who has it
FENCED = "fenced"  # the job gave way without knowing who has it
MAX_TOKEN = 64
FOLDER = "claims"  # below the spool
NOT_SERVICES = "not the service's own; `gridbridge setup host` makes it"  # the folder of claims
KEY = ".key"  # ends the name of a claim's key


def split_claim(claim: str) -> tuple[str, str]:
    """Return its kind and its token, both empty for none."""
    kind, _, token = claim.partition(".")
    return kind, token


def claim_file_name(claim: str, uid: int) -> str:
    """Return the name of its file; the owner's uid in it keeps others from using the name."""
    return f"{uid}.{split_claim(claim)[1]}"


def claim_key_file(claim: str, uid: int) -> tuple[str, str]:
    """Return the name of the claim's key, and what the key holds: the rest of the claim's name."""
    token = split_claim(claim)[1]
    half = len(token) // 2
    return f"{uid}.{token[:half]}{KEY}", token[half:]


def is_claim(text: str) -> bool:
    """Say whether a record may name it; the token becomes a part of paths."""
    kind, token = split_claim(text)
    return kind in (FILE, GRANT) and token.isascii() and token.isalnum() and len(token) <= MAX_TOKEN


def is_grant(claim: str) -> bool:
    """Say whether it is a grant: home has it until it is given to the job."""
    return split_claim(claim)[0] == GRANT
