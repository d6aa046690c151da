"""`python -m experiments lexical CONFIG -o RUN`: SenseBERT and SentiLARE before a task.

CONFIG is `senses.yaml` or `reviews.yaml`; needs KEPT_DATA and WordNet 3.0.
"""

from __future__ import annotations

from experiments.lexical.files import PREPARATIONS
from experiments.stages import main

if __name__ == "__main__":
    main("experiments lexical", lambda study, *folders: PREPARATIONS[study.name](study, *folders))
