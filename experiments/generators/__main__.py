"""`python -m experiments.generators CONFIG -o RUN`: train, measure, write the page.

The same command goes on where it was stopped. The data lie where `KEPT_DATA` says.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch

from experiments.generators.study import Bench, GeneratorStudy, run, to_markdown
from kept.errors import ConfigError
from kg_loaders.disk.writing import write_json, write_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    if "KEPT_DATA" not in os.environ:
        raise ConfigError("KEPT_DATA is not set; say in which folder the data lie")
    torch.set_num_threads(1)
    bench = Bench(
        GeneratorStudy.read(given.config), Path(os.environ["KEPT_DATA"]), given.out,
        lambda text: print(text, flush=True),
    )  # fmt: skip
    cells = run(bench)
    command = f"python -m experiments.generators {given.config} -o {given.out}"
    write_text(given.out / "results.md", to_markdown(cells, bench, command), force=True)
    write_json(given.out / "results.json", cells, force=True)
    print((given.out / "results.md").read_text("utf-8"))


if __name__ == "__main__":
    main()
