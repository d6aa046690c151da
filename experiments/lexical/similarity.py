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
import torch
from transformers.utils.logging import disable_progress_bar

from experiments.command import data_root
from experiments.lexical.__main__ import read_scores, similarities
from experiments.lexical.files import similarity
from experiments.stages import StagedStudy, pretrained, write_host
from kept.evaluation.correlation import Floats, pearson, spearman_parts
from kept.evaluation.crossed import difference, effect
from kept.lab.study.tables import Table, with_interval
from kept.objectives.lexical.terms import Lexicon, read_pairs
from kg_loaders.disk.writing import write_text


def compare_seeds(study: StagedStudy, pairs: Path, root: Path, out: Path, command: str) -> str:
    """Spearman's correlation of every row over its seeds, and the differences, as Markdown."""
    words, gold = read_scores(pairs)
    lexicon = Lexicon(read_pairs(out / "made" / "pairs.txt"))
    joined = np.array([lexicon.joins(*pair) for pair in words])
    of_row = {row: [_of_seed(study, row, s, root, out, words) for s in study.seeds]
              for row in study.rows}  # fmt: skip
    about = (
        f"Spearman's correlation over {len(words)} pairs, {int(joined.sum())} of which the lexicon "
        f"joins; 95 % intervals over {len(study.seeds)} seeds and pairs."
    )
    parts = {"all": np.ones_like(joined), "joined": joined, "not joined": ~joined}
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
            sides = [[spearman_parts(each[chosen], gold[chosen]) for each in of_row[side]]
                     for side in (one, other)]  # fmt: skip
            less = difference(*sides, pearson)
            numbers = with_interval(less, "+"), f"{less.p:.3f}"
            differences.append([f"{one} − {other}", name, *numbers])
    columns = "row", "pairs", "Spearman", "of each seed", "what it is"
    page = (
        f"# {study.title}", f"`{command}`", study.about.strip(), about,
        Table(columns, rows).compact(),
        Table(("difference", "pairs", "estimate", "p"), differences).compact(),
    )  # fmt: skip
    return "\n\n".join(page) + "\n"


def _of_seed(
    study: StagedStudy, row: str, seed: int, root: Path, out: Path,
    words: Sequence[tuple[str, str]],
) -> Floats:  # fmt: skip
    """The cosine of each pair under a row's model, which is then thrown away."""
    path = out / "cosines" / f"{row}-{seed}.npy"
    if not path.exists():
        stage = study.stage(row, seed, root, out)
        assert stage is not None
        found = similarities(str(pretrained(stage, out)), words)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, found)
        print(f"seed {seed}, {row}", flush=True)
    loaded: Floats = np.load(path)
    return loaded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--row", help="only this row, and no table")
    parser.add_argument("--seed", type=int, help="only this seed, and no table")
    given = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(1)
    study, root = StagedStudy.read(given.config), data_root()
    (given.out / "made").mkdir(parents=True, exist_ok=True)
    write_host(study.host, study.n_layers, given.out / "made" / "host")
    similarity(study, root, given.out / "made")
    if given.row is not None or given.seed is not None:
        words, _ = read_scores(given.pairs)
        for seed in study.seeds if given.seed is None else (given.seed,):
            for row in study.rows if given.row is None else (given.row,):
                _of_seed(study, row, seed, root, given.out, words)
        return
    command = f"python -m experiments.lexical.similarity {given.config} PAIRS -o {given.out}"
    text = compare_seeds(study, given.pairs, root, given.out, command)
    write_text(given.out / "results.md", text, force=True)
    print(text)


if __name__ == "__main__":
    main()
