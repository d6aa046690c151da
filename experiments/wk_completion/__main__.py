"""`python -m experiments.wk_completion CONFIG -o RUN`: train, ask, compare, write the tables.

Needs KEPT_DATA. A run that was cut goes on where it stopped when the command is given again.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import yaml

from experiments.wk_completion.data import read_world
from kept.completion.batches import usable_examples
from kept.completion.compare import CompletionConfig, compare
from kept.completion.split import split_examples
from kept.completion.tables import to_json, to_markdown
from kept.hosts import load_tokenizer
from kept.randomness import generator
from kept.training.log import StepRecord
from kg_loaders.disk.writing import write_text


class Printer:
    """Prints every hundredth step."""

    def step(self, record: StepRecord) -> None:
        if record.step % 25 == 0 or record.step == record.n_steps:
            losses = "  ".join(f"{name} {value:.2f}" for name, value in record.losses.items())
            print(
                f"  step {record.step}/{record.n_steps}  {losses}  {record.seconds:.0f} s",
                flush=True,
            )

    def notice(self, message: str) -> None:
        print(f"  {message}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--only", help="run these methods (comma-separated) and no table")
    arguments = parser.parse_args()
    config = CompletionConfig.model_validate(yaml.safe_load(arguments.config.read_text()))
    world = read_world(Path(os.environ["KEPT_DATA"]))
    print(world.report, world.graph, sep="\n", flush=True)
    colake = config.colake
    examples, n_unusable = usable_examples(
        world.examples, world.graph, load_tokenizer(config.host), colake.builder
    )
    print(f"{n_unusable} examples left out: head and tail do not both become anchors", flush=True)
    split = split_examples(
        examples,
        world.graph,
        n_valid=config.n_valid,
        n_transductive=config.n_transductive,
        n_inductive=config.n_inductive,
        inductive_heads=world.inductive_heads,
        generator=generator(config.seed, "split"),
        max_sentences_per_fact=config.max_sentences_per_fact,
    )
    print(split, flush=True)
    only = None if arguments.only is None else tuple(arguments.only.split(","))
    comparison = compare(
        split,
        config,
        arguments.out,
        only=only,
        reporter=Printer(),
        announce=lambda text: print(text, flush=True),
    )
    if comparison is None:
        return
    write_text(
        arguments.out / "results.json", json.dumps(to_json(comparison), indent=1) + "\n", force=True
    )
    text = to_markdown(comparison)
    write_text(arguments.out / "results.md", text, force=True)
    print(text)


main()
