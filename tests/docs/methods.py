"""docs/reference/methods.md, from the lines of `METHODS`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from kept import load_host
from kept.convert import CONVERTERS
from kept.graphs.views.senses import sense_names
from kept.methods import BASELINE, METHODS, Method, title
from kept.objectives.model import OBJECTIVES
from kept.training.pretraining.config import TREES
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

ROOT = Path(__file__).parents[2]
PAGE, QUIRKS = ROOT / "docs/reference/methods.md", ROOT / "docs/reference/quirks.md"
COMMAND = "python -m tests.docs"
WEIGH = "weigh_links"
READS = {
    "links": "links of a text",
    "pairs": "pairs of linked mentions",
    "texts": "texts of entities",
    "mentions": "what mentions mean",
}

INTRO = f"""\
# The methods
<!-- written by {COMMAND}, from the lines of kept/methods.py: change those -->

A method is a view, an encoder and objectives. One line of [methods.py](../../kept/methods.py) joins
them. All methods read the same type of batch, which is made from one word-knowledge graph.
*Parameters added* is what the encoder adds to MiniLM ({{n_own:,}} parameters), for a graph of
E entities, R relations and S types.
"""
WEIGHING = """\
## Links that are not sure

The views of {names} take the option `weigh_links`
(`kept pretrain --set view.weigh_links=true`). The knowledge of a link then counts as much as the
link's confidence:

- K-BERT, CoLAKE, E-BERT and LUKE multiply the attention to its nodes by the confidence.
- ERNIE multiplies the entity's share of the hidden state by it.
- KnowBERT's priors sum to it.
- A pair of K-Adapter's `relation_pairs` counts by the confidence of both links.
- A mention in WKLM's objective counts by the confidence of its link.

A confidence of 1 is the method as published. 0 is as if there were no link
([test](../../tests/kept/encoders/test_soft_links.py)), except that E-BERT has moved the words
behind it. On one task the option [helps where many links are
wrong](../../experiments/relation_extraction/wiki80-types.link-errors.md) and the linker knows which
ones may be."""
RELEASED = """\
`kept convert METHOD FILE -o DIR` converts a released checkpoint. `kept convert METHOD --options`
lists its options. *Not here* are objectives of the paper that are off by default. The method's rows
in [quirks.md](quirks.md) say so, and list every other difference from the released code."""


def page() -> str:
    """The text of docs/reference/methods.md."""
    host = load_host("minilm")
    parts = [
        INTRO.format(n_own=size(host)),
        table(
            ("method", "what enters, and where", "reads", "files", "predicts", "parameters added"),
            (_how_it_works(name, host) for name in METHODS),
        ),
        "## As published, and here",
        table(
            (
                "method", "paper", "published on", "pre-trains here with", "not here",
                "without training", "released weights", "options of its view", "differences",
                "since",
            ),
            (_as_published(name) for name, line in METHODS.items() if line.is_published),
        ),
        RELEASED,
        WEIGHING.format(names=names(n for n in METHODS if WEIGH in view_options(n))),
    ]  # fmt: skip
    return "\n".join(part if part.endswith("\n") else f"{part}\n" for part in parts)


def _how_it_works(name: str, host: PreTrainedModel) -> list[str]:
    line = METHODS[name]
    losses = (
        f"[`{loss}`]({link_to(OBJECTIVES[loss].options)}): {asks}" for loss, asks in _losses(name)
    )
    page = ROOT / f"docs/reference/methods/{name}.md"
    more = f" ([more](methods/{name}.md))" if page.exists() else ""
    facts = "" if line.reads_facts or name == BASELINE else ", no facts"
    return [
        f"`{name}`",
        line.enters + more,
        READS[line.reads] + facts if name != BASELINE else "nothing",
        " · ".join(_files(name)),
        "; ".join(losses),
        parameters_added(line, host),
    ]


def _as_published(name: str) -> list[str]:
    line = METHODS[name]
    n_rows = n_quirks(title(name))
    anchor = title(name).lower()
    return [
        f"`{name}`",
        line.paper,
        line.published_on,
        _codes(line.objectives),
        _codes(line.published_with),
        "no" if line.needs_training else "yes",
        line.unreleased or f"`kept convert {name}`",
        _codes(view_options(name)),
        f"[{n_rows} rows](quirks.md#{anchor})",
        line.since,
    ]


def _losses(name: str) -> list[tuple[str, str]]:
    """What a method is asked for while it pre-trains, trees among it where it reads them."""
    line = METHODS[name]
    names = [*line.objectives, *([TREES] if line.on_trees else [])]
    return [(loss, OBJECTIVES[loss].asks) for loss in names]


def own_losses(name: str) -> str:
    """What only this method predicts; of the baseline, all that it does."""
    losses = _losses(name)
    other_losses = [(loss, asks) for loss, asks in losses if loss != "mlm"]
    if name != BASELINE and not METHODS[name].needs_training:
        return "the task's alone; works without pre-training"
    return "; ".join(f"{asks} (`{loss}`)" for loss, asks in other_losses or losses)


def _files(name: str) -> Iterator[str]:
    line = METHODS[name]
    yield f"[view]({link_to(line.view)})"
    yield f"[encoder]({link_to(line.encoder)})"
    if name in CONVERTERS:
        yield f"[converter](../../{CONVERTERS[name].replace('.', '/')}.py)"
    root = ROOT / "tests/parity"
    parity = [str(p.relative_to(root)) for p in sorted(root.rglob(f"test_{name}*.py"))]
    parity = [file for file in parity if "release" not in file]
    if len(parity) == 1:
        yield f"[parity](../../tests/parity/{parity[0]})"
    elif parity:
        links = (f"[{i}](../../tests/parity/{file})" for i, file in enumerate(parity, 1))
        yield f"parity {', '.join(links)}"


def link_to(part: Any) -> str:
    """Where a part of `kept` is defined, from docs/reference/."""
    return f"../../{part.__module__.replace('.', '/')}.py"


def view_options(name: str) -> list[str]:
    """The options of a method's view."""
    return METHODS[name].view.option_names()


