"""`kept serve` under load on the loopback interface: batched against one request at a time.

The same service over the atlas with MiniLM is asked by clients that each wait for their answer;
then it is restarted under load, the new process beside the old one on the same socket. Prints
requests a second, latencies in milliseconds, and how many requests were answered, refused (503)
and lost (no answer at all). The peer of the ratio is the service with batches of one text. Before,
one client asks for 8, 16 and 32 texts at once: the exponents are of the median time of an answer.

    python benchmarks/commands/serve.py [--seconds 8] [--clients 16]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import growth, write_line
from kept import atlas

TOKEN = "0123456789abcdef"
TEXT = "Marie Curie moved from Warsaw to Paris, the capital of France, and worked at the Sorbonne."
PATHS = ("/link", "/encode")
AT_ONCE, N_ASKED = (8, 16, 32), 7


def start(kg: Path, listening: socket.socket, batch_texts: int) -> subprocess.Popen[str]:
    """A service on the socket, once it has said where it listens."""
    command = [
        sys.executable, "-m", "kept", "serve", "--kg", str(kg), "--model", "minilm",
        "--fd", str(listening.fileno()), "--batch-texts", str(batch_texts), "--threads", "1",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, pass_fds=[listening.fileno()], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env={**os.environ, "KEPT_TOKEN": TOKEN},
    )  # fmt: skip
    assert process.stdout is not None
    assert "/docs" in process.stdout.readline()
    return process


def post(port: int, path: str, n_texts: int = 1) -> int:
    """The status of one request over a connection of its own; 0 where it was lost."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    try:
        connection.request("POST", path, json.dumps({"texts": [TEXT] * n_texts}), headers)
        reply = connection.getresponse()
        reply.read()
    except (OSError, http.client.HTTPException):
        return 0
    else:
        return reply.status
    finally:
        connection.close()


def seconds_of_answer(port: int, path: str, n_texts: int) -> float:
    """The median by the clock."""
    spent = []
    for _ in range(N_ASKED):
        start = time.perf_counter()
        assert post(port, path, n_texts) == 200
        spent.append(time.perf_counter() - start)
    return float(np.median(spent))


class Load:
    """Clients that ask and wait, until told to stop."""

    def __init__(self, port: int, path: str, n_clients: int) -> None:
        self.port, self.path = port, path
        self.seconds, self.statuses = list[float](), Counter[int]()
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._client) for _ in range(n_clients)]
        self._start = time.perf_counter()
        for thread in self._threads:
            thread.start()

    def _client(self) -> None:
        while not self._stop.is_set():
            start = time.perf_counter()
            status = post(self.port, self.path)
            with self._lock:
                self.statuses[status] += 1
                self.seconds.append(time.perf_counter() - start)

    def end(self) -> dict[str, Any]:
        """Stop, and return what was counted."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        taken = time.perf_counter() - self._start
        p50, p95, p99 = np.percentile(np.array(self.seconds) * 1000, [50, 95, 99])
        return {
            "per_second": round(self.statuses[200] / taken, 1),
            "p50_ms": round(float(p50), 1),
            "p95_ms": round(float(p95), 1),
            "p99_ms": round(float(p99), 1),
            "answered": self.statuses[200],
            "refused": self.statuses[503],
            "lost": self.statuses[0],
            "other": sum(self.statuses.values())
            - sum(self.statuses[status] for status in (0, 200, 503)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--clients", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listening:
        kg = Path(folder) / "kg"
        atlas.graph().save(kg)
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        port = listening.getsockname()[1]
        rates: dict[tuple[str, int], float] = {}
        for batch_texts in (1, 64):
            process = start(kg, listening, batch_texts)
            for path in PATHS:
                post(port, path)
                if batch_texts > 1:
                    spent = [seconds_of_answer(port, path, n) for n in AT_ONCE]
                    growth("one request", "texts", AT_ONCE, spent, kind=path)
                load = Load(port, path, options.clients)
                time.sleep(options.seconds)
                result = load.end()
                rates[path, batch_texts] = result["per_second"]
                row = {"path": path, "batch_texts": batch_texts, "clients": options.clients}
                write_line(row="requests", **row, **result)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        for path in PATHS:
            ratio = rates[path, 64] / max(rates[path, 1], 1e-9)
            write_line(row="batched beside one by one", path=path, ratio=round(ratio, 2))
        write_line(row="restarts", **restarted(kg, listening, options.clients, options.seconds))


def restarted(kg: Path, listening: socket.socket, n_clients: int, seconds: float) -> dict[str, Any]:
    """Requests while a new process takes over the socket, twice, and the old one is stopped."""
    process = start(kg, listening, 64)
    load = Load(listening.getsockname()[1], "/encode", n_clients)
    codes = []
    for _ in range(2):
        time.sleep(seconds / 4)
        successor = start(kg, listening, 64)
        time.sleep(seconds / 4)
        process.send_signal(signal.SIGTERM)
        codes.append(process.wait(60))
        process = successor
    result = load.end()
    process.send_signal(signal.SIGTERM)
    codes.append(process.wait(60))
    return {"restarts": 2, "clients": n_clients, "exit_codes": codes} | result


if __name__ == "__main__":
    main()
