"""`python -m experiments.word_sense CONFIG -o RUN`: disambiguate, score, write the tables.

Needs KEPT_DATA and WordNet 3.0 (Debian package wordnet-base, or WNSEARCHDIR).
"""

from __future__ import annotations

import json

import torch
import yaml

from experiments.command import data_root, study_parser
from experiments.word_sense.study import SenseConfig, read_world, run
from experiments.word_sense.tables import to_markdown
from kept.linking.sentences import HostSentenceEncoder
from kg_loaders.disk.writing import write_text


def main() -> None:
    parser = study_parser(__doc__)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    config = SenseConfig.model_validate(yaml.safe_load(arguments.config.read_text()))
    world = read_world(data_root(), config)
    print(world.graph, world.lexicon, flush=True)
    encoder = HostSentenceEncoder(**config.encoder)
    results = run(world, config, encoder, announce=lambda text: print(text, flush=True))
    results["encoder"], results["content_hash"] = encoder.name, world.graph.content_hash
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_text(arguments.out / "results.json", json.dumps(results, indent=1) + "\n", force=True)
    text = to_markdown(results)
    write_text(arguments.out / "results.md", text, force=True)
    print(text)


if __name__ == "__main__":
    main()
