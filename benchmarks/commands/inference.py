"""`encode` in int8, bfloat16 and compiled, beside float32: how much faster, and how much the same.

    python benchmarks/commands/inference.py [--texts 64] [--methods none,kbert] [--variants ...]

Sentences of the atlas through the encoder of `AutoEncoder`, MiniLM as host, one CPU. `pass` is the
encoder over batches of 16 that are made already, `encode` the whole call (linking, graphs, view).
Ours and float32 in turn, the best of five; agreement is the cosine of each sentence's vector with
float32's, its mean and its least; `first_call_s` has the compiler's time, for sizes that may
change (without a C++ compiler, g++ or what CXX names, `compiled` is left out, with the reason).
JSON lines; the last is the start of `kept link` from nothing (`benchmarks/commands/startup.py` has
all commands).
"""

from __future__ import annotations

import argparse
import copy
import json
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
    made: nn.Module = torch.compile(copy.deepcopy(encoder), dynamic=True)  # type: ignore[assignment]
    return made


VARIANTS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "int8": int8, "bfloat16": bfloat16, "compiled": compiled,
}  # fmt: skip


def batches_of(made: AutoEncoder, texts: list[Any], graph: Any) -> list[KnowledgeBatch]:
    view = made.method.view.of(graph, made.tokenizer)
    built = build_many(texts, made.tokenizer, graph, seed=0, config=made.builder)
    samples = sorted((view(one) for one in built), key=lambda sample: sample.node_ids.shape[1])
    pad_id = int(made.tokenizer.pad_token_id)
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


def seconds(call: Callable[[], Any]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def in_turn(one: nn.Module, other: nn.Module, batches: list[KnowledgeBatch]) -> tuple[float, float]:
    """The best processor seconds of each, taken in turn."""
    both = [
        (seconds(lambda: vectors(one, batches)), seconds(lambda: vectors(other, batches)))
        for _ in range(REPEATS)
    ]
    return min(first for first, _ in both), min(second for _, second in both)


def measure(method: str, n_texts: int, names: Sequence[str]) -> None:
    graph = atlas.graph()
    plain = [sentence.text for sentence in atlas.sentences()][:n_texts]
    made = AutoEncoder.from_host(method, "minilm", graph, untrained=True)
    texts = made.encode(plain, graph).texts
    linked = [text.linked for text in texts]
    batches, encoder = batches_of(made, linked, graph), made.encoder
    truth = vectors(encoder, batches)
    for name in names:
        if name == "compiled" and shutil.which(COMPILER) is None:
            tell(method=method, variant=name, skipped=f"there is no C++ compiler {COMPILER}")
            continue
        begun = time.perf_counter()
        changed = VARIANTS[name](encoder)
        found = vectors(changed, batches)
        ready = time.perf_counter() - begun
        ours, peer = in_turn(changed, encoder, batches)
        cosine = F.cosine_similarity(found, truth)
        tell(
            method=method, variant=name, texts=len(linked), first_call_s=round(ready, 1),
            float32_s=round(peer, 3), ours_s=round(ours, 3), ratio=round(peer / ours, 2),
            cosine=round(float(cosine.mean()), 5), least_cosine=round(float(cosine.min()), 5),
        )  # fmt: skip
    whole = min(seconds(lambda: made.encode(plain, graph)) for _ in range(2))
    alone = min(seconds(lambda: vectors(encoder, batches)) for _ in range(2))
    tell(method=method, variant="float32", encode_s=round(whole, 3), pass_s=round(alone, 3))


def tell(**row: Any) -> None:
    print(json.dumps(row), flush=True)


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
        tell(work="kept link of two sentences, from nothing", s=best_of_start(link(Path(folder))))


if __name__ == "__main__":
    sys.exit(main())
