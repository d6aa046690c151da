"""LRLM as a model: the marginal against every way of cutting a text, padding, hosts, data."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from kept.decoders.generators.lrlm import (
    LRLM,
    FactVectors,
    HostReader,
    HostWords,
    LRLMOutput,
    LSTMReader,
    TransformerXLReader,
    TwoLayers,
    perplexity,
    segment_loss,
    span_posteriors,
)
from kept.decoders.generators.lrlm_articles import (
    ANCHOR,
    Article,
    Fact,
    Segment,
    Span,
    Unknowns,
    Vocabulary,
    batches,
    segments,
)
from kept.decoders.generators.transformer_xl import TransformerXLConfig
from kept.errors import BatchError, ConfigError

FACTS = (Fact(0, 0, ("b c", "c")), Fact(1, -1, ("b",)), Fact(ANCHOR, 1, ("d",)))
LONG = Article(
    ("a", "b", "c", "d", "a", "b"),
    FACTS,
    (Span(1, 3, 0, 0), Span(2, 3, 0, 1), Span(1, 2, 1, 0), Span(3, 4, 2, 0), Span(5, 6, 1, 0)),
)
SHORT = Article(("b", "a"), FACTS[1:2], (Span(0, 1, 0, 0),))
PLAIN = Article(("d", "a", "d"), (), ())
VOCABULARY = Vocabulary.count([LONG, SHORT, PLAIN], 7)


def tiny(kind: str = "lstm", *, knows: bool = False) -> LRLM:
    torch.manual_seed(0)
    n, width = len(VOCABULARY), 8
    facts = FactVectors(nn.Embedding(2, 3), nn.Embedding(2, 5), n_unknown=1)
    inner = width + knows * facts.width
    words: nn.Module = TwoLayers(inner, 6, n)
    reader: LSTMReader | TransformerXLReader | HostReader
    if kind == "lstm":
        reader = LSTMReader(n, 4, width, 2)
    elif kind == "xl":
        reader = TransformerXLReader(n, TransformerXLConfig(4, width, 2, 4, 9, 2, 3))
    else:
        host = GPT2LMHeadModel(
            GPT2Config(vocab_size=n, n_positions=12, n_embd=width, n_layer=2, n_head=2,
                       initializer_range=0.3, bos_token_id=1, eos_token_id=1)
        ).eval()  # fmt: skip
        reader, words = HostReader(host, n_memory=4), HostWords(host, inner)
    query = nn.Linear(inner, facts.width)
    return LRLM(reader=reader, facts=facts, words=words, fact_query=query, knows=knows).eval()


KINDS = pytest.mark.parametrize("kind", ["lstm", "xl", "host"])


def cut(articles: list[Article], n_nodes: int = 10) -> list[Segment]:
    return list(segments(articles, VOCABULARY, n_nodes))


def cuts(segment: Segment, output: LRLMOutput, b: int) -> list[tuple[float, list[tuple[int, int]]]]:
    """Every way of writing row `b`, by trying each span and the word at each place."""

    def go(node: int, log: float, used: list[tuple[int, int]]) -> None:
        if node == int(segment.lengths[b]):
            cuts_.append((log, used))
            return
        word = float(output.selector[b, node, 0] + output.targets[b, node])
        go(node + 1, log + word, used)
        for end, k in segment.span_mask[b].nonzero().tolist():
            if int(segment.span_starts[b, end, k]) == node:
                fact = int(segment.span_facts[b, end, k])
                score = float(output.selector[b, node, 1] + output.relations[b, node, fact])
                go(end + 1, log + score, [*used, (end, k)])

    cuts_: list[tuple[float, list[tuple[int, int]]]] = []
    go(0, 0.0, [])
    return cuts_


@KINDS
def test_the_marginal_is_the_sum_over_all_cuts(kind: str) -> None:
    (segment,) = cut([LONG, SHORT, PLAIN])
    output = tiny(kind)(segment)
    shares = span_posteriors(output, segment)
    losses = output.row_losses(segment.lengths).detach()
    with torch.no_grad():
        for b, n_ways in enumerate((20, 2, 1)):
            ways = cuts(segment, output, b)
            assert len(ways) == n_ways
            total = sum(math.exp(log) for log, _ in ways)
            assert float(losses[b]) == pytest.approx(-math.log(total), rel=1e-5)
            for end, k in segment.span_mask[b].nonzero().tolist():
                share = sum(math.exp(log) for log, used in ways if (end, k) in used) / total
                assert float(shares[b, end, k]) == pytest.approx(share, abs=1e-5)


@KINDS
@pytest.mark.parametrize("knows", [False, True])
def test_padding_changes_nothing(kind: str, knows: bool) -> None:
    """Rows of other lengths, with more facts, and in more segments."""
    model = tiny(kind, knows=knows)
    with torch.no_grad():
        for n_nodes in (10, 3):
            memory, together = None, torch.zeros(3)
            for segment in cut([LONG, SHORT, PLAIN], n_nodes):
                output = model(segment, memory)
                memory = output.memory
                together += output.row_losses(segment.lengths)
            for b, article in enumerate((LONG, SHORT, PLAIN)):
                memory, alone = None, torch.zeros(1)
                for segment in cut([article], n_nodes):
                    output = model(segment, memory)
                    memory = output.memory
                    alone += output.row_losses(segment.lengths)
                torch.testing.assert_close(together[b], alone[0])


@KINDS
def test_what_comes_later_changes_nothing(kind: str) -> None:
    model = tiny(kind)
    (whole,) = cut([LONG])
    (beginning,) = cut([Article(LONG.words[:3], FACTS, LONG.spans[:3])])
    with torch.no_grad():
        torch.testing.assert_close(model(whole).marginal[:, :3], model(beginning).marginal[:, :3])


def test_without_facts_every_word_is_written() -> None:
    (segment,) = cut([LONG.without_facts()])
    with torch.no_grad():
        output = tiny()(segment)
    expected = output.word_path.cumsum(dim=1)
    torch.testing.assert_close(output.marginal, expected)
    assert torch.isfinite(output.marginal).all()


def test_a_fact_is_learned_to_be_used() -> None:
    """Trained on one article, the model says it by its facts, and perplexity falls."""
    model, parts = tiny(), cut([LONG], 4)
    before = perplexity(model, [parts])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(60):
        memory = None
        for segment in parts:
            output = model(segment, memory)
            memory = output.memory
            optimiser.zero_grad()
            segment_loss(output, segment).backward()
            optimiser.step()
    assert perplexity(model, [parts]) < 0.5 * before


def test_ended_rows_cost_nothing_unless_as_released() -> None:
    first, second = cut([LONG, SHORT], 4)
    model = tiny()
    with torch.no_grad():
        output = model(second, model(first).memory)
    assert second.lengths.tolist() == [3, 0]
    assert output.row_losses(second.lengths)[1] == 0
    released = output.row_losses(second.lengths, as_released=True)
    torch.testing.assert_close(released[1], -output.marginal[1, 0])


# ---- data ----------------------------------------------------------------------------------------
def test_spans_across_a_border_are_left_out() -> None:
    kept = [int(part.span_mask.sum()) for part in cut([LONG], 2)]
    assert kept == [1, 2, 1, 0]  # b c is cut by the border after b
    assert sum(part.n_targets for part in cut([LONG], 2)) == len(LONG.words) + 1


def test_spans_across_a_border_as_released() -> None:
    """Places modulo the segment: a long span survives where its end comes after its start."""
    words = tuple("abcdabcda")
    spans = (
        Span(0, 2, 0, 0),  # within the first segment
        Span(2, 5, 0, 0),  # crosses the border: from 2 to 0, dropped
        Span(1, 7, 0, 0),  # crosses the border: from 1 to 2, kept
        Span(0, 9, 0, 0),  # longer than two segments: from 0 to 0, kept
        Span(5, 9, 0, 0),  # as long as a segment: from 1 to 0, dropped
    )
    article = Article(words, (FACTS[0],), spans)
    parts = list(segments([article], VOCABULARY, 4, as_released=True))
    actual = [
        [(int(part.span_starts[0, end, k]), end) for _, end, k in part.span_mask.nonzero().tolist()]
        for part in parts
    ]
    assert actual == [[(0, 0), (0, 1), (1, 2)], [], []]
    assert [int(part.span_mask.sum()) for part in cut([article], 4)] == [1, 0, 0]


def test_anchors_are_removed_with_their_spans() -> None:
    article = Article(LONG.words, FACTS[::-1], (Span(3, 4, 0, 0), Span(1, 2, 1, 0)))
    without = article.without_anchors()
    assert without.facts == FACTS[1::-1]
    assert without.spans == (Span(1, 2, 0, 0),)


def test_unknown_words() -> None:
    (segment,) = segments([Article(("a", "new"), (), ())], VOCABULARY, 9, unknowns=Unknowns(8))
    torch.testing.assert_close(segment.unknown, torch.tensor([[0, -math.log(8), 0]]))
    with pytest.raises(ConfigError, match="of 'new'"):
        list(segments([Article(("new",), (), ())], VOCABULARY, 9, unknowns=Unknowns(by_word={})))


def test_batches_grow() -> None:
    batches_ = list(batches([LONG, PLAIN, SHORT], 2))
    assert batches_ == [[SHORT, PLAIN], [LONG]]
    with pytest.raises(ConfigError, match="batch of 0"):
        list(batches([LONG], 0))


def test_what_is_refused() -> None:
    for span, message in ((Span(0, 3, 0, 0), "within 1 words"), (Span(0, 1, 1, 0), "1 facts"),
                          (Span(0, 1, 0, 1), "no alias")):  # fmt: skip
        with pytest.raises(BatchError, match=message):
            Article(("a",), FACTS[1:2], (span,))
    with pytest.raises(BatchError, match="0 articles"):
        cut([])
    with pytest.raises(ConfigError, match="no row"):
        list(segments([LONG], VOCABULARY, 9, alias_rows={"b": 0}))
    with pytest.raises(BatchError, match="relation -5 is below -4"):
        tiny()(cut([Article(("a",), (Fact(-5, 0, ("a",)),), ())])[0])
    with pytest.raises(BatchError, match="no text"):
        perplexity(tiny(), [])
    with pytest.raises(ConfigError, match="sizes must be"):
        TransformerXLConfig(4, 8, 0, 4, 9, 2, 3)
