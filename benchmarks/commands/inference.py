"""`encode` in int8, bfloat16 and compiled, beside float32: how much faster, and how much the same.

    python benchmarks/commands/inference.py [--texts 64] [--methods none,kbert] [--variants ...]

Sentences of the atlas through the encoder of `AutoEncoder`, MiniLM as host, one CPU. `pass` is the
encoder over batches of 16 that are made already, `encode` the whole call (linking, graphs, view).
Ours and float32 in turn, the best of five; agreement is the cosine of each sentence's vector with
float32's, its mean and its least; `first_call_s` has the compiler's time, for sizes that may
change (without a C++ compiler, g++ or what CXX names, `compiled` is left out, with the reason).
JSON lines, with the exponents of `encode` by texts; the last is the start of `kept link` from
nothing (`benchmarks/commands/startup.py` has all commands).
"""

from __future__ import annotations

import argparse
import copy
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from startup import best as best_of_start
from startup import link
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import growth, in_turn, three_sizes, write_line
from kept import atlas
from kept.auto import AutoEncoder
from kept.batches import KnowledgeBatch
from kept.graphs.builder import build_many

BATCH, REPEATS = 16, 5
COMPILER = os.environ.get("CXX", "g++")


def int8(encoder: nn.Module) -> nn.Module:
    """Linear layers in int8, their inputs quantised as they come."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised: nn.Module = torch.ao.quantization.quantize_dynamic(
            copy.deepcopy(encoder), {nn.Linear}, dtype=torch.qint8
        )
    return quantised


def bfloat16(encoder: nn.Module) -> nn.Module:
    return copy.deepcopy(encoder).to(torch.bfloat16)


def compiled(encoder: nn.Module) -> nn.Module:
    compiled_encoder: nn.Module = torch.compile(copy.deepcopy(encoder), dynamic=True)  # type: ignore[assignment]
    return compiled_encoder


VARIANTS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "int8": int8, "bfloat16": bfloat16, "compiled": compiled,
}  # fmt: skip


def batches_of(encoder: AutoEncoder, texts: list[Any], graph: Any) -> list[KnowledgeBatch]:
    view = encoder.method.view.of(graph, encoder.tokenizer)
    built = build_many(texts, encoder.tokenizer, graph, seed=0, config=encoder.builder)
    samples = sorted((view(one) for one in built), key=lambda sample: sample.node_ids.shape[1])
    pad_id = int(encoder.tokenizer.pad_token_id)
    return [
        KnowledgeBatch.stack(samples[start : start + BATCH], word_pad_id=pad_id)
        for start in range(0, len(samples), BATCH)
    ]


@torch.no_grad()
def vectors(encoder: nn.Module, batches: list[KnowledgeBatch]) -> Tensor:
    """The mean state of each sample's nodes."""
    rows = []
    for batch in batches:
        states, mask = encoder(batch).node_states.float(), batch.node_mask[..., None]
        rows.append((states * mask).sum(1) / mask.sum(1))
    return torch.cat(rows)


def measure(method: str, n_texts: int, names: Sequence[str]) -> None:
    graph = atlas.graph()
    plain = [sentence.text for sentence in atlas.sentences()][:n_texts]
    auto_encoder = AutoEncoder.from_host(method, "minilm", graph, untrained=True)
    texts = auto_encoder.encode(plain, graph).texts
    linked = [text.linked for text in texts]
    batches, encoder = batches_of(auto_encoder, linked, graph), auto_encoder.encoder
    truth = vectors(encoder, batches)
    for name in names:
        if name == "compiled" and shutil.which(COMPILER) is None:
            write_line(
                row="variant of encode",
                method=method,
                variant=name,
                skipped=f"there is no C++ compiler {COMPILER}",
            )
            continue
        start = time.perf_counter()
        changed = VARIANTS[name](encoder)
        result = vectors(changed, batches)
        ready = time.perf_counter() - start
        runs = [lambda model=model: vectors(model, batches) for model in (changed, encoder)]
        ours, peer = (spent.processor for spent in in_turn(runs, REPEATS))
        cosine = F.cosine_similarity(result, truth)
        write_line(
            row="variant of encode", method=method, variant=name, texts=len(linked),
            first_call_s=round(ready, 1), peer_s=round(peer, 3), kept_s=round(ours, 3),
            times_as_fast=round(peer / ours, 2), cosine=round(float(cosine.mean()), 5),
            least_cosine=round(float(cosine.min()), 5),
        )  # fmt: skip
    sizes = three_sizes(len(plain))
    runs = [lambda n=n: auto_encoder.encode(plain[:n], graph) for n in sizes]
    *parts, whole, alone = in_turn([*runs, lambda: vectors(encoder, batches)], 2)
    write_line(row="encode", method=method, variant="float32", encode_s=round(whole.processor, 3),
         pass_s=round(alone.processor, 3))  # fmt: skip
    growth("encode", "texts", sizes, [spent.processor for spent in (*parts, whole)], method=method)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--methods", default="none,kbert,colake")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for method in options.methods.split(","):
        measure(method, options.texts, options.variants.split(","))
    with tempfile.TemporaryDirectory() as folder:
        spent = best_of_start(link(Path(folder)))
        write_line(row="kept link of two sentences, from nothing", kept_s=round(spent, 2))


if __name__ == "__main__":
    sys.exit(main())
