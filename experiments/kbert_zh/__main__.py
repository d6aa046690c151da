"""`python -m experiments.kbert_zh CONFIG -o RUN`: fine-tune, ask, compare, write the tables.

Needs KEPT_DATA. A run that was cut goes on where it stopped when the command is given again.
"""

from __future__ import annotations

import json

import yaml

from experiments.command import data_root, study_parser
from experiments.kbert_zh.runs import ChineseConfig, read_world, run_all
from experiments.kbert_zh.tables import summary, to_markdown
from kept.training.log import StepRecord
from kg_loaders.disk.writing import write_text


class Printer:
    """Prints every fiftieth step."""

    def step(self, record: StepRecord) -> None:
        if record.step % 50 == 0 or record.step == record.n_steps:
            loss = record.losses["class"]
            print(f"  step {record.step}/{record.n_steps}  loss {loss:.3f}", flush=True)

    def notice(self, message: str) -> None:
        print(f"  {message}", flush=True)


def main() -> None:
    parser = study_parser(__doc__)
    arguments = parser.parse_args()
    config = ChineseConfig.model_validate(yaml.safe_load(arguments.config.read_text()))
    world = read_world(data_root() / "kbert_zh", config)
    print(json.dumps(world.counts(), ensure_ascii=False), flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = run_all(
        world,
        config,
        arguments.out,
        reporter=Printer(),
        announce=lambda text: print(text, flush=True),
    )
    results_page = summary(results, world.counts())
    write_text(
        arguments.out / "results.json", json.dumps(results_page, indent=1) + "\n", force=True
    )
    text = to_markdown(results_page, config.published)
    write_text(arguments.out / "results.md", text, force=True)
    print(text)


if __name__ == "__main__":
    main()
