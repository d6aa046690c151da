"""`python -m experiments.question_answering CONFIG -o RUN`: train, ask, write the tables.

The same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

from experiments.question_answering.study import Bench, QuestionStudy, run
from experiments.question_answering.tables import to_json, to_markdown
from kept.decoders import load_decoder
from kept.hosts import load_tokenizer
from kg_loaders.disk.writing import write_json, write_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--kblam", type=Path, help="a trained one (experiments.kblam), for its row")
    given = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    study = QuestionStudy.read(given.config)
    host, tokenizer = load_decoder(study.host), load_tokenizer(study.host)
    bench = Bench(
        study, host, tokenizer, given.out, given.kblam, lambda text: print(text, flush=True)
    )
    cells = run(bench)
    command = f"python -m experiments.question_answering {given.config} -o {given.out}"
    command += f" --kblam {given.kblam}" if given.kblam else ""
    write_text(given.out / "results.md", to_markdown(cells, command), force=True)
    write_json(given.out / "results.json", to_json(cells), force=True)
    print((given.out / "results.md").read_text("utf-8"))


if __name__ == "__main__":
    main()
