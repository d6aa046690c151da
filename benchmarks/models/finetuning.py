"""The whole of `kept finetune` compared with transformers' Trainer with batches by length.

    python benchmarks/models/finetuning.py [--texts 800] [--precision fp32,bf16] [--epochs 2]

Both are commands of their own: they read the same files of labelled texts (Wiki80's sentences with
their relation where KEPT_DATA is set, else made-up texts), train MiniLM with its pooler and one
linear layer for the same number of updates with the same batch size, rates, decay, clipping and
optimiser, score the development texts once after the last, and write the model. Processor seconds
of the processes, one thread; in turn. `equal`: as many updates, and the kept model no worse than
the Trainer's by more than three standard errors of the difference (the same texts would shrink it).
`--order` is kept's alone. JSON lines at three sizes in the first precision (200, 400,
800 texts), and the powers that they grow as; other precisions at the smallest size.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import (
    growth,
    is_missing,
    processor_seconds_of,
    three_sizes,
    write_line,
)

BATCH, RATE, MAX_WORDS = 32, 2e-4, 128
N_ASKED = 1000
"""Development texts, whatever the number of training texts."""
Row = tuple[str, str]


# ---- data -----------------------------------------------------------------------------------
def read_rows() -> tuple[list[Row], list[Row], str]:
    """Texts with their class, to train and to ask, in an order by a seed."""
    root = os.environ.get("KEPT_DATA")
    if root is None:
        return made_up(4000, 0), made_up(N_ASKED, 1), "made up"
    folder, draws = Path(root) / "re" / "wiki80", np.random.default_rng(0)
    train, dev = ([*wiki80(folder / f"{name}.txt.gz")] for name in ("train_0.1", "dev"))
    shuffled = [[rows[i] for i in draws.permutation(len(rows))] for rows in (train, dev)]
    return shuffled[0], shuffled[1][:N_ASKED], "Wiki80"


def wiki80(path: Path) -> Iterator[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            words = [word.strip() for word in record["token"] if word.strip()]
            yield " ".join(words), record["relation"]


def made_up(n: int, seed: int) -> list[Row]:
    """Texts of 8 to 60 words, in which one word says the class."""
    draws = np.random.default_rng(seed)
    signs, others = ["red", "green", "blue", "black"], ["the", "house", "of", "a", "river", "on"]
    rows = []
    for _ in range(n):
        sign = signs[draws.integers(len(signs))]
        words = [others[i] for i in draws.integers(len(others), size=draws.integers(8, 60))]
        words.insert(draws.integers(len(words)), sign)
        rows.append((" ".join(words), sign))
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    lines = ["text\tlabel", *("\t".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# ---- commands -------------------------------------------------------------------------------
def kept_command(folder: Path, options: argparse.Namespace) -> list[str]:
    """`kept finetune` with the settings of the Trainer below."""
    settings = {
        "training.precision": options.precision, "training.threads": 1,
        "training.warmup_steps": 0, "graph.max_words": MAX_WORDS, "head_options.read": "pooler",
        **({"training.order": options.order} if options.order else {}),
    }  # fmt: skip
    overrides = [f"--set={name}={value}" for name, value in settings.items()]
    return [
        sys.executable, "-m", "kept", "finetune", "--task", "classification", "--format", "tsv",
        "--train", str(folder / "train.tsv"), "--dev", str(folder / "dev.tsv"),
        "--kg", str(folder / "kg"), "--method", "none", "--epochs", str(options.epochs),
        "--batch-size", str(BATCH), "--lr", str(RATE), *overrides, "-o", str(folder / "kept"),
    ]  # fmt: skip


def trainer_command(folder: Path, options: argparse.Namespace) -> list[str]:
    return [
        sys.executable, __file__, "--trainer", str(folder), "--precision", options.precision,
        "--epochs", str(options.epochs),
    ]  # fmt: skip


def train_with_trainer(folder: Path, options: argparse.Namespace) -> None:
    """The peer: prints its updates and its accuracy."""
    import torch  # here: the process of the benchmark itself needs none of these
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    torch.set_num_threads(1)
    lines = {name: (folder / f"{name}.tsv").read_text("utf-8").splitlines()[1:]
             for name in ("train", "dev")}  # fmt: skip
    rows = {name: [line.split("\t") for line in lines[name]] for name in lines}
    numbers = {name: i for i, name in enumerate(sorted({label for _, label in rows["train"]}))}
    tokenizer = AutoTokenizer.from_pretrained(options.host)

    def encoded(name: str) -> Dataset:
        texts, labels = zip(*rows[name], strict=True)
        data = Dataset.from_dict({
            "text": list(texts), "labels": [numbers.get(label, -100) for label in labels],
        })  # fmt: skip
        return data.map(
            lambda some: tokenizer(some["text"], truncation=True, max_length=MAX_WORDS),
            batched=True, remove_columns=["text"],
        )  # fmt: skip

    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"), num_train_epochs=options.epochs,
        per_device_train_batch_size=BATCH, per_device_eval_batch_size=BATCH, learning_rate=RATE,
        weight_decay=0.01, optim="adamw_torch_fused", train_sampling_strategy="group_by_length",
        bf16=options.precision == "bf16", use_cpu=True, seed=0, eval_strategy="no",
        save_strategy="no", report_to=[], disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(
            options.host, num_labels=len(numbers)
        ),
        args=arguments, train_dataset=encoded("train"), processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda evaluated: {
            "accuracy": float((evaluated.predictions.argmax(-1) == evaluated.label_ids).mean())
        },
    )  # fmt: skip
    trainer.train()
    scores = trainer.evaluate(encoded("dev"))
    trainer.save_model(str(folder / "trainer"))
    result = {"steps": trainer.state.global_step, "accuracy": scores["eval_accuracy"]}
    (folder / "trainer.json").write_text(json.dumps(result), "utf-8")


def result_of_kept(folder: Path) -> dict[str, Any]:
    metrics = json.loads((folder / "kept" / "metrics.json").read_text("utf-8"))
    lines = (folder / "kept" / "log.jsonl").read_text("utf-8").splitlines()
    return {
        "steps": json.loads(lines[-1])["step"], "accuracy": metrics["dev"]["accuracy"]["estimate"],
    }  # fmt: skip


def is_no_worse(ours: float, theirs: float, n: int) -> bool:
    error = math.sqrt((ours * (1 - ours) + theirs * (1 - theirs)) / n)
    return ours >= theirs - 3 * error


def compare(n: int, options: argparse.Namespace) -> tuple[float, float]:
    """Print the line of `n` training texts; return the seconds of ours and of the Trainer."""
    train, dev, source = read_rows()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "train.tsv", train[:n])
        write_rows(folder / "dev.tsv", dev)
        (folder / "triples.tsv").write_text("Q90\tP17\tQ142\n", "utf-8")
        subprocess.run(
            [sys.executable, "-m", "kept", "kg", "build", str(folder / "triples.tsv"),
             "-o", str(folder / "kg")], check=True, capture_output=True,
        )  # fmt: skip
        peer = processor_seconds_of(trainer_command(folder, options))
        ours = processor_seconds_of(kept_command(folder, options))
        theirs = json.loads((folder / "trainer.json").read_text("utf-8"))
        result = result_of_kept(folder)
    no_worse = is_no_worse(result["accuracy"], theirs["accuracy"], len(dev))
    write_line(
        row="finetune", texts=min(n, len(train)), data=source, epochs=options.epochs,
        precision=options.precision, peer="Trainer, group_by_length",
        kept_s=round(ours, 2), peer_s=round(peer, 2), times_as_fast=round(peer / ours, 2),
        updates=result["steps"], kept_accuracy=round(result["accuracy"], 4),
        peer_accuracy=round(theirs["accuracy"], 4),
        equal=result["steps"] == theirs["steps"] and no_worse,
    )  # fmt: skip
    return ours, peer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=800, help="of training, the largest size")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--precision", default="fp32", help="fp32, bf16, or both by a comma")
    parser.add_argument("--order", choices=("shuffled", "by_length"), help="default: kept's own")
    parser.add_argument("--one", action="store_true", help="the largest size alone")
    parser.add_argument("--host", help="folder of MiniLM; default: the one that kept opens")
    parser.add_argument("--trainer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trainer:
        from kept import hosts

        options.host = options.host or hosts.load_host("minilm").name_or_path
        train_with_trainer(options.trainer, options)
        return
    if is_missing("datasets", row="finetune", peer="Trainer, group_by_length"):
        return
    sizes = [options.texts] if options.one else three_sizes(options.texts)
    first, *others = options.precision.split(",")
    options.precision = first
    spent = [compare(n, options) for n in sizes]
    ours, peer = ([each[i] for each in spent] for i in range(2))
    growth("finetune", "texts", sizes, ours, peer, precision=first)
    for options.precision in others:
        compare(sizes[0], options)


if __name__ == "__main__":
    main()
