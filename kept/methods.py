"""The table of methods: every published way of injecting knowledge is one line here.

A line names the encoder (the paper's file), the view that feeds it, how graphs must be built for
that view, and the objectives of its pre-training. Everything else takes any line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.colake import CoLAKE
from kept.encoders.ebert import EBERT
from kept.encoders.ernie import ERNIE
from kept.encoders.kadapter import KAdapter
from kept.encoders.kbert import KBERT
from kept.encoders.kepler import KEPLER
from kept.encoders.knowbert import KnowBERT
from kept.encoders.ktnet import KTNET
from kept.encoders.lexical.libert import LIBERT
from kept.encoders.lexical.sensebert import SenseBERT
from kept.encoders.lexical.sentilare import SentiLARE
from kept.encoders.luke import LUKE
from kept.encoders.plain import Plain
from kept.encoders.subgraph.greaselm import GreaseLM
from kept.encoders.subgraph.qagnn import QAGNN
from kept.encoders.wklm import WKLM
from kept.encoders.words import FactsAsWords
from kept.errors import ConfigError
from kept.graphs.views import (
    WORDS_ONLY,
    CoLAKEView,
    EBERTView,
    ERNIEView,
    KBERTView,
    KnowBERTView,
    KTNETView,
    LinkedWordsView,
    LUKEView,
    SensesView,
    SentiLAREView,
    SubgraphView,
    View,
    WordsView,
)
from kept.host_facts import require_rows
from kept.suggestions import no_such
from kg_loaders import KnowledgeGraph, plugins
from kg_loaders.errors import PluginError
from kg_loaders.plugins import Plugin, Table

Reads = Literal["links", "pairs", "texts", "mentions"]
Injects = Literal["nothing", "beside", "between"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings with which a method reads facts at a small budget, where a user gives none.

    `options` are the encoder's, `view` the view's, `graph` the builder's. `rates` are learning
    rates for MiniLM; `kept.training.finetuning.recipes` lowers them for a wider host, and has what
    is the same for all methods: no marks, and the mean of a target's words. `examples` is how many
    it was trained on, passes counted, when it first answered nine of ten questions about names that
    it had not seen (`kept check reading --recipes`); None where that was not measured. `differs`
    says in words what is not as published.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    view: Mapping[str, Any] = field(default_factory=dict)
    graph: Mapping[str, Any] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=lambda: {"learning_rate": 3e-4})
    examples: int | None = None
    differs: str = ""

    def fields(self) -> dict[str, dict[str, Any]]:
        """Return what differs from the defaults of `options`, `view` and `graph`, as plain values.

        >>> METHODS["kbert"].recipe.fields()
        {'view': {'max_branches': 8}, 'graph': {'directions': 'both'}}
        """
        groups = {"options": self.options, "view": self.view, "graph": self.graph}
        return {name: dict(values) for name, values in groups.items() if values}


SUBGRAPH_RECIPE = Recipe(
    view={"extras": "facts"},
    graph={"directions": "both"},
    rates={"learning_rate": 3e-3, "host_learning_rate": 3e-5},
    differs="read at the mention; the subgraph is the facts of both directions; what is new "
    "learns 100 times faster than the host",
)
NEW_PARTS_FASTER: Mapping[str, float] = {"learning_rate": 1e-3, "host_learning_rate": 2e-4}
"""Rates of a method whose new parts start from nothing beside a host that was pre-trained."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way of injecting knowledge. `builder` holds the fields of `BuilderConfig` that its view
    needs whatever its options (`View.builder_fields` has those of options),
    `in_pretraining` those that the paper sets while it pre-trains, unless the configuration has a
    `drop_probability` of its own.

    `on_trees` are options of an encoder that learns from a treebank, where none are given.
    `needs_training` is False where a host with the method around it is of use as it is. `reads`
    says where knowledge comes in, for controls to take it away there: by the links of a text; by
    the relation between two linked mentions ("pairs"); by texts of entities, without any link; or
    by which entities the mentions of a text mean, while it is pre-trained alone ("mentions").
    `reads_facts` is False where neither vectors nor views need a triple. `injects` says where nodes
    or slots of entities stand in the host's input: none do, but what is between its layers may
    know them; beside the words, whose positions stay; or between them.
    `enters` says where knowledge enters, for pages. `published_on` is the host and the knowledge of
    the paper, `published_with` what it was pre-trained with that `objectives` leaves out.
    `unreleased` is why there is no checkpoint to convert; without it `kept.convert` has a module of
    the method's name. `since` is the version that it came with: studies committed before do not
    have it. `view_options` are options of the view that make it this method, under those given.
    `heads` are the paper's heads of tasks, by task, where they are not the tasks' own.
    Everything on the line is as published, but for `recipe`: what `--method` means where a user
    gives no other settings.
    """

    paper: str
    since: str
    enters: str
    encoder: type[KnowledgeEncoder]
    view: type[View]
    builder: Mapping[str, Any] = field(default_factory=dict)
    in_pretraining: Mapping[str, Any] = field(default_factory=dict)
    objectives: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    on_trees: Mapping[str, Any] = field(default_factory=dict)
    needs_training: bool = True
    reads: Reads = "links"
    reads_facts: bool = True
    injects: Injects = "beside"
    published_on: str = ""
    published_with: tuple[str, ...] = ()
    unreleased: str = ""
    view_options: Mapping[str, Any] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)

    @property
    def is_published(self) -> bool:
        """Whether it is a paper's method, with a paper's settings."""
        return bool(self.published_on)

    @property
    def shows_facts(self) -> bool:
        """Whether facts of linked entities stand in what the encoder reads, beside the words."""
        return self.builder.get("max_neighbours") != 0

    def new_encoder(
        self,
        host: PreTrainedModel | str | Path,
        graph: KnowledgeGraph,
        tokenizer: PreTrainedTokenizerBase,
        *,
        seed: int,
        **options: Any,
    ) -> KnowledgeEncoder:
        """A new encoder of this method around `host`, for the ids of `graph`.

        `seed` is of what is learned from the graph; new weights are torch's draws, see
        `kept.randomness.torch_draws`. `options` are those of its configuration.
        """
        opened = host if isinstance(host, PreTrainedModel) else hosts.load_host(host)
        require_rows(tokenizer, hosts.word_table(opened).num_embeddings)
        return self.encoder.for_graph(opened, graph, tokenizer, seed=seed, **options)


BASELINE = "none"
"""The method that every other one is compared with."""
_BUILT_IN: dict[str, Method] = {
    "none": Method(
        paper="the host alone, the baseline of every comparison",
        since="0.1",
        enters="nowhere: the baseline",
        encoder=Plain,
        view=WordsView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}},
        needs_training=False,
        injects="nothing",
        unreleased="the host alone: it adds no weights, so there is nothing to convert",
    ),
    "ernie": Method(
        paper="ERNIE (Zhang et al., ACL 2019)",
        since="0.1",
        enters=(
            "vectors of entities (a TransE on your triples), frozen, in a stream next to the "
            "words, fused with them in the upper layers"
        ),
        published_on="BERT-base, uncased; Wikipedia, with vectors of 5 million Wikidata entities",
        published_with=("nsp",),
        encoder=ERNIE,
        view=ERNIEView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}, "dea": {}},
        recipe=Recipe(
            options={"scale": "host"},
            rates=NEW_PARTS_FASTER,
            examples=640,
            differs="vectors as long as embedded words, read at the mention, fusion learns faster",
        ),
    ),
    "knowbert": Method(
        paper="KnowBERT (Peters et al., EMNLP 2019)",
        since="0.1",
        enters=(
            "candidates of each mention, linked and attended to between two layers; several graphs"
        ),
        published_on="BERT-base, uncased; Wikipedia and WordNet",
        published_with=("nsp",),
        encoder=KnowBERT,
        view=KnowBERTView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}, "el": {}},
        injects="nothing",
        recipe=Recipe(
            options={"kars": [{"null": "soft", "first_score": 2.0, "layer": 1}]},
            examples=960,
            differs="a soft threshold, links open at the start, read at the mention, after layer 2",
        ),
    ),
    "kbert": Method(
        paper="K-BERT (Liu et al., AAAI 2020)",
        since="0.1",
        enters=(
            "facts spelled out as branches of the sentence, at soft positions; only their "
            "mention sees them"
        ),
        published_on="BERT-base, Chinese; CN-DBpedia, HowNet, a medical graph",
        published_with=("nsp",),
        encoder=KBERT,
        view=KBERTView,
        builder={"replace_mentions": False},
        objectives={"mlm": {}},
        needs_training=False,
        recipe=Recipe(
            view={"max_branches": 8},
            graph={"directions": "both"},
            examples=960,
            differs="read at the mention, facts of both directions, eight branches instead of two",
        ),
    ),
    "words": Method(
        paper="facts written into the text as plain words",
        since="0.3",
        enters="facts of each linked entity, written out as plain words after its mention",
        encoder=FactsAsWords,
        view=KBERTView,
        builder={"replace_mentions": False},
        objectives={"mlm": {}},
        needs_training=False,
        unreleased="the host alone: it adds no weights, so there is nothing to convert",
        view_options={"soft_positions": False, "visible_matrix": False, "max_branches": 8},
        recipe=Recipe(
            graph={"directions": "both"}, examples=320, differs="facts of both directions"
        ),
    ),
    "kepler": Method(
        paper="KEPLER (Wang et al., TACL 2021)",
        since="0.1",
        enters=(
            "the loss alone: the host reads descriptions of entities, which must score true triples"
        ),
        published_on="RoBERTa-base; Wikidata5M",
        encoder=KEPLER,
        view=WordsView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}, "ke": {}},
        reads="texts",
        injects="nothing",
    ),
    "colake": Method(
        paper="CoLAKE (Sun et al., COLING 2020)",
        since="0.1",
        enters="nodes of entities and relations next to the words, seen by their neighbours",
        published_on="RoBERTa-base; Wikipedia with Wikidata5M",
        encoder=CoLAKE,
        view=CoLAKEView,
        in_pretraining={"drop_probability": 0.5, "drop": "anchor"},
        objectives={"masked_nodes": {}},
        recipe=Recipe(
            options={"anchor_rows": "masked"},
            graph={"directions": "both"},
            examples=640,
            differs="read at the anchor, whose row is masked, facts of both directions",
        ),
    ),
    "kadapter": Method(
        paper="K-Adapter (Wang et al., Findings of ACL 2021)",
        since="0.1",
        enters="adapters on a frozen host, one per kind of knowledge",
        published_on="RoBERTa-large; T-REx, and parsed sentences of the Book Corpus",
        encoder=KAdapter,
        view=LinkedWordsView,
        builder=WORDS_ONLY,
        objectives={"relation_pairs": {}},
        on_trees={"adapters": {"linguistic": {}}},
        reads="pairs",
        injects="nothing",
    ),
    "ebert": Method(
        paper="E-BERT (Poerner et al., Findings of EMNLP 2020)",
        since="0.2",
        enters=(
            "vectors of pages (Wikipedia2Vec mapped into the host's space; without a file, of "
            "labels) before their mention, `entity / mention`, or in its place"
        ),
        published_on="BERT-base, cased; Wikipedia2Vec",
        encoder=EBERT,
        view=EBERTView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}},
        needs_training=False,
        reads_facts=False,
        injects="between",
        unreleased="nothing is trained: vectors are mapped when the encoder is made",
        recipe=Recipe(
            options={"vectors": "facts"},
            examples=640,
            differs="an entity's vector is the mean of its name's and its facts' word pieces",
        ),
    ),
    "libert": Method(
        paper="LIBERT (Lauscher et al., COLING 2020)",
        since="0.2",
        enters=(
            "the loss alone: in every second step the host predicts which pairs of terms a "
            "lexicon joins"
        ),
        published_on="its own BERT-base, on Wikipedia; WordNet and Roget's Thesaurus",
        published_with=("nsp",),
        encoder=LIBERT,
        view=WordsView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}, "lexical": {}},
        reads="texts",
        injects="nothing",
        unreleased="a trained LIBERT is a BERT: take its weights as a host",
    ),
    "sensebert": Method(
        paper="SenseBERT (Levine et al., ACL 2020)",
        since="0.2",
        enters=(
            "vectors of the senses that a word may have (WordNet's supersenses, or types of its "
            "candidates), added to it"
        ),
        published_on="BERT's sizes, trained from scratch on Wikipedia and the Book Corpus; WordNet",
        encoder=SenseBERT,
        view=SensesView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}, "senses": {}},
        reads_facts=False,
        injects="nothing",
        unreleased="released as a frozen TensorFlow graph, which holds no weights by name",
    ),
    "sentilare": Method(
        paper="SentiLARE (Ke et al., EMNLP 2020)",
        since="0.2",
        enters=(
            "parts of speech and prior polarities of linked words, and in pre-training the "
            "text's rating, added to words"
        ),
        published_on="RoBERTa-base; Yelp's reviews with SentiWordNet",
        encoder=SentiLARE,
        view=SentiLAREView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}, "sentiment": {}},
        reads_facts=False,
        injects="nothing",
        unreleased="its checkpoint is not read yet; tests/parity/sentilare has the names",
    ),
    "wklm": Method(
        paper="WKLM (Xiong et al., ICLR 2020)",
        since="0.2",
        enters=("the loss alone: mentions replaced by others of their type are to be recognised"),
        published_on="BERT-base; Wikipedia with Wikidata's types",
        encoder=WKLM,
        view=LinkedWordsView,
        builder=WORDS_ONLY,
        objectives={
            "mlm": {"probability": 0.05, "spare_mentions": True},
            "mention_truth": {},
        },
        reads="mentions",
        reads_facts=False,
        injects="nothing",
        unreleased="its code is published, no checkpoint of it is known",
    ),
    "ktnet": Method(
        paper="KT-NET (Yang et al., ACL 2019)",
        since="0.2",
        enters=(
            "vectors of the concepts that a word may mean (WordNet's synsets, or candidates in "
            "any graph), attended to together with a sentinel over the host's last layer"
        ),
        published_on="BERT-large; WordNet and NELL",
        encoder=KTNET,
        view=KTNETView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}},
        injects="nothing",
        unreleased="its checkpoints are of a PaddlePaddle that is gone, and are not read",
        recipe=Recipe(
            rates={"learning_rate": 3e-3, "host_learning_rate": 3e-4},
            examples=640,
            differs="read at the mention; what is new learns ten times faster than the host",
        ),
    ),
    "qagnn": Method(
        paper="QA-GNN (Yasunaga et al., NAACL 2021)",
        since="0.3",
        enters=(
            "a subgraph of linked entities, what they have in common and a node for the text, read "
            "by graph layers over the host's last layer"
        ),
        published_on="RoBERTa-large; ConceptNet, and SapBERT with a medical graph",
        encoder=QAGNN,
        view=SubgraphView,
        builder={"replace_mentions": False},
        objectives={"mlm": {}},
        injects="nothing",
        heads={"multiple_choice": "graph"},
        recipe=replace(SUBGRAPH_RECIPE, examples=1920),
    ),
    "greaselm": Method(
        paper="GreaseLM (Zhang et al., ICLR 2022)",
        since="0.3",
        enters=(
            "a subgraph as QA-GNN's; its graph layers are paired with the host's upper layers "
            "and exchange one token's and one node's state with each of them"
        ),
        published_on="RoBERTa-large; ConceptNet, and SapBERT with a medical graph",
        encoder=GreaseLM,
        view=SubgraphView,
        builder={"replace_mentions": False},
        objectives={"mlm": {}},
        injects="nothing",
        heads={"multiple_choice": "graph"},
        recipe=replace(SUBGRAPH_RECIPE, examples=1280),
    ),
    "luke": Method(
        paper="LUKE (Yamada et al., EMNLP 2020)",
        since="0.3",
        enters=(
            "linked entities as further nodes behind the words, with their own vectors and "
            "attention that knows words from entities; a [MASK] entity for each target"
        ),
        published_on="RoBERTa; Wikipedia with 500,000 of its pages; mLUKE: XLM-R, 24 languages",
        encoder=LUKE,
        view=LUKEView,
        builder=WORDS_ONLY,
        objectives={"mlm": {}, "masked_entities": {}},
        heads=dict.fromkeys(("typing", "mention", "relation", "document_relations"), "entities"),
        recipe=Recipe(
            options={"vectors": "facts"},
            examples=960,
            differs="an entity's vector is the mean of its name's and its facts' word pieces; its "
            "[MASK] entity is read, without marks",
        ),
    ),
}


def _require_model_type(plugin: Plugin, line: Method) -> None:
    model_type = line.encoder.config_class.model_type
    if model_type != f"kept-{plugin.name}":
        raise PluginError(
            f"the plugin {plugin} in {plugin.group}: model_type of its encoder is {model_type!r}; "
            f"set it to 'kept-{plugin.name}', by which a saved model finds its method"
        )


METHODS = Table(plugins.METHODS, _BUILT_IN, kind=Method, what="method", check=_require_model_type)
"""Every method by its name: those of kept, then those of plugins (`kg_loaders.plugins`)."""


def method_key(name: str) -> str:
    """The key of the method called `name`, whose case, blanks and dashes do not matter.

    Raises `ConfigError` with near names and all names.

    >>> method_key("K-BERT")
    'kbert'
    """
    key = re.sub(r"[\s_-]", "", name).lower()
    if key in METHODS:
        return key
    raise no_such("method", name, METHODS)


def method(name: str) -> Method:
    """The method of a key of `METHODS`, or of a name as `method_key` takes it."""
    return METHODS[name] if name in METHODS else METHODS[method_key(name)]


def title(name: str) -> str:
    """A method as its paper calls it."""
    title, is_published, _ = method(name).paper.partition(" (")
    return title if is_published else name


def method_of(encoder: KnowledgeEncoder) -> Method:
    """The line of the table that an encoder belongs to."""
    for each in METHODS.values():
        if type(encoder) is each.encoder:
            return each
    raise ConfigError(f"{type(encoder).__name__} belongs to no method in {list(METHODS)}")
