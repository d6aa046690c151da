"""Reading triples beside the named peer: processor seconds, memory, and how both grow.

    python benchmarks/graphs/readers.py [--triples 1000000] [--repeat 3] [--threads 1]
        [--only ROW ...]

A row reads the same file by kept and by its peer in turn, each time in a process of its own, at a
quarter, half and all of `--triples`; the best of `--repeat` counts, imports do not. What both read
is compared by a hash of their names and the number of different triples. One JSON line a size, and
one a row with the fitted exponents: time grows as triples to that power.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # as `kept` does

from benchmarks.measuring import Spent, compared, growth, in_turn, is_missing, three_sizes
from tests.kg_loaders.formats.wikidata_dump import read_with_json, write

Result = tuple[Iterable[str], Iterable[str], int]
"""Names of entities and of relations, and the number of different triples."""
ENTITY, RELATION = "http://www.wikidata.org/entity/Q", "http://www.wikidata.org/prop/direct/P"
GAP = 23
"""Between the numbers of entities, about as in Wikidata5M."""
SLOW = 300_000
"""Triples that rdflib is given at most."""
ITEM_TRIPLES = 50
"""An item of a dump, of 11 KB, stands for so many of `--triples`."""
DUMP = "dump.json"


def make(folder: Path, n_triples: int) -> None:
    """Skewed triples among a fifth as many entities, as N-Triples and as two kinds of TSV."""
    folder.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    n_entities = max(n_triples // 5, 10)
    heads = generator.integers(0, n_entities, n_triples) * GAP
    relations = generator.zipf(1.5, n_triples) % 800
    tails = (generator.zipf(1.2, n_triples) % n_entities) * GAP
    with (
        (folder / "x.nt").open("w") as nt,
        (folder / "q.tsv").open("w") as numbers,
        (folder / "n.tsv").open("w") as names,
    ):
        for h, r, t in zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True):
            nt.write(f"<{ENTITY}{h}> <{RELATION}{r}> <{ENTITY}{t}> .\n")
            numbers.write(f"Q{h}\tP{r}\tQ{t}\n")
            names.write(f"/m/0{h:x}\t/rel/{r}\t/m/0{t:x}\n")


def make_dump(folder: Path, n_triples: int) -> None:
    folder.mkdir(exist_ok=True)
    write(folder / DUMP, math.ceil(n_triples / ITEM_TRIPLES))


# ---- each returns what runs on the clock, and what makes a `Result` of its outcome ---------------
def kept_ids(path: Path) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    from kg_loaders import DamageReport, Source
    from kg_loaders.assembly import Columns

    def run() -> Any:
        columns = Columns()
        columns.add(Source(path).read_in_blocks(DamageReport()))
        return columns.ids()

    return run, lambda ids: (ids[0], ids[1], len(np.unique(ids[2], axis=0)))


def kept_graph(path: Path) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    from kg_loaders import load

    return lambda: load([path])[0], lambda graph: (graph.entities, graph.relations, graph.n_triples)


def kept_dump(path: Path) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    from kg_loaders import load

    def result(graph: Any) -> Result:
        texts = [
            f"{names.name(node)} {kind} {value}"
            for names, texts in (
                (graph.entities, graph.entity_texts),
                (graph.relations, graph.relation_texts),
            )
            for node, kind, value in zip(
                texts.nodes().tolist(), texts.kinds.tolist(), texts.values.to_pylist(), strict=True
            )
        ]
        return [*graph.entities, *texts], graph.relations, graph.n_triples

    return lambda: load([path])[0], result


def msgspec_dump(path: Path) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    """The same loop over what msgspec decodes, without a schema."""
    import msgspec

    return json_dump(path, msgspec.json.Decoder().decode)


def json_dump(
    path: Path, decode: Callable[[bytes], Any] = json.loads
) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    def run() -> Any:
        triples, texts = read_with_json(path, decode=decode)
        entities: dict[str, int] = {}
        relations: dict[str, int] = {}
        rows = [
            (
                entities.setdefault(head, len(entities)),
                relations.setdefault(relation, len(relations)),
                entities.setdefault(tail, len(entities)),
            )
            for head, relation, tail in triples
        ]
        for node, _, _, _ in texts:
            names = relations if node[0] == "P" else entities
            names.setdefault(node, len(names))
        return entities, relations, set(rows), set(texts)

    def result(graph: Any) -> Result:
        kinds = ("labels", "aliases", "descriptions")
        texts = [f"{node} {kinds.index(kind)} {value}" for node, kind, value, _ in graph[3]]
        return [*graph[0], *texts], graph[1], len(graph[2])

    return run, result


def pyoxigraph_ids(path: Path) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    import pyoxigraph as ox

    def run() -> Any:
        entities: dict[str, int] = {}
        relations: dict[str, int] = {}
        rows = [
            (
                entities.setdefault(quad.subject.value, len(entities)),
                relations.setdefault(quad.predicate.value, len(relations)),
                entities.setdefault(quad.object.value, len(entities)),
            )
            for quad in ox.parse(path=str(path), format=ox.RdfFormat.N_TRIPLES)
        ]
        return entities, relations, rows

    return run, lambda graph: (graph[0], graph[1], len(dict.fromkeys(graph[2])))


def rdflib_graph(path: Path) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    import rdflib

    def run() -> Any:
        graph = rdflib.Graph()
        graph.parse(path, format="nt")
        return graph

    def result(graph: Any) -> Result:
        nodes = dict.fromkeys(str(node) for h, _, t in graph for node in (h, t))
        return nodes, dict.fromkeys(map(str, graph.predicates())), len(graph)

    return run, result


def pykeen_ids(path: Path) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    from pykeen.triples import TriplesFactory

    return lambda: TriplesFactory.from_path(path), lambda factory: (
        factory.entity_to_id, factory.relation_to_id, factory.num_triples,
    )  # fmt: skip


def columns_of(path: Path) -> list[str]:
    return ["h", "r", "t", "end"] if path.suffix == ".nt" else ["h", "r", "t"]


def table_result(path: Path) -> Callable[[Any], Result]:
    """Of names, which in N-Triples stand in brackets, and rows of ids."""

    def result(outcome: Any) -> Result:
        entities, relations, rows = outcome
        cut = slice(1, -1) if path.suffix == ".nt" else slice(None)
        names = ([name[cut] for name in each] for each in (entities, relations))
        return *names, len(np.unique(rows, axis=0))

    return result


def polars_ids(path: Path) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    """Polars' reader of CSV and its categories; of N-Triples no line is checked."""
    import polars as pl

    def run() -> Any:
        table = pl.read_csv(
            path, separator=" " if path.suffix == ".nt" else "\t", has_header=False,
            quote_char=None, new_columns=columns_of(path),
        )  # fmt: skip
        nodes = pl.concat([table["h"], table["t"]]).cast(pl.Categorical)
        relations = table["r"].cast(pl.Categorical)
        ends = nodes.to_physical().to_numpy().reshape(2, -1)
        rows = np.stack([ends[0], relations.to_physical().to_numpy(), ends[1]], axis=1)
        return nodes.unique(), relations.unique(), rows

    return run, lambda outcome: table_result(path)(
        (outcome[0].cast(pl.String).to_list(), outcome[1].cast(pl.String).to_list(), outcome[2])
    )


