"""`python -m experiments.kblam CONFIG -o RUN`: align, train, measure, write the table.

The same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

from experiments.kblam.study import Bench, KBLaMStudy, run
from experiments.kblam.tables import draw, to_markdown
from experiments.kblam.training import LOG
from kept.decoders import load_decoder
from kept.hosts import load_tokenizer
from kept.linking.sentences import HostSentenceEncoder
from kg_loaders.disk.writing import whole_file, write_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    study = KBLaMStudy.read(given.config)
    bench = Bench(
        study,
        load_decoder(study.host),
        load_tokenizer(study.host),
        HostSentenceEncoder(study.vectors_from),
        given.out,
        lambda text: print(text, flush=True),
    )
    cells = run(bench)
    training = json.loads((given.out / LOG).read_text("utf-8"))
    command = f"python -m experiments.kblam {given.config} -o {given.out}"
    write_text(given.out / "results.md", to_markdown(cells, command, training), force=True)
    with whole_file(given.out / "results.png", force=True) as part:
        draw(cells, part)
    print((given.out / "results.md").read_text("utf-8"))


if __name__ == "__main__":
    main()
