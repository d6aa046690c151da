"""The demo's second chapter: word-knowledge completion on the atlas, whose texts say a lot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entity_linking import DictionaryLinker, score_links, score_spans
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.drawing.draw import draw_html
from kept.hosts import load_tokenizer
from kept.kgc.batches import usable_examples
from kept.kgc.split import CompletionSplit
from kept.lab.comparison.experiment import Experiment
from kept.lab.completion.compare import Completion, compare
from kept.lab.completion.config import COLAKE, CompletionConfig
from kept.lab.completion.tables import audit_table, describe, rank_table, to_json
from kept.lab.completion.trial import CompletionTrial
from kept.lab.demo.methods import METHODS, compare_methods, method_sections, write_task
from kept.lab.report.page import Section, embedded_page, picture, prose, table, verdict
from kept.lab.study.comparison_tables import SLICES, gain_table, pair_table
from kept.lab.study.comparison_tables import to_json as to_values
from kept.lab.study.design import Arm, RunKey
from kept.lab.study.slices import KNOWLEDGE
from kept.lab.study.tables import with_interval
from kept.lab.study.verdicts import Compared, headline, limits
from kept.randomness import generator
from kept.tasks.datasets.atlas import atlas_examples, linked_texts
from kept.training.log import Reporter
from kg_loaders import KnowledgeGraph, StoreError, atlas
from kg_loaders.checks import Finding, check
from kg_loaders.disk.writing import write_text

RUNS = "completion"
"""Folder of the runs of the completion."""
SENTENCE = "Paris is the capital of France, and the Seine flows through it."

Announce = Callable[[str], None]


@dataclass(frozen=True)
class AtlasResult:
    """The chapter's sections and numbers; the methods' own comparison if one was requested."""

    sections: list[Section]
    values: dict[str, Any]
    methods: tuple[Compared, ...]


def run_atlas(
    folder: Path,
    config: CompletionConfig,
    *,
    announce: Announce,
    reporter: Reporter | None = None,
    experiment: Experiment | None = None,
    methods: Sequence[str] = (),
    should_stop: Callable[[], bool] = lambda: False,
) -> AtlasResult:
    """Run what is missing in `folder`.

    With an `experiment` its `methods` are compared as well, as far as they get before `should_stop`
    says so.
    """
    graph = _graph(folder / "kg")
    findings = check(graph)
    announce(f"{graph}")
    links = _link_scores(graph)
    for name, score in links.items():
        announce(f"links, {name}: {score}")
    drawing = _draw(graph, config)
    write_text(folder / "graph.html", drawing, force=True)
    split, n_unusable = _split(graph, config)
    announce(f"{split}")
    completion = compare(split, config, folder / RUNS, reporter=reporter, announce=announce)
    compared: tuple[Compared, ...] = ()
    if experiment is not None:
        announce("pre-training and fine-tuning the methods, with controls")
        write_task(folder, split)
        compared = compare_methods(
            experiment,
            methods,
            folder,
            announce=announce,
            reporter=reporter,
            should_stop=should_stop,
        )
    counts = {"examples without two anchors": n_unusable}
    sections = [
        _opening(completion),
        _graph_section(graph, findings),
        _link_section(links),
        _drawn_section(drawing),
        _training_section(CompletionTrial(config, split, folder / RUNS)),
        *map(_completion_section, completion.settings),
        _audit_section(completion, counts),
        *method_sections(compared, folder / METHODS),
    ]
    values = {
        "links": links,
        "skipped": counts,
        "completion": to_json(completion),
        "methods": {result.experiment.name: to_values(result) for result in compared},
    }
    return AtlasResult(sections, values, compared)


def _graph(folder: Path) -> KnowledgeGraph:
    shipped = atlas.graph()
    if folder.exists():
        graph = KnowledgeGraph.open(folder)
        if graph.content_hash != shipped.content_hash:
            raise StoreError(f"{folder} holds another graph than this atlas; remove the folder")
        return graph
    shipped.save(folder)
    return KnowledgeGraph.open(folder)


def _link_scores(graph: KnowledgeGraph) -> dict[str, str]:
    gold = linked_texts(atlas.sentences("test"))
    linked = DictionaryLinker(graph).link([item.text for item in gold])
    links, spans = score_links(gold, linked), score_spans(gold, linked)
    return {
        "sentences": str(len(gold)),
        "end to end": f"precision {links.precision:.3f}, recall {links.recall:.3f}, "
        f"F1 {links.f1:.3f} on {links.n_gold} links",
        "gold mentions": f"accuracy {spans.accuracy:.3f}, gold among the candidates "
        f"{spans.candidate_recall:.3f} of {spans.n_gold}",
    }


def _draw(graph: KnowledgeGraph, config: CompletionConfig) -> str:
    tokenizer = load_tokenizer(config.host)
    (linked,) = DictionaryLinker(graph).link([SENTENCE])
    builder = BuilderConfig(policy="degree", max_neighbours=3)
    built = build(
        linked, tokenizer, graph, generator=generator(config.seed, "shown"), config=builder
    )
    return draw_html(built, graph, tokenizer)


def _split(graph: KnowledgeGraph, config: CompletionConfig) -> tuple[CompletionSplit, int]:
    """Training and evaluation examples, and the number of examples without an anchor."""
    all_examples = list(atlas_examples(atlas.sentences()))
    tokenizer = load_tokenizer(config.host)
    examples, n_unusable = usable_examples(all_examples, graph, tokenizer, config.colake.builder)
    return config.split(examples, graph, atlas.splits().inductive_entities), n_unusable


# ---- the page ------------------------------------------------------------------
def _opening(completion: Completion) -> Section:
    """The introduction of this chapter: a task whose texts state most answers."""
    return Section(
        "Chapter 2: the atlas, whose texts state the answers",
        (
            prose(
                "Here a sentence about real places and people says itself how they are related, "
                "and CoLAKE predicts that relation with the facts of both beside the text. "
                "Tasks that methods are compared on are mostly of this kind; a method that shows "
                "no gain on them may still read every fact, as the first chapter's does."
            ),
            *map(_of_text_alone, completion.settings),
        ),
    )


def _of_text_alone(compared: Compared) -> str:
    off: Arm = (COLAKE, "off")
    scores = {(row.method, row.knowledge): row.score.estimate for row in compared.rows}
    (effect,) = (p.effect for p in compared.pairs if (p.method, p.theirs) == (COLAKE, off))
    gain = effect.interval()
    is_enough = gain.low <= 0 <= gain.high
    return verdict(
        f"{compared.experiment.asked.capitalize()}: MRR {scores[off]:.3f} from the text alone, "
        f"{scores[COLAKE, 'true']:.3f} with facts, a difference of {with_interval(gain, '+')}. "
        + ("The text alone does as well" if is_enough else "Here facts change the score")
        + f"; {limits(effect)}."
    )


def _graph_section(graph: KnowledgeGraph, findings: Sequence[Finding]) -> Section:
    rows = [
        ("entities", graph.n_entities),
        ("relations", graph.n_relations),
        ("triples", graph.n_triples),
        ("content hash", graph.content_hash[:16]),
        *((f"{f.code} {f.message}", f"{f.n} of {f.n_asked}") for f in findings),
    ]
    return Section(
        "The graph",
        (
            prose("The atlas ships with kept: countries, cities, rivers, people and works."),
            table(("what", "value"), rows, "Size, and what `kept kg check` reports"),
        ),
    )


def _link_section(links: dict[str, str]) -> Section:
    return Section(
        "Links",
        (
            prose(
                "The dictionary linker finds labels and aliases in the atlas's test sentences. It "
                "is not trained; its confidence is a prior, not calibrated. The atlas's sentences "
                "use the graph's own names, so this is an upper bound: real text is far harder."
            ),
            table(("scored", "result"), list(links.items()), "Against the gold annotations"),
        ),
    )


def _drawn_section(svg: str) -> Section:
    return Section(
        "A word-knowledge graph",
        (
            prose(
                "Mentions became anchors, anchors brought facts. Hover or click a node to see why."
            ),
            embedded_page(svg, f"Word-knowledge graph of: {SENTENCE}", 900),
        ),
    )


def _training_section(trial: CompletionTrial) -> Section:
    config, training = trial.config, trial.config.training
    curves = trial.trained(RunKey(COLAKE, "true", 0)) / "curves.png"
    return Section(
        "Training",
        (
            prose(
                f"CoLAKE on {config.host}: {training.steps} steps of {training.batch_size} "
                f"sentences, seed {training.seed}. The controls were trained the same way on the "
                "same sentences; only the injected neighbours differ."
            ),
            picture(curves, "Loss curves of the CoLAKE run"),
        ),
    )


def _completion_section(compared: Compared) -> Section:
    setting = compared.experiment.asked
    pairs = pair_table(compared).without_last_column()  # every example has two linked entities
    return Section(
        f"{setting.capitalize()} completion",
        (
            prose(_SETTINGS[setting]),
            verdict(headline(compared)),
            rank_table(compared).html(describe(compared)),
            pairs.html("True knowledge minus the other, in MRR"),
            gain_table(compared, KNOWLEDGE).html(SLICES),
        ),
    )


_SETTINGS = {
    "transductive": (
        "The relation between two mentioned entities is hidden and every relation is ranked. Both "
        "entities were seen in training, the triple was not."
    ),
    "inductive": (
        "As above, but the head entity was never seen in training, neither in a triple nor in a "
        "sentence. Triple scorers have no vector for it; DKRL reads its description."
    ),
}


def _audit_section(completion: Completion, skipped: dict[str, int]) -> Section:
    counts = [*completion.counts.items(), *skipped.items()]
    return Section(
        "What was left out, and the leak audit",
        (
            table(("what", "n"), counts, "Counts"),
            audit_table(completion.audit).html("Do answers leak into the input?"),
        ),
    )
