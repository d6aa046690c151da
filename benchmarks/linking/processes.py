"""Two processes beside one, and a simulated forecast for more machines.

    python benchmarks/linking/processes.py [--texts 20000] [--triples 4000000] [--repeats 3]
        [--only link|read|cluster|forecast]

A quarter and half of the texts and triples go before, once, for the fitted exponent.

`link`: `kept link` of made texts over a graph of made names with one worker and with two, in turn,
by the clock, start of the processes included; the files are equal byte by byte. Two workers need
two free cores, so the load of the machine is printed beside the ratio, and what two free cores
could give by the processor seconds of the first process and of its workers: `at_most` if all of
them were shared out evenly, `at_least` if nothing of the first process ran beside the workers.

`read`: the same of `kept kg build` from made N-Triples and from made TSV; the folders are equal.
There the workers are threads, so `at_most` and `at_least` say nothing. `bound` is the ratio by the
processor seconds of each part, if reading and the adding of what was read (which the first thread
does, the other reading on) are shared by two, and threads do the rest (sorting, hashing, writing,
verifying) in `by_threads_s`; `with_start` counts the start of the command, which two do not share.

`cluster`: `kept link` by one process and by two workers of a Ray cluster on this machine, by the
clock, the start of Ray included.

`forecast`: what 1, 8 and 64 machines would do, by arithmetic from parts that this run measures on
one; it is no measurement. A step of `kept pretrain` is: making the batch, which every process does
whole (`workers` of them ahead of time), its share of forward and backward, and an all-reduce of the
dense gradients in a ring at `--gigabits` a second with `--latency` a hop, which is not overlapped
here. Linking is a stream of parts: the reader's time bounds it from below.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from link_scale import make_names

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import growth, is_missing, three_sizes, write_line
from entity_linking.annotations import to_json
from kept import hosts
from kept.apps.cli.link.inputs import read_text
from kept.batches import KnowledgeBatch
from kept.graphs.builder import BuilderConfig, build_many
from kept.inputs.views import builder_for
from kept.linking.linkers import LinkerSettings
from kept.linking.stream import Work, link_items
from kept.methods import METHODS
from kept.tasks.datasets.atlas import linked_texts
from kg_loaders import (
    DamagePolicy,
    DamageReport,
    KnowledgeGraph,
    Source,
    Text,
    TextKind,
    assembly,
    atlas,
    graph_from_records,
    indexing,
    store,
)
from kg_loaders.disk import columns, keys, seals, string_order
from kg_loaders.reading import names

MACHINES = (1, 8, 64)
BATCH = 32


def seconds(run: Callable[[], object], repeats: int = 1) -> float:
    """Wall seconds, the median of `repeats`."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# ---- linking -------------------------------------------------------------------------------------
def write_work(folder: Path, n_texts: int, n_names: int) -> None:
    """A graph of so many names in `kg`, and sentences with some of them in `texts.txt`."""
    draws = np.random.default_rng(0)
    names = make_names(n_names, draws)
    graph_from_records(Text(f"Q{i}", TextKind.LABEL, name) for i, name in enumerate(names)).save(
        folder / "kg"
    )
    fillers = [name.lower().split()[0] for name in names[:2000]]
    with (folder / "texts.txt").open("w", encoding="utf-8") as file:
        for picks, named in zip(
            draws.integers(len(fillers), size=(n_texts, 20)).tolist(),
            draws.integers(len(names), size=(n_texts, 3)).tolist(),
            strict=True,
        ):
            words = [fillers[i] for i in picks]
            for at, name in zip((3, 9, 15), named, strict=True):
                words.insert(at, names[name])
            file.write(" ".join(words) + ".\n")


