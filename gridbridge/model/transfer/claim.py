"""The claim on a remote job: the holder of the claim, home or job, runs the task.

A record names a claim as `KIND.TOKEN`. With `file` the side that first creates the file TOKEN in
the shared spool holds the claim. A job script is readable by everybody, so a script has only the
first half of the token. The second half is in the claim key, a file that only the job's owner can
read. With `grant` home holds the claim until the state file gives the claim to the job.
"""

FILE, GRANT = "file", "grant"
HOME, JOB = "home", "job"  # the two possible holders of a claim
FENCED = "fenced"  # the job ended because the holder of the claim was unreadable
MAX_TOKEN = 64
FOLDER = "claims"  # folder of claim files below the spool
NOT_SERVICES = "not the service's own; `gridbridge setup host` makes it"  # the claims folder
KEY = ".key"  # suffix of a claim key's file name


def split_claim(claim: str) -> tuple[str, str]:
    """Split a claim into kind and token; both are empty without a claim."""
    kind, _, token = claim.partition(".")
    return kind, token


def claim_file_name(claim: str, uid: int) -> str:
    """Return the name of a claim's file, which the owner's uid reserves."""
    return f"{uid}.{split_claim(claim)[1]}"


def claim_key_file(claim: str, uid: int) -> tuple[str, str]:
    """Return a claim key file's name and contents, the second half of the claim's token."""
    token = split_claim(claim)[1]
    half = len(token) // 2
    return f"{uid}.{token[:half]}{KEY}", token[half:]


def is_valid_claim_name(text: str) -> bool:
    """Say whether a text is a valid claim; its token becomes part of paths."""
    kind, token = split_claim(text)
    return kind in (FILE, GRANT) and token.isascii() and token.isalnum() and len(token) <= MAX_TOKEN


def does_claim_need_home_grant(claim: str) -> bool:
    """Say whether home holds a claim until home grants the claim to the remote job."""
    return split_claim(claim)[0] == GRANT
