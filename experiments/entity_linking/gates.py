"""`python -m experiments.entity_linking.gates CONFIG -o RUN`: the table of gates alone.

Needs KEPT_DATA. It says how well the spans of `NameLinker` agree with the marked ones for each of
the study's gates (`spans.py`).
"""

from __future__ import annotations

import yaml

from experiments.command import data_root, study_parser
from experiments.entity_linking.config import Study
from experiments.entity_linking.spans import table
from experiments.entity_linking.study import Laboratory


def main() -> None:
    parser = study_parser(__doc__)
    arguments = parser.parse_args()
    study = Study.model_validate(yaml.safe_load(arguments.config.read_text(encoding="utf-8")))
    laboratory = Laboratory(data_root(), study, arguments.out, print)
    print(table(laboratory.gate_scores()))


if __name__ == "__main__":
    main()
