"""A million entities with three million aliases: build, save, open, ask.

    python benchmarks/linking/link_scale.py [--entities 1000000] [--folder DIR] [--only graph ...]

A made graph (seeded): each entity has a label of one to four pseudo-words, in Zipf's
proportions, three aliases (another name, the label's last words, the label with its first word cut
to a letter) and two triples. It is read through `kg_loaders` from TSV files, then indexed. Every
stage is a process of its own: processor seconds with and wall seconds without imports, peak memory,
what lies on the disk. A quarter and half of the entities go before, for the fitted exponents.
Opening too: seconds to open and for the first query after that, milliseconds of processor time a
query over two hundred more. Files that were just written are in memory; from a cold disk the first
queries take longer.
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
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import growth, three_sizes, write_line

ALIASES = 3
TRIPLES = 2
N_WORDS = 60_000
N_QUERIES = 200
ENTITIES_PER_CHUNK = 100_000


# ---- work ----------------------------------------------------------------------------------------
def make_words(n_words: int, generator: np.random.Generator) -> NDArray[np.object_]:
    """Distinct capitalised pseudo-words of two to eight letters."""
    syllables = [onset + vowel for onset in "bcdfghjklmnprstvwz" for vowel in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < n_words:
        picks = generator.integers(0, len(syllables), (n_words, 3))
        lengths = generator.integers(1, 4, n_words).tolist()
        ends = generator.choice(["", "n", "r", "s", "l", "x"], n_words).tolist()
        for pick, length, end in zip(picks.tolist(), lengths, ends, strict=True):
            words["".join(syllables[i] for i in pick[:length]).capitalize() + end] = None
    return np.array(list(words)[:n_words], np.object_)


def draw_names(n: int, words: NDArray[np.object_], generator: np.random.Generator) -> list[str]:
    """`n` names of one to four words; common words often, except in names of one word."""
    weights = 1 / (np.arange(len(words)) + 5)
    lengths = generator.choice(4, n, p=[0.15, 0.5, 0.25, 0.1]) + 1
    picks = generator.choice(len(words), (n, 4), p=weights / weights.sum())
    picks[:, 0] = np.where(lengths == 1, generator.integers(0, len(words), n), picks[:, 0])
    sample = words[picks].tolist()
    return [" ".join(row[:length]) for row, length in zip(sample, lengths.tolist(), strict=True)]


def make_names(n: int, generator: np.random.Generator) -> list[str]:
    """`n` distinct names."""
    words = make_words(N_WORDS, generator)
    names: dict[str, None] = {}
    while len(names) < n:
        names |= dict.fromkeys(draw_names(n, words, generator))
    return list(names)[:n]


def make(folder: Path, n_entities: int) -> None:
    """`texts.tsv` and `triples.tsv`."""
    generator = np.random.default_rng(0)
    words = make_words(N_WORDS, generator)
    with (folder / "texts.tsv").open("w") as texts:
        for start in range(0, n_entities, ENTITIES_PER_CHUNK):
            n = min(ENTITIES_PER_CHUNK, n_entities - start)
            labels = draw_names(n, words, generator)
            others = draw_names(n, words, generator)
            for i, (label, other) in enumerate(zip(labels, others, strict=True), start):
                first, _, rest = label.partition(" ")
                rest = rest or first + "s"
                texts.write(f"Q{i}\t{label}\t{other}\t{rest}\t{first[0]}. {rest}\n")
    tails = generator.zipf(1.3, n_entities * TRIPLES) % n_entities
    relations = generator.zipf(1.5, n_entities * TRIPLES) % 500
    with (folder / "triples.tsv").open("w") as triples:
        for i, (relation, tail) in enumerate(zip(relations.tolist(), tails.tolist(), strict=True)):
            triples.write(f"Q{i % n_entities}\tP{relation}\tQ{tail}\n")


def queries(folder: Path) -> tuple[list[str], list[str]]:
    """Labels that are in the graph, and the same with two letters swapped."""
    with (folder / "texts.tsv").open() as texts:
        labels = [line.split("\t")[1] for line, _ in zip(texts, range(N_QUERIES + 1), strict=False)]
    return labels, [label[:2] + label[3:4] + label[2:3] + label[4:] for label in labels]


# ---- stages: build, then open and answer ---------------------------------------------------------
def build_graph(folder: Path) -> str:
    from kg_loaders import Source, load

    texts = {"columns": ("label", *["alias"] * ALIASES)}
    graph, _ = load(
        [folder / "triples.tsv", Source(folder / "texts.tsv", "texts", texts)],
        out=folder / "graph",
        force=True,
    )
    return f"{graph.n_entities:,} entities, {len(graph.entity_texts):,} texts"


def build_fuzzy(folder: Path) -> str:
    from entity_linking.fuzzy.index import FuzzyIndex
    from kg_loaders import KnowledgeGraph

    index = FuzzyIndex.of_graph(KnowledgeGraph.open(folder / "graph"))
    index.save(folder / "fuzzy", force=(folder / "fuzzy").exists())
    return f"{index.n_names:,} names"


def build_names(folder: Path) -> str:
    from entity_linking.names import NameIndex
    from kg_loaders import KnowledgeGraph

    index = NameIndex.build(KnowledgeGraph.open(folder / "graph"))
    index.save(folder / "names", force=(folder / "names").exists())
    return f"{index.n_names:,} names"


def open_graph(folder: Path) -> Callable[[str], int]:
    from kg_loaders import KnowledgeGraph

    graph = KnowledgeGraph.open(folder / "graph")
    return lambda query: len(graph.aliases(graph.n_entities // 2))


def open_fuzzy(folder: Path) -> Callable[[str], int]:
    from entity_linking.fuzzy.index import FuzzyIndex

    index = FuzzyIndex.open(folder / "fuzzy")
    return lambda query: len(index.search([query])[0])


def open_names(folder: Path) -> Callable[[str], int]:
    from entity_linking.names import NameCandidates, NameIndex

    source = NameCandidates(NameIndex.open(folder / "names"))
    return lambda query: len(source.of_surface(query))


BUILDERS: dict[str, Callable[[Path], str]] = {
    "graph": build_graph,
    "names": build_names,
    "fuzzy": build_fuzzy,
}
OPENERS: dict[str, Callable[[Path], Callable[[str], int]]] = {
    "graph": open_graph,
    "names": open_names,
    "fuzzy": open_fuzzy,
}
WITH_TYPOS = {"fuzzy"}


def measure_build(name: str, folder: Path) -> dict[str, Any]:
    start = time.perf_counter()
    built = BUILDERS[name](folder)
    wall = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return {"made": built, "wall_s": wall, "kept_s": time.process_time(), "peak_gb": peak}


def measure_open(name: str, folder: Path) -> dict[str, Any]:
    right, wrong = queries(folder)
    first, *others = wrong if name in WITH_TYPOS else right
    import_module_of(name)
    start, start_cpu = time.perf_counter(), time.process_time()
    link = OPENERS[name](folder)
    opened, spent = time.perf_counter() - start, time.process_time() - start_cpu
    link(first)
    answered = time.perf_counter() - start - opened
    start_cpu = time.process_time()
    n_answered = sum(link(query) > 0 for query in others)
    each = (time.process_time() - start_cpu) / len(others)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    share = n_answered / len(others)
    return {
        "open_s": opened, "open_cpu_s": spent, "first_s": answered, "ms_a_query": each * 1e3,
        "answered": share, "peak_gb": peak,
    }  # fmt: skip


def import_module_of(name: str) -> None:
    """Import before the clock runs; opening is what is measured."""
    import kg_loaders  # noqa: F401

    if name == "fuzzy":
        import entity_linking.fuzzy.index
    if name == "names":
        import entity_linking.names  # noqa: F401


def in_new_process(stage: str, name: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--stage", stage, name, "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def report(folder: Path, n_entities: int, names: list[str]) -> None:
    """Make the graphs and print a line a stage and size, and the exponents."""
    sizes = three_sizes(n_entities)
    results = {(stage, name): [] for name in names for stage in ("build", "open")}
    for n in sizes:
        inside = folder / str(n)
        inside.mkdir(parents=True, exist_ok=True)
        make(inside, n)
        for name in names:
            line = in_new_process("build", name, inside)
            files = (file for file in (inside / name).rglob("*") if file.is_file())
            size = sum(file.stat().st_size for file in files)
            write_line(
                row=f"build {name}", entities=n, **rounded(line), disk_mb=round(size / 1e6, 1)
            )
            results["build", name].append(line)
        for name in names:
            line = in_new_process("open", name, inside)
            write_line(row=f"open {name}", entities=n, **rounded(line))
            results["open", name].append(line)
    for name in names:
        for stage, field in (("build", "kept_s"), ("open", "open_cpu_s"), ("open", "ms_a_query")):
            costs = [line[field] for line in results[stage, name]]
            growth(f"{stage} {name}, {field}", "entities", sizes, costs)


def rounded(line: dict[str, Any]) -> dict[str, Any]:
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="keep the files here")
    parser.add_argument("--only", nargs="+", default=list(BUILDERS), choices=list(BUILDERS))
    parser.add_argument("--stage", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        stage, name = options.stage
        measure = measure_build if stage == "build" else measure_open
        print(json.dumps(measure(name, options.folder)))
    elif options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        report(options.folder, options.entities, options.only)
    else:
        with tempfile.TemporaryDirectory() as name:
            report(Path(name), options.entities, options.only)


if __name__ == "__main__":
    main()
