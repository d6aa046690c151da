"""The README in every run's folder: what each file is, and which commands go on from it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from kg_loaders.disk.writing import write_text

GUIDE = "README.md"
FILES = {
    "model.safetensors": "the weights, encoder and heads; `AutoEncoder.from_pretrained` reads them",
    "config.json": "sizes of the model, and the hashes of the graph that its rows follow",
    "checksums.json": "the seal: size and SHA-256 of each file of the model",
    "tokenizer.json": "the host's word pieces",
    "tokenizer_config.json": "settings of the tokenizer",
    "pretrain.json": "the whole configuration; `kept pretrain --config` takes it again",
    "finetune.json": "the whole configuration; `kept finetune --config` takes it again",
    "extended.json": "which graph it follows since `kept extend`, and how new rows started",
    "new_rows.jsonl": "entities and relations whose rows no training has seen",
    "coverage.json": "in how many texts the graph was read",
    "metrics.json": "scores of dev and test, with intervals, the majority and coverage",
    "predictions.jsonl": "each answer beside its gold label",
    "log.jsonl": "losses, rates and costs, a line per logged step",
    "curves.png": "the losses as a picture",
    "checkpoints": "what `--resume` goes on from; may be removed once the run is finished",
    "adapters": "adapters that other runs can load",
    "tensorboard": "the curves for `tensorboard --logdir .`",
    "predictions-dev.json": "answers in the form of SQuAD's script",
    "predictions-test.json": "answers in the form of SQuAD's script",
}


def write_guide(output: Path, kg: object, commands: Sequence[str]) -> None:
    """Write the guide; `commands` go on from here, with `RUN` and `KG` for the two folders."""
    places = {"RUN": shlex.quote(str(output)), "KG": "KG" if kg is None else shlex.quote(str(kg))}
    names = sorted(path.name for path in output.iterdir() if path.name != GUIDE)
    rows = [f"| `{name}` | {FILES[name]} |" for name in names if name in FILES]
    lines = []
    for command in commands:
        for name, place in places.items():
            command = command.replace(name, place)
        lines.append(command)
    made = shlex.join(["kept", *sys.argv[1:]])
    text = (
        f"# A run of kept\n\nMade by `{made}`.\n\n| file | what it is |\n|---|---|\n"
        + "\n".join(rows)
        + "\n\nGo on with:\n\n```\n"
        + "\n".join(lines)
        + "\n```\n"
    )
    write_text(output / GUIDE, text, force=True)
