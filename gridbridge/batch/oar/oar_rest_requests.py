"""Sends requests to OAR's REST interface (oar-restful-api 2.5, http.client); each failure has one clear outcome.

HostNotReached: nothing was carried out, because the server is unreachable, or rejects the login or the account.
CommandFailed: the request may have been carried out. No redirect is followed, and no proxy is used.
"""

import http.client
import json
import socket
import threading
import tomllib
from base64 import b64encode
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from gridbridge.errors import CommandFailed, GridbridgeError, HostNotReached, ParseError, describe_error
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell import safe_files
from gridbridge.shell.program_runs import ANSWER_BYTES

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

JSON, BYTES = "application/json", "application/octet-stream"
IDENT = "X-REMOTE-IDENT"  # header from which a trusted login's server takes the account
KEYS = frozenset(("user", "password", "certificate", "authority"))
MOST_LOGIN_BYTES = 65536
NOT_ADMITTED = (401, 403)
READ_BYTES = 65536
_root_logins: "dict[str, OarRestLogin]" = {}  # logins that root read before it became the jobs' owner


class OarRestLogin:
    """A login from a file of root or the service: user and password, or a client certificate."""

    def __init__(self, path: str, closed_to: int = 0o007) -> None:
        """Read the file; raise GridbridgeError if others can write it, or have a permission in `closed_to`."""
        keys = _read_login_file(path, closed_to)
        self.path = path
        self.authority, self.certificate = keys.get("authority"), keys.get("certificate")
        pair = f"{keys.get('user', '')}:{keys.get('password', '')}".encode()
        self.header = f"Basic {b64encode(pair).decode()}" if "user" in keys else ""
        self._context: ssl.SSLContext | None = None

    def tls_context(self) -> "ssl.SSLContext":
        """Return the TLS settings, which verify the server; they are made once, while the files are readable."""
        import ssl

        if self._context is None:
            try:
                self._context = ssl.create_default_context(cafile=self.authority)
                if self.certificate:
                    self._context.load_cert_chain(self.certificate)
            except (OSError, ValueError) as error:
                wrong = f"{self.path}: certificate or authority unusable: {describe_error(error)}"
                raise GridbridgeError(wrong) from error
        return self._context


def _read_login_file(path: str, closed_to: int) -> dict[str, str]:
    expected = "expected lines user = and password =, or certificate =, and perhaps authority ="
    try:
        owner = safe_files.required_trusted_file_owner()
        if owner is not None:
            safe_files.require_trusted_path(path)
        content, facts = safe_files.read_file_only_owner_writes(path, MOST_LOGIN_BYTES, owner)
        keys = tomllib.loads(content.decode())
    except (OSError, GridbridgeError) as error:
        raise GridbridgeError(f"login to OAR's REST interface: {path}: {describe_error(error)}") from error
    except ValueError as error:  # the parser's message could quote the password
        raise GridbridgeError(f"{path}: not TOML; {expected}") from error
    if facts.st_mode & closed_to:
        raise GridbridgeError(f"{path}: others may read the file; chmod {0o777 & ~closed_to & facts.st_mode:o} {path}")
    is_complete = bool(keys.get("certificate") or (keys.get("user") and keys.get("password")))
    if not is_complete or keys.keys() - KEYS or not all(isinstance(value, str) for value in keys.values()):
        raise GridbridgeError(f"{path}: incomplete or unknown keys; {expected}")
    return keys


def read_login_as_root(path: str, api: str) -> None:
    """Read, as root, a login file that is closed to the jobs' owner, as whom this process will continue."""
    login = OarRestLogin(path, closed_to=0o077)
    if api.startswith("https:"):
        login.tls_context()
    _root_logins[path] = login