def duckdb_ids(path: Path) -> tuple[Callable[[], Any], Callable[[Any], Result]]:
    """DuckDB's reader of CSV and joins with tables of names; of N-Triples no line is checked."""
    import duckdb

    fields = ", ".join(f"'{name}': 'VARCHAR'" for name in columns_of(path))
    mark = " " if path.suffix == ".nt" else "\t"

    def run() -> Any:
        db = duckdb.connect(config={"threads": int(os.environ[THREADS])})
        db.execute(
            f"CREATE TEMP TABLE x AS SELECT h, r, t FROM read_csv('{path}', delim='{mark}', "
            f"header=false, quote='', escape='', columns={{{fields}}}, auto_detect=false)"
        )
        number = "(row_number() OVER ())::INT - 1 AS i"
        db.execute(
            f"CREATE TEMP TABLE e AS SELECT n, {number} FROM "
            "(SELECT h AS n FROM x UNION SELECT t FROM x)"
        )
        db.execute(
            f"CREATE TEMP TABLE q AS SELECT n, {number} FROM (SELECT DISTINCT r AS n FROM x)"
        )
        ids = db.execute(
            "SELECT a.i AS h, q.i AS r, b.i AS t FROM x "
            "JOIN e a ON x.h = a.n JOIN e b ON x.t = b.n JOIN q ON x.r = q.n"
        ).fetchnumpy()
        names = [db.sql(f"SELECT n FROM {table}").to_arrow_table()["n"] for table in ("e", "q")]
        return *names, np.stack([ids["h"], ids["r"], ids["t"]], axis=1)

    return run, lambda outcome: table_result(path)(
        (outcome[0].to_pylist(), outcome[1].to_pylist(), outcome[2])
    )


