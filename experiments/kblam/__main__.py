"""`python -m experiments.kblam CONFIG -o RUN`: align, train, measure, write the table.

The same command goes on where it was stopped.
"""

from __future__ import annotations

import json

import torch
from transformers.utils.logging import disable_progress_bar

from experiments.command import study_parser
from experiments.kblam.study import LOG, Bench, Decoder, KBLaMStudy, run
from experiments.kblam.tables import draw, to_json, to_markdown
from kept.decoders import load_decoder
from kept.decoders.kblam.texts import StoredVectors
from kept.hosts import load_tokenizer
from kept.linking.sentences import HostSentenceEncoder
from kg_loaders.disk.writing import whole_file, write_json, write_text


def announce(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = study_parser(__doc__)
    given = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    study = KBLaMStudy.read(given.config)
    decoder = Decoder(load_decoder(study.host, for_training=True), load_tokenizer(study.host))
    encoder = StoredVectors(HostSentenceEncoder(study.vectors_from), given.out / "vectors")
    benches = [Bench(study, decoder, encoder, given.out, s, announce) for s in study.seeds]
    cells = run(benches)
    logs = [json.loads((bench.place / LOG).read_text("utf-8")) for bench in benches]
    command = f"python -m experiments.kblam {given.config} -o {given.out}"
    write_text(given.out / "results.md", to_markdown(cells, command, logs), force=True)
    write_json(given.out / "results.json", to_json(cells), force=True)
    with whole_file(given.out / "results.png", force=True) as part:
        draw(cells, part)
    print((given.out / "results.md").read_text("utf-8"))


if __name__ == "__main__":
    main()
