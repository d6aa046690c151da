"""A graph of Wikidata5M's shape from files to a training step: time, memory, the forecast's error.

    python benchmarks/graphs/large_graph.py [--shares 0.0125,0.05] [--folder DIR] [--only STAGE ...]

Wikidata5M has 20.6 million triples of 822 relations between 4.8 million entities; a made graph
(seeded) has that share of them, two names an entity in the mean and a description each, in
Wikidata5M's own files. Every stage is a process of its own: processor seconds with and wall seconds
without imports, peak memory. `build` also prints by how much `kg_loaders.forecast` was off.
One JSON line a stage and share; with several shares at the end the exponents, and a line through
them carried to the full size. `--beyond-memory 2G` builds by DuckDB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import growth, write_line

N_TRIPLES, N_ENTITIES, N_RELATIONS = 20_600_000, 4_800_000, 822
GAP = 23
"""Between the numbers of entities, about as in Wikidata."""
N_WORDS = 60_000
ROWS_AT_ONCE = 1_000_000
N_TEXTS, N_ANCHORS = 200, 20_000


# ---- the files -----------------------------------------------------------------------------------
def make(folder: Path, share: float) -> None:
    """The triples, names and descriptions."""
    import pyarrow as pa

    n_entities, n_triples = round(N_ENTITIES * share), round(N_TRIPLES * share)
    draws = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    picks = letters[draws.integers(0, 26, (N_WORDS, 7))]
    words = pa.array([_word(i, "".join(row)) for i, row in enumerate(picks.tolist())])
    with (
        (folder / "wikidata5m_transductive_train.txt").open("wb") as triples,
        (folder / "wikidata5m_entity.txt").open("wb") as names,
        (folder / "wikidata5m_text.txt").open("wb") as texts,
    ):
        for start in range(0, n_triples, ROWS_AT_ONCE):
            n = min(ROWS_AT_ONCE, n_triples - start)
            _write_triples(triples, n, n_entities, draws)
        for start in range(0, n_entities, ROWS_AT_ONCE):
            _write_texts(
                names, texts, range(start, min(start + ROWS_AT_ONCE, n_entities)), words, draws
            )
    lines = "".join(f"P{i}\trelation {i}\tlink {i}\n" for i in range(N_RELATIONS))
    (folder / "wikidata5m_relation.txt").write_text(lines)


def _word(number: int, letters: str) -> str:
    """Three to seven letters; one in eleven has an accent, one in thirteen a hyphen."""
    word = letters[: 3 + number % 5].capitalize()
    return word + "é" * (number % 11 == 7) + "-on" * (number % 13 == 9)


def _write_triples(file: Any, n: int, n_entities: int, draws: np.random.Generator) -> None:
    heads = draws.integers(0, n_entities, n) * GAP
    tails = (draws.zipf(1.2, n) % n_entities) * GAP
    relations = draws.zipf(1.5, n) % N_RELATIONS
    _write(file, ("Q", heads, "\tP", relations, "\tQ", tails))


def _write_texts(
    names: Any, texts: Any, rows: range, words: Any, draws: np.random.Generator
) -> None:
    import pyarrow as pa

    numbers = np.array(rows) * GAP
    weights = 1 / (np.arange(len(words)) + 5)
    places = np.searchsorted(np.cumsum(weights / weights.sum()), draws.random((12, len(rows))))
    one, two, three, *more = (words.take(pa.array(row.clip(max=N_WORDS - 1))) for row in places)
    _write(names, ("Q", numbers, "\t", one, " ", two, "\t", three, " ", two))
    description = [part for word in more for part in (" ", word)][1:]
    _write(texts, ("Q", numbers, "\t", *description))


def _write(file: Any, parts: tuple[Any, ...]) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [
        pa.array(part).cast(pa.string()) if isinstance(part, np.ndarray) else part for part in parts
    ]
    lines = pc.binary_join_element_wise(*columns, "\n", "")
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    file.write(memoryview(lines.buffers()[2])[: offsets[lines.offset + len(lines)]])


def sources(folder: Path) -> list[Path]:
    return sorted(folder.glob("wikidata5m_*.txt"))


# ---- stages --------------------------------------------------------------------------------------
def build(folder: Path, beyond: str | None) -> Callable[[], dict[str, Any]]:
    from kg_loaders import load
    from kg_loaders.budget import bytes_of
    from kg_loaders.forecast import forecast

    estimate = forecast(sources(folder))

    def run() -> dict[str, Any]:
        start = time.process_time()
        graph, _ = load(
            sources(folder), out=folder / "kg", force=True,
            beyond_memory=None if beyond is None else bytes_of(beyond),
        )  # fmt: skip
        size = sum(path.stat().st_size for path in (folder / "kg").rglob("*") if path.is_file())
        core = sum((folder / "kg" / f"{n}.npy").stat().st_size for n in ("triples", "in_order"))
        off = _errors(
            estimate, graph, size, time.process_time() - start,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )  # fmt: skip
        return {
            "triples": graph.n_triples, "entities": graph.n_entities,
            "texts": len(graph.entity_texts), "disk_mb": round(size / 1e6),
            "bytes_per_triple": round(core / graph.n_triples, 1), "forecast_off": off,
            "forecast_worst": max(map(abs, off.values())),
        }  # fmt: skip

    return run


def _errors(estimate: Any, graph: Any, disk: int, seconds: float, memory: int) -> dict[str, float]:
    """How far each forecast is from what came: .1 is ten per cent too much."""
    pairs = {
        "triples": (estimate.n_triples, graph.n_triples),
        "entities": (estimate.n_entities, graph.n_entities),
        "memory": (estimate.memory_bytes, memory), "disk": (estimate.disk_bytes, disk),
        "seconds": (estimate.seconds, seconds),
    }  # fmt: skip
    return {name: round(guess / true - 1, 2) for name, (guess, true) in pairs.items()}


def opening(folder: Path, beyond: str | None) -> Callable[[], dict[str, Any]]:
    from kg_loaders import KnowledgeGraph

    def run() -> dict[str, Any]:
        start = time.perf_counter()
        KnowledgeGraph.open(folder / "kg", verify=True)
        first = time.perf_counter() - start
        times = []
        for _ in range(5):
            start = time.perf_counter()
            graph = KnowledgeGraph.open(folder / "kg")
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        graph.label(graph.n_entities // 2)
        graph.outgoing(graph.n_entities // 2)
        return {
            "first_s": round(first, 2), "again_ms": round(1e3 * float(np.median(times)), 1),
            "look_ms": round(1e3 * (time.perf_counter() - start), 2),
        }  # fmt: skip

    return run


def sample(folder: Path, beyond: str | None) -> Callable[[], dict[str, Any]]:
    from kg_loaders import KnowledgeGraph
    from kg_loaders.neighbours import neighbours

    graph = KnowledgeGraph.open(folder / "kg")

    def run() -> dict[str, Any]:
        anchors = np.random.default_rng(1).integers(0, graph.n_entities, N_ANCHORS)
        generator = np.random.default_rng(3)
        rows, _ = neighbours(graph, anchors, 15, policy="random", generator=generator)
        return {"anchors": N_ANCHORS, "found": len(rows)}

    return run


def names(folder: Path, beyond: str | None) -> Callable[[], dict[str, Any]]:
    from entity_linking.names import NameIndex
    from entity_linking.names.plain import plain_names
    from kg_loaders import KnowledgeGraph

    def run() -> dict[str, Any]:
        index = NameIndex.build(KnowledgeGraph.open(folder / "kg"))
        index.save(folder / "names", force=(folder / "names").exists())
        size = sum(path.stat().st_size for path in (folder / "names").rglob("*") if path.is_file())
        plain = float(plain_names(index.segments[0].names).mean())
        return {"names": index.n_names, "plain": round(plain, 2), "disk_mb": round(size / 1e6)}

    return run


def link(folder: Path, beyond: str | None) -> Callable[[], dict[str, Any]]:
    from entity_linking.names import NameIndex, NameLinker
    from kg_loaders import KnowledgeGraph

    index, graph = NameIndex.open(folder / "names"), KnowledgeGraph.open(folder / "kg")
    linker = NameLinker(index)
    texts = linked_texts(graph)

    def run() -> dict[str, Any]:
        linked = linker.link([text for text, _ in texts])
        return {"texts": len(linked), "links": sum(len(text.links) for text in linked)}

    return run


def linked_texts(graph: Any) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """Texts of three labels each, and where these stand."""
    draws, texts = np.random.default_rng(2), []
    for row in draws.integers(0, graph.n_entities, (N_TEXTS, 3)).tolist():
        text, places = "", []
        for entity in row:
            label = graph.label(entity)
            places.append((len(text), len(text) + len(label), graph.entities.name(entity)))
            text += f"{label} was near "
        texts.append((text + "it.", places))
    return texts


def train(folder: Path, beyond: str | None) -> Callable[[], dict[str, Any]]:
    from entity_linking import gold_link
    from entity_linking.mentions import LinkedText
    from kept import hosts
    from kept.encoders.colake import CoLAKE
    from kept.graphs.builder import BuilderConfig
    from kept.inputs.views import builder_for
    from kept.methods import METHODS
    from kept.objectives.model import KnowledgeForPreTraining
    from kept.training.config import TrainConfig
    from kept.training.optimisers import make_optimisers
    from kept.training.pretraining.data import WordGraphData
    from kg_loaders import KnowledgeGraph

    host, tokenizer = hosts.load_host("minilm"), hosts.load_tokenizer("minilm")

    def run() -> dict[str, Any]:
        graph = KnowledgeGraph.open(folder / "kg")
        config = builder_for(METHODS["colake"], BuilderConfig(), {}, in_pretraining=True)
        texts = [
            LinkedText(text, tuple(gold_link(*span) for span in places))
            for text, places in linked_texts(graph)
        ]
        data = WordGraphData(
            texts, graph, tokenizer, builder=config,
            view=METHODS["colake"].view.of(graph, tokenizer), objectives={"masked_nodes": {}},
        )  # fmt: skip
        start = time.perf_counter()
        encoder = CoLAKE.for_graph(host, graph, tokenizer, seed=0, entity_table="host")
        build_seconds = time.perf_counter() - start
        model = KnowledgeForPreTraining.of(encoder, {"masked_nodes": {}})
        settings = TrainConfig(steps=1, batch_size=16, row_optimiser="adagrad")
        optimisers = make_optimisers(model, settings)
        start = time.perf_counter()
        samples = [data.sample(i, epoch=0, seed=0) for i in range(16)]
        losses = model(data.collate(samples, epoch=0, seed=0, step=0)).losses
        sum(losses.values()).backward()  # type: ignore[union-attr]
        for optimiser in optimisers.values():
            optimiser.step()
        return {
            "rows": encoder.entity_embeddings.num_embeddings, "table_s": round(build_seconds, 1),
            "step_s": round(time.perf_counter() - start, 2),
            "losses": {name: round(float(loss), 2) for name, loss in losses.items()},
        }  # fmt: skip

    return run


STAGES: dict[str, Callable[[Path, str | None], Callable[[], dict[str, Any]]]] = {
    "build": build, "open": opening, "sample": sample, "names": names, "link": link, "train": train,
}  # fmt: skip


def stage(name: str, folder: Path, beyond: str | None) -> None:
    """Run one stage in this process and print its line."""
    run = STAGES[name](folder, beyond)
    start = time.perf_counter()
    result = run()
    wall = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = {"stage": name, "wall_s": round(wall, 2), "cpu_s": round(time.process_time(), 2)}
    write_line(**line, peak_mb=round(peak), peak_gb=round(peak * 2**20 / 1e9, 3), **result)


def main() -> None:
    """Print a JSON line per share and stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shares", default="0.0125,0.025,0.05")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--beyond-memory", dest="beyond")
    parser.add_argument("--stage", choices=STAGES)
    options = parser.parse_args()
    if options.stage:
        stage(options.stage, options.folder, options.beyond)
        return
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in options.only}
    with tempfile.TemporaryDirectory() as folder_name:
        for share in map(float, options.shares.split(",")):
            folder = (options.folder or Path(folder_name)) / f"share-{share}"
            if not folder.exists():
                folder.mkdir(parents=True)
                make(folder, share)
            for name in options.only:
                command = [sys.executable, __file__, "--stage", name, "--folder", str(folder)]
                command += ["--beyond-memory", options.beyond] if options.beyond else []
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                line = {"share": share, **json.loads(output.splitlines()[-1])}
                write_line(**line)
                results[name].append(line)
    for name, lines in results.items():
        if len(lines) > 1:
            carried(name, lines)


def carried(name: str, lines: list[dict[str, Any]]) -> None:
    """The exponents of a stage, and what a line through its sizes says of the full size."""
    shares = [line["share"] for line in lines]
    seconds, peaks = ([line[field] for line in lines] for field in ("cpu_s", "peak_gb"))
    at_full = [float(np.polyval(np.polyfit(shares, each, 1), 1.0)) for each in (seconds, peaks)]
    write_line(
        row=name, minutes_at_full_size=round(at_full[0] / 60, 1),
        gb_at_full_size=round(at_full[1], 1),
    )  # fmt: skip
    triples = [round(share * N_TRIPLES) for share in shares]
    growth(f"large graph, {name}", "triples", triples, seconds)
    growth(f"large graph, {name}, memory", "triples", triples, peaks)


if __name__ == "__main__":
    main()
