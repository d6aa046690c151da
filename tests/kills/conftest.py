"""The world in which commands are killed, made once."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kg_loaders import KnowledgeGraph
from tests.kept.tasks.public_data.test_public_data import Owner
from tests.kg_loaders.rdf.test_endpoint import Server
from tests.kills.kill_commands import FINETUNE, LINK, Invocation, add_inputs, make_world, places_of
from tests.kills.kill_harness import Death, run_child


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, str]]:
    """Addresses of a SPARQL endpoint and of the owner of a data set, on this machine."""
    with Server() as endpoint, Owner() as owner:
        for server in (endpoint, owner):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"ENDPOINT": endpoint.url, "OWNER": f"http://127.0.0.1:{owner.server_port}"}
        for server in (endpoint, owner):
            server.shutdown()


@pytest.fixture(scope="session")
def killing(
    tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph, servers: dict[str, str]
) -> Path:
    """A world, and what some of the commands begin with."""
    world = tmp_path_factory.mktemp("world")
    make_world(world, small_graph)
    add_inputs(world, small_graph, servers)
    out = tmp_path_factory.mktemp("linked")
    places = places_of(world, out)
    for arguments in (("kg", "merge", "WORLD/kg", "-o", "OUT/pairs.jsonl"), FINETUNE):
        ended = run_child(Invocation(arguments, places), out)
        assert ended.code == 0, ended.output
    pairs = [json.loads(line) for line in (out / "pairs.jsonl").read_text().splitlines()]
    lines = [json.dumps(pair | {"same": True}) for pair in pairs]
    (world / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    shutil.copytree(out / "run", world / "finetuned")
    linked = run_child(Invocation(LINK, places), out)
    assert linked.code == 0, linked.output
    shutil.copy(out / "links.jsonl", world / "links.jsonl")
    (out / "links.jsonl").unlink()
    first = next(
        n for n, event in enumerate(linked.events) if event.startswith("open links.jsonl.part")
    )
    assert run_child(Invocation(LINK, places), out, Death(first + 1)).code is None
    shutil.copy(out / "links.jsonl.part.json", world / "part.json")
    return world
