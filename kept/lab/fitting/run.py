"""`fit`: read, link, split, choose, train, evaluate, and say what it shows.

A folder of a fit holds the files of `kept finetune` (model, `finetune.json`, `metrics.json`,
answers), `fit.json` with every trial and the verdict, and `data/`, the linked splits. A fit that
was interrupted goes on from `search/`, which holds each trial that was finished.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from entity_linking.annotations.linked_texts import MOST_CANDIDATES
from kept.errors import CheckpointError, ConfigError, KeptError
from kept.lab.fitting.data import (
    SPLITS,
    as_fields,
    audit,
    coverage,
    from_memory,
    read_data,
    unlinked,
)
from kept.lab.fitting.options import FitOptions
from kept.lab.fitting.search import (
    SEARCH_SHARE,
    Candidate,
    Choice,
    Trial,
    candidates_of,
    choose,
    final_steps,
    trial_of,
)
from kept.lab.fitting.search import as_fields as trial_fields
from kept.lab.fitting.verdict import COVERED, Findings, Verdict, verdict
from kept.methods import BASELINE, method
from kept.model_files import seal_model
from kept.model_settings import settings_text
from kept.tasks.datasets.tables import QUESTION
from kept.tasks.kinds import TASKS
from kept.training.finetuning.answers import ANSWERS, answers_of, write_answers
from kept.training.finetuning.assembly import assemble
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.recipes import budget_warning, with_defaults
from kept.training.finetuning.run import FinetuneRun
from kept.training.loop import Resume, train
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted
from kg_loaders.disk.writing import claim, whole_files, write_json, write_text
from kg_loaders.errors import ExistsError, WriteError

FIT, SEARCH, DATA, CONFIG, METRICS = "fit.json", "search", "data", "finetune.json", "metrics.json"
ENDED = f".{SEARCH}.part"
"""Where the trials of a finished fit are while they are removed."""
BATCH_SIZE = 16
OTHERS = "redrawn"
"""The condition of a model that is shown another entity's facts."""
Announce = Callable[[str], None]


