"""`python -m experiments joint_spaces CONFIG -o RUN [--seeds N]`: train the spaces, then compare.

Needs KEPT_DATA; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse

from experiments.command import Results, announce, data_root, run_study
from experiments.joint_spaces.study import VectorStudy, compare_spaces
from kept.lab.study.comparison_tables import to_json, to_markdown


def run(study: VectorStudy, arguments: argparse.Namespace) -> Results:
    """Train and compare what is missing; return the page and every number."""
    compared = compare_spaces(
        study, data_root(), arguments.out, seeds=arguments.seeds, announce=announce
    )  # fmt: skip
    return to_markdown(compared, f"{arguments.command} --seeds {arguments.seeds}"), to_json(
        compared
    )


if __name__ == "__main__":
    run_study(__doc__, VectorStudy, run, {"--seeds": {"type": int, "default": 3}})