class OarRestAnswer:
    """An answer of the REST interface: HTTP status and content."""

    def __init__(self, request: tuple[str, ...], status: int, kind: str, content: bytes) -> None:
        self.request, self.status, self.content = request, status, content
        self._kind = kind

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def json_table(self) -> dict[str, object]:
        """Return the answer's JSON object; raise ParseError for another content."""
        try:
            table = json.loads(self.content.decode("utf-8", "surrogateescape")) if self._kind == JSON else None
        except (ValueError, RecursionError):
            table = None
        if not isinstance(table, dict):
            raise ParseError(
                f"{self.request[0]}: HTTP status {self.status} with {self._kind!r}; expected a JSON object"
            )
        return table

    def message(self) -> str:
        """Return the interface's own message of a failure, or the HTTP status; the message can be encoded as UTF-8."""
        with suppress(ParseError):
            message = str(self.json_table().get("message") or f"HTTP status {self.status}").strip()
            return message.encode("utf-8", "replace").decode()
        return f"HTTP status {self.status} with {self._kind!r}"

    def require_success(self) -> "OarRestAnswer":
        if not self.is_success:
            raise CommandFailed(self.request, self.status, b"", " ".join(self.message().split()).encode())
        return self


def send_request(
    server: OarServerAccessSettings,
    method: str,
    path: str,
    body: bytes | None = None,
    kind: str = JSON,
    most_bytes: int = ANSWER_BYTES,
) -> OarRestAnswer:
    """Send a request as the access's account, and return the answer; raise HostNotReached or CommandFailed."""
    address = urlsplit(server.api)
    host = address.netloc
    request = (f"{method} {server.api}{path.partition('?')[0]}",)
    login = _root_logins.get(server.api_login) or OarRestLogin(server.api_login)
    headers = {"Accept": JSON, "Content-Type": kind, "Connection": "close", IDENT: server.api_account}
    headers |= {"Authorization": login.header} if login.header else {}
    connection = _connect(server, login, request)
    try:
        with _time_limit(connection.sock, server.timeout_s):
            connection.request(method, f"{address.path.rstrip('/')}{path}", body, headers)
            response = connection.getresponse()
            content = _read_content(response, most_bytes)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = f"{host}: no complete answer: {describe_error(error)}"
        raise CommandFailed(request, None, b"", why.encode(), host=host, transient=True) from error
    finally:
        connection.close()
    answer = OarRestAnswer(request, response.status, response.headers.get_content_type(), content)
    if answer.status in NOT_ADMITTED:
        why = f"{host}: the login in {login.path} is not admitted as {server.api_account}: {answer.message()}"
        raise HostNotReached(request, answer.status, b"", why.encode(), host=host)
    if 300 <= answer.status < 400:
        why = f"{host}: answers with a redirect (HTTP status {answer.status}); expected api = the final address"
        raise CommandFailed(request, answer.status, b"", why.encode(), host=host)
    return answer


def _connect(
    server: OarServerAccessSettings, login: OarRestLogin, request: tuple[str, ...]
) -> http.client.HTTPConnection:
    address = urlsplit(server.api)
    host, port = str(address.hostname), address.port
    if address.scheme == "https":
        tls, limit_s = login.tls_context(), server.timeout_s
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(host, port, context=tls, timeout=limit_s)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=server.timeout_s)
    try:
        connection.connect()
    except (OSError, ValueError) as error:
        connection.close()
        why = f"{address.netloc}: {describe_error(error)}".encode()
        raise HostNotReached(request, None, b"", why, host=host, transient=True) from error
    return connection


@contextmanager
def _time_limit(connected: socket.socket, limit_s: float) -> "Iterator[None]":
    """Shut a connection down after `limit_s`: a socket's own limit begins anew with each byte."""
    watch = threading.Timer(limit_s, _shut_down, (connected,))
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _shut_down(connected: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)  # an SSLSocket's method would leave TLS


def _read_content(response: http.client.HTTPResponse, most_bytes: int) -> bytes:
    content = bytearray()
    while chunk := response.read(READ_BYTES):
        content += chunk
        if len(content) > most_bytes:
            raise ValueError(f"the answer is larger than {most_bytes >> 20} MiB, the most that is read")
    expected = response.headers.get("Content-Length")
    if expected is not None and len(content) < int(expected):
        raise ValueError("the answer is cut off")
    return bytes(content)
