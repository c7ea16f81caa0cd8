"""A local EC2 service (moto) behind a proxy that simulates faults of real clouds.

The proxy adds capacity errors, ClientToken and consoles, as described in the EC2 API Reference.
"""

import base64
import http.client
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qs

HERE = "127.0.0.1"
LIMIT_S = 60.0
XML = "application/xml"


@dataclass(slots=True, kw_only=True)
class Gate:
    """A proxy in front of moto that causes the configured faults and counts requests."""

    moto: int  # its port
    refusals: dict[str, str] = field(default_factory=dict)  # error codes by action, * for all
    consoles: dict[str, str] = field(default_factory=dict)  # what machines printed, by their ids
    loses: set[str] = field(default_factory=set)  # actions whose next answer is lost
    hangs: bool = False  # no answer comes while the gate is open
    closing: Event = field(default_factory=Event)
    seen: Counter[str] = field(default_factory=Counter)
    answers: dict[str, bytes] = field(default_factory=dict)  # by client token
    has_latest: bool = True  # machines whose console is shown while it is written
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://{HERE}:{self.port}"

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        """Return the status and body of the answer, or None if the answer has to be lost."""
        asked = {key: values[0] for key, values in parse_qs(body.decode()).items()}
        action = asked["Action"]
        self.seen[action] += 1
        if self.hangs:
            self.closing.wait(LIMIT_S)
            return None
        if code := self.refusals.get(action) or self.refusals.get("*"):
            return 400, error(code)
        if action == "GetConsoleOutput":
            if "Latest" in asked and not self.has_latest:
                return 400, error("UnsupportedOperation")
            return 200, console(asked["InstanceId"], self.consoles.get(asked["InstanceId"], ""))
        status, found = self._known(asked, headers, body)
        if action in self.loses:
            self.loses.remove(action)
            return None
        return status, found

    def _known(self, asked: dict[str, str], headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Repeat the answer to a known ClientToken, or return an error if the token's machine has ended.

        Any other request is forwarded to moto.
        """
        token = asked.get("ClientToken", "")
        if asked["Action"] != "RunInstances":
            return self.forward(headers, body)
        if token not in self.answers:
            status, found = self.forward(headers, body)
            self.answers |= {token: found} if status == 200 else {}
            return status, found
        id_ = self.answers[token].partition(b"<instanceId>")[2].partition(b"<")[0].decode()
        if id_ in ended(self.moto):
            return 400, error("IdempotentInstanceTerminated")
        return 200, self.answers[token]

    def forward(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HERE, self.moto, timeout=LIMIT_S)
        connection.request("POST", "/", body, headers)
        answered = connection.getresponse()
        return answered.status, answered.read()


def error(code: str) -> bytes:
    told = f"<Error><Code>{code}</Code><Message>words of {code}</Message></Error>"
    return f"<Response><Errors>{told}</Errors><RequestID>r-1</RequestID></Response>".encode()


def console(id_: str, printed: str) -> bytes:
    output = base64.b64encode(printed.encode()).decode()
    told = f"<instanceId>{id_}</instanceId><output>{output}</output>"
    return f"<GetConsoleOutputResponse>{told}</GetConsoleOutputResponse>".encode()


def ended(moto: int) -> set[str]:
    import boto3

    client = boto3.client(
        "ec2",
        region_name="eu-west-1",
        endpoint_url=f"http://{HERE}:{moto}",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    state = [{"Name": "instance-state-name", "Values": ["terminated"]}]
    groups = client.describe_instances(Filters=state)["Reservations"]
    return {each["InstanceId"] for group in groups for each in group["Instances"]}


@contextmanager
def opened(moto: int) -> Iterator[Gate]:
    gate = Gate(moto=moto)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answered = gate.answer(dict(self.headers), body)
            if answered is None:
                self.close_connection = True
                return
            self.send_response(answered[0])
            self.send_header("Content-Type", XML)
            self.send_header("Content-Length", str(len(answered[1])))
            self.end_headers()
            self.wfile.write(answered[1])

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its own name
            """Log nothing."""

    with ThreadingHTTPServer((HERE, 0), Handler) as server:
        gate.port = server.server_address[1]
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            yield gate
        finally:
            gate.closing.set()
            server.shutdown()
            serving.join()


@contextmanager
def moto() -> Iterator[int]:
    with socket.socket() as free:
        free.bind((HERE, 0))
        port = free.getsockname()[1]
    argv = (sys.executable, "-m", "moto.server", "-H", HERE, "-p", str(port))
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        wait(port, server)
        yield port
    finally:
        server.terminate()
        server.wait(LIMIT_S)


def wait(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + LIMIT_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((HERE, port), timeout=1).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"moto does not listen: {server.poll()}")


def emptied(port: int) -> int:
    connection = http.client.HTTPConnection(HERE, port, timeout=LIMIT_S)
    connection.request("POST", "/moto-api/reset")
    assert connection.getresponse().status == 200
    return port
