"""What a GPU does: attention in three forms, tables of entities, steps and ten minutes of training.

    python benchmarks/models/gpu.py [--minutes 10] [--only attention|step|table|pretrain]
    python benchmarks/models/gpu.py --small        # the same on a CPU, at a size for a test

Without a GPU it says so and ends, unless `--small` asks for the CPU. JSON lines, medians of five.
`attention`: rows that several samples share, each node seeing some of its own sample: eager with an
additive mask, SDPA with a boolean one, flex_attention with block masks (compiled; "mask" is what
making the block mask of a batch costs), forward and, where there is one, backward. `step`: forward
and backward of each method's encoder on MiniLM in bf16, with its share of the rate of a large
matrix product, measured here. `table`: a step of CoLAKE with its table on the GPU and in host
memory. `pretrain`: CoLAKE and ERNIE by `kept pretrain` on the atlas, nodes a second and loss.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import write_line
from entity_linking.annotations import write_jsonl
from kept import hosts
from kept.batches import KnowledgeBatch
from kept.graphs.builder import BuilderConfig, build_many
from kept.inputs.views import builder_for
from kept.methods import METHODS
from kept.tasks.datasets.atlas import linked_texts
from kg_loaders import atlas

MIX = BuilderConfig(max_neighbours=4, max_words=96, max_nodes=192, policy="degree")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rows: int
    nodes: int
    heads: int
    width: int
    texts: int
    table: int
    methods: tuple[str, ...]
    repeats: int


GPU = Size(64, 512, 12, 64, 256, 1_000_000, tuple(METHODS), 5)
SMALL = Size(2, 64, 2, 16, 4, 1_000, ("colake",), 2)


def median_ms(run: Callable[[], object], device: str, repeats: int) -> float:
    """Wall milliseconds of a run, the device's work included; one round warms up."""
    times = []
    for round_ in range(repeats + 1):
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        if round_:
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def matrix_rate(device: str, dtype: torch.dtype, n: int) -> float:
    """Operations a second of an n x n product."""
    one = torch.randn(n, n, device=device, dtype=dtype)
    return 2 * n**3 / (median_ms(lambda: one @ one, device, 5) / 1e3)


# ---- attention -----------------------------------------------------------------------------------
def visible_rows(size: Size, device: str) -> Tensor:
    """Who sees whom in rows, `[row node node]`: four samples a row, a third of each not seen."""
    draws = torch.Generator().manual_seed(0)
    samples = torch.arange(size.nodes) * 4 // size.nodes
    seen = torch.rand(size.rows, size.nodes, size.nodes, generator=draws) < 2 / 3
    seen = (seen | seen.mT) & (samples[:, None] == samples[None])
    return (seen | torch.eye(size.nodes, dtype=torch.bool)).to(device)


def attention(size: Size, device: str, dtype: torch.dtype) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    seen = visible_rows(size, device)
    shape = (3, size.rows, size.heads, size.nodes, size.width)
    query, key, value = torch.randn(*shape, device=device, dtype=dtype)
    if device == "cuda":  # on a CPU flex_attention has no backward and refuses what asks for one
        query.requires_grad_()

    def additive() -> Tensor:
        mask = torch.zeros(seen.shape, device=device, dtype=dtype)
        scores = query @ key.mT / size.width**0.5
        lowest = torch.finfo(dtype).min
        return (scores + mask.masked_fill(~seen, lowest)[:, None]).softmax(-1) @ value

    def fused() -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None])

    def blocks() -> Any:
        return create_block_mask(
            lambda b, _h, q, k: seen[b, q, k], size.rows, None, size.nodes, size.nodes, device
        )

    compiled, masks = torch.compile(flex_attention), blocks()
    ways = {
        "eager": additive,
        "sdpa": fused,
        "flex": lambda: compiled(query, key, value, block_mask=masks),
    }
    with torch.no_grad():
        for name in ("sdpa", "flex"):
            torch.testing.assert_close(ways[name](), additive(), atol=2e-2, rtol=2e-2)
    for name, way in ways.items():
        with torch.no_grad():
            row = {"forward_ms": round(median_ms(way, device, size.repeats), 3)}
        if device == "cuda":
            both = lambda way=way: torch.autograd.grad(way().float().sum(), query)  # noqa: E731
            row["step_ms"] = round(median_ms(both, device, size.repeats), 3)
        if name == "flex":
            row["mask_ms"] = round(median_ms(blocks, device, size.repeats), 3)
        write_line(work="attention", way=name, rows=size.rows, nodes=size.nodes, **row)


# ---- methods -------------------------------------------------------------------------------------
def batch_of(name: str, n_texts: int, device: str) -> tuple[Any, KnowledgeBatch]:
    """The encoder of a method on MiniLM, and a batch of the atlas for it."""
    graph, tokenizer = atlas.graph(), hosts.load_tokenizer("minilm")
    texts = linked_texts(atlas.sentences())
    texts = [texts[i % len(texts)] for i in range(n_texts)]
    config = builder_for(METHODS[name], MIX, {})
    built = build_many(texts, tokenizer, graph, seed=0, config=config)
    batch = (
        METHODS[name]
        .view.of(graph, tokenizer)
        .stacked(built, word_pad_id=int(tokenizer.pad_token_id or 0))
    )
    encoder = METHODS[name].new_encoder("minilm", graph, tokenizer, seed=0)
    return encoder.to(device), batch.to(device)