def in_turn(
    command_of: Callable[[str], list[str]], outputs: dict[str, Path], repeats: int, **what: Any
) -> float:
    """Print the clock of `kept` commands with one worker and with two, run in turn.

    Returns the processor seconds of one. Ends with an error where the two `outputs`, files or
    folders, are not the same byte by byte.
    """
    times: dict[str, list[float]] = {"1": [], "2": []}
    spent: dict[str, list[tuple[float, float]]] = {"1": [], "2": []}
    for _ in range(repeats):
        for n in times:
            command = [sys.executable, "-c", WATCHED, *command_of(n), "--workers", n, "--force"]
            os.sync()  # what was written before is not written out beside this
            start = time.perf_counter()
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            times[n].append(time.perf_counter() - start)
            of_parent, of_workers = json.loads(done.stderr.splitlines()[-1])
            spent[n].append((of_parent, of_workers))
    if bytes_of(outputs["1"]) != bytes_of(outputs["2"]):
        raise SystemExit(f"two workers made another {outputs['1'].name} than one: {what}")
    ratios = [one / two for one, two in zip(times["1"], times["2"], strict=True)]
    (one, _), (first, workers) = (
        [statistics.median(each) for each in zip(*spent[n], strict=True)] for n in "12"
    )
    write_line(
        **what, one_s=round(statistics.median(times["1"]), 2),
        two_s=round(statistics.median(times["2"]), 2), ratio=round(statistics.median(ratios), 2),
        ratios=[round(ratio, 2) for ratio in ratios],
        processor_s={"one": round(one, 2), "first": round(first, 2), "workers": round(workers, 2)},
        at_most=round(2 * one / (first + workers), 2),
        at_least=round(one / (first + workers / 2), 2),
        cores=os.cpu_count(), load=round(os.getloadavg()[0], 1), equal=True,
    )  # fmt: skip
    return one


WATCHED = """
import atexit, resource, runpy, sys
def tell():
    each = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print([usage.ru_utime + usage.ru_stime for usage in each], file=sys.stderr)
atexit.register(tell)
runpy.run_module("kept", run_name="__main__", alter_sys=True)
"""
"""Runs `kept`; its last line says the processor seconds of the first process and of the others."""


