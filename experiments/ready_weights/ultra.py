"""ULTRA, trained on small parts of several graphs in turn, so that it reads any other.

A round takes a graph, in the shares that the plan states, and the triples among the entities around
one of its entities, at most `n_triples`; it takes `n_steps` steps on questions about these. What is
learned is how relations meet, of which every part is another example (Galkin et al. 2024, section
4.3, who train on whole graphs). Axis legend: triple.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from kept.kgc.completers.folders import save_completer
from kept.kgc.completers.seen import TrainedOn
from kept.kgc.completers.ultra import N_LAYERS, UltraCompleter
from kept.kge.splits import Splits, read_splits
from kept.kge.training_config import TrainingConfig
from kept.kge.ultra.networks import make_ultra
from kept.kge.ultra.training import LossOnGraph
from kept.randomness import generator, torch_draws, torch_generator
from kg_loaders.disk.writing import whole_file

Rows = NDArray[np.int64]
STATE = "state.pt"


class UltraPlan(BaseModel):
    """What `ultra.yaml` states; `graphs` are folders under KEPT_DATA and their shares of rounds."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    graphs: dict[str, PositiveInt]
    n_rounds: PositiveInt
    n_steps: PositiveInt
    n_triples: PositiveInt
    n_warmup: PositiveInt
    most_left_out: float
    width: PositiveInt
    batch_size: PositiveInt
    n_negatives: PositiveInt
    learning_rate: PositiveFloat
    seed: int

    @property
    def config(self) -> TrainingConfig:
        """The settings of the loss."""
        return TrainingConfig(
            n_epochs=1, batch_size=self.batch_size, learning_rate=self.learning_rate,
            optimiser="adamw", objective="negative_sampling", loss="log_sigmoid",
            n_negatives=self.n_negatives, adversarial_temperature=1.0,
        )  # fmt: skip

    def rate(self, number: int) -> float:
        """The learning rate of a round: it rises over the first rounds and falls to zero."""
        return self.learning_rate * min(
            (number + 1) / self.n_warmup, (self.n_rounds - number) / self.n_rounds
        )

    def graph_of(self, number: int) -> str:
        """The graph of a round."""
        turns = [name for name, share in self.graphs.items() for _ in range(share)]
        return turns[number % len(turns)]


def part_of(triples: Rows, n_triples: int, draws: np.random.Generator) -> Rows:
    """Return the triples among the entities around one, numbered anew, `[triple 3]`.

    Entities are reached breadth first; they stop before their triples are more than `n_triples`.
    """
    if len(triples) <= n_triples:
        chosen = triples
    else:
        inside = np.zeros(triples[:, [0, 2]].max() + 1, np.bool_)
        inside[draws.choice(triples[:, [0, 2]].ravel())] = True
        chosen = triples[:0]
        while True:
            touched = triples[inside[triples[:, 0]] | inside[triples[:, 2]]]
            new = np.unique(touched[:, [0, 2]])
            new = draws.permutation(new[~inside[new]])
            if not len(new):
                break
            larger, before = chosen, inside.copy()
            for step in np.array_split(new, min(len(new), 8)):
                inside[step] = True
                larger = triples[inside[triples[:, 0]] & inside[triples[:, 2]]]
                if len(larger) > n_triples:
                    inside = before
                    break
                chosen, before = larger, inside.copy()
            if len(larger) > n_triples:
                break
    return numbered_anew(chosen)


def varied(rows: Rows, most_left_out: float, draws: np.random.Generator) -> Rows:
    """Return a part with half of its relations turned round, and up to a share of triples left out.

    Which way a relation leads and how dense a graph is are choices of whoever made it.
    """
    is_turned = draws.random(rows[:, 1].max() + 1) < 0.5
    turned = np.where(is_turned[rows[:, 1], None], rows[:, ::-1], rows)
    stays = draws.random(len(turned)) >= draws.random() * most_left_out
    return numbered_anew(turned[stays] if stays.sum() > 1 else turned)


