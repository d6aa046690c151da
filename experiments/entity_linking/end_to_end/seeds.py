"""The same re-rankers from other seeds: how far does F1 move?"""

from __future__ import annotations

from dataclasses import replace

from experiments.entity_linking.end_to_end.memo import OnceScorer
from experiments.entity_linking.end_to_end.parts import ENCODER, TRAINED
from experiments.entity_linking.end_to_end.scores import Results, counted
from experiments.entity_linking.end_to_end.study import ROWS, Bench, link_excerpts
from experiments.entity_linking.inputs.benchmarks import FILES

SEEDS = (0, 1, 2)
TRIED = (TRAINED, ENCODER)


def over_seeds(bench: Bench) -> Results:
    """F1 in ELEVANT's required mode, by row and benchmark, one for each seed of its networks.

    Encoder, texts and graph stay; five networks of one seed share none with those of another.
    """
    told: Results = {}
    for name in TRIED:
        row_name = f"{name}, likeliest, pronouns"
        told[row_name] = {benchmark: [] for benchmark in FILES}
        _, decision, _ = bench.chosen(row_name)
        for seed in SEEDS:
            own = f"{name}, seed {seed}"
            bench.use(own, OnceScorer(bench.reranker(name, training=False, seed=seed)))
            for benchmark in FILES:
                row, pronouns = replace(ROWS[row_name], scorer=own).on(benchmark)
                linker = bench.linker(row, decision, pronouns=pronouns)
                linked = link_excerpts(linker, bench.laboratory.articles[benchmark])
                score = counted(bench, bench.laboratory.labelled(benchmark), linked, "required")
                told[row_name][benchmark].append(score["estimate"])
    return told
