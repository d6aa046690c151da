"""`python -m experiments.wk_completion CONFIG -o RUN`: train, ask, compare, write the tables.

Needs KEPT_DATA. A run that was cut goes on where it stopped when the command is given again, and
several processes may share the folder.
"""

from __future__ import annotations

from experiments.command import data_root, study_parser, write_results
from experiments.wk_completion.data import read_world
from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.progress import TrainingProgress
from kept.hosts import load_tokenizer
from kept.kgc.batches import usable_examples
from kept.lab.completion.compare import compare
from kept.lab.completion.config import CompletionConfig
from kept.lab.completion.tables import to_json, to_markdown


def main() -> None:
    parser = study_parser(__doc__)
    arguments = parser.parse_args()
    config = CompletionConfig.read(arguments.config)
    world = read_world(data_root())
    print(world.report, world.graph, sep="\n", flush=True)
    builder, tokenizer = config.colake.builder, load_tokenizer(config.host)
    examples, n_unusable = usable_examples(world.examples, world.graph, tokenizer, builder)
    print(f"{n_unusable} examples left out: head and tail do not both become anchors", flush=True)
    split = config.split(examples, world.graph, world.inductive_heads)
    print(split, flush=True)
    with TrainingProgress(TerminalConsole()) as bar:
        completion = compare(split, config, arguments.out, reporter=bar, announce=bar.notice)
    write_results(arguments.out, to_markdown(completion), to_json(completion))


main()
