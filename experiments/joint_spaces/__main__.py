"""`python -m experiments.joint_spaces CONFIG -o RUN`: train the spaces, compare, write the table.

Needs KEPT_DATA; the same command goes on where it was stopped.
"""

from __future__ import annotations

import torch
from transformers.utils.logging import disable_progress_bar

from experiments.command import data_root, study_parser
from experiments.joint_spaces.study import VectorStudy, run
from kept.lab.study.comparison_tables import to_markdown
from kept.lab.study.verdicts import headline
from kg_loaders.disk.writing import write_text


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    study, root = VectorStudy.read(given.config), data_root()
    compared = run(
        study, root, given.out, seeds=given.seeds, announce=lambda text: print(text, flush=True)
    )
    command = (
        f"python -m experiments.joint_spaces {given.config} -o {given.out} --seeds {given.seeds}"
    )
    write_text(given.out / "results.md", to_markdown(compared, command), force=True)
    print(headline(compared))


if __name__ == "__main__":
    main()