@dataclass(frozen=True)
class FitResult:
    """What a fit has found.

    `scores` on test are of the chosen model ("chosen"), of the model without the graph ("none"), of
    always the most frequent answer ("majority"), and of the chosen model shown another entity's
    facts ("wrong facts"; not there where the graph was not chosen). Of questions there are two
    more:
    shares refused with the fact that answers in the graph, and without it.
    """

    output: Path
    kind: str
    method: str
    scores: dict[str, float]
    verdict: Verdict
    leaks: tuple[str, ...]
    why: str
    seconds: float
    trials: tuple[Trial, ...] = field(repr=False)
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each part."""

    def __str__(self) -> str:
        return str(self.verdict)

    def as_json(self) -> dict[str, Any]:
        """All of it, as `fit.json` holds it."""
        fields = asdict(self) | {"output": str(self.output)}
        return fields | {"trials": [trial_fields(trial) for trial in self.trials]}

    def _repr_html_(self) -> str:
        from kg_loaders.notebook import table

        rows = [(name, f"{score:.3f}") for name, score in self.scores.items()]
        return table(str(self.verdict), ("on test", "score"), rows, len(rows))


def fit(options: FitOptions, announce: Announce = lambda line: None) -> FitResult:
    """Fit a model to labelled texts over a graph; returns what was found.

    Raises `ConfigError` for files that cannot be fitted, `ExistsError` where the output holds
    something else.
    """
    output = options.output
    if (output / FIT).is_file():  # finished, and killed while it removed its trials
        shutil.rmtree(output / ENDED, ignore_errors=True)
    refuse_foreign(output, options)
    output.mkdir(parents=True, exist_ok=True)
    with claim(output):
        return _Fit(options, announce).run()


def refuse_foreign(output: Path, options: FitOptions) -> None:
    """Raise `ExistsError` unless the folder is new, or of a fit of the same options."""
    if not output.exists():
        return
    if not output.is_dir():
        raise ExistsError(f"{output} is a file; name a folder")
    names = [path.name for path in output.iterdir() if not path.name.startswith(".")]
    request = output / SEARCH / "options.json"
    if request.is_file():
        if stored_part(request) != request_of(options):
            raise ExistsError(
                f"{output} has an unfinished run with other options or files; give a new "
                f"folder, or remove it"
            )
    elif (output / FIT).is_file():
        raise ExistsError(f"{output} exists and its run of kept fit is finished; give a new folder")
    elif names and not _is_begun(output, names):
        raise ExistsError(
            f"{output} holds {min(names)!r} and no unfinished run of kept fit; give a new folder"
        )


def _is_begun(output: Path, names: Sequence[str]) -> bool:
    """Whether a fit ended before it wrote anything: all it left is an empty folder."""
    return [*names] == [SEARCH] and not any(
        path for path in (output / SEARCH).iterdir() if not path.name.startswith(".")
    )


def end_search(output: Path) -> None:
    """Remove what only an unfinished fit needs. To whoever goes on, all of it is gone at once."""
    shutil.rmtree(output / ENDED, ignore_errors=True)
    (output / SEARCH).rename(output / ENDED)
    shutil.rmtree(output / ENDED, ignore_errors=True)  # another call may remove it, too


def stored_part(path: Path) -> Any:
    """Return what an unfinished fit has stored in `path`; raises `CheckpointError` for damage."""
    try:
        return json.loads(settings_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} of an unfinished fit is damaged ({error}); remove {path.parent.parent}, and "
            "fit again"
        ) from error


def request_of(options: FitOptions) -> dict[str, Any]:
    """What a fit is resumed by: options and the digests of the files."""
    fields = options.model_dump(mode="json", exclude={"output", "threads"})
    for name in ("data", "dev", "test"):
        path = getattr(options, name)
        if path is not None:
            fields[name] = [str(path), hashlib.sha256(path.read_bytes()).hexdigest()]
    return fields


class _Fit:
    """One fit: what it reads, and its trainings."""

    def __init__(self, options: FitOptions, announce: Announce) -> None:
        self.options, self.announce, self.output = options, announce, options.output
        self.started = time.monotonic()
        self.times: dict[str, float] = {}
        self.announced: set[str] = set()
        self.graph = KnowledgeGraph.open(options.kg)

    def run(self) -> FitResult:
        methods = candidates_of(self.options.methods)
        self.data = read_data(self.options, self.graph)
        if self.data.kind == QUESTION:
            raise ConfigError("questions with answers are fitted by kept.lab.questions.fitting.fit")
        # only now: a table that cannot be read leaves a folder that other options may use
        (self.output / SEARCH).mkdir(parents=True, exist_ok=True)
        write_json(self.output / SEARCH / "options.json", request_of(self.options), force=True)
        chooses = [name for name in methods if method(name).view.reads_candidates]
        most = None if chooses else MOST_CANDIDATES
        self.paths = self.data.write(self.output / DATA, candidates=most)
        self._announce_data()
        self.times["reading and linking"] = time.monotonic() - self.started
        seconds = self.options.budget * 60
        choice = choose(
            methods, self._trial, seconds=SEARCH_SHARE * seconds, announce=self.announce
        )
        self.announce(f"chosen: {choice.chosen}; {choice.why}")
        return self._finish(choice, seconds)

    def _announce_data(self) -> None:
        data = self.data
        for line in data.notes:
            self.announce(line)
        n_labels = len({label for each in data.splits["train"] for label in each.labels})
        counts = ", ".join(f"{len(each)} {name}" for name, each in data.splits.items())
        self.announce(f"task: {data.kind}, {n_labels} labels; examples: {counts}")
        reports = {name: coverage(data.splits[name], data.kind, self.graph) for name in SPLITS}
        linked, with_facts = (
            ", ".join(f"{getattr(report, of):.0%} {name}" for name, report in reports.items())
            for of in ("linked", "with_facts")
        )
        self.announce(
            f"{reports['test'].of} linked ({data.linker}): {linked}; with facts: {with_facts}"
        )
        missing = unlinked(data.splits["train"], data.kind)
        if missing and reports["train"].linked < COVERED:
            self.announce(f"not linked: {', '.join(map(repr, missing))}, ...")
        self.leaks = tuple(audit(data))
        for line in self.leaks:
            self.announce(f"leak: {line}")

    # ---- trainings -------------------------------------------------------------------------------
    def _config(self, candidate: Candidate, steps: int, seed: int, **more: Any) -> FinetuneConfig:
        options = self.options
        fields: dict[str, Any] = {
            "task": self.data.kind,
            "format": "table",
            "train": self.paths["train"],
            "dev": self.paths["dev"],
            "kg": options.kg,
            "host": options.host,
            "case": options.case,
            "method": candidate.method,
            "keep_repeats": True,
            "freeze": ("words",),
            "training": {
                "steps": steps,
                "batch_size": BATCH_SIZE,
                "seed": seed,
                "threads": options.threads,
                "checkpoint_seconds": None,
                "gradient_norms_every": None,
                "log_every": 20,
            },
            **more,
        }
        if options.max_words is not None:
            fields["graph"] = {"max_words": options.max_words, "max_nodes": 2 * options.max_words}
        fields = with_defaults(fields)
        for name in ("learning_rate", "host_learning_rate"):
            if name in fields["training"]:
                fields["training"][name] *= candidate.factor
        return FinetuneConfig.read(None, fields)

    def _trial(self, candidate: Candidate, steps: int) -> Trial:
        """Train and score on dev; a trial that an earlier command finished is read.

        Raises what stops a training because the disk is full.
        """
        name = f"{candidate.method}-{candidate.factor:g}-{steps}"
        path, folder = (self.output / SEARCH / f"{name}{end}" for end in (".json", ""))
        if path.is_file():
            return trial_of(stored_part(path))
        started = time.monotonic()
        try:
            config = self._config(candidate, steps, self.options.seed)
            run = assemble(config.with_absolute_paths(), hidden=self.data.splits["test"])
            self._announce_cuts(run)
            if short := budget_warning(config, len(run.train)):
                self.announce(f"{candidate}: {short}")
            before = time.monotonic()
            train(run.model, run.data, config.training, folder)
            in_steps = time.monotonic() - before
            answers, scores = run.score("dev")
            right = {
                int(index): set(answer) == set(example.labels)
                if TASKS[self.data.kind].kind.is_set
                else tuple(answer) == example.labels
                for index, answer, example in zip(
                    run.evaluation["dev"].indices, answers, run.evaluation["dev"].examples,
                    strict=True,
                )
            }  # fmt: skip
            seconds = time.monotonic() - started
            score = score_of(scores, self.data.kind)
            trial = Trial(candidate, steps, score, seconds, right, in_steps=in_steps)
        except KeptError as error:
            if isinstance(error.__cause__, WriteError):
                raise  # the disk is full: that says nothing about the candidate
            trial = Trial(candidate, steps, 0.0, time.monotonic() - started, error=str(error))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        write_json(path, trial_fields(trial), force=True)
        return trial

    def _announce_cuts(self, run: FinetuneRun) -> None:
        """Say what the model does not read of long texts, once for each length that it reads."""
        read, longest = run.train.builder.max_words, run.longest_text
        remedy = (
            f"--max-words {longest} reads more"
            if longest > read
            else "the language model reads no longer texts: give parts of them"
        )
        for name, data in {"train": run.train, **run.evaluation}.items():
            line = f"{name}: {data.cut}" + (f"; {remedy}" if data.cut.n_cut else "")
            if data.cut.has_long and line not in self.announced:
                self.announced.add(line)
                self.announce(line)

    # ---- the end ---------------------------------------------------------------------------------
    def _finish(self, choice: Choice, seconds: float) -> FitResult:
        chosen_at = time.monotonic()
        seeds = range(self.options.seed, self.options.seed + self.options.seeds)
        finals = self._plan(choice, seconds, len(seeds))
        scores: dict[str, list[float]] = {}
        for seed in seeds:
            for candidate, steps in finals.items():
                for name, score in self._final(candidate, steps, seed, choice).items():
                    scores.setdefault(name, []).append(score)
        means = {name: fmean(values) for name, values in scores.items()}
        if choice.chosen.method == BASELINE:
            means["none"] = means["chosen"]
        self.times["choosing"] = chosen_at - self.started - self.times["reading and linking"]
        self.times["training and evaluating"] = time.monotonic() - chosen_at
        self._announce_times()
        result = self._result(choice, means)
        fields = result.as_json() | {"data": as_fields(self.data)}
        write_json(self.output / FIT, fields, indent=1, force=True)
        seal_model(self.output)  # with fit.json, which `kept predict` reads too
        if not method(choice.chosen.method).view.reads_candidates:
            self.data.write(self.output / DATA, candidates=MOST_CANDIDATES)
        end_search(self.output)
        return result

    def _announce_times(self) -> None:
        parts = ", ".join(f"{seconds:.0f} s {name}" for name, seconds in self.times.items())
        self.announce(f"took {parts} (forecast {self.forecast:.0f} s)")

    def _plan(self, choice: Choice, seconds: float, n_seeds: int) -> dict[Candidate, int]:
        """Steps of the final trainings; those of an earlier command that was interrupted."""
        times = [t.seconds / t.steps for t in choice.trials if not t.error]
        if not times:
            raise ConfigError(f"no candidate could be trained: {choice.trials[0].error}")
        per_step = max(times)
        left = max(0.0, seconds - (time.monotonic() - self.started))
        finals = final_steps(choice, per_step, 0.8 * left, n_seeds=n_seeds)
        plan = self.output / SEARCH / "steps.json"
        if not plan.is_file():
            write_json(plan, list(finals.values()))
        planned = stored_part(plan)
        finals = dict(zip(finals, planned, strict=True))
        trainings = " and ".join(f"{name} for {counted(n, 'steps')}" for name, n in finals.items())
        self.forecast = n_seeds * sum(
            trial.forecast(n) for name, n in finals.items() if (trial := choice.trial_of(name))
        )
        self.announce(f"training {trainings}, about {self.forecast:.0f} s")
        return finals

    def _final(
        self, candidate: Candidate, steps: int, seed: int, choice: Choice
    ) -> dict[str, float]:
        """Scores on test of a candidate; the chosen one's first seed is the model of the folder."""
        is_chosen = candidate == choice.chosen
        is_model = is_chosen and seed == self.options.seed
        name = f"final-{candidate.method}-{seed}"
        path = self.output / SEARCH / f"{name}.json"
        if path.is_file():
            scores: dict[str, float] = stored_part(path)
            return scores
        folder = self.output if is_model else self.output / SEARCH / name
        config = self._config(candidate, steps, seed, test=self.paths["test"])
        run = assemble(config.with_absolute_paths())
        if is_model:
            self._announce_cuts(run)
            _write_settings(run, folder)
        ended = train(run.model, run.data, config.training, folder, resume=Resume.IF_ANY)
        metrics, predictions = run.metrics()
        metrics["precision"] = ended.precision
        kind = self.data.kind
        scores = {"chosen" if is_chosen else "none": score_of(metrics["test"], kind)}
        if is_chosen:
            scores["majority"] = score_of(metrics["test"]["baseline"], kind)
            if candidate.method != BASELINE:
                scores["wrong facts"] = self._with_others(config, folder)
        if is_model:
            write_answers(folder / ANSWERS, answers_of(run, predictions))
            write_json(folder / METRICS, metrics, indent=2, force=True)
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        else:
            shutil.rmtree(folder)
        write_json(path, scores, force=True)
        return scores

    def _with_others(self, config: FinetuneConfig, folder: Path) -> float:
        """The score of the trained model where each link leads to another entity."""
        others = config.model_copy(update={"knowledge": OTHERS})
        run = assemble(others.with_absolute_paths(), trained=folder)
        run.model.eval()
        return score_of(run.score("test")[1], self.data.kind)

    def _result(self, choice: Choice, means: Mapping[str, float]) -> FitResult:
        best = {
            c: max((t.score for t in choice.trials if t.candidate == c), default=None)
            for c in (choice.baseline, choice.rival)
            if c is not None
        }
        test = self.data.splits["test"]
        findings = Findings(
            score=means["chosen"],
            none=means["none"],
            majority=means["majority"],
            wrong=means.get("wrong facts"),
            n=len(test),
            coverage=coverage(test, self.data.kind, self.graph),
            rival_on_dev=None if choice.rival is None else best[choice.rival],
            none_on_dev=best[choice.baseline],
            from_memory=from_memory(self.data),
        )
        return FitResult(
            output=self.output,
            kind=self.data.kind,
            method=choice.chosen.method,
            scores=dict(means),
            verdict=verdict(findings),
            leaks=self.leaks,
            why=choice.why,
            seconds=time.monotonic() - self.started,
            times={name: round(seconds, 1) for name, seconds in self.times.items()},
            trials=choice.trials,
        )


def score_of(scores: Mapping[str, Any], kind: str) -> float:
    """The one score of a kind of task: accuracy, F1 of spans and of types."""
    if TASKS[kind].kind.fits_by == "f1":
        return float(scores["micro"]["f1"])
    estimate = scores["accuracy"]["estimate"]
    if estimate is None:
        raise ConfigError("no example of the split could be scored; give shorter texts")
    return float(estimate)


def _write_settings(run: FinetuneRun, folder: Path) -> None:
    """What `kept predict` and the other commands read of a run, beside its model."""
    write_text(folder / CONFIG, run.config.model_dump_json(indent=2), force=True)
    with whole_files(folder) as part:
        run.tokenizer.save_pretrained(part)
