"""A hub of models on the loopback interface: makes repositories, takes commits, serves files."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(ThreadingHTTPServer):
    """`repositories`: name to files; `requests`: what was asked, in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> FakeHub:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.requests.append(f"POST {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = self.path.strip("/").split("/")
        if self.path == "/api/repos/create":
            values = json.loads(body)
            name = f"{values['organization']}/{values['name']}" if values.get("organization") else (
                values["name"])  # fmt: skip
            self.server.repositories.setdefault(name, {})
            self.server.private[name] = values.get("visibility") == "private" or values.get(
                "private"
            )
            self._json({"url": f"{self.server.url}/{name}"})
        elif self.path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif parts[:2] == ["api", "models"] and parts[4] == "preupload":
            files = json.loads(body)["files"]
            modes = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
                     for f in files]  # fmt: skip
            self._json({"files": modes})
        elif parts[:2] == ["api", "models"] and parts[4] == "commit":
            name = "/".join(parts[2:4])
            files = self.server.repositories[name]
            for line in body.splitlines():
                row = json.loads(line)
                if row["key"] == "file":
                    value = row["value"]
                    files[value["path"]] = base64.b64decode(value["content"])
            url = f"{self.server.url}/{name}/commit/{COMMIT}"
            self._json({"commitUrl": url, "commitOid": COMMIT})
        else:
            self._send(404, b"{}")

    def do_HEAD(self) -> None:
        self._file(body=False)

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] != ["api", "models"]:
            self._file(body=True)
            return
        self.server.requests.append(f"GET {self.path}")
        files = self.server.repositories.get("/".join(parts[2:4]))
        if files is None:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif len(parts) > 4 and parts[4] == "tree":
            self._json([{"type": "file", "path": name, "size": len(content),
                         "oid": hashlib.sha1(content).hexdigest()}
                        for name, content in files.items()])  # fmt: skip
        else:
            siblings = [{"rfilename": name} for name in files]
            self._json({"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": siblings})

    def _file(self, *, body: bool) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        owner, name, *rest = self.path.strip("/").split("/", 4)
        content = self.server.repositories.get(f"{owner}/{name}", {}).get(rest[-1] if rest else "")
        if content is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        etag = hashlib.sha1(content).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        self._send(200, content, headers, body=body)

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(
        self, status: int, content: bytes, headers: dict[str, str] | None = None, *,
        body: bool = True,
    ) -> None:  # fmt: skip
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
