"""An OAuth 2 token endpoint on this machine that hands out unsigned tokens for one client id and secret."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


@contextmanager
def token_endpoint(client_id: str, client_secret: str) -> Iterator[str]:
    """Its URL. Every other id or secret is answered 401."""
    wanted = f"Basic {base64.b64encode(f'{client_id}:{client_secret}'.encode()).decode()}"

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            allowed = self.headers.get("Authorization") == wanted
            now = int(time.time())
            claims = {"sub": client_id, "iat": now, "exp": now + 600, "scope": "kafka"}
            answer = {"access_token": _unsigned(claims), "token_type": "Bearer", "expires_in": 600}
            body = json.dumps(answer if allowed else {"error": "invalid_client"}).encode()
            self.send_response(200 if allowed else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _unsigned(claims: dict[str, object]) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}."
