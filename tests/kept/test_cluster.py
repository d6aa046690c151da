"""A Ray cluster gives what one process gives, also when a worker is killed at its work."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from entity_linking.mentions import LinkedText
from kept.apps.cli import app
from kept.errors import ConfigError, MissingExtraError
from kept.graphs.builder import BuilderConfig, build_many
from kg_loaders import KnowledgeGraph
from tests.children import IMPORTABLE
from tests.kept.killed_part import killed_once

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

from kept.cluster import build_over_workers, over_workers  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own, of this and that
]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Any:
    """One for all tests here, which starts but once."""
    paths = {"env_vars": {"PYTHONPATH": str(IMPORTABLE)}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=paths)
    yield
    ray.shutdown()


def test_a_killed_worker_loses_and_doubles_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    parts = list(
        over_workers(partial(killed_once, marker), range(12), cluster="local", n_workers=2)
    )
    assert marker.exists(), "no worker was killed"
    assert parts == [(part, part * part) for part in range(12)]


def test_an_error_of_the_work_is_raised_as_it_is(tmp_path: Path) -> None:
    make = partial(killed_once, tmp_path)
    with pytest.raises(ValueError, match="part 99 is bad"):
        list(over_workers(make, [1, 99], cluster="local", n_workers=1))


def test_graphs_are_those_of_one_process(
    tokenizer: Any, small_graph: KnowledgeGraph, linked: list[LinkedText], tmp_path: Path
) -> None:
    small_graph.save(tmp_path / "kg")
    graph = KnowledgeGraph.open(tmp_path / "kg")
    config = BuilderConfig(max_neighbours=3)
    texts = linked * 8  # more than one part
    ours = build_over_workers(
        iter(texts), tokenizer, graph, seed=3, epoch=1, config=config, cluster="local", n_workers=2
    )
    theirs = build_many(texts, tokenizer, graph, seed=3, epoch=1, config=config)
    for one, other in zip(ours, theirs, strict=True):
        for name in ("ids", "kinds", "positions", "origins", "edges", "edge_weights"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()
        assert one.links == other.links
    with pytest.raises(ConfigError, match="in memory alone"):
        next(
            build_over_workers(texts, tokenizer, small_graph, seed=0, cluster="local", n_workers=1)
        )


def test_linking_over_a_cluster_writes_the_same_bytes(
    small_graph: KnowledgeGraph, linked: list[LinkedText], tmp_path: Path
) -> None:
    small_graph.save(tmp_path / "kg")
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(text.text for text in linked * 15), encoding="utf-8")
    flags = ["link", str(texts), "--kg", str(tmp_path / "kg")]
    for name, more in (("one", []), ("two", ["--cluster", "local", "--workers", "2"])):
        ended = CliRunner().invoke(app, [*flags, "-o", str(tmp_path / f"{name}.jsonl"), *more])
        assert ended.exit_code == 0, ended.output
    one, two = ((tmp_path / f"{name}.jsonl").read_bytes() for name in ("one", "two"))
    assert one == two
    assert one.count(b"\n") == 600
    assert b"Q90" in one


def test_without_ray_a_cluster_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kept\[ray\]'"):
        next(over_workers(lambda: int, ["1"], cluster="local", n_workers=1))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "auto"])
def test_an_address_without_a_cluster_says_so(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: Any, **__: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", nobody)
    with pytest.raises(ConfigError, match=f"no Ray cluster answers at '{address}'"):
        next(over_workers(lambda: int, ["1"], cluster=address, n_workers=1))