def n_quirks(paper: str) -> int:
    """How many differences docs/reference/quirks.md tells of a method."""
    text = QUIRKS.read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(paper)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"docs/reference/quirks.md has no section {paper}"
    return sum(line.startswith("|") for line in section[1].splitlines()) - 2


def parameters_added(line: Method, host: PreTrainedModel) -> str:
    """As `number + width E`, from graphs that differ by an entity, a relation or a type."""
    sizes = [(4, 2, 2), (5, 2, 2), (4, 3, 2), (4, 2, 3)]
    first, *further = (added(line, host, world(*each)) for each in sizes)
    entity, relation, kind = (n - first for n in further)
    terms = {"(E + R)": entity} if entity == relation else {"E": entity, "R": relation}
    widths = [f"{width} {of}" for of, width in {**terms, "S": kind}.items() if width]
    fixed = first - 4 * entity - 2 * relation - 2 * kind
    return " + ".join([*([f"{fixed:,}"] if fixed or not widths else []), *widths])


def added(line: Method, host: PreTrainedModel, graph: KnowledgeGraph) -> int:
    """Parameters of a method's encoder beyond its host's own."""
    return size(line.encoder.from_host(host, graph)) - size(host)


def size(model: Any) -> int:
    """Its number of parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def world(n_entities: int, n_relations: int, n_types: int) -> KnowledgeGraph:
    """A graph of so many entities, relations and types."""
    triples = [
        Triple(f"e{i % n_entities}", f"r{i % n_relations}", f"e{(i + 1) % n_entities}")
        for i in range(max(n_entities, n_relations))
    ]
    types = [Text(f"e{i % n_entities}", TextKind.TYPE, f"t{i}", "") for i in range(n_types)]
    graph = graph_from_records([*triples, *types])
    sizes = graph.n_entities, graph.n_relations, len(sense_names(graph))
    assert sizes == (n_entities, n_relations, n_types)
    return graph


def names(keys: Iterable[str]) -> str:
    """Methods as their papers call them: "A, B and C"."""
    *most, last = (title(key) for key in keys)
    return f"{', '.join(most)} and {last}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lines of a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _codes(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)
