"""The HTTP interface of the power service, with JSON.

    POST /nodes {"name": ..., "tags": {...}}    GET /nodes    DELETE /nodes/ID
    POST /nodes/ID/start                        POST /nodes/ID/stop

Each request names the token (`Authorization: Bearer TOKEN`). 200 done, 400 cannot be meant, 401
wrong token, 404 no such node, 409 no capacity, 503 later.
"""

import json
import select
import socket
import sys
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gridlab import paths
from gridlab.errors import LabError
from gridlab.provider import faults
from gridlab.provider.faults import Fault
from gridlab.provider.service import Refused, Service

NOWHERE = Refused(HTTPStatus.NOT_FOUND, "nothing is there")


def serve(listener: socket.socket) -> None:
    """Answer requests for ever."""
    service = Service()
    service.resume()

    class Bound(Handler):
        asked = service

    server = ThreadingHTTPServer(listener.getsockname(), Bound, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()


class Handler(BaseHTTPRequestHandler):
    """One HTTP request."""

    asked: Service

    def do_GET(self) -> None:
        """List the nodes."""
        self._answer()

    do_POST = do_DELETE = do_GET  # noqa: N815 - so as well

    def log_message(self, text: str, *values: object) -> None:
        """Log each request with its result."""
        sys.stderr.write(f"{self.log_date_time_string()} {text % values}\n")

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        current = faults.current()
        try:
            if Fault.HANG in current:
                self._fall_silent()
                return
            status, answer = HTTPStatus.OK, self._act(body, current)
        except Refused as refusal:
            status, answer = refusal.status, {"error": str(refusal)}
        except (LabError, OSError) as error:
            status, answer = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)}
        if Fault.LOST in current:
            self._fall_silent()
            return
        self._send(status, json.dumps(answer).encode(), current)

    def _act(self, body: bytes, current: faults.Faults) -> object:
        if self.headers.get("Authorization") != f"Bearer {(paths.PROVIDER / 'token').read_text()}":
            raise Refused(HTTPStatus.UNAUTHORIZED, "wrong token")
        if Fault.REFUSE in current:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "not now")
        match (self.command, *self.path.strip("/").split("/")):
            case ("GET", "nodes"):
                return self.asked.listed()
            case ("POST", "nodes"):
                return self.asked.create(**_wish(body))
            case ("DELETE", "nodes", identifier):
                self.asked.destroy(identifier)
                return {}
            case ("POST", "nodes", identifier, "start"):
                return self.asked.start(identifier)
            case ("POST", "nodes", identifier, "stop"):
                return self.asked.stop(identifier)
        raise NOWHERE

    def _send(self, status: HTTPStatus, body: bytes, current: faults.Faults) -> None:
        if Fault.GARBLED in current and self.command == "GET":
            body = body[: len(body) // 2]
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _fall_silent(self) -> None:
        """Send no answer until the client hangs up."""
        select.select([self.connection], [], [])
        self.close_connection = True


def _wish(body: bytes) -> Mapping[str, Any]:
    """Read the node to create; other keys, such as the pool, have no effect in the lab."""
    try:
        asked = json.loads(body)
        name, tags = asked["name"], asked.get("tags", {})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refused(HTTPStatus.BAD_REQUEST, "no JSON with a name") from None
    if not (isinstance(name, str) and isinstance(tags, dict)):
        raise Refused(HTTPStatus.BAD_REQUEST, "name: a text, tags: texts by name")
    if not all(isinstance(value, str) for value in tags.values()):
        raise Refused(HTTPStatus.BAD_REQUEST, "tags: texts by name")
    return {"name": name, "tags": tags}
