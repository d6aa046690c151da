"""The training loop: accelerate for device, backward and clipping; the order is ours.

Why not `transformers.Trainer`: docs/decisions/0003-own-loop-on-accelerate.md.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor, nn

from kept.batches.host_copies import on_host
from kept.batches.shares import Share, TrainingBatch
from kept.errors import ConfigError, TrainingError
from kept.host_facts import require_trainable_precision
from kept.layers.products import Way, choice, using
from kept.plotting import REMEDY, can_draw
from kept.randomness import torch_seed
from kept.training.adaptation import Stages
from kept.training.averaging import parameter_history, take_means, with_teacher_logits
from kept.training.checkpoint import (
    GatheredState,
    TrainState,
    list_checkpoints,
    load_checkpoint,
    publish_model,
    remove_leftovers,
    save_checkpoint,
)
from kept.training.config import TrainConfig, binding, differences
from kept.training.costs import Costs, peak_memory_mib
from kept.training.device import autocast, device_of, make_accelerator, process_settings
from kept.training.gradients import (
    loss_norms,
    norm_of_gradients,
    row_norm,
    shared_parameters,
)
from kept.training.log import (
    NoLog,
    Reporter,
    RunLog,
    StepRecord,
    Stop,
    TrainResult,
    draw_curves,
)
from kept.training.optimisers import (
    dense_parameters,
    make_optimisers,
    rate_factor,
    set_rates,
    sparse_parameters,
)
from kept.training.precision import PrecisionChoice, choose_precision
from kept.training.processes.shards import Shards
from kept.training.processes.together import join_processes, processes, report_dead_process
from kept.training.resuming import (
    PRODUCTS,
    Resume,
    checkpoint_to_resume,
    environment,
    products_of,
    require_same_run,
)
from kept.training.stream import Data, Shares, n_steps_of, read_batches, stream_of
from kept.training.unread import UnreadStep
from kept.training.weighing import PartCount, StepCount
from kg_loaders.disk.writing import claim

__all__ = ["Evaluate", "Resume", "TrainResult", "train"]

Evaluate = Callable[[nn.Module, int], dict[str, float]]
FRUITLESS = 100
"""Batches without a loss, and none with one before them, after which a run stops."""
LAG = 2
"""How many steps a GPU is given before the numbers of the first are read: it never waits then."""
STOPS: tuple[Stop | None, ...] = (None, "request", "budget")


def train(
    model: nn.Module,
    data: Data,
    config: TrainConfig,
    run_dir: str | Path,
    *,
    evaluate: Evaluate | None = None,
    reporter: Reporter | None = None,
    resume: Resume = Resume.NEVER,
    should_stop: Callable[[], bool] | None = None,
    budget_since: float | None = None,
) -> TrainResult:
    """Train `model` in place; killed at any moment and resumed, it ends bitwise the same on a CPU.

    `run_dir` receives `checkpoints/`, `log.jsonl`, `curves.png` and, at the end, the model's own
    files; the model is left in eval mode. `evaluate(model, step)` runs in eval mode every
    `evaluate_every` steps and at the end. `should_stop` is called after each step. `budget_minutes`
    count from `budget_since` (of `time.monotonic`), else from here. The process's own torch RNG and
    thread count are restored. Where a launcher has started several processes, each calls this with
    the same; the first writes and reports, and scores are what `evaluate` returns there. What
    `config.shard` names is whole in files, and stays shared out in `model`. Raises ConfigError,
    CheckpointError, TrainingError and, when another process trains here, InUseError.
    """
    folder = Path(run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    together = join_processes(config.device)
    claimed = together.first_only(claim(folder / "checkpoints"))
    with claimed, process_settings(config) as settings, report_dead_process():
        run = _Run(model, data, config, folder, reporter if together.is_first else None, settings)
        run.costs.budget_since = budget_since
        with run.stages:
            run.start(resume)
            return run.run_until_done(evaluate, should_stop)


class _Run:
    def __init__(
        self,
        model: nn.Module,
        data: Data,
        config: TrainConfig,
        folder: Path,
        reporter: Reporter | None,
        settings: ExitStack,
    ) -> None:
        self.config, self.folder, self.reporter = config, folder, reporter
        self.settings = settings
        self.together = processes()
        self.checkpoints, self.log_path = folder / "checkpoints", folder / "log.jsonl"
        self.curves_path = folder / "curves.png"
        self.costs, self.step = Costs(), 0
        self.notices: list[str] = []
        if not can_draw():
            self._notice(f"curves.png was not written; {REMEDY}")
        self.met: dict[str, None] = {}
        self.fingerprint = data.fingerprint
        self.stream = stream_of(data, config)
        self.n_steps = n_steps_of(config, self.stream)
        self.accelerator = make_accelerator(config)
        device = self.device = device_of(self.accelerator)
        self.shards = Shards(model, config, self.together, device, self.checkpoints)
        if self.shards.layers and config.gradient_norms_every is not None:
            self._notice("layers are shared out: gradient norms of single losses are not measured")
        require_trainable_precision(model)
        self.model = model.to(device)
        self.optimisers = make_optimisers(self.model, config)
        self.past = parameter_history(self.optimisers, config.averaging)
        self.dense, tables = dense_parameters(self.model), sparse_parameters(self.model)
        self.tables, self.rows = self.shards.apart(tables)
        self.shared = shared_parameters(self.model)
        self.stages = Stages(self.model, config.unfreezing)
        self.first: StepRecord | None = None
        self.last: StepRecord | None = None
        self.unread: deque[UnreadStep] = deque()
        self.lag = LAG if device.type != "cpu" and self.together.n == 1 else 0
        self.saved_step, self.saved_at = -1, self.costs.started
        self.n_without_loss = 0
        self.is_published = False

    # ---- before ----------------------------------------------------------------------------
    def start(self, resume: Resume) -> None:
        path = self.together.from_first(lambda: self._checkpoint(resume))
        if path is None:
            choose = partial(choose_precision, self.config, self.device, self.model)
            self._compute_in(self.together.from_first(choose))
            self._compute_products(self.together.from_first(lambda: choice().way))
        else:
            state = load_checkpoint(
                path,
                model=self.model,
                optimisers=self.optimisers,
                check=self._fits(path),
                part=self.shards.local_part,
            )
            self.step = self.saved_step = state.step
            self.is_published = bool(state.published)
            self.costs.seconds_before = state.seconds
            self._notice(f"resumed from {path}")
        if path is None and resume in (Resume.LATEST, Resume.NEWEST_GOOD):
            self._notice(f"{self.checkpoints} holds no checkpoint: starting at step 0")
        self.log: RunLog | NoLog = NoLog()
        if self.together.is_first:
            self.log = RunLog(self.log_path, resume_step=self.step)
        self.losses = self.shards.joined(self.tables)
        if never := self.stages.never(self.n_steps - 1, self._epoch(self.n_steps - 1)):
            self._notice(f"the run is too short to unfreeze {', '.join(never)}")

    def _compute_in(self, choice: PrecisionChoice) -> None:
        """Take what was chosen where the precision is open: auto."""
        if self.config.precision == "auto":
            self.config = self.config.model_copy(update={"precision": choice.precision})
            self._notice(str(choice))

    def _compute_products(self, way: Way) -> None:
        """Let `way` compute the products of the run, until the run ends."""
        if way != choice().way:
            self._notice(f"products: {way}, as this run began")
            self.settings.enter_context(using(way))

    def _checkpoint(self, resume: Resume) -> Path | None:
        remove_leftovers(self.checkpoints)
        return checkpoint_to_resume(self.checkpoints, resume, self._notice)

    def _fits(self, path: Path) -> Callable[[TrainState], None]:
        """Return a check that raises `CheckpointError` for another run's checkpoint."""

        def check(state: TrainState) -> None:
            self._compute_in(PrecisionChoice(state.binding["precision"]))
            self._compute_products(products_of(state))
            require_same_run(path, state, self.config, self.fingerprint, self.n_steps)
            before, now = dict(state.environment), self._environment()
            if PRODUCTS in now:
                before.setdefault(PRODUCTS, "torch")  # checkpoints of kept 0.1 say nothing of them
            if changed := differences(before, now):
                self._notice("not bitwise the same from here: " + "; ".join(changed))

        return check

    # ---- steps -----------------------------------------------------------------------------
    def run_until_done(
        self, evaluate: Evaluate | None, should_stop: Callable[[], bool] | None
    ) -> TrainResult:
        config = self.config
        stopped: Stop = "finished"
        batches = read_batches(
            Shares(self.stream, rank=self.together.rank, n=self.together.n),
            self.step * config.accumulate,
            self.n_steps * config.accumulate,
            workers=config.workers,
            prefetch=config.prefetch,
            pin=self.device.type == "cuda",
        )
        while self.step < self.n_steps:
            self.unread.append(self._one_step(batches))
            done = self.step == self.n_steps
            is_evaluated = evaluate is not None and (self._due(config.evaluate_every) or done)
            self._report(all_steps=done or is_evaluated)
            if evaluate is not None and is_evaluated:
                self._evaluate(evaluate)
            if done:
                break
            reason, is_due = self._agreed(should_stop)
            if reason is not None or is_due:
                self._report(all_steps=True)
            if reason is not None:
                stopped = reason
                break
            if is_due:
                self._save()
                self.together.from_first(lambda: draw_curves(self.log_path, self.curves_path))
        return self._finish(stopped)

    def _report(self, *, all_steps: bool) -> None:
        """Check, log and show the steps whose numbers are there; with `all_steps` wait for them."""
        while self.unread and (all_steps or len(self.unread) > self.lag):
            unread = self.unread.popleft()
            record = unread.read()
            at = record.step - 1
            self._require_finite(record.losses, at)
            if record.gradient_norm is not None and not math.isfinite(record.gradient_norm):
                self._diverged(f"gradient norm {record.gradient_norm}", at)
            self.first, self.last = self.first or record, record
            is_logged = record.step % self.config.log_every == 0 or record.step == self.n_steps
            if is_logged or record.loss_gradient_norms is not None:
                self.log.step(record)
            if self.reporter is not None:
                self.reporter.step(record)

    def _one_step(self, batches: Iterator[Share[TrainingBatch]]) -> UnreadStep:
        config, number, start = self.config, self.step, time.monotonic()
        set_rates(self.optimisers, config, rate_factor(number, self.n_steps, config))
        self.stages.enter(number, self._epoch(number))
        self.model.train()
        self.model.zero_grad(set_to_none=True)
        means: dict[str, float | Tensor] = {}
        norms: dict[str, float] | None = None
        shares = [self._on_device(self._next(batches)) for _ in range(config.accumulate)]
        counts = self._count(shares)
        for part, share in enumerate(shares):
            self._seed(part)
            losses, values = self._forward(share, counts, part)
            if not losses:
                self._skip()
                continue
            weight = 1.0 if counts is not None else 1 / config.accumulate
            are_norms_due = part == 0 and self._norms_due()
            moving = [p for p in self.shared if p.requires_grad] if are_norms_due else []
            if are_norms_due and not self._is_whole_gradient(losses):
                whole = {name: loss * weight * config.accumulate for name, loss in losses.items()}
                norms = loss_norms(whole, moving, self.together)
            weighted = [config.weight_of(name) * value for name, value in losses.items()]
            total = torch.stack(weighted).sum() * weight
            self.accelerator.backward(total * self.together.n)  # gradients are averaged
            if are_norms_due and norms is None:
                norms = dict.fromkeys(losses, norm_of_gradients(moving))
            for name, value in values.items():
                means[name] = means.get(name, 0.0) + value * weight
        norm = rows = None
        if means:
            self.together.gather_rows(self.tables)
            norm, rows = self._clip(), row_norm(self.tables, self.rows, self.together)
            for optimiser in self.optimisers.values():
                optimiser.step()
        self.step += 1
        self.costs.step_seconds += time.monotonic() - start
        return UnreadStep.of(self._record(norms), means, norm, rows, self.config.weight_of)

    def _next(self, batches: Iterator[Share[TrainingBatch]]) -> Share[TrainingBatch]:
        """The next batch; the time until it is there is counted."""
        start = time.monotonic()
        share = next(batches)
        self.costs.waiting_seconds += time.monotonic() - start
        return share

    def _skip(self) -> None:
        """Count a batch that holds no label of any objective; ConfigError where every one is so."""
        self.n_without_loss += 1
        if not self.met and self.n_without_loss >= max(FRUITLESS, self.stream.period):
            self._nothing_to_learn()

    def _nothing_to_learn(self) -> NoReturn:
        names = ", ".join(getattr(self.model, "objectives", {}))
        learner = f"the objectives {names}" if names else "the model"
        raise ConfigError(
            f"none of {self.n_without_loss} batches has anything for {learner}, "
            "so nothing is learned; choose an objective that these texts and the method's "
            "view support (--objective)"
        )

    def _norms_due(self) -> bool:
        every = None if self.shards.layers else self.config.gradient_norms_every
        return every is not None and (self.step == 0 or (self.step + 1) % every == 0)

    def _is_whole_gradient(self, losses: Mapping[str, Tensor]) -> bool:
        """Whether a step's gradient is that of one loss alone: its norm needs no other pass."""
        is_one = len(losses) == 1 and all(self.config.weight_of(name) == 1 for name in losses)
        return is_one and self.config.accumulate == self.together.n == 1

    def _seed(self, part: int) -> None:
        rank = [self.together.rank] if self.together.rank else []
        torch.manual_seed(torch_seed(self.config.seed, "step", self.step, part, *rank))

    def _on_device(self, share: Share[TrainingBatch]) -> Share[TrainingBatch]:
        """The share where the model is, with the logits of the mean model where it teaches."""
        batch = share.batch.to(self.device)
        if self.past is not None and self.past[0].distil:
            with autocast(self.config, self.device):
                batch = with_teacher_logits(self.model, self.past[1], batch)
        return Share(batch, share.is_spare)

    @torch.no_grad()
    def _count(self, shares: Sequence[Share[TrainingBatch]]) -> StepCount | None:
        """The labels of a step of several parts; None where parts weigh alike."""
        if len(shares) == 1:
            return None
        parts = []
        for number, share in enumerate(shares):
            part = PartCount()
            self._seed(number)
            counting = part.counting(self.together, is_spare=share.is_spare)
            with autocast(self.config, self.device), counting:
                part.losses = tuple(self.losses(share.batch))
            parts.append(part)
        counts = StepCount(parts)
        return counts if counts.is_complete else None

    def _forward(
        self, share: Share[TrainingBatch], counts: StepCount | None, part: int
    ) -> tuple[dict[str, Tensor], Mapping[str, float | Tensor]]:
        """The share's part of each loss, and what the parts of all add up to.

        That is read later where one process trains on a GPU, which it would have to wait for.
        """
        batch, is_spare = share.batch, share.is_spare
        counting = self.together.counting(is_spare)
        if counts is not None:
            counting = counts.shares(part, is_spare=is_spare)
        with autocast(self.config, self.device), counting:
            losses: dict[str, Tensor] = self.losses(batch)
        sizes = (0, 0)
        if not share.is_spare:
            sizes = (int(on_host(batch.node_mask).sum()), len(batch))
        self._meet(losses)
        if self.lag:
            self.costs.count(*sizes)
            return losses, {name: loss.detach() for name, loss in losses.items()}
        n_nodes, n_texts, *values = self.together.sums(
            [*sizes, *(loss.item() for loss in losses.values())]
        )
        self.costs.count(int(n_nodes), int(n_texts))
        by_name = dict(zip(losses, values, strict=True))
        self._require_finite(by_name, self.step)
        return losses, by_name

    def _meet(self, losses: Iterable[str]) -> None:
        """Note the names of losses; raises `ConfigError` for a weight of one that none has."""
        self.met |= dict.fromkeys(losses)
        every_task_came = self.step * self.config.accumulate >= self.stream.period - 1
        unknown = [name for name in self.config.objective_weights if name not in self.met]
        if unknown and every_task_came:
            raise ConfigError(
                f"objective_weights names {unknown}; the model's losses are {list(self.met)}"
            )

    def _require_finite(self, losses: Mapping[str, float], step: int) -> None:
        bad = {name: value for name, value in losses.items() if not math.isfinite(value)}
        if bad:
            self._diverged(f"loss {bad}", step)

    def _diverged(self, what: str, step: int) -> NoReturn:
        raise TrainingError(
            f"{what} at step {step}: start again with a lower learning rate, warm-up or "
            f"clipping; {self.checkpoints} holds the weights before"
        )

    def _clip(self) -> float | Tensor | None:
        if not self.dense:
            return None
        limit = math.inf if self.config.clip_norm is None else self.config.clip_norm
        total: Tensor = self.accelerator.clip_grad_norm_(self.dense, limit)
        if self.lag:
            return total
        norm = self.shards.number(total)
        if not math.isfinite(norm):
            self._diverged(f"gradient norm {norm}", self.step)
        return norm

    def _record(self, loss_gradient_norms: dict[str, float] | None) -> StepRecord:
        """The step's record; its losses and norms are read later."""
        number = self.step - 1
        nodes_per_second, texts_per_second = self.costs.rates()
        return StepRecord(
            step=self.step,
            n_steps=self.n_steps,
            epoch=self._epoch(number),
            groups=self.stages.at(number, self._epoch(number)),
            losses={},
            total_loss=0.0,
            gradient_norm=None,
            row_gradient_norm=None,
            loss_gradient_norms=loss_gradient_norms,
            learning_rate=self.config.learning_rate
            * rate_factor(number, self.n_steps, self.config),
            nodes_per_second=nodes_per_second,
            texts_per_second=texts_per_second,
            peak_memory_mib=peak_memory_mib(),
            seconds=self.costs.seconds,
            waiting_seconds=self.costs.waiting_seconds,
        )

    def _epoch(self, step: int) -> int:
        """That of the step's first batch."""
        return self.stream.epoch_of(step * self.config.accumulate)

    # ---- between and after -----------------------------------------------------------------
    def _due(self, every: int | None) -> bool:
        return every is not None and self.step % every == 0

    def _agreed(self, should_stop: Callable[[], bool] | None) -> tuple[Stop | None, bool]:
        """Why all processes stop here, if they do, and whether the first wants a checkpoint."""
        mine: Stop | None = "request" if should_stop is not None and should_stop() else None
        if self.costs.exceed(self.config):
            mine = "budget"
        is_due = self.together.is_first and self._checkpoint_due()
        reason, due = self.together.largest([STOPS.index(mine), int(is_due)])
        return STOPS[reason], bool(due)

    def _checkpoint_due(self) -> bool:
        seconds = self.config.checkpoint_seconds
        late = seconds is not None and time.monotonic() - self.saved_at >= seconds
        return late or self._due(self.config.checkpoint_steps)

    def _evaluate(self, evaluate: Evaluate) -> None:
        self.model.eval()
        with torch.no_grad():
            self.log.evaluation(self.step, evaluate(self.model, self.step))
        self.shards.evaluated()

    def _save(self) -> None:
        if self.saved_step == self.step:
            return
        whole = self.shards.whole(self.optimisers)
        self.together.from_first(lambda: self._write(whole))
        self.saved_step, self.saved_at = self.step, time.monotonic()

    def _write(self, whole: GatheredState | None) -> None:
        state = TrainState(
            step=self.step,
            seconds=self.costs.seconds,
            binding=binding(self.config),
            data_fingerprint=self.fingerprint,
            environment=self._environment(),
        )
        save_checkpoint(
            self.checkpoints,
            model=self.model,
            optimisers=self.optimisers,
            state=state,
            keep=self.config.keep,
            whole=whole,
        )

    def _finish(self, stopped: Stop) -> TrainResult:
        self.model.eval()
        if self.n_without_loss and not self.met:
            self._nothing_to_learn()
        if self.n_without_loss:
            self._notice(
                f"{self.n_without_loss} batches held nothing that the objectives ask for and were "
                "skipped"
            )
        self._save()
        if self.past is not None and self.past[0].publish and not self.is_published:
            take_means(self.past[1])
        weights = self.shards.weights()
        self.together.from_first(lambda: self._publish(weights))
        return TrainResult(
            step=self.step,
            n_steps=self.n_steps,
            stopped=stopped,
            seconds=self.costs.seconds,
            cpu_seconds=self.costs.cpu_seconds,
            peak_memory_mib=peak_memory_mib(),
            first=self.first,
            last=self.last,
            checkpoint=list_checkpoints(self.checkpoints)[-1],
            log=self.log_path,
            curves=self.curves_path,
            notices=tuple(self.notices),
            precision=self.config.precision,
            products=self._environment().get(PRODUCTS),
        )

    def _publish(self, weights: Mapping[str, Tensor] | None) -> None:
        publish_model(self.folder, self.model, weights)
        draw_curves(self.log_path, self.curves_path)

    def _environment(self) -> dict[str, str]:
        return environment(self.config, self.device, self.together)

    def _notice(self, message: str) -> None:
        self.notices.append(message)
        if self.reporter is not None:
            self.reporter.notice(message)
