"""`python -m experiments.entity_linking.gates CONFIG -o RUN`: the table of gates alone.

Needs KEPT_DATA. It says how well the spans of `NameLinker` agree with the marked ones for each of
the study's gates (`spans.py`).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import yaml

from experiments.entity_linking.config import Study
from experiments.entity_linking.spans import table
from experiments.entity_linking.study import Laboratory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    study = Study.model_validate(yaml.safe_load(arguments.config.read_text(encoding="utf-8")))
    laboratory = Laboratory(Path(os.environ["KEPT_DATA"]), study, arguments.out, print)
    print(table(laboratory.gate_scores()))


if __name__ == "__main__":
    main()
