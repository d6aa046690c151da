"""`kept demo`: a private world where knowledge decides, then the atlas; one honest page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kept.lab.comparison.experiment import Experiment
from kept.lab.completion.compare import refuse_old
from kept.lab.completion.config import CompletionConfig
from kept.lab.demo.atlas import Announce, run_atlas
from kept.lab.demo.private.page import private_sections
from kept.lab.demo.private.study import PrivateConfig, run_private
from kept.lab.report.page import page
from kept.lab.study.verdicts import Compared
from kept.training.config import RunConfig
from kept.training.log import Reporter
from kg_loaders.disk.writing import write_json, write_text


class DemoConfig(RunConfig):
    """What both chapters run."""

    private: PrivateConfig
    atlas: CompletionConfig


@dataclass(frozen=True)
class DemoResult:
    """Where the demo left its page and its numbers; the methods' own if they were compared."""

    report: Path
    results: Path
    methods: tuple[Compared, ...] = ()


def demo_config(path: Path | None = None) -> DemoConfig:
    """The configuration shipped beside this file, or another of its form."""
    return DemoConfig.read(path or Path(__file__).with_name("demo.yaml"))


def run_demo(
    folder: Path,
    config: DemoConfig,
    *,
    announce: Announce,
    reporter: Reporter | None = None,
    experiment: Experiment | None = None,
    methods: Sequence[str] = (),
    should_stop: Callable[[], bool] = lambda: False,
) -> DemoResult:
    """Run what is missing in `folder`; write `report.html` and `results.json` there.

    With an `experiment` its `methods` are compared on the atlas as well, as far as they get before
    `should_stop` says so.
    """
    refuse_old(folder)
    indented = partial(_indented, announce)
    announce("1/3 a private world, where only the graph knows")
    private = run_private(folder, config.private, announce=indented, reporter=reporter)
    announce("2/3 the atlas, whose texts state the answers")
    atlas = run_atlas(
        folder,
        config.atlas,
        announce=indented,
        reporter=reporter,
        experiment=experiment,
        methods=methods,
        should_stop=should_stop,
    )
    announce("3/3 report")
    results = folder / "results.json"
    values = {"private": private.as_json(), **atlas.values}
    write_json(results, values | {"config": config.model_dump(mode="json")}, force=True)
    report = folder / "report.html"
    lead = (
        "A small language model, a few minutes of training, two worlds: one where only the graph "
        "knows the answer, and one whose texts state it."
    )
    sections = [*private_sections(private, folder), *atlas.sections]
    write_text(report, page("kept demo", lead, sections), force=True)
    return DemoResult(report, results, atlas.methods)


def _indented(announce: Announce, text: str) -> None:
    announce(f"    {text}")
