"""Large entity tables: bytes a row, the update of touched rows, the softmax over entities.

    python benchmarks/models/entity_tables.py [--rows 50000,100000] [--only memory|update|softmax]

`memory`: the peak of a process that trains CoLAKE for two steps and writes its checkpoint and its
model, at three sizes, and the line through them carried to 4.8 million rows; of one size
(`--rows 4800000 --case ...`) the peak alone; where two processes share the table out (a `--case`
of its own) those of both. `without_files` is the peak of memory that no file backs, which the
system cannot take back. `update`: 4,096 and 20,000 touched rows of a table of 1,000,000 x 200
beside torch's fused AdamW over all (`sparse_updates.py` has its sparse optimisers); ours alone with
4,096 rows of smaller tables (no more should be needed for a larger one) and with fewer rows of this
one. `softmax`: forward, backward of 512 golds over three sizes up to 1,000,000 entities beside the
full softmax. One CPU, best of three, JSON lines.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import Spent, compared, growth, in_turn, three_sizes, write_line
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch, Visibility
from kept.encoders.colake import CoLAKE, CoLAKEConfig
from kept.graphs.graph import NodeKind
from kept.objectives.masked_nodes import corrected, entity_slots
from kept.objectives.masking import EntitySampler
from kept.objectives.model import KnowledgeForPreTraining
from kept.randomness import generator
from kept.training.config import TrainConfig
from kept.training.costs import peak_memory_mib
from kept.training.loop import train
from kept.training.processes.shards import tables_in_parts
from kept.training.processes.together import leave_processes
from kept.training.row_adagrad import RowAdagrad
from kept.training.row_adam import RowAdam

WIDTH, WORDS, TARGET, N_NODES = 384, 1000, 4_800_000, 32
CASES = {
    "RowAdam": {"row_optimiser": "adam", "entity_table": "device"},
    "RowAdagrad": {"row_optimiser": "adagrad", "entity_table": "device"},
    "RowAdagrad, host table": {"row_optimiser": "adagrad", "entity_table": "host"},
    "RowAdam, shared out": {"row_optimiser": "adam", "entity_table": "device", "shard": ["tables"]},
    "RowAdagrad, shared out": {
        "row_optimiser": "adagrad", "entity_table": "device", "shard": ["tables"],
    },
}  # fmt: skip


@dataclass(frozen=True)
class Built:
    """Graphs of as many words as entities, which all are to be predicted."""

    n_entities: int
    fingerprint: str = "made"

    def __len__(self) -> int:
        return 64

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        draws = generator(seed, "made", epoch, index)
        kinds = np.repeat([NodeKind.WORD.value, NodeKind.ENTITY.value], N_NODES // 2)
        rows = draws.integers(N_SPECIAL_ROWS, self.n_entities + N_SPECIAL_ROWS, N_NODES)
        ids = np.where(kinds == NodeKind.WORD.value, rows % WORDS, rows)
        whole = {name: torch.from_numpy(value)[None] for name, value in
                 {"node_ids": ids, "node_kinds": kinds, "node_labels": ids}.items()}  # fmt: skip
        return KnowledgeBatch(
            **whole,
            node_mask=torch.ones(1, N_NODES, dtype=torch.bool),
            positions=torch.arange(N_NODES)[None],
            segment_ids=torch.zeros(1, N_NODES, dtype=torch.long),
            visibility=Visibility.everyone(1, N_NODES),
        )

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        batch = KnowledgeBatch.stack(samples)
        golds = batch.node_ids[batch.node_kinds == NodeKind.ENTITY.value]
        return batch.replace(sampled_entities=torch.unique(golds))


def peak_of(n_rows: int, case: str, folder: str) -> tuple[float, float]:
    """Most MiB of this process in two steps and a checkpoint, and most that no file backs."""
    settings = CASES[case]
    host = AutoModel.from_config(
        AutoConfig.for_model(
            "bert", vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=1,
            num_attention_heads=6, intermediate_size=WIDTH,
        )
    )  # fmt: skip
    config = CoLAKEConfig(
        host=host.config.to_dict(), n_entities=n_rows, n_relations=10,
        entity_table=settings["entity_table"],
    )  # fmt: skip
    how = TrainConfig(
        steps=2, batch_size=16, device="cpu", threads=1, checkpoint_seconds=None,
        row_optimiser=settings["row_optimiser"], gradient_norms_every=None,
        shard=settings.get("shard", ()),
    )  # fmt: skip
    with tables_in_parts(how):
        model = KnowledgeForPreTraining.of(CoLAKE(config, host=host), {"masked_nodes": {}})
    with anonymous() as peaks:
        result = train(model, Built(n_rows), how, folder)
    leave_processes()
    assert result.last is not None
    return peak_memory_mib(), max(peaks)


@contextmanager
def anonymous() -> Iterator[list[float]]:
    """MiB of this process that no file backs, every fiftieth of a second."""
    peaks, over = [0.0], Event()

    def look() -> None:
        while not over.wait(0.02):
            status = Path("/proc/self/status").read_text(encoding="ascii")
            peaks.append(int(status.partition("RssAnon:")[2].split()[0]) / 1024)

    watcher = Thread(target=look)
    watcher.start()
    yield peaks
    over.set()
    watcher.join()


def started(n_rows: int, case: str, n: int) -> list[tuple[float, float]]:
    """`peak_of` in one process, or in each of `n` that train together."""
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port = str(free_socket.getsockname()[1])
    command = [sys.executable, __file__, "--peak", str(n_rows), "--case", case]
    shared = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [*command, "--folder", folder], stdout=subprocess.PIPE, text=True,
                env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(n)
        ]  # fmt: skip
        outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"{case} with {n_rows} rows failed")
    return [(float(peak), float(alone)) for *_, peak, alone in (each.split() for each in outputs)]


def memory(sizes: Sequence[int], cases: Sequence[str]) -> None:
    for case in cases:
        peaks, alone, taken, second = [], [], [], []
        for size in sizes:
            start = time.perf_counter()
            first, *others = started(size, case, n=2 if "shard" in CASES[case] else 1)
            taken.append(round(time.perf_counter() - start))
            peaks.append(first[0])
            alone.append(round(first[1]))
            second += [[round(each) for each in other] for other in others]
        row = {
            "rows": list(sizes), "peak_mib": [round(p) for p in peaks],
            "without_files_mib": alone, "seconds": taken,
        }  # fmt: skip
        if second:
            row["second_process_mib"] = second
        if len(sizes) > 1:
            slope, rest = np.polyfit(sizes, np.array(peaks) * 2**20, 1)
            row["bytes_a_row"] = round(slope)
            row["gb_at_4_800_000"] = round((slope * TARGET + rest) / 1e9, 1)
        row["peak_gb"] = round(peaks[-1] * 2**20 / 1e9, 2)
        write_line(row="memory of CoLAKE", case=case, **row, load=round(os.getloadavg()[0], 1))
        growth("memory of CoLAKE", "rows", sizes, peaks, case=case)
        growth("two steps and files of CoLAKE, clock", "rows", sizes, taken, case=case)


def update(n_rows: int, width: int = 200) -> None:
    for n_touched in (4_096, 20_000):
        peer = stepped(lambda p, lr: torch.optim.AdamW(p, lr=lr, fused=True), n_touched, n_rows,
                       width, is_sparse=False)  # fmt: skip
        for name, optimiser_kind in ROW_OPTIMISERS.items():
            compared(
                "update of rows", stepped(optimiser_kind, n_touched, n_rows, width), peer,
                equal=None,
                ours=name, touched=n_touched, rows=n_rows, width=width, peer="fused AdamW",
            )  # fmt: skip
    for name, optimiser_kind in ROW_OPTIMISERS.items():
        rows, touched = three_sizes(n_rows), three_sizes(20_000)
        of_rows = [stepped(optimiser_kind, 4_096, n, width).processor for n in rows]
        growth("update of 4,096 rows", "rows", rows, of_rows, kind=name)
        of_touched = [stepped(optimiser_kind, n, n_rows, width).processor for n in touched]
        growth("update of rows", "touched", touched, of_touched, kind=name)


ROW_OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "RowAdam": RowAdam, "RowAdagrad": RowAdagrad,
}  # fmt: skip


def sparse_gradient(rows: torch.Tensor, values: torch.Tensor, table: nn.Parameter) -> torch.Tensor:
    return torch.sparse_coo_tensor(
        rows[None], values, table.shape, is_coalesced=True, check_invariants=False
    )


def stepped(
    make: Callable[..., torch.optim.Optimizer], n_touched: int, n_rows: int, width: int,
    *, is_sparse: bool = True,
) -> Spent:  # fmt: skip
    """The best of three steps after a first one."""
    draws = np.random.default_rng(0)
    rows = torch.from_numpy(np.sort(draws.choice(n_rows, n_touched, replace=False)))
    values, table = torch.randn(n_touched, width), nn.Parameter(torch.randn(n_rows, width))
    optimiser = make([table], lr=1e-3)
    if is_sparse:
        table.grad = sparse_gradient(rows, values, table)
    else:
        table.grad = torch.zeros_like(table).index_copy_(0, rows, values)
    optimiser.step()
    return in_turn([optimiser.step], 3)[0]


def softmax(n_rows: int) -> None:
    sizes = three_sizes(n_rows)
    functions = [softmax_of(n) for n in sizes]
    for kind in functions[0]:
        pairs = zip(*(each[kind] for each in functions), strict=True)
        growth("entity softmax", "rows", sizes, *pairs, kind=kind)


def softmax_of(n_rows: int, width: int = 64, n_golds: int = 512) -> dict[str, tuple[float, float]]:
    """Seconds of ours and of the full softmax, by ours."""
    draws = np.random.default_rng(0)
    frequencies = np.r_[[0.0] * N_SPECIAL_ROWS, draws.zipf(1.3, n_rows).astype(float)]
    sampler = EntitySampler(frequencies)
    golds = torch.from_numpy(sampler.draw(n_golds, draws))
    table = nn.Embedding(len(frequencies), width, sparse=True)
    states = torch.randn(n_golds, width, requires_grad=True)

    def full() -> float:
        loss = F.cross_entropy(F.linear(states, table.weight), golds)
        loss.backward()
        table.weight.grad = None
        return float(loss.detach())

    def sampled(kind: str, n: int) -> float:
        if kind == "shared":
            rows, shares = sampler.shared(golds, n, draws)
        else:
            rows, shares = sampler.sample(golds, n, draws), None
        slots = entity_slots(golds, rows)
        logits = corrected(F.linear(states, table(rows)), slots, shares)
        loss = F.cross_entropy(logits, slots)
        loss.backward()
        table.weight.grad = None
        return float(loss.detach())

    (peer,), spent = in_turn([full], 2), {}
    for kind, n in (("a gold", 10), ("shared", 1024)):
        losses = [sampled(kind, n) for _ in range(5)]
        (ours,) = in_turn([lambda kind=kind, n=n: sampled(kind, n)], 3)
        name = f"{n} negatives {kind}"
        compared(
            "entity softmax", ours, peer, equal=None, ours=name, peer="full softmax", rows=n_rows,
            golds=n_golds, kept_loss=round(float(np.mean(losses)), 3),
            peer_loss=round(peer.result, 3),
        )  # fmt: skip
        spent[name] = ours.processor, peer.processor
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="50000,100000,200000")
    parser.add_argument("--table", type=int, default=1_000_000, help="rows of the other parts")
    parser.add_argument("--only", choices=("memory", "update", "softmax"))
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--case", choices=[*CASES], help="of memory, one alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak:
        print(*peak_of(options.peak, options.case, options.folder))
        return
    sizes = [int(each) for each in options.rows.split(",")]
    alone = [case for case, settings in CASES.items() if "shard" not in settings]
    cases = [options.case] if options.case else alone
    parts = {
        "memory": lambda: memory(sizes, cases), "update": lambda: update(options.table),
        "softmax": lambda: softmax(options.table),
    }  # fmt: skip
    for name, part in parts.items():
        if options.only in (None, name):
            part()


if __name__ == "__main__":
    main()
