"""What the scripts are run with, and what is asked of the rows they print.

`at_least` and `at_most` bound the figure, `aim` is what would be good. The figure is a field of the
last line that has all of `where`, or one field through another (`peer_mb/kept_mb`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FLAGS = {
    "commands/serve.py": "--seconds 4",
    "graphs/extending.py": "--seeds 1",
    "graphs/readers.py": "--triples 800000 --repeat 1",
    "linking/dense_kinds.py": "--entities 5000,10000,20000",
    "linking/link_scale.py": "--entities 100000",
    "linking/linking_rerankers.py": "--texts 2000 --seeds 1",
    "linking/processes.py": "--repeats 1 --texts 12000",
    "models/encoders.py":
        "--methods kbert,ernie,kadapter,colake --sentences 32 --nodes 256 --repeats 2 "
        "--node-sentences 8",
    "models/finetuning.py": "--precision fp32,bf16",
    "models/intervals.py": "--repeats 2000 --answers 60",
    "models/kg_completion.py": "--kinds 'TransE L2,ComplEx,RotatE L2'",
}  # fmt: skip
"""With which all scripts together take half an hour on two cores; the rest run without flags."""

SMALL = {
    "commands/compare.py": "--limit 16",
    "commands/inference.py": "--texts 4 --methods none --variants bfloat16",
    "commands/serve.py": "--seconds 0.5 --clients 2",
    "commands/startup.py": "--entities 400 --runs 1",
    "graphs/extending.py": "--seeds 1",
    "graphs/large_graph.py": "--shares 0.0001,0.0002,0.0004",
    "graphs/neighbours.py": "--repeat 1",
    "graphs/readers.py":
        "--triples 400 --repeat 1 --only nt-ids nt-polars nt-duckdb wikidata-json-msgspec",
    "graphs/wordgraphs.py": "--graphs 16 --repeats 1",
    "linking/dense_kinds.py": "--entities 300,600,1200 --width 16",
    "linking/link_scale.py": "--entities 300",
    "linking/linking.py": "--names 300 --sentences 40 --repeats 1",
    "linking/linking_rerankers.py": "--texts 200 --seeds 1",
    "linking/one_call.py": "--names 300 --sentences 20 --repeat 1",
    "linking/processes.py":
        "--texts 300 --names 400 --repeats 1 --methods colake --triples 3000",
    "models/decoders.py": "--words 4 --repeat 1",
    "models/encoders.py":
        "--methods ernie --per-node colake --sentences 4 --node-sentences 2 --lengths 64 "
        "--nodes 64 --repeats 1",
    "models/entity_tables.py": "--rows 500,1000,2000 --table 30000",
    "models/finetuning.py": "--texts 64 --one --epochs 1",
    "models/intervals.py": "--repeats 40 --answers 20",
    "models/kg_completion.py": "--quick --repeat 1 --kinds ComplEx --trained 1024",
    "models/probing.py": "--samples 8 --repeat 1",
    "models/sparse_updates.py": "--rows 30000 --width 8",
}  # fmt: skip
"""`--small`: a trial of every script, each in some seconds."""

BY_HAND = {
    "graphs/real_rdf.py": "it needs folders of RDF",
    "models/recipe_rates.py": "it needs a method and its rates",
}
"""Scripts that `make bench` leaves out, and why."""

LARGE = {
    "graphs/large_graph.py": "--shares 1.0",
    "graphs/readers.py": "--triples 5000000 --repeat 1 --only nt-ids tsv-numbers",
    "linking/link_scale.py": "--entities 1000000",
    "linking/processes.py": "--only read --triples 10000000 --repeats 1",
    "models/entity_tables.py":
        "--only memory --rows 4800000 --case 'RowAdagrad, host table'",
}  # fmt: skip
"""`--large`: sizes that take from minutes to an hour, and up to 10 GB."""

NO_GROWTH = {
    "commands/compare.py": "a whole command of one size",
    "linking/one_call.py": "single calls on inputs of one size",
    "models/decoders.py": "one decoder, of one size",
    "models/sparse_updates.py": "peers of rows whose growth models/entity_tables.py has",
    "models/intervals.py": "a simulation of intervals, no speed",
    "linking/linking_rerankers.py": "how often links are right, no speed",
}
"""Scripts without three sizes, and why."""


@dataclass(frozen=True)
class Aim:
    """A row and its bounds."""

    work: str
    script: str
    where: dict[str, Any]
    value: str = "times_as_fast"
    at_least: float | None = None
    at_most: float | None = None
    aim: float | None = None
    against: str = ""
    large: bool = False

    @property
    def bound(self) -> str:
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return f"at most {self.at_most:g}" if self.at_most is not None else ""

    def holds(self, measured: float) -> bool:
        least = self.at_least is None or measured >= self.at_least
        return least and (self.at_most is None or measured <= self.at_most)

    def reaches_aim(self, measured: float) -> bool:
        if self.aim is None:
            return True
        return measured >= self.aim if self.at_least is not None else measured <= self.aim


READERS, NEIGHBOURS = "graphs/readers.py", "graphs/neighbours.py"
LINKING, PROCESSES = "linking/linking.py", "linking/processes.py"
DECODERS = "models/decoders.py"
ONE_CALL = "linking/one_call.py"
COMPLETION, TABLES = "models/kg_completion.py", "models/entity_tables.py"
ENCODERS, STARTUP, LARGE_GRAPH = (
    "models/encoders.py", "commands/startup.py", "graphs/large_graph.py",
)  # fmt: skip
INFERENCE = "commands/inference.py"
METHODS_ON_MINILM = (
    "ernie", "knowbert", "kbert", "words", "kepler", "colake", "kadapter", "ebert", "libert",
    "sensebert", "sentilare", "wklm", "ktnet", "qagnn", "greaselm", "luke",
)  # fmt: skip

AIMS = [
    Aim("N-Triples to ids, checked", READERS, {"row": "nt-ids"},
          at_least=2, aim=3, against="pyoxigraph"),
    Aim("N-Triples to a graph", READERS, {"row": "nt-graph"},
          at_least=15, aim=30, against="rdflib"),
    Aim("N-Triples to a graph, memory", READERS, {"row": "nt-graph"}, "peer_mb/kept_mb",
          at_least=10, aim=20, against="rdflib"),
    Aim("TSV with Q-numbers to ids", READERS, {"row": "tsv-numbers"},
          at_least=6, aim=10, against="PyKEEN"),
    Aim("Wikidata's JSON to a graph", READERS, {"row": "wikidata-json"},
          at_least=4, aim=8, against="json-module loop"),
    *(Aim(f"{work} to ids", READERS, {"row": f"{row}-{peer}"}, at_least=1.5, against=peer)
      for work, row in (("N-Triples", "nt"), ("TSV with Q-numbers", "tsv-numbers"),
                        ("TSV with other names", "tsv-names"))
      for peer in ("polars", "duckdb")),
    Aim("Wikidata's JSON to a graph", READERS, {"row": "wikidata-json-msgspec"},
          at_least=4, against="msgspec loop"),
    Aim("15 neighbours of 20,000, batches of 1,024", NEIGHBOURS, {"row": "dict, batch 1024"},
          at_least=8, aim=12, against="dict, random.sample"),
    Aim("15 neighbours, a batch of 1,024", NEIGHBOURS, {"row": "dgl, batch 1024"},
          at_least=1, aim=2, against="dgl"),
    Aim("15 neighbours, one batch", NEIGHBOURS, {"row": "dgl, batch 20000"},
          at_least=1, aim=2, against="dgl"),
    Aim("a hub, time by its degree (power)", NEIGHBOURS, {"row": "hub"}, "kept_exponent",
          at_most=0.1, aim=0.1),
    Aim("sentence to graph to mask", "graphs/wordgraphs.py", {"row": "build, view, stack by 32"},
          at_least=8, aim=20, against="loops over lists"),
    *(Aim("mentions of 100,000 aliases", LINKING, {"row": "mentions", "peer": peer},
            at_least=least, aim=aim, against=peer)
      for peer, least, aim in (("spaCy PhraseMatcher", 14, 19), ("flashtext", 3.5, 4.6))),
    Aim("mentions of a sentence, µs", ONE_CALL, {"row": "mentions of a sentence"}, "kept_us",
          at_most=40, aim=20),
    Aim("mentions of a sentence", ONE_CALL, {"row": "mentions of a sentence"},
          at_least=0.5, aim=1, against="pyahocorasick"),
    Aim("DictionaryLinker, a sentence, µs", ONE_CALL, {"row": "DictionaryLinker, a sentence"},
          "kept_us", at_most=100, aim=60),
    Aim("15 random neighbours of a hub", ONE_CALL, {"row": "15 random neighbours of a hub"},
          at_least=0.3, aim=0.5, against="dict, random.sample"),
    *(Aim(f"filtered ranking, CoDEx-M, {kind}", COMPLETION, {"row": "ranking", "kind": kind},
            at_least=least, against="PyKEEN")
      for kind, least in (("TransE L2", 66), ("ComplEx", 53), ("RotatE L2", 305))),
    *(Aim(f"training, 32 negatives, {kind}", COMPLETION, {"row": "training", "kind": kind},
            at_least=least, aim=10, against="PyKEEN")
      for kind, least in (("TransE L2", 6), ("ComplEx", 8), ("RotatE L2", 8))),
    *(Aim(f"filtered ranking, CoDEx-M, {kind}, and plain torch", COMPLETION,
            {"row": "plain ranking", "kind": kind}, at_least=8, against="30 lines of torch")
      for kind in ("TransE L2", "ComplEx", "RotatE L2")),
    *(Aim(f"training, 32 shared negatives, {kind}", COMPLETION,
            {"row": "plain training", "kind": kind}, at_least=3, against="a loop in torch")
      for kind in ("TransE L2", "ComplEx", "RotatE L2")),
    Aim("a training step of ULTRA, WN18RR_v1", COMPLETION, {"row": "ultra step"},
          at_least=4, against="index_add over all edges"),
    Aim("cloze, processor", "models/probing.py", {"row": "cloze"},
          at_least=7.9, against="the loop of 2019"),
    Aim("cloze, clock", "models/probing.py", {"row": "cloze"}, "by_the_clock",
          at_least=16, against="the loop of 2019"),
    Aim("cloze, processor, and today's lines", "models/probing.py",
          {"row": "cloze, today's lines"}, at_least=1, against="twenty lines of today"),
    *(Aim(f"a step of {method} per node, and of the host alone", ENCODERS,
            {"row": "step per node", "method": method}, "of_packed_host", at_most=1.1,
            against="the packed host")
      for method in METHODS_ON_MINILM),
    *(Aim(f"a step of {method}, real lengths", ENCODERS,
            {"row": "length mix", "method": method, "mode": "step"},
            at_least=2.1, against="eager, padded")
      for method in ("kbert", "ernie", "kadapter", "colake")),
    Aim("entity softmax, 1,000,000, 1,024 shared", TABLES,
          {"row": "entity softmax", "ours": "1024 negatives shared"},
          at_least=1000, aim=1000, against="full softmax"),
    Aim("update of 4,096 rows of 1,000,000 x 200, Adam", TABLES,
          {"row": "update of rows", "ours": "RowAdam", "touched": 4096},
          at_least=30, aim=100, against="fused AdamW"),
    Aim("update of 4,096 rows of 1,000,000 x 200, Adagrad", TABLES,
          {"row": "update of rows", "ours": "RowAdagrad", "touched": 4096},
          at_least=30, aim=100, against="fused AdamW"),
    *(Aim(f"update of {touched:,} rows of 1,000,000 x 200, {ours}", "models/sparse_updates.py",
            {"row": "sparse update", "ours": ours, "touched": touched, "peer": peer},
            at_least=2, aim=aim, against=peer)
      for ours, peer, aim in (("RowAdam", "SparseAdam", 3), ("RowAdagrad", "sparse Adagrad", 4))
      for touched in (4096, 20000)),
    *(Aim(f"a whole kept finetune, {n} texts, {precision}", "models/finetuning.py",
            {"row": "finetune", "texts": n, "precision": precision},
            at_least=1.5, against="Trainer, group_by_length")
      for n, precision in ((800, "fp32"), (200, "bf16"))),
    Aim("CoLAKE with 4.8 million rows of 384, GB (by a line)", TABLES,
          {"row": "memory of CoLAKE", "case": "RowAdagrad, host table"}, "gb_at_4_800_000",
          at_most=12, aim=6),
    Aim("CoLAKE with 4.8 million rows of 384, GB (run)", TABLES,
          {"row": "memory of CoLAKE", "case": "RowAdagrad, host table"}, "peak_gb",
          at_most=12, aim=6, large=True),
    Aim("index of 4.8 million entities' names, GB (by a line)", LARGE_GRAPH,
          {"row": "names"}, "gb_at_full_size", at_most=8),
    Aim("index of 4.8 million entities' names, minutes (by a line)", LARGE_GRAPH,
          {"row": "names"}, "minutes_at_full_size", at_most=5),
    Aim("index of 4.8 million entities' names, GB (run)", LARGE_GRAPH,
          {"stage": "names"}, "peak_gb", at_most=8, large=True),
    Aim("bytes a triple held", LARGE_GRAPH, {"stage": "build"}, "bytes_per_triple", at_most=24),
    *(Aim(f"the forecast before {work}, worst share off", LARGE_GRAPH, {"stage": "build"},
            "forecast_worst", at_most=0.2, large=large)
      for work, large in (("a million triples", False), ("20.6 million triples", True))),
    Aim("open 4.8 million entities again, ms", LARGE_GRAPH, {"stage": "open"}, "again_ms",
          at_most=50, large=True),
    *(Aim(f"20.6 million triples: {stage}, GB", LARGE_GRAPH, {"stage": stage}, "peak_gb",
            at_most=25.8, large=True) for stage in ("build", "train")),
    *(Aim(line, STARTUP, {"row": line}, "kept_s", at_most=most, aim=aim)
      for line, most, aim in (("kept --help", 0.4, 0.2), ("kept finetunne", 0.4, 0.2),
                              ("kept link, two sentences", 1.0, 0.6))),
    *(Aim(f"SmolLM2 by {case}: {what}", DECODERS, {"row": "decoder", "case": case}, value,
            at_least=least, at_most=most, against=peer)
      for case in ("llama.cpp", "torch")
      for what, value, least, most, peer in (
          ("load, seconds", "load_s", None, 1.0, ""),
          ("memory, of the weights' file", "memory_of_file", None, 1.2, ""),
          ("words per second", "words_of_peer", 0.5, None, "llama.cpp alone"))),
    *(Aim(f"encode, {work}", INFERENCE, {"row": "encode compared", "peer": peer, "texts": n},
            at_least=least, aim=aim, against=peer)
      for work, n in (("64 texts", 64), ("one text", 1))
      for peer, least, aim in (("OpenVINO", 0.9, 1.0), ("ONNX Runtime", 0.9, 1.0),
                               ("sentence-transformers", 1.0, 1.5))),
    Aim("encode, one text, over tokenising and the host's products", INFERENCE,
          {"row": "encode compared", "peer": "OpenVINO", "texts": 1}, "over_floor",
          at_most=1.1, against="the floor"),
    *(Aim(f"2 workers compared with 1, {work}, clock", PROCESSES, {"work": work}, "ratio",
            at_least=1.6, aim=1.9, against="one worker")
      for work in ("kept link", "kept kg build facts.nt", "kept kg build facts.tsv")),
    *(Aim(f"2 workers compared with 1, {work}, 10 million triples, clock", PROCESSES,
            {"work": work}, "ratio", at_least=1.6, aim=1.9,
            against="one worker", large=True)
      for work in ("kept kg build facts.nt", "kept kg build facts.tsv")),
]  # fmt: skip
