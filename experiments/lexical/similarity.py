"""`python -m experiments.lexical.similarity CONFIG PAIRS -o RUN`: LIBERT's similarities over seeds.

PAIRS holds two words and a score per line, after a head. Needs KEPT_DATA and WordNet 3.0; stages
that are in RUN are not trained again.

Axis legend: seed, pair, part (of a correlation).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.command import CELL_OPTIONS, announce, data_root, run_study, write_results
from experiments.lexical.files import similarity
from experiments.lexical.words import parts_of, read_scores, similarities
from experiments.stages import StagedStudy, pretrained, write_host
from kept.evaluation.correlation import Floats, pearson, spearman_parts
from kept.evaluation.crossed import difference, effect
from kept.lab.study.cells import page_of
from kept.lab.study.tables import Table, with_interval
from kept.objectives.lexical.terms import Lexicon, read_pairs


def compare_seeds(study: StagedStudy, pairs: Path, root: Path, out: Path, command: str) -> str:
    """Spearman's correlation of every row over its seeds, and the differences, as Markdown."""
    words, gold = read_scores(pairs)
    lexicon = Lexicon(read_pairs(out / "made" / "pairs.txt"))
    parts = parts_of(np.array([lexicon.joins(*pair) for pair in words]))
    of_row = {row: [_of_seed(study, row, s, root, out, words) for s in study.seeds]
              for row in study.rows}  # fmt: skip
    about = (
        f"Spearman's correlation over {len(words)} pairs, {parts['joined'].sum()} of which the "
        f"lexicon joins; 95 % intervals over {len(study.seeds)} seeds and pairs."
    )
    parts = {name: chosen for name, chosen in parts.items() if chosen.sum() > 2}
    rows, differences = [], []
    for row, seeds in of_row.items():
        for name, chosen in parts.items():
            counts = [spearman_parts(each[chosen], gold[chosen]) for each in seeds]
            of_seeds = ", ".join(f"{pearson(each.sum(0)[None])[0]:.3f}" for each in counts)
            correlation = with_interval(effect(np.stack(counts), pearson))
            rows.append([row, name, correlation, of_seeds, study.rows[row].says])
    for one, other in study.differences:
        for name, chosen in parts.items():
            ours, theirs = (
                [spearman_parts(each[chosen], gold[chosen]) for each in of_row[side]]
                for side in (one, other)
            )
            less = difference(ours, theirs, pearson)
            numbers = with_interval(less, "+"), f"{less.p:.3f}"
            differences.append([f"{one} − {other}", name, *numbers])
    columns = "row", "pairs", "Spearman", "of each seed", "what it is"
    return page_of(
        study.title, command, study.about, about, Table(columns, rows),
        Table(("difference", "pairs", "estimate", "p"), differences),
    )  # fmt: skip


def _of_seed(
    study: StagedStudy, row: str, seed: int, root: Path, out: Path,
    words: Sequence[tuple[str, str]],
) -> Floats:  # fmt: skip
    """The cosine of each pair under a row's model, which is then thrown away."""
    path = out / "cosines" / f"{row}-{seed}.npy"
    if not path.exists():
        stage = study.stage(row, seed, root, out)
        assert stage is not None
        cosines = similarities(str(pretrained(stage, out)), words)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, cosines)
        announce(f"seed {seed}, {row}")
    loaded: Floats = np.load(path)
    return loaded


def run(study: StagedStudy, arguments: argparse.Namespace) -> None:
    """Train what is missing; write the page unless one row or seed alone was wanted."""
    root = data_root()
    write_host(study.host, study.n_layers, arguments.out / "made" / "host")
    similarity(study, root, arguments.out / "made")
    if arguments.row is not None or arguments.seed is not None:
        words, _ = read_scores(arguments.pairs)
        for seed in study.seeds if arguments.seed is None else (arguments.seed,):
            for row in study.rows if arguments.row is None else (arguments.row,):
                _of_seed(study, row, seed, root, arguments.out, words)
        return
    command = (
        f"python -m experiments.lexical.similarity {arguments.config} PAIRS -o {arguments.out}"
    )
    text = compare_seeds(study, arguments.pairs, root, arguments.out, command)
    write_results(arguments.out, text)


if __name__ == "__main__":
    options = {name: CELL_OPTIONS[name] for name in ("--row", "--seed")}
    run_study(__doc__, StagedStudy, run, {"pairs": {"type": Path}, **options})