def steps(size: Size, device: str, dtype: torch.dtype) -> None:
    rate = matrix_rate(device, dtype, 4096 if device == "cuda" else 256)
    for name in size.methods:
        encoder, batch = batch_of(name, size.texts, device)
        host = sum(p.numel() for p in encoder.host.parameters()) - sum(
            p.numel() for p in encoder.host.embeddings.parameters()
        )

        def step(encoder: Any = encoder, batch: KnowledgeBatch = batch) -> None:
            encoder.zero_grad(set_to_none=True)
            with torch.autocast(device, dtype, enabled=dtype != torch.float32):
                loss = encoder(batch).node_states.float().square().mean()
            loss.backward()

        spent = median_ms(step, device, size.repeats)
        n_nodes = int(batch.node_mask.sum())
        write_line(
            work="step", method=name, nodes=n_nodes, ms=round(spent, 2),
            nodes_a_second=round(1e3 * n_nodes / spent),
            share_of_matrix_rate=round(6 * host * n_nodes / (spent / 1e3) / rate, 3),
        )  # fmt: skip


def tables(size: Size, device: str) -> None:
    """A step's gather, gradient and update of 20,000 rows: the table with the model, or not."""
    from kept.layers.host_table import HostTable
    from kept.training.row_adagrad import RowAdagrad

    results = {}
    for where in ("device", "host"):
        torch.manual_seed(0)
        table: Any = HostTable(size.table, 384)
        if where == "device":
            table = torch.nn.Embedding.from_pretrained(
                table.weight.detach().to(device), freeze=False, sparse=True
            )
        optimiser = RowAdagrad([table.weight], lr=0.05)
        rows = torch.randint(size.table, (min(20_000, size.table),), device=device)

        def step(table: Any = table, optimiser: Any = optimiser, rows: Tensor = rows) -> None:
            optimiser.zero_grad(set_to_none=True)
            table(rows).square().mean().backward()
            optimiser.step()

        results[where] = median_ms(step, device, size.repeats)
    write_line(
        work="table", rows=size.table, device_ms=round(results["device"], 2),
        host_ms=round(results["host"], 2),
        host_over_device=round(results["host"] / results["device"], 2),
    )  # fmt: skip


# ---- training ------------------------------------------------------------------------------------
def pretrain(minutes: float, device: str, names: tuple[str, ...], n_steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        atlas.graph().save(Path(folder) / "kg")
        write_jsonl(linked_texts(atlas.sentences()), Path(folder) / "texts.jsonl")
        for name in names:
            out = Path(folder) / name
            command = [
                sys.executable, "-m", "kept", "pretrain", "--method", name, "--host", "minilm",
                "--kg", f"{folder}/kg", "--text", f"{folder}/texts.jsonl", "-o", str(out),
                "--steps", str(n_steps), "--batch-size", "64" if device == "cuda" else "4",
                "--device", device, "--set", f"training.budget_minutes={minutes}",
                "--set", f"training.precision={'bf16' if device == 'cuda' else 'fp32'}",
            ]  # fmt: skip
            subprocess.run(command, check=True, capture_output=True, text=True)
            rows = list(records(out / "log.jsonl"))
            write_line(
                work="pretrain", method=name, minutes=minutes, steps=rows[-1]["step"],
                nodes_a_second=round(rows[-1]["nodes_per_second"]),
                first_loss=round(rows[0]["total_loss"], 3),
                last_loss=round(rows[-1]["total_loss"], 3),
            )  # fmt: skip


def records(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "total_loss" in row:
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", choices=("attention", "step", "table", "pretrain"))
    parser.add_argument("--small", action="store_true", help="on the CPU, at a size for a test")
    options = parser.parse_args()
    device = "cpu" if options.small else options.device
    if device == "cuda" and not torch.cuda.is_available():
        write_line(work="gpu", found=None, said="there is no GPU: nothing was measured")
        return
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    write_line(work="gpu", found=name, torch=torch.__version__, small=options.small)
    size, dtype = (SMALL, torch.float32) if options.small else (GPU, torch.bfloat16)
    names, n_steps = (("colake",), 2) if options.small else (("colake", "ernie"), 1_000_000)
    parts: dict[str, Callable[[], None]] = {
        "attention": lambda: attention(size, device, dtype),
        "step": lambda: steps(size, device, dtype),
        "table": lambda: tables(size, device),
        "pretrain": lambda: pretrain(options.minutes, device, names, n_steps),
    }
    for part, run in parts.items():
        if options.only in (None, part):
            run()


if __name__ == "__main__":
    main()
