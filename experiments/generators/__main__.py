"""`python -m experiments.generators CONFIG -o RUN`: train, measure, write the page.

The same command goes on where it was stopped. The data lie where `KEPT_DATA` says.
"""

from __future__ import annotations

import torch

from experiments.command import data_root, study_parser, write_results
from experiments.generators.study import Bench, GeneratorStudy, run, to_markdown


def main() -> None:
    parser = study_parser(__doc__)
    given = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(
        GeneratorStudy.read(given.config), data_root(), given.out,
        lambda text: print(text, flush=True),
    )  # fmt: skip
    cells = run(bench)
    command = f"python -m experiments.generators {given.config} -o {given.out}"
    write_results(given.out, to_markdown(cells, bench, command), cells)


if __name__ == "__main__":
    main()
