"""What the service counts, for Prometheus: requests, seconds, batches. No text, no name, no path
that was not ours."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

PATHS = (
    "/link", "/facts", "/ask", "/predict", "/show", "/encode", "/probe", "/complete", "/health",
    "/metrics",
)  # fmt: skip
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The counters of one service, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "kept_requests", "Requests by path and status.", ("path", "status"),
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "kept_request_seconds", "From the headers of a request to its answer.", ("path",),
            buckets=SECONDS, registry=self._registry,
        )  # fmt: skip
        self._texts = Histogram(
            "kept_batch_questions", "Questions read in one batch.", ("kind",), buckets=SIZES,
            registry=self._registry,
        )  # fmt: skip
        self._joined = Histogram(
            "kept_batch_requests", "Requests joined in one batch.", ("kind",), buckets=SIZES,
            registry=self._registry,
        )  # fmt: skip
        self._waiting = Gauge("kept_waiting", "Requests that wait.", registry=self._registry)
        self._memory = Gauge("kept_memory_bytes", "Resident memory.", registry=self._registry)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request; paths that are none of ours are one."""
        name = path if path in PATHS else "other"
        self._requests.labels(name, str(status)).inc()
        self._seconds.labels(name).observe(seconds)

    def batch(self, kind: str, n_questions: int, n_requests: int) -> None:
        """Count a batch."""
        self._texts.labels(kind).observe(n_questions)
        self._joined.labels(kind).observe(n_requests)

    def text(self, *, n_waiting: int, memory: int) -> bytes:
        """Return everything in Prometheus' text format."""
        self._waiting.set(n_waiting)
        self._memory.set(memory)
        return generate_latest(self._registry)
