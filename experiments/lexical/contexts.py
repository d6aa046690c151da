"""`python -m experiments.lexical.contexts CONFIG -o RUN`: is a word meant alike in two sentences?

WiC's public pairs, asked of the states of a stage's host, with no training on the task: the same
meaning where the cosine of the word's two states is above a threshold that some pairs fit and the
others are asked with. A state is the mean of the last states of the word's pieces, each sentence
alone. CONFIG is `senses.yaml`; needs KEPT_DATA and WordNet 3.0; stages in RUN stay.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from entity_linking import LinkedText
from experiments.command import announce, data_root, run_study, write_results
from experiments.lexical.files import senses
from experiments.lexical.words import open_host
from experiments.stages import CellResult, StagedStudy, page, pretrained, write_host
from kept.lab.study.cells import digits
from kept.randomness import generator
from kept.tasks.datasets.example import TaskExample
from kept.tasks.datasets.glue import read_wic
from kg_loaders.damage import DamageReport

AT_ONCE = 128
N_FITTED = 1000
PAIRS = "linguistic/wic/train.jsonl.gz"


@torch.no_grad()
def word_states(host: Any, tokenizer: Any, places: Sequence[tuple[str, int, int]]) -> Tensor:
    """The mean last state of the pieces of each text's characters [start, end): `[n width]`."""
    rows: list[Tensor] = []
    for at in range(0, len(places), AT_ONCE):
        part = places[at : at + AT_ONCE]
        batch = tokenizer(
            [text for text, _, _ in part], padding=True, truncation=True, max_length=128,
            return_tensors="pt", return_offsets_mapping=True,
        )  # fmt: skip
        offsets = batch.pop("offset_mapping")
        starts, ends = (torch.tensor([bounds[i] for bounds in part])[:, None] for i in (1, 2))
        is_inside = (offsets[..., 0] < ends) & (offsets[..., 1] > starts)
        is_inside &= offsets[..., 1] > offsets[..., 0]
        states = host(**batch).last_hidden_state
        weights = is_inside.to(states.dtype)[..., None]
        rows.append((states * weights).sum(1) / weights.sum(1).clamp(min=1))
    return torch.cat(rows)


def sides_of(example: TaskExample) -> list[tuple[str, int, int]]:
    """The two sentences, each with the place of its word."""
    linked: LinkedText = example.linked
    border = linked.pair_start or 0
    first, second = example.targets
    return [
        (linked.text[:border].rstrip(), first.start, first.end),
        (linked.text[border:], second.start - border, second.end - border),
    ]


def best_threshold(cosines: NDArray[np.float64], same: NDArray[np.bool_]) -> float:
    """The threshold above which calling pairs the same is right most often; the least of equals.

    >>> best_threshold(np.array([0.1, 0.4, 0.6, 0.9]), np.array([False, False, True, True]))
    0.4
    """
    order = np.argsort(cosines, kind="stable")
    wrong_below = np.cumsum(same[order])
    wrong_above = (~same).sum() - np.cumsum(~same[order])
    errors = np.concatenate(([(~same).sum()], wrong_below + wrong_above))
    at = int(np.argmin(errors))
    return -1.0 if at == 0 else float(cosines[order][at - 1])


def answers_of(name: str, examples: Sequence[TaskExample]) -> CellResult:
    """Return the answers of a host about all pairs but those that fit the threshold."""
    host, tokenizer = open_host(name)
    sides = [sides_of(example) for example in examples]
    one, other = (
        torch.nn.functional.normalize(word_states(host, tokenizer, [s[i] for s in sides]), dim=1)
        for i in (0, 1)
    )
    cosines = (one * other).sum(1).double().numpy()
    same = np.array([example.labels[0] == "1" for example in examples])
    order = generator(0, "pairs of contexts").permutation(len(examples))
    fitted, rest = order[:N_FITTED], np.sort(order[N_FITTED:])
    right = (cosines[rest] > best_threshold(cosines[fitted], same[fitted])) == same[rest]
    words = [examples[i].linked.text[slice(*sides[i][0][1:])].lower() for i in rest]
    return {
        "right": digits(right), "group": words,
        "gold": [examples[i].labels[0] for i in rest], "steps": 0, "read": None,
    }  # fmt: skip


def run(study: StagedStudy, arguments: argparse.Namespace) -> None:
    """Answer with every row and seed, and write the page."""
    root, output = data_root(), arguments.out / "made"
    write_host(study.host, study.n_layers, output / "host")
    senses(study, root, output)
    examples = list(read_wic(root / PAIRS, DamageReport()))
    cells: dict[str, dict[int, CellResult]] = {row: {} for row in study.rows}
    for seed in study.seeds:
        for row in study.rows:
            stage = study.stage(row, seed, root, arguments.out)
            folder = output / "host" if stage is None else pretrained(stage, arguments.out)
            cells[row][seed] = answers_of(str(folder), examples)
            announce(f"seed {seed}, {row}")
    text = page(study, cells, arguments.command)
    write_results(arguments.out, text)


if __name__ == "__main__":
    run_study(__doc__, StagedStudy, run)
