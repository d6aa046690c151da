"""`python -m experiments.entity_linking CONFIG -o RUN`: link the benchmarks, write the tables.

Needs KEPT_DATA. RUN receives results.json, results.md and two diagrams. A run that was cut goes on
where it stopped when the command is given again.
"""

from __future__ import annotations

import json
import time

import torch
import yaml
from transformers.utils.logging import disable_progress_bar

from experiments.command import data_root, study_parser
from experiments.entity_linking.config import Study
from experiments.entity_linking.results import score_all
from experiments.entity_linking.study import Laboratory
from experiments.entity_linking.tables import printed, to_markdown
from kg_loaders.disk.writing import write_text


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    study = Study.model_validate(yaml.safe_load(arguments.config.read_text(encoding="utf-8")))
    disable_progress_bar()
    torch.set_num_threads(arguments.threads)

    def announce(text: str) -> None:
        print(f"{time.process_time():7.0f} s  {text}", flush=True)

    laboratory = Laboratory(data_root(), study, arguments.out, announce)
    results = score_all(laboratory, arguments.out)
    text = json.dumps(results, indent=1, ensure_ascii=False)
    write_text(arguments.out / "results.json", text + "\n", force=True)
    write_text(arguments.out / "results.md", to_markdown(results, study), force=True)
    print(printed(results))


if __name__ == "__main__":
    main()