def numbered_anew(triples: Rows) -> Rows:
    """The same triples with ids from 0 on, in the order of the old ones."""
    _, ends = np.unique(triples[:, [0, 2]], return_inverse=True)
    _, relations = np.unique(triples[:, 1], return_inverse=True)
    ends = ends.reshape(-1, 2)
    return np.stack([ends[:, 0], relations, ends[:, 1]], 1)


def train(plan: UltraPlan, data: Path, output: Path, *, threads: int = 1) -> Path:
    """Train, or go on from `output`, and return the folder of the completer.

    The state is written after every round; a run that was ended gives the same weights.
    """
    folder = output / plan.name
    if folder.is_dir():
        return folder
    torch.set_num_threads(threads)
    splits = {name: read_splits(data / name, holdout=0.05, seed=0, texts=False)
              for name in plan.graphs}  # fmt: skip
    with torch_draws(plan.seed, "initial weights"):
        model = make_ultra(width=plan.width, n_layers=N_LAYERS)
    optimiser = torch.optim.AdamW(model.parameters(), lr=plan.learning_rate)
    losses, seconds, path = [], 0.0, output / STATE
    if path.is_file():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        losses, seconds = state["losses"], state["seconds"]
    for number in range(len(losses), plan.n_rounds):
        started = time.process_time()
        for group in optimiser.param_groups:
            group["lr"] = plan.rate(number)
        name = plan.graph_of(number)
        rows = part_of(
            splits[name].train.astype(np.int64), plan.n_triples,
            generator(plan.seed, "part", number),
        )  # fmt: skip
        rows = varied(rows, plan.most_left_out, generator(plan.seed, "variation", number))
        steps = list(_steps(model, optimiser, rows, plan, number))
        losses.append(sum(steps) / len(steps))
        seconds += time.process_time() - started
        state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(),
                 "losses": losses, "seconds": seconds}  # fmt: skip
        output.mkdir(parents=True, exist_ok=True)
        with whole_file(path, force=True) as part:
            torch.save(state, part)
        print(f"round {number + 1} of {plan.n_rounds}: {name}, {len(rows)} triples, "
              f"loss {losses[-1]:.3f}, {seconds:.0f} CPU-seconds", flush=True)  # fmt: skip
    training = {"losses": losses, "cpu_seconds": round(seconds), **_about(plan)}
    completer = UltraCompleter(model.eval(), plan.width)
    save_completer(folder, completer, trained_on_all(splits), training)
    return folder


def _steps(
    model: Any, optimiser: torch.optim.Optimizer, rows: Rows, plan: UltraPlan, number: int
) -> Iterator[float]:
    """The loss of every step of a round, as it is taken."""
    draws = torch_generator(plan.seed, "questions", number)
    sizes = {"n_entities": int(rows[:, [0, 2]].max()) + 1, "n_relations": int(rows[:, 1].max()) + 1}
    triples = torch.from_numpy(rows)
    on_graph = LossOnGraph(model.train(), triples, config=plan.config, **sizes)
    for _ in range(plan.n_steps):
        chosen = torch.randint(len(triples), (plan.batch_size,), generator=draws)
        loss = on_graph.loss(triples[chosen], draws)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        yield float(loss.detach())


def trained_on_all(splits: Mapping[str, Splits]) -> TrainedOn:
    """What was seen of all graphs: names and triples of their training splits, as hashes."""
    each = [TrainedOn.of(one.graph, one.train) for one in splits.values()]
    fields = ("entities", "relations", "triples")
    merged = [np.unique(np.concatenate([getattr(one, name) for one in each])) for name in fields]
    return TrainedOn(*merged)


def _about(plan: UltraPlan) -> dict[str, Any]:
    return {"seed": plan.seed, "holdout": 0.05, "graphs": list(plan.graphs)}
