"""`python -m experiments.entity_linking.gates CONFIG -o RUN`: the table of gates alone.

Needs KEPT_DATA. It says how well the spans of `NameLinker` agree with the marked ones for each of
the study's gates (`spans.py`).
"""

from __future__ import annotations

from experiments.command import data_root, study_parser
from experiments.entity_linking.config import LinkingStudy
from experiments.entity_linking.spans import gate_table
from experiments.entity_linking.stages import LinkingStages

if __name__ == "__main__":
    arguments = study_parser(__doc__).parse_args()
    stages = LinkingStages(data_root(), LinkingStudy.read(arguments.config), arguments.out, print)
    print(gate_table(stages.gate_scores()).compact())
