"""The libraries that only some sites need, and the command that installs a missing library."""

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType

from gridbridge.errors import GridbridgeError

REQUIREMENTS: Mapping[str, str] = MappingProxyType(  # by module; the extras of setup.cfg have the same requirements
    {
        "boto3": "boto3>=1.28",
        "botocore": "boto3>=1.28",
        "cloudpickle": "cloudpickle>=2.2",
        "libcloud": "apache-libcloud>=3.8",
        "matplotlib": "matplotlib>=3.6",
        "paramiko": "paramiko>=3.4",
        "psycopg": "psycopg[binary]>=3.1",
    }
)


class LibraryMissing(GridbridgeError):
    """Raised if an optional library is needed and not installed; the message has the command that installs it."""


def require_library(module: str) -> None:
    if find_spec(module) is None:
        raise LibraryMissing(missing_library_message(module))


def missing_library_message(module: str) -> str:
    return f"{module} is not installed; to install it, run: {installation_command(module)}"


def installation_command(module: str) -> str:
    """Return the shell line that installs a library into the environment of this program."""
    pip = f"{sys.executable} -m pip" if find_spec("pip") else f"pip --python {sys.executable}"
    return f"{pip} install '{REQUIREMENTS[module]}'"


def missing_library_of_error(error: ImportError) -> str:
    """Return the optional library that an import did not find; empty for any other error."""
    module = (error.name or "").partition(".")[0]
    return module if module in REQUIREMENTS else ""
