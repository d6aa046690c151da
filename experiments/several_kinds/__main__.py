"""`python -m experiments.several_kinds CONFIG -o RUN`: train, ask, write the tables.

Needs KEPT_DATA and WordNet 3.0. What is stored in RUN is not run again; with `--part NAME --seed N`
that part alone runs, and no table is written; `--tables` writes that of what is there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
import yaml
from transformers.utils.logging import disable_progress_bar

from experiments.command import data_root, study_parser, write_results
from experiments.several_kinds.kinds import wordnet_pairs
from experiments.several_kinds.study import PARTS, RowAnswers, Settings, read_kinds, run_part
from experiments.several_kinds.tables import page
from kept import hosts
from kept.objectives.lexical.terms import Pair
from kg_loaders.disk.writing import write_json


def stored_pairs(wordnet: Path, path: Path) -> list[Pair]:
    """WordNet's pairs, from `path` if they are there: reading WordNet takes as long as a part."""
    if not path.exists():
        write_json(path, wordnet_pairs(wordnet))
    return [(one, other) for one, other in json.loads(path.read_text(encoding="utf-8"))]


def written(told: Sequence[RowAnswers]) -> list[dict[str, dict[str, str]]]:
    """By seed, row and kind one digit an answer, 1 where it is right.

    >>> written([{"host": {"facts": [True, False]}}])
    [{'host': {'facts': '10'}}]
    """
    return [
        {
            row: {kind: "".join("01"[is_right] for is_right in right) for kind, right in of.items()}
            for row, of in seed.items()
        }
        for seed in told
    ]


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(1)
    settings = Settings.model_validate(yaml.safe_load(given.config.read_text(encoding="utf-8")))
    given.out.mkdir(parents=True, exist_ok=True)
    tokenizer = hosts.load_tokenizer(settings.host)
    pairs = stored_pairs(given.wordnet, given.out / "pairs.json")
    kinds = read_kinds(settings, data_root(), pairs, tokenizer)
    seeds = settings.seeds if given.seed is None else (given.seed,)
    told: list[RowAnswers] = []
    for seed in seeds:
        told.append({})
        for part in [given.part] if given.part else PARTS:
            if given.tables and not (given.out / f"{part}-{seed}.json").exists():
                continue
            told[-1] |= run_part(
                part, settings, kinds, seed, given.out, lambda text: print(text, flush=True)
            )
    if given.part is not None or given.seed is not None:
        return
    told = [seed for seed in told if seed]
    command = f"python -m experiments.several_kinds {given.config} -o {given.out}"
    groups = {kind.name: [item.group for item in kind.asked] for kind in kinds.values()}
    data = [repr(kind) for kind in kinds.values()]
    write_results(
        given.out,
        page(settings, told, groups, data, command),
        {"right": written(told), "groups": groups},
    )


if __name__ == "__main__":
    main()
