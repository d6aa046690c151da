"""Arms: the variants of a method on a reading control, as published or changed to let it read.

An arm is a configuration of `kept finetune`: method, options of encoder, view, graph and head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kept.methods import METHODS
from kept.suggestions import no_such

AT_MENTION: Mapping[str, Any] = {"markers": "none"}
"""The head reads the mention's own first node: without marks a target is the mention."""
BOTH: Mapping[str, Any] = {"directions": "both"}

TARGETS = "targets"
"""The head of every method that has none of its own for targets."""

TEXT_TASKS = ("occupation", "typing", "relation", "cloze", "conflict", "two-hops")
"""Controls of methods that read the graph beside a text, each new text with facts of its own."""
TASK_NAMES = (*TEXT_TASKS, "description", "pairs")


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to run `method`; what is left out is the default of `kept finetune`.

    `changes` says in words how it differs from the published method; "" where it does not. `rates`
    are fields of `TrainConfig` (learning rates). `head` reads the target. `tasks` are the controls
    that it can run, its own first. `stage`: pre-training before the task, its `objectives` and,
    unless it has all of the budget, its `steps`.
    """

    method: str
    changes: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    view: Mapping[str, Any] = field(default_factory=dict)
    graph: Mapping[str, Any] = field(default_factory=dict)
    head: str = TARGETS
    head_options: Mapping[str, Any] = field(default_factory=dict)
    markers: str = "kadapter"
    rates: Mapping[str, Any] = field(default_factory=dict)
    tasks: tuple[str, ...] = TEXT_TASKS
    stage: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_published(self) -> bool:
        """Whether it is the method as published."""
        return not self.changes


ALL_BRANCHES = {"max_branches": 16}
FACTS_AS_SUBGRAPH: Mapping[str, Any] = {
    "changes": "read at the mention; the subgraph is the facts of both directions; what is new "
    "learns 100 times faster than the host",
    "view": {"extras": "facts"},
    "graph": BOTH,
    "rates": {"learning_rate": 3e-3, "host_learning_rate": 3e-5},
    **AT_MENTION,
}
OPEN_KAR = {"null": "soft", "first_score": 2.0}

ARMS: dict[str, Arm] = {
    "words": Arm(
        method="kbert",
        changes="facts are plain words of the sentence: no soft positions, no visible matrix",
        view={**ALL_BRANCHES, "soft_positions": False, "visible_matrix": False},
    ),
    "all-visible": Arm(
        method="kbert",
        changes="every node sees every node; soft positions stay",
        view={**ALL_BRANCHES, "visible_matrix": False},
    ),
    "kbert-published": Arm(method="kbert"),
    "kbert-mention": Arm(
        method="kbert",
        changes="read at the mention, facts of both directions, no cap of two branches",
        view=ALL_BRANCHES,
        graph=BOTH,
        **AT_MENTION,
    ),
    "colake-published": Arm(method="colake"),
    "colake-anchor": Arm(
        method="colake",
        changes="read at the anchor, whose row is masked",
        options={"anchor_rows": "masked"},
        graph=BOTH,
        **AT_MENTION,
    ),
    "colake-redrawn": Arm(
        method="colake",
        changes="read at the anchor, whose row is another's in training; half of all facts dropped",
        options={"anchor_rows": "redrawn"},
        graph={**BOTH, "drop_probability": 0.5},
        **AT_MENTION,
    ),
    "ernie-published": Arm(method="ernie"),
    "ernie-scaled": Arm(
        method="ernie",
        changes="vectors as long as embedded words, read at the mention, fusion 5 times faster",
        options={"scale": "host"},
        rates={"learning_rate": 1e-3, "host_learning_rate": 2e-4},
        **AT_MENTION,
    ),
    "knowbert-published": Arm(method="knowbert"),
    "knowbert-open": Arm(
        method="knowbert",
        changes="a soft threshold, links open at the start, read at the mention, after layer 2",
        options={"kars": [{**OPEN_KAR, "layer": 1}]},
        **AT_MENTION,
    ),
    "ebert-published": Arm(method="ebert"),
    "ebert-facts": Arm(
        method="ebert",
        changes="an entity's vector is the mean of its name's and its facts' word pieces",
        options={"vectors": "facts"},
    ),
    "ktnet-published": Arm(method="ktnet"),
    "ktnet-mention": Arm(
        method="ktnet",
        changes="read at the mention; what is new learns 5 times faster than the host",
        rates={"learning_rate": 1e-3, "host_learning_rate": 2e-4},
        **AT_MENTION,
    ),
    "qagnn-published": Arm(method="qagnn"),
    "qagnn-facts": Arm(method="qagnn", **FACTS_AS_SUBGRAPH),
    "greaselm-published": Arm(method="greaselm"),
    "greaselm-facts": Arm(method="greaselm", **FACTS_AS_SUBGRAPH),
    "luke-published": Arm(method="luke", head="entities"),
    "luke-facts": Arm(
        method="luke",
        changes="an entity's vector is the mean of its name's and its facts' word pieces; no marks",
        options={"vectors": "facts"},
        head="entities",
        **AT_MENTION,
    ),
    "luke-transe": Arm(
        method="luke",
        changes="an entity's vector is that of a TransE on the graph, as long as a word; no marks",
        options={"vectors": "transe"},
        head="entities",
        **AT_MENTION,
    ),
    "kepler-published": Arm(
        method="kepler", tasks=("description",), stage={"objectives": {"mlm": {}, "ke": {}}}
    ),
    "kepler-passes": Arm(
        method="kepler",
        changes="32 triples a step instead of 4, so that the budget is passes over the graph",
        tasks=("description",),
        stage={
            "objectives": {"ke": {"n_triples": 32}},
        },
    ),
    "kadapter-published": Arm(
        method="kadapter",
        tasks=("pairs",),
        stage={"objectives": {"relation_pairs": {}}, "steps": 48},
    ),
    "kadapter-long": Arm(
        method="kadapter",
        changes="the adapter learns for the whole budget, faster, by its own states alone; the "
        "host is frozen; read at the mentions, where the adapter is trained, not at marks",
        tasks=("pairs",),
        stage={"objectives": {"relation_pairs": {"alone": True}}},
        options={"task_trains": ["fusion"]},
        rates={"learning_rate": 1e-3},
        **AT_MENTION,
    ),
    "kadapter-fixed": Arm(
        method="kadapter",
        changes="as kadapter-long, and the adapter's head is frozen, so that the adapter alone "
        "must separate the relations",
        tasks=("pairs",),
        stage={"objectives": {"relation_pairs": {"alone": True, "fixed_head": 0.3}}},
        options={"task_trains": ["fusion"]},
        rates={"learning_rate": 1e-3},
        **AT_MENTION,
    ),
}
"""Arms by name; `arms_of` takes the name of a method for all of its arms."""

WITHOUT_CONTROL: Mapping[str, str] = {
    "none": "it reads no graph",
    "libert": "it learns which names belong together, and no control asks for that yet",
    "sensebert": "it learns senses of words in context, and made-up names have none",
    "sentilare": "it reads what a lexicon says of words, and made-up names are in none",
    "wklm": "it learns which entities are mentioned where, and no control asks for that yet",
}
"""Methods without an arm, and why."""


TASK_OF_RECIPES = "mention"
"""What a control is to a user: one class of one mention."""
RECIPE = "-recipe"
"""End of the name of the arm that is a method's recipe."""


