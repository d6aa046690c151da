"""KnowBERT's view: which mentions and candidates of which graph, and what is a label."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.batches import IGNORE, N_SPECIAL_ROWS, PAD_ROW, UNKNOWN_ROW
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.views import KnowBERTView
from kept.graphs.views.knowbert import FurtherGraph
from kg_loaders import KnowledgeGraph

TEXT = "the old city of paris near the river"
CONFIG = BuilderConfig(replace_mentions=False, max_neighbours=0, max_words=24, max_nodes=48)


def link(start: int, end: int, names: Sequence[tuple[str, float]], entity: str | None) -> Link:
    candidates = tuple(Candidate(name, prior, prior) for name, prior in names)
    return Link(Mention(start, end), candidates, entity, 0.5)


LINKS = (
    link(4, 21, [("Q90", 0.4), ("Q-else", 0.5), ("Q64", 0.1)], "Q90"),  # "old city of paris"
    link(8, 12, [("Q64", 0.5)], None),  # "city", inside the first
    link(16, 21, [("Q90", 0.0), ("Q830149", 0.0)], "Q-else"),  # "paris", no prior known
    link(22, 26, [("Q-else", 1.0)], "Q-else"),  # "near": nothing in the graph
    link(27, 30, [], None),  # "the"
    link(31, 36, [], "Q1471"),  # "river": the choice alone
)


class Rivers:
    """A linker that links every "river"."""

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        return [
            LinkedText(
                text,
                tuple(
                    link(at, at + 5, [("Q1471", 1.0)], "Q1471")
                    for at in range(len(text))
                    if text.startswith("river", at)
                ),
            )
            for text in texts
        ]


def visible_candidates(
    view: KnowBERTView,
    graph: KnowledgeGraph,
    tokenizer: Any,
    linked: LinkedText | None = None,
    config: BuilderConfig = CONFIG,
) -> Any:
    text = linked or LinkedText(TEXT, LINKS)
    return view(build(text, tokenizer, graph, generator=np.random.default_rng(0), config=config))


def row(graph: KnowledgeGraph, name: str) -> int:
    return int(graph.entities.find(name) or 0) + N_SPECIAL_ROWS


def test_mentions_candidates_and_labels(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    view = KnowBERTView.of(small_graph, tokenizer)
    batch = visible_candidates(view, small_graph, tokenizer)
    paris, berlin, texas, seine = (
        row(small_graph, name) for name in ("Q90", "Q64", "Q830149", "Q1471")
    )
    # [CLS] the old city of p ##a ##r ##i ##s near the river [SEP]
    assert batch.mention_spans[0].tolist() == [[2, 10], [3, 4], [5, 10], [12, 13]]
    ids = [[i for i in ids if i != PAD_ROW] for ids in batch.candidate_ids[0].tolist()]
    assert ids == [[paris, berlin], [berlin], [paris, texas], [seine]]
    priors = batch.candidate_priors[0]
    assert priors[0].tolist() == pytest.approx([0.8, 0.2])
    assert priors[2].tolist() == [0.5, 0.5]
    assert batch.mention_labels[0].tolist() == [paris, UNKNOWN_ROW, UNKNOWN_ROW, seine]
    assert batch.mention_graphs is None
    assert batch.visibility.mask.all()


def test_the_best_candidates_are_kept(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    view = KnowBERTView.of(small_graph, tokenizer, max_candidates=1)
    batch = visible_candidates(view, small_graph, tokenizer)
    assert batch.candidate_ids.shape == (1, 4, 1)
    assert (batch.candidate_priors == 1).all()
    assert view.fingerprint != KnowBERTView.of(small_graph, tokenizer).fingerprint
    with pytest.raises(ConfigError, match="max_candidates is 0"):
        KnowBERTView.of(small_graph, tokenizer, max_candidates=0)


def test_a_mention_that_was_cut_is_dropped(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    view = KnowBERTView.of(small_graph, tokenizer)
    for max_words, n_mentions in ((14, 4), (13, 3), (11, 3), (10, 1), (4, 0)):
        config = BuilderConfig(
            replace_mentions=False, max_neighbours=0, max_words=max_words, max_nodes=48
        )
        batch = visible_candidates(view, small_graph, tokenizer, config=config)
        assert batch.mention_spans.shape == (1, n_mentions, 2), max_words
    assert batch.candidate_ids.shape == (1, 0, 1)


def test_each_text_of_a_pair_is_cut_on_its_own(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    text = "river paris paris paris river"
    links = tuple(
        link(m, m + 5, [("Q1471", 1.0)], "Q1471")
        for m in range(len(text))
        if text[m:].startswith(("river", "paris"))
    )
    pair = LinkedText(text, links, pair_start=24)
    config = BuilderConfig(replace_mentions=False, max_neighbours=0, max_words=14, max_nodes=48)
    view = KnowBERTView.of(small_graph, tokenizer)
    batch = visible_candidates(view, small_graph, tokenizer, pair, config)
    spans = batch.mention_spans[0].tolist()
    assert spans[0] == [1, 2]
    assert spans[-1][1] == batch.node_ids.shape[1] - 1
    assert batch.segment_ids[0, spans[-1][0]] == 1
    assert len(spans) < len(links)


def test_further_graphs_have_mentions_of_their_own(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    plain = visible_candidates(KnowBERTView(small_graph), small_graph, tokenizer)
    for labelled in (False, True):
        further = FurtherGraph(small_graph, Rivers(), labelled)
        view = KnowBERTView(small_graph, further=[further])
        batch = visible_candidates(view, small_graph, tokenizer)
        assert batch.mention_graphs[0].tolist() == [0, 0, 0, 0, 1]
        assert batch.mention_spans[0, -1].tolist() == [12, 13]
        seine = row(small_graph, "Q1471")
        assert int(batch.candidate_ids[0, -1, 0]) == seine
        assert int(batch.mention_labels[0, -1]) == (seine if labelled else IGNORE)
        assert batch.mention_spans[:, :4].equal(plain.mention_spans)
        again = pickle.loads(pickle.dumps(view))
        assert again.fingerprint.split(" object")[0] == view.fingerprint.split(" object")[0]


def test_further_graphs_are_read_from_folders(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    small_graph.save(tmp_path / "kg")
    view = KnowBERTView.of(
        small_graph, tokenizer, further=[{"kg": str(tmp_path / "kg"), "linker": "dictionary"}]
    )
    linked = LinkedText("Paris near Berlin", (link(0, 5, [("Q90", 1.0)], "Q90"),))
    batch = visible_candidates(view, small_graph, tokenizer, linked)
    assert batch.mention_graphs[0].tolist() == [0, 1, 1]
    again = pickle.loads(pickle.dumps(view))
    assert again.fingerprint == view.fingerprint
    assert visible_candidates(again, small_graph, tokenizer, linked).candidate_ids.equal(
        batch.candidate_ids
    )
    for values, message in (
        ({"kg": "x", "linkr": 1}, "no field 'linkr'"),
        ({"linker": "wordnet"}, "lacks `kg`"),
        ({"kg": str(tmp_path / "kg"), "linker": "x"}, "linker is 'x'"),
    ):
        with pytest.raises(ConfigError, match=message):
            KnowBERTView.of(small_graph, tokenizer, further=[values])
