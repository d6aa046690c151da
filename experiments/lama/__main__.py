"""`python -m experiments.lama CONFIG -o RUN [--method M]`: train and ask rows, then write tables.

Needs KEPT_DATA. `--method` runs the rows of one method (`host`, `none`, `kbert`, ...) or one row
(`kbert-given`). The pre-trained `host` must be there before any other row. Without `--method`
every row that has no result yet runs, one after another. A run that was cut goes on where it
stopped. RUN receives results.json and results.md from the rows that are there; the tables say which
are missing.
"""

from __future__ import annotations

from pathlib import Path

import torch
import yaml
from transformers.utils.logging import disable_progress_bar

from experiments.command import data_root, study_parser
from experiments.lama.data import KNOWLEDGE, read_world
from experiments.lama.probing import probe_row, read_questions
from experiments.lama.study import LamaStudy, Row, train_row
from experiments.lama.tables import write_tables
from experiments.pretraining.trial import Printer
from kept.evaluation.leakage import audit_table
from kg_loaders.disk.writing import write_text


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--method", help="only the rows of this method, or this row")
    parser.add_argument("--tables", action="store_true", help="run nothing, write the tables")
    arguments = parser.parse_args()
    study = LamaStudy.model_validate(yaml.safe_load(arguments.config.read_text(encoding="utf-8")))
    disable_progress_bar()
    torch.set_num_threads(study.training.threads or torch.get_num_threads())
    rows = [] if arguments.tables else chosen_rows(study, arguments.method)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if rows:
        run_rows(rows, study, data_root(), arguments.out)
    print(write_tables(study, arguments.out))


def chosen_rows(study: LamaStudy, name: str | None) -> list[Row]:
    """All rows, those of a method, or one; raises `ConfigError` for another name."""
    if name is None:
        return study.rows
    return [row for row in study.rows if row.method == name] or [study.row(name)]


def run_rows(rows: list[Row], study: LamaStudy, root: Path, out: Path) -> None:
    """Read the world, write its audit, then train and ask each row."""
    world = read_world(
        root, per_relation=study.facts_per_relation, n_texts=study.n_texts, seed=study.seed
    )
    print(world, flush=True)
    for knowledge in KNOWLEDGE:
        text = audit_table(world.audit(knowledge))
        write_text(out / f"audit-{knowledge}.md", text + "\n", force=True)
    questions = read_questions(root / "lama", study, world)
    for row in rows:
        print(f"{row.name}:", flush=True)
        train_row(row, study, world, out, Printer())
        for result in probe_row(row, study, world, questions, out):
            scores = result["objects"]["all"]
            print(
                f"  {result['mode']}: P@1 {scores['p_at_1']:.3f} of {scores['n_scored']}",
                flush=True,
            )


if __name__ == "__main__":
    main()
