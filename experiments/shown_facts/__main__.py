"""`python -m experiments.shown_facts CONFIG -o RUN [--arms A,B]`: reading stages, then questions.

Needs KEPT_DATA. What was stored is not run again, and a run that was cut goes on where it stopped.
RUN receives results.json and results.md from the arms that are there.
"""

from __future__ import annotations

import torch
import yaml
from transformers.utils.logging import disable_progress_bar

from entity_linking.annotations import whole_file
from experiments.command import data_root, study_parser
from experiments.pretraining.trial import Printer
from experiments.shown_facts.settings import ShownFactsStudy
from experiments.shown_facts.study import VOCABULARY, Asked, run_arm
from experiments.shown_facts.tables import write_tables


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--arms", help="only these arms, comma-separated")
    arguments = parser.parse_args()
    study = ShownFactsStudy.model_validate(
        yaml.safe_load(arguments.config.read_text(encoding="utf-8"))
    )
    disable_progress_bar()
    torch.set_num_threads(study.reading.threads or torch.get_num_threads())
    root = data_root()
    words = whole_file(root / "lama" / VOCABULARY).decode().split("\n")
    asked = Asked.read(study, root, [word for word in words if word])
    print(asked.world, flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = arguments.arms.split(",") if arguments.arms else list(study.arms)
    for fold in range(study.folds):
        for name in names:
            print(f"{name}, fold {fold}:", flush=True)
            run_arm(asked, name, fold, arguments.out, Printer())
    print(write_tables(asked, arguments.out))


if __name__ == "__main__":
    main()