def bytes_of(path: Path) -> dict[str, bytes]:
    """A file, or all files of a folder."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).digest() for file in files
    }


def link(folder: Path, n_texts: int, repeats: int) -> None:
    lines = (folder / "texts.txt").read_text("utf-8").splitlines(keepends=True)
    kg, out = str(folder / "kg"), {n: folder / f"{n}.jsonl" for n in "12"}
    sizes, spent = three_sizes(n_texts), []
    for size in sizes:
        texts = folder / f"texts{size}.txt"
        texts.write_text("".join(lines[:size]), "utf-8")
        spent.append(in_turn(
            lambda n, texts=texts: ["link", str(texts), "--kg", kg, "-o", str(out[n])],
            out, repeats if size == n_texts else 1, work="kept link", texts=size,
        ))  # fmt: skip
    growth("kept link, one worker", "texts", sizes, spent)


def cluster(folder: Path, n_texts: int, repeats: int) -> None:
    """One process and a Ray cluster of two workers on this machine, by the clock, at two sizes.

    A line through both sizes gives what starting costs and what a text costs; where a text costs
    less with Ray, it pays from `pays_from_texts` on.
    """
    if is_missing("ray", work="kept link --cluster"):
        return
    lines = (folder / "texts.txt").read_text("utf-8").splitlines(keepends=True)
    ways = {"one": ["--workers", "1"], "ray": ["--workers", "2", "--cluster", "local"]}
    sizes, clock = (n_texts // 10, n_texts), {way: [] for way in ways}
    for size in sizes:
        texts = folder / f"some{size}.txt"
        texts.write_text("".join(lines[:size]), "utf-8")
        least = dict.fromkeys(ways, float("inf"))
        for _ in range(repeats):
            for way, flags in ways.items():
                out = str(folder / f"{way}.jsonl")
                command = ["link", str(texts), "--kg", str(folder / "kg"), "-o", out, "--force"]
                start = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "kept", *command, *flags], check=True,
                    capture_output=True,
                )  # fmt: skip
                least[way] = min(least[way], time.perf_counter() - start)
        for way, seconds_spent in least.items():
            clock[way].append(seconds_spent)
        equal = bytes_of(folder / "one.jsonl") == bytes_of(folder / "ray.jsonl")
        write_line(
            work="kept link --cluster", texts=size, one_s=round(least["one"], 2),
            ray_s=round(least["ray"], 2), ratio=round(least["one"] / least["ray"], 2),
            load=round(os.getloadavg()[0], 1), equal=equal,
        )  # fmt: skip
    a_text = {way: (spent[1] - spent[0]) / (sizes[1] - sizes[0]) for way, spent in clock.items()}
    start = {way: spent[0] - sizes[0] * a_text[way] for way, spent in clock.items()}
    gain = a_text["one"] - a_text["ray"]
    write_line(
        work="kept link --cluster, line", start_s={w: round(s, 2) for w, s in start.items()},
        microseconds_a_text={way: round(1e6 * spent, 1) for way, spent in a_text.items()},
        pays_from_texts=round((start["ray"] - start["one"]) / gain) if gain > 0 else None,
    )  # fmt: skip


# ---- reading -------------------------------------------------------------------------------------
ENTITY, RELATION = "http://www.wikidata.org/entity/Q", "http://www.wikidata.org/prop/direct/P"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


def write_triples(path: Path, n_triples: int) -> None:
    """Skewed triples among a fifth as many entities; of N-Triples one line in eleven is a label."""
    draws = np.random.default_rng(0)
    n_entities = max(n_triples // 5, 10)
    columns = (
        draws.integers(0, n_entities, n_triples),
        draws.zipf(1.5, n_triples) % 800,
        draws.zipf(1.2, n_triples) % n_entities,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    with path.open("w", encoding="utf-8") as file:
        if path.suffix == ".tsv":
            file.writelines(f"/m/0{h:x}\t/rel/{r}\t/m/0{t:x}\n" for h, r, t in rows)
            return
        for i, (h, r, t) in enumerate(rows):
            file.write(f"<{ENTITY}{h}> <{RELATION}{r}> <{ENTITY}{t}> .\n")
            if i % 10 == 0:
                file.write(f'<{ENTITY}{h}> <{LABEL}> "name {h} of it"@en .\n')


def read(folder: Path, n_triples: int, repeats: int) -> None:
    out, sizes = {n: folder / f"read{n}" for n in "12"}, three_sizes(n_triples)
    for path in (folder / "facts.nt", folder / "facts.tsv"):
        spent = []
        for size in sizes:
            write_triples(path, size)
            spent.append(in_turn(
                lambda n, path=path: ["kg", "build", str(path), "-o", str(out[n])],
                out, repeats if size == n_triples else 1, work=f"kept kg build {path.name}",
                triples=size, mb=round(path.stat().st_size / 1e6),
            ))  # fmt: skip
        growth(f"kept kg build {path.name}, one worker", "triples", sizes, spent)
        write_line(work=f"parts of {path.name}", **read_parts(path, folder / "parts", spent[-1]))
        path.unlink()


def read_parts(path: Path, out: Path, one: float) -> dict[str, float]:
    """Processor seconds of reading, of adding what was read, and of the rest; and the bound.

    `one` are those of the whole command by one worker.
    """
    clock = SharedClock()
    started = time.process_time()
    blocks = list(Source(path).read_in_blocks(DamageReport()))
    is_read = time.process_time()
    with ExitStack() as stack:
        for module in (assembly, indexing, store, seals, columns, keys, names, string_order):
            stack.enter_context(patch.object(module, "together", clock.together))
        assembled = assembly.Columns(n_threads=2)
        assembled.add(blocks)
        is_added, saved = time.process_time(), clock.saved
        KnowledgeGraph(**assembled.fields(languages=("en",))).save(out, n_threads=2)
        KnowledgeGraph.open(out, n_threads=2)
    reading, adding, rest = is_read - started, is_added - is_read, time.process_time() - is_added
    shutil.rmtree(out)
    by_threads = rest - (clock.saved - saved)
    every, shared = reading + adding + rest, max((reading + adding) / 2, adding - saved)
    start = max(one - every, 0.0)
    return {
        "start_s": round(start, 2),
        "reading_s": round(reading, 2),
        "adding_s": round(adding, 2),
        "rest_s": round(rest, 2),
        "by_threads_s": round(by_threads, 2),
        "bound": round(every / (shared + by_threads), 2),
        "with_start": round((start + every) / (start + shared + by_threads), 2),
    }


class SharedClock:
    """Stands for `together`: one call after the other; `saved` are the seconds that two threads on
    cores of their own would have saved, which no call parts further than it does itself."""

    def __init__(self) -> None:
        self.saved = 0.0

    def together(self, *calls: Callable[[], Any], n_threads: int) -> list[Any]:
        results: list[Any] = []
        works, longest, before = 0.0, 0.0, self.saved
        for call in calls:
            start, saved = time.process_time(), self.saved
            results.append(call())
            work = time.process_time() - start
            works, longest = works + work, max(longest, work - (self.saved - saved))
        self.saved = before + works - max(longest, works / min(n_threads, 2, len(calls) or 1))
        return results


# ---- forecast ------------------------------------------------------------------------------------
def step_parts(method: str) -> dict[str, float]:
    """Seconds to make a batch and to go forward and back over it, and bytes of dense gradients."""
    graph, tokenizer = atlas.graph(), hosts.load_tokenizer("minilm")
    every = linked_texts(atlas.sentences())
    texts = [every[i % len(every)] for i in range(BATCH)]
    config = builder_for(METHODS[method], BuilderConfig(max_words=96, max_nodes=192), {})
    view = METHODS[method].view.of(graph, tokenizer)

    def make() -> KnowledgeBatch:
        built = build_many(texts, tokenizer, graph, seed=0, config=config)
        return view.stacked(built, word_pad_id=int(tokenizer.pad_token_id or 0))

    batch, encoder = make(), METHODS[method].new_encoder("minilm", graph, tokenizer, seed=0)

    def step() -> None:
        encoder.zero_grad(set_to_none=True)
        encoder(batch).node_states.square().mean().backward()

    step()
    grown = sum(
        p.numel() for p in encoder.parameters() if p.grad is not None and not p.grad.is_sparse
    )
    return {"make": seconds(make, 5), "compute": seconds(step, 3), "bytes": 4.0 * grown}


def link_parts(folder: Path) -> dict[str, float]:
    """Seconds a text of reading, linking and writing."""
    report = DamageReport(policy=DamagePolicy("stop"))
    items: list[Any] = []
    read = seconds(lambda: items.extend(read_text(folder / "texts.txt", report)))
    graph = KnowledgeGraph.open(folder / "kg")
    linker = Work(LinkerSettings(kg=str(folder / "kg"))).linker(graph)
    some = items[:2000]
    link_items(linker, some)
    results: list[Any] = []
    linked = seconds(lambda: results.extend(link_items(linker, some)))
    written = seconds(lambda: [to_json(text) for text in results])
    return {"read": read / len(items), "link": linked / len(some), "write": written / len(results)}


def forecast(folder: Path, methods: Sequence[str], gigabits: float, latency: float) -> None:
    torch.set_num_threads(1)
    for method in methods:
        parts = step_parts(method)
        ms = {name: round(1e3 * parts[name], 1) for name in ("make", "compute")}
        write_line(
            work="measured on one", method=method, batch=BATCH, ms=ms, mib=parts["bytes"] / 2**20
        )
        for n in MACHINES:
            share = BATCH / n if n <= BATCH else 1  # beyond, some processes have no sample
            ring = 2 * (n - 1) * (parts["bytes"] / n / (gigabits * 1e9 / 8) + latency)
            compute = parts["compute"] * share / BATCH
            strong = max(parts["make"], compute + ring)  # the same batch, cut up
            weak = max(parts["make"] * n, parts["compute"] + ring)  # 32 texts for each machine
            write_line(
                work="forecast, not measured", method=method, machines=n,
                same_batch_texts_a_second=round(BATCH / strong, 1),
                batch_of_32_each_texts_a_second=round(BATCH * n / weak, 1),
                all_reduce_ms=round(1e3 * ring, 1),
                bound_by="batches" if parts["make"] * n > parts["compute"] + ring else "steps",
            )  # fmt: skip
    parts = link_parts(folder)
    write_line(work="measured on one", command="kept link", microseconds_a_text={
        name: round(1e6 * value, 1) for name, value in parts.items()})  # fmt: skip
    for n in MACHINES:
        spent = max(parts["read"] + parts["write"], parts["link"] / n)
        write_line(
            work="forecast, not measured", command="kept link --cluster", machines=n,
            texts_a_second=round(1 / spent),
            bound_by="one reader and writer" if spent > parts["link"] / n else "linking",
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--names", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--methods", default="colake,kbert")
    parser.add_argument("--gigabits", type=float, default=10.0)
    parser.add_argument("--latency", type=float, default=50e-6, help="seconds a hop")
    parser.add_argument("--triples", type=int, default=4_000_000)
    parser.add_argument("--only", choices=("link", "read", "cluster", "forecast"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only in (None, "read"):
            read(folder, options.triples, options.repeats)
        if options.only != "read":
            write_work(folder, options.texts, options.names)
        if options.only in (None, "link"):
            link(folder, options.texts, options.repeats)
        if options.only in (None, "cluster"):
            cluster(folder, options.texts, options.repeats)
        if options.only in (None, "forecast"):
            forecast(folder, options.methods.split(","), options.gigabits, options.latency)


if __name__ == "__main__":
    main()
