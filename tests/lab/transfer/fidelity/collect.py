"""Print as JSON the files below some folders of a lab host that match PATTERNS."""

import base64
import glob
import hashlib
import json
import os
import sys

WHOLE_BYTES = 65536


def main() -> None:
    """Write {path: [mode, size, SHA-256, content in base64 or null for a large file]}."""
    found = {}
    for pattern in sys.argv[1:]:
        for path in glob.glob(pattern, recursive=True, include_hidden=True):
            if os.path.isfile(path):
                found[os.fsencode(path).decode("latin-1")] = describe(path)
    json.dump(found, sys.stdout)


def describe(path: str) -> list[object]:
    with open(path, "rb") as file:
        data = file.read()
    content = base64.b64encode(data).decode() if len(data) <= WHOLE_BYTES else None
    mode = oct(os.stat(path).st_mode & 0o7777)
    return [mode, len(data), hashlib.sha256(data).hexdigest(), content]


if __name__ == "__main__":
    main()
