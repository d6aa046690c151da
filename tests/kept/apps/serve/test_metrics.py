"""What a service counts, in Prometheus' text format."""

from __future__ import annotations

from kept.apps.serve.metrics import Metrics


def values(metrics: Metrics, n_waiting: int = 0, memory: int = 0) -> dict[str, float]:
    lines = metrics.text(n_waiting=n_waiting, memory=memory).decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def test_requests_are_counted_by_path_and_status() -> None:
    metrics = Metrics()
    metrics.request("/link", 200, 0.02)
    metrics.request("/link", 200, 2.0)
    metrics.request("/link", 503, 0.001)
    metrics.request("/secret/Ada", 404, 0.5)
    metrics.request("/other", 404, 0.5)
    samples = values(metrics)
    assert samples['kept_requests_total{path="/link",status="200"}'] == 2
    assert samples['kept_requests_total{path="/link",status="503"}'] == 1
    assert samples['kept_requests_total{path="other",status="404"}'] == 2
    assert not any("secret" in name for name in samples), "no path that is not the service's own"
    assert samples['kept_request_seconds_bucket{le="0.025",path="/link"}'] == 2
    assert samples['kept_request_seconds_sum{path="/link"}'] == 2.021


def test_batches_are_counted_by_questions_and_requests() -> None:
    metrics = Metrics()
    metrics.batch("encode", 5, 2)
    metrics.batch("encode", 1, 1)
    samples = values(metrics)
    assert samples['kept_batch_questions_sum{kind="encode"}'] == 6
    assert samples['kept_batch_requests_sum{kind="encode"}'] == 3
    assert samples['kept_batch_questions_bucket{kind="encode",le="4.0"}'] == 1
    assert samples['kept_batch_requests_bucket{kind="encode",le="2.0"}'] == 2


def test_what_waits_and_what_it_takes_are_of_now() -> None:
    metrics = Metrics()
    values(metrics, n_waiting=9, memory=9)
    samples = values(metrics, n_waiting=3, memory=1 << 30)
    assert (samples["kept_waiting"], samples["kept_memory_bytes"]) == (3, 1 << 30)
    assert "kept_requests_total" not in "".join(values(Metrics())), "each service has its own"
