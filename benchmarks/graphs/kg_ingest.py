"""How fast a knowledge graph is read, beside pyoxigraph, PyKEEN and pandas on the same triples.

    python benchmarks/graphs/kg_ingest.py [--triples 300000] [--peer-triples N]

Every row is a process of its own: CPU seconds without imports, peak memory with them. What a row
does differs, and is said: only kept checks every line, drops duplicates, sorts, hashes and saves.
The last lines open the folder and look triples up.
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

import numpy as np


def make(folder: Path, n_triples: int) -> None:
    """Skewed triples among up to a million entities, as TSV and N-Triples."""
    generator = np.random.default_rng(0)
    n_entities = max(n_triples // 5, 10)
    heads = generator.integers(0, n_entities, n_triples) * 97
    relations = generator.zipf(1.5, n_triples) % 800
    tails = (generator.zipf(1.2, n_triples) % n_entities) * 97
    with (folder / "x.tsv").open("w") as tsv, (folder / "x.nt").open("w") as nt:
        for h, r, t in zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True):
            tsv.write(f"Q{h}\tP{r}\tQ{t}\n")
            nt.write(f"<urn:x:Q{h}> <urn:x:P{r}> <urn:x:Q{t}> .\n")


def read_kept(folder: Path) -> tuple[Callable[[], int], str]:
    from kg_loaders import load

    out = folder / "kg"
    return lambda: load([folder / "x.tsv"], out=out, force=True)[0].n_triples, (
        "lines checked, distinct, sorted, both CSRs, hashed, saved with fsync"
    )


def read_pyoxigraph(folder: Path) -> tuple[Callable[[], int], str]:
    import pyoxigraph as ox

    def run() -> int:
        entities: dict[str, int] = {}
        relations: dict[str, int] = {}
        rows = [
            (
                entities.setdefault(quad.subject.value, len(entities)),
                relations.setdefault(quad.predicate.value, len(relations)),
                entities.setdefault(quad.object.value, len(entities)),
            )
            for quad in ox.parse(path=str(folder / "x.nt"), format=ox.RdfFormat.N_TRIPLES)
        ]
        return len(rows)

    return run, "N-Triples to ids in Python lists"


def read_pyoxigraph_store(folder: Path) -> tuple[Callable[[], int], str]:
    import pyoxigraph as ox

    def run() -> int:
        store = ox.Store(str(folder / "ox"))
        store.bulk_load(path=str(folder / "x.nt"), format=ox.RdfFormat.N_TRIPLES)
        return len(store)

    return run, "N-Triples to its store on disk"


def read_pykeen(folder: Path) -> tuple[Callable[[], int], str]:
    from pykeen.triples import TriplesFactory

    return lambda: TriplesFactory.from_path(folder / "x.tsv").num_triples, (
        "sorted vocabularies and id tensor in memory"
    )


def read_pandas(folder: Path) -> tuple[Callable[[], int], str]:
    import pandas as pd

    def run() -> int:
        frame = pd.read_csv(
            folder / "x.tsv", sep="\t", header=None, dtype=str, quoting=3, keep_default_na=False
        )
        pd.factorize(pd.concat([frame[0], frame[2]]))
        pd.factorize(frame[1])
        return len(frame)

    return run, "unsorted ids in memory, nothing checked"


READERS = {
    "kept": read_kept,
    "pyoxigraph": read_pyoxigraph,
    "pyoxigraph store": read_pyoxigraph_store,
    "pykeen": read_pykeen,
    "pandas": read_pandas,
}


def measure(name: str, folder: Path) -> None:
    run, note = READERS[name](folder)
    wall, cpu = time.perf_counter(), time.process_time()
    n_triples = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([n_triples, wall, cpu, peak, note]))


def look_up(folder: Path) -> None:
    from kg_loaders import KnowledgeGraph

    times = []
    for _ in range(5):
        start = time.perf_counter()
        graph = KnowledgeGraph.open(folder / "kg")
        times.append(time.perf_counter() - start)
    print(f"open {graph}: first {times[0] * 1e3:.1f} ms, best of 5 {min(times) * 1e3:.1f} ms")
    rows = np.random.default_rng(1).integers(0, graph.n_triples, 100_000)
    asked = np.asarray(graph.triples[rows])
    start = time.perf_counter()
    assert graph.contains(asked).all()
    print(f"contains: {len(asked) / (time.perf_counter() - start) / 1e6:.2f} million triples/s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--triples", type=int, default=300_000)
    parser.add_argument("--only", nargs="*", default=list(READERS), choices=list(READERS))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure[0], Path(arguments.measure[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, arguments.triples)
        print(f"{'':18}{'triples':>10}{'wall s':>9}{'CPU s':>9}{'per CPU s':>11}{'peak MB':>9}")
        for reader in arguments.only:
            command = [sys.executable, __file__, "--measure", reader, name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            n, wall, cpu, peak, note = json.loads(done.stdout.splitlines()[-1])
            print(f"{reader:18}{n:10}{wall:9.2f}{cpu:9.2f}{n / cpu:11.0f}{peak:9.0f}  {note}")
        if "kept" in arguments.only:
            look_up(folder)


if __name__ == "__main__":
    main()
