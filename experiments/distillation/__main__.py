"""`python -m experiments.distillation CONFIG -o RUN`: teach, ask, write the table.

A seed that is stored in RUN is not run again.
"""

from __future__ import annotations

import yaml
from transformers.utils.logging import disable_progress_bar

from experiments.command import study_parser, write_results
from experiments.distillation.study import ROWS, DistillationStudy, milliseconds, run_seed
from experiments.distillation.tables import page
from kept.lab.reading.cell import open_host


def main() -> None:
    parser = study_parser(__doc__)
    given = parser.parse_args()
    disable_progress_bar()
    study = DistillationStudy.model_validate(
        yaml.safe_load(given.config.read_text(encoding="utf-8"))
    )
    given.out.mkdir(parents=True, exist_ok=True)
    budget = study.cell(study.seeds[0], steps=1).budget
    told = []
    for seed in study.seeds:
        told.append(run_seed(study, seed, given.out, lambda: open_host(budget)))
        for row in ROWS:
            shares = {name: sum(right) / len(right) for name, right in told[-1][row].items()}
            print(f"seed {seed}, {row}: {shares}", flush=True)
    spent = milliseconds(study, lambda: open_host(budget))
    command = f"python -m experiments.distillation {given.config} -o {given.out}"
    write_results(
        given.out, page(study, told, spent, command), {"right": told, "milliseconds": spent}
    )


if __name__ == "__main__":
    main()