def recipe_arms() -> dict[str, Arm]:
    """Return the arms of what `kept finetune --method X` does, of each method that reads facts
    with a text and needs no pre-training."""
    return {
        f"{name}{RECIPE}": Arm(
            method=name,
            changes=f"the recipe: {line.recipe.differs or 'read at the mention'}",
            options=line.recipe.options,
            view=line.recipe.view,
            graph=line.recipe.graph,
            head=(head := line.heads.get(TASK_OF_RECIPES, TARGETS)),
            head_options={"read": "mean"} if head == TARGETS else {},
            rates=line.recipe.rates,
            **AT_MENTION,
        )
        for name, line in METHODS.built_in.items()
        if name not in WITHOUT_CONTROL and line.reads == "links"
    }


def arms_of(names: Sequence[str]) -> list[str]:
    """Arms by their own name, or all of a method by its; "all" is every arm.

    Raises `ConfigError` for a name that is neither.

    >>> arms_of(["ernie"])
    ['ernie-published', 'ernie-scaled']
    """
    arms: dict[str, None] = {}
    for name in names:
        of_method = [key for key, value in ARMS.items() if name in ("all", value.method)]
        if not of_method:
            arm(name)
        arms |= dict.fromkeys(of_method or [name])
    return list(arms)


def arm(name: str) -> Arm:
    """The arm called `name`; raises `ConfigError` listing near names and all."""
    if name in ARMS:
        return ARMS[name]
    if name.endswith(RECIPE) and name in (recipes := recipe_arms()):
        return recipes[name]
    raise no_such("arm of the reading controls", name, ARMS)
