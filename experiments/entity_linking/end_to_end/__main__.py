"""`python -m experiments.entity_linking.end_to_end CONFIG -o RUN`: link running text.

Needs KEPT_DATA. RUN receives end_to_end.json and end_to_end.md; what was made stays there for the
next call. RUN may be that of `experiments.entity_linking`, whose graph and names are taken.
"""

from __future__ import annotations

import json
import time

import torch
import yaml
from transformers.utils.logging import disable_progress_bar

from experiments.command import data_root, study_parser
from experiments.entity_linking.config import Study
from experiments.entity_linking.end_to_end.parts import Plan, world_file
from experiments.entity_linking.end_to_end.results import score_all
from experiments.entity_linking.end_to_end.study import Bench
from experiments.entity_linking.end_to_end.tables import to_markdown
from experiments.entity_linking.study import Laboratory
from kg_loaders.disk.writing import write_text


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="parts to make; no page then")
    arguments = parser.parse_args()
    plan = Plan.model_validate(yaml.safe_load(arguments.config.read_text(encoding="utf-8")))
    world = world_file(plan, arguments.config).read_text(encoding="utf-8")
    study = Study.model_validate(yaml.safe_load(world))
    disable_progress_bar()
    torch.set_num_threads(1)

    def announce(text: str) -> None:
        print(f"{time.process_time():7.0f} s  {text}", flush=True)

    laboratory = Laboratory(data_root(), study, arguments.out, announce)
    results = score_all(Bench(laboratory, plan), arguments.only)
    if arguments.only:
        return
    text = json.dumps(results, indent=1, ensure_ascii=False)
    write_text(arguments.out / "end_to_end.json", text + "\n", force=True)
    page = to_markdown(results, study.published)
    write_text(arguments.out / "end_to_end.md", page, force=True)
    print(page)


if __name__ == "__main__":
    main()