THREADS = "POLARS_MAX_THREADS"
"""The threads of the peers that have some; kept reads by one."""
ROWS: dict[str, tuple[str, Callable[..., Any], Callable[..., Any]]] = {
    "nt-ids": ("x.nt", kept_ids, pyoxigraph_ids),
    "nt-graph": ("x.nt", kept_graph, rdflib_graph),
    "tsv-numbers": ("q.tsv", kept_ids, pykeen_ids),
    "tsv-names": ("n.tsv", kept_ids, pykeen_ids),
    "tsv-graph": ("q.tsv", kept_graph, pykeen_ids),
    "wikidata-json": (DUMP, kept_dump, json_dump),
    "nt-polars": ("x.nt", kept_ids, polars_ids),
    "nt-duckdb": ("x.nt", kept_ids, duckdb_ids),
    "tsv-numbers-polars": ("q.tsv", kept_ids, polars_ids),
    "tsv-numbers-duckdb": ("q.tsv", kept_ids, duckdb_ids),
    "tsv-names-polars": ("n.tsv", kept_ids, polars_ids),
    "tsv-names-duckdb": ("n.tsv", kept_ids, duckdb_ids),
    "wikidata-json-msgspec": (DUMP, kept_dump, msgspec_dump),
}
"""File, ours and the peer; `numbers` are Wikidata's identifiers, `names` others."""


PACKAGES = {"rdflib_graph": "rdflib", "pykeen_ids": "pykeen", "polars_ids": "polars",
            "duckdb_ids": "duckdb"}  # fmt: skip
"""What a peer needs and kept does not."""


def memory(field: str) -> int:
    """VmHWM or VmRSS of this process in KiB."""
    match = re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(match[1]) if match else 0


def measure(reader: Callable[..., Any], path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:  # what is imported when first used
        (make_dump if path.name == DUMP else make)(Path(name), 100)
        reader(Path(name) / path.name)[0]()
    run, result = reader(path)
    before = memory("VmRSS")
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = memory("VmHWM") - before
    entities, relations, n_triples = result(outcome)
    names = "\n".join([*sorted(entities), "", *sorted(relations), str(n_triples)])
    digest = hashlib.sha256(names.encode()).hexdigest()[:16]
    print(json.dumps({"cpu": cpu, "wall": wall, "mb": peak / 1024, "digest": digest}))


def best_of(row: str, path: Path, repeat: int) -> list[dict[str, Any]]:
    """The best of ours and of the peer, run in turn."""
    results: list[list[dict[str, Any]]] = [[], []]
    for _ in range(repeat):
        for side in (0, 1):
            command = [sys.executable, __file__, "--measure", row, str(side), str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results[side].append(json.loads(done.stdout.splitlines()[-1]))
    return [min(runs, key=lambda run: run["cpu"]) for runs in results]


def report(row: str, sizes: list[int], folders: dict[int, Path], repeat: int) -> None:
    seconds: list[list[float]] = [[], []]
    for n in sizes:
        path = folders[n] / ROWS[row][0]
        ours, peer = best_of(row, path, repeat)
        (floor,) = in_turn([path.read_bytes], 3)  # the file copied into memory
        for side, run in enumerate((ours, peer)):
            seconds[side].append(run["cpu"])
        spent = [Spent(run["cpu"], run["wall"], None) for run in (ours, peer)]
        compared(
            row, *spent, equal=ours["digest"] == peer["digest"], peer=ROWS[row][2].__name__,
            triples=n, kept_mb=round(ours["mb"]), peer_mb=round(peer["mb"]),
            floor_s=round(floor.processor, 4),
        )  # fmt: skip
    growth(row, "triples", sizes, *seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--threads", type=int, default=1, help="of polars and DuckDB")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.setdefault(THREADS, str(arguments.threads))
    if arguments.measure:
        row, side, path = arguments.measure
        measure(ROWS[row][1 + int(side)], Path(path))
        return
    with tempfile.TemporaryDirectory() as name:
        folders: dict[int, Path] = {}
        for row in arguments.only:
            peer = ROWS[row][2].__name__
            if peer in PACKAGES and is_missing(PACKAGES[peer], row=row, peer=peer):
                continue
            top = min(arguments.triples, SLOW) if row == "nt-graph" else arguments.triples
            sizes = three_sizes(top)
            for n in sizes:
                folders[n] = Path(name) / str(n)
                if not (folders[n] / ROWS[row][0]).exists():
                    (make_dump if ROWS[row][0] == DUMP else make)(folders[n], n)
            report(row, sizes, folders, arguments.repeat)


if __name__ == "__main__":
    main()
