"""Many cells at once on one GPU, or on the cores of a processor: a process each, results in a few
files.

    python -m experiments.unseen_entities.many PACK OUT --processes 8 --seconds 240

PACK is the folder that `trial.py --pack` writes. Of cells that have not ended after so many seconds
nothing is kept. OUT/cells.npz then holds the ranks of every cell that ended, OUT/notes.json their
losses and times, and what failed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

Cell = tuple[str, int, int]
"""A graph, a split, a seed."""
SETTINGS = "settings.json"


def settings_of(folder: Path, graph: str, scale: float) -> Any:
    """Return the settings of a graph in a pack, its steps times `scale`."""
    from experiments.unseen_entities.cells import CellSettings
    from experiments.unseen_entities.paths import PathSettings
    from experiments.unseen_entities.texts import TextSettings

    table = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))["training"][graph]
    rows = {name: dict(value) for name, value in table.items() if isinstance(value, dict)}
    for value in rows.values():
        value["steps"] = max(2, round(value["steps"] * scale))
    ultra, nbfnet = (PathSettings(**rows[name]) for name in ("ultra", "nbfnet"))
    return CellSettings(TextSettings(**rows["text"]), ultra, nbfnet, scored=table["scored"])


def _work(
    queue: Any, folder: Path, parts: Path, device: str, scale: float, deadline: float
) -> None:
    import torch

    from experiments.unseen_entities.cells import run_cell
    from experiments.unseen_entities.worlds import SplitGraph

    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    if device == "cuda":
        torch.zeros(1, device=device)
    worlds: dict[tuple[str, int], SplitGraph] = {}
    while (cell := queue.get()) is not None:
        name, split, seed = cell
        started, path = time.time(), parts / f"{name}-{split}-{seed}"
        try:
            if time.time() > deadline:
                break
            if (name, split) not in worlds:
                worlds[name, split] = SplitGraph.read(folder, name, split)
            settings = settings_of(folder, name, scale)
            outcome = run_cell(worlds[name, split], folder, settings, seed, device)
            notes = outcome.notes | {"device": device, "wall": round(time.time() - started, 1)}
            if device == "cuda":
                notes["memory"] = torch.cuda.max_memory_allocated() >> 20
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            arrays = outcome.ranks
            np.savez_compressed(path.with_suffix(".part.npz"), **arrays)  # type: ignore[arg-type]
            path.with_suffix(".json").write_text(json.dumps(notes), encoding="utf-8")
            os.rename(path.with_suffix(".part.npz"), path.with_suffix(".npz"))
            print(cell, notes["wall"], "s", notes.get("memory"), notes["seconds"], flush=True)
            mrr = {row: round(float((2 / ranks).mean()), 3) for row, ranks in arrays.items()}
            print(cell, mrr, flush=True)
        except Exception:  # noqa: BLE001 - the other cells go on; the text says what failed
            text = traceback.format_exc()
            path.with_suffix(".failed").write_text(text, encoding="utf-8")
            print(f"{cell} failed: {text}", flush=True)


def collect(parts: Path, out: Path, notes: dict[str, Any]) -> None:
    """Write the cells that ended into one file, and all notes into another."""
    arrays: dict[str, Any] = {}
    for path in sorted(parts.glob("*.npz")):
        if path.name.endswith(".part.npz"):
            continue
        with np.load(path) as stored:
            arrays |= {f"{path.stem}|{row}": stored[row] for row in stored.files}
        notes[path.stem] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    for path in sorted(parts.glob("*.failed")):
        notes[f"{path.stem} failed"] = path.read_text(encoding="utf-8")
    np.savez_compressed(out / "cells.npz", **arrays)
    (out / "notes.json").write_text(json.dumps(notes, indent=1), encoding="utf-8")


def run_many(folder: Path, out: Path, cells: list[Cell], *, device: str, processes: int,
             seconds: float, scale: float, parts: Path) -> None:  # fmt: skip
    """Run the cells, in order, until all have ended or the time is up."""
    started = time.time()
    parts.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    context = get_context("spawn")
    queue = context.Queue()
    for cell in [*cells, *[None] * processes]:
        queue.put(cell)
    deadline = started + seconds
    arguments = (queue, folder, parts, device, scale, deadline)
    workers = [context.Process(target=_work, args=arguments) for _ in range(processes)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers) and time.time() < deadline:
        time.sleep(0.2)
    for worker in workers:
        if worker.is_alive():
            worker.kill()
    notes = {"seconds": round(time.time() - started, 1), "scale": scale, "processes": processes}
    collect(parts, out, dict(notes))


def check_kernels(device: str = "cuda") -> None:
    """Compare the kernels with plain sums, values and gradients; raises ValueError."""
    import torch

    from experiments.unseen_entities.paths import DeviceEdges
    from kept.kge.ultra.graphs import Edges

    draws = np.random.default_rng(0)
    rows = np.unique(draws.integers(0, [3000, 20, 3000], (40_000, 3)), axis=0)
    edges = Edges.of(rows, n_entities=3000, n_relations=20)
    results = []
    for device_name in ("cpu", device):
        on_device = DeviceEdges.of(edges, device_name)
        keep = on_device.without(torch.from_numpy(rows[:64]).to(device_name))
        torch.manual_seed(0)
        inputs = [torch.randn(20, n, 32).to(device_name).requires_grad_() for n in (3000, 40, 3000)]
        weight = torch.randn(20, 3000, 32).to(device_name)
        out = on_device.sums(keep)(*inputs)
        gradients = torch.autograd.grad((out * weight).sum(), inputs)
        results.append([value.detach().cpu() for value in (out, *gradients)])
    for one, other in zip(*results, strict=True):
        error = float((one - other).norm() / one.norm())
        print(f"kernels against the processor: {error:.1e}", flush=True)
        if not error < 1e-4:
            raise ValueError("the kernels do not sum what they should")


def main() -> None:
    """Run the cells that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of steps")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--graphs", default="fb15k-237,wn18rr,codex-s")
    parser.add_argument("--parts", type=Path, default=Path("/tmp/cells"))
    parser.add_argument("--check", action="store_true", help="compare the kernels first")
    arguments = parser.parse_args()
    cells = [
        (graph, split, seed)
        for seed in range(arguments.seeds)
        for split in range(arguments.splits)
        for graph in arguments.graphs.split(",")
    ]
    started = time.time()
    if arguments.check:
        check_kernels(arguments.device)
    run_many(
        arguments.pack, arguments.out, cells, device=arguments.device,
        processes=arguments.processes, seconds=arguments.seconds, scale=arguments.scale,
        parts=arguments.parts,
    )  # fmt: skip
    n = len(list(arguments.parts.glob("*.json")))
    print(f"{n} of {len(cells)} cells in {time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
