"""`python -m experiments.lexical.words PAIRS MODEL... --kg GRAPH`: do near words come nearer?

PAIRS holds two words and a score per line, after a head. A MODEL is a host, or a run of `kept
pretrain`. A word is the mean of its pieces' last states in "[CLS] word [SEP]"; the similarity of
two words is their cosine. Spearman's correlation with the scores, over all pairs, over those that
the graph's lexicon joins, and over those that it does not, which training cannot have shown; and
the difference from the first MODEL on the same pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept import hosts
from kept.evaluation.correlation import pearson, spearman_parts
from kept.evaluation.paired import difference_interval, score_interval
from kept.lab.study.cells import NONE
from kept.lab.study.tables import Table, with_interval
from kept.objectives.lexical.terms import Lexicon, graph_pairs
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

AT_ONCE = 256


def read_scores(path: Path) -> tuple[list[tuple[str, str]], NDArray[np.float64]]:
    """Pairs of words and their scores; the first line is the head."""
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()[1:] if line]
    return [(one, other) for one, other, *_ in rows], np.array([float(row[2]) for row in rows])


def open_host(name: str) -> tuple[Any, Any]:
    """The host of a run, or the one with this name, and its tokenizer."""
    tokenizer = hosts.load_tokenizer(name)
    if not (Path(name) / "pretrain.json").is_file() and not (Path(name) / "log.jsonl").is_file():
        return hosts.load_host(name), tokenizer
    return KnowledgeForPreTraining.from_pretrained(name).encoder.host.eval(), tokenizer


@torch.no_grad()
def similarities(name: str, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """The cosine of each pair's two words."""
    host, tokenizer = open_host(name)
    words = sorted({word for pair in pairs for word in pair})
    rows: list[Tensor] = []
    for start in range(0, len(words), AT_ONCE):
        part = tokenizer(
            words[start : start + AT_ONCE], padding=True, return_tensors="pt",
            return_special_tokens_mask=True,
        )  # fmt: skip
        is_word = (part.pop("special_tokens_mask") == 0)[..., None]
        states = host(**part).last_hidden_state
        rows.append((states * is_word).sum(1) / is_word.sum(1))
    unit = torch.nn.functional.normalize(torch.cat(rows), dim=1).double().numpy()
    vectors = dict(zip(words, unit, strict=True))
    return np.array([vectors[one] @ vectors[other] for one, other in pairs])


def parts_of(joined: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Return which pairs are in each part: all, those that a lexicon joins, and the others."""
    return {"all": np.ones_like(joined), "joined": joined, "not joined": ~joined}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--kg", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pairs, gold = read_scores(arguments.pairs)
    lexicon = Lexicon(graph_pairs(KnowledgeGraph.open(arguments.kg)))
    parts = parts_of(np.array([lexicon.joins(*pair) for pair in pairs]))
    counts = ", ".join(f"{int(chosen.sum())} {name}" for name, chosen in parts.items())
    print(f"{arguments.pairs.name}: {counts}")
    models = {name: similarities(name, pairs) for name in arguments.models}
    first, rows = arguments.models[0], []
    for name, ours in models.items():
        for part, chosen in parts.items():
            if chosen.sum() < 3:
                continue
            mine, theirs = (
                spearman_parts(each[chosen], gold[chosen]) for each in (ours, models[first])
            )
            interval = score_interval(mine, pearson, generator=generator(0, "lexical"))
            less = NONE
            if name != first:
                draws = generator(0, "lexical")
                less = with_interval(
                    difference_interval(mine, theirs, pearson, generator=draws), "+"
                )
            rows.append([Path(name).name, part, with_interval(interval), less])
    print(f"\n{Table(('model', 'pairs', 'Spearman', f'less {first}'), rows).compact()}")


if __name__ == "__main__":
    main()
