"""KGLM as a model: rows and padding, chunks, copying, learning, recent entities, labels."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from kept.decoders.generators.kglm import (
    KGLM,
    Chunk,
    WordModel,
    WordPerplexity,
    importance_perplexity,
)
from kept.decoders.generators.kglm_documents import AliasTable, Mention, label
from kept.decoders.generators.recency import RecentEntities
from kept.errors import BatchError, ConfigError

TOKENS = ["", "@@UNK", "start", "Ann", "was", "born", "in", "Rome", "."]
ENTITIES = ["", "@@UNK", "Q1", "Q2", "Q3"]
ALIASES = {"Q1": ["Ann"], "Q2": ["Rome", "old Rome"], "Q3": ["Bonn"]}
LOCAL = {"Q1": {"Ann": 1}, "Q2": {"Rome": 1, "old": 2}, "Q3": {"Bonn": 1}}
EDGES = {2: [(2, 3), (3, 4)]}
TEXT = ["start", "Ann", "was", "born", "in", "Rome", "."]
MENTIONS = [Mention(1, 2, "Q1", ("Q1",), ("@@NEW@@",)), Mention(5, 6, "Q2", ("Q1",), ("P2",))]


def chunk(text: list[str] = TEXT, n: int = 9) -> Chunk:
    """The text of Ann, padded to `n`."""
    mentions = [m for m in MENTIONS if m.end <= len(text)]
    labelled = label(text, mentions, is_generative=True, local_ids=LOCAL)

    def row(values: list[int]) -> torch.Tensor:
        return torch.tensor([values + [0] * (n - len(values))])

    def entities(names: list[str]) -> list[int]:
        return [0 if name == "@@PADDING@@" else ENTITIES.index(name) for name in names]

    raw = row(entities(labelled.raw_entity_ids))
    aliases = AliasTable(ENTITIES, {t: i for i, t in enumerate(TOKENS)}, ALIASES, LOCAL)
    tokens, numbers = aliases(raw)
    return Chunk(
        source=row([TOKENS.index(t) for t in labelled.source]), raw_entity_ids=raw, entity_ids=raw,
        mention_type=row(labelled.mention_type), reset=torch.tensor([True]),
        parent_ids=row(entities([p[0] for p in labelled.parent_ids]))[..., None],
        target=row([TOKENS.index(t) for t in labelled.target]),
        alias_copy_inds=row(labelled.alias_copy_inds), alias_tokens=tokens, alias_local_ids=numbers,
        shortlist=torch.tensor([entities(labelled.shortlist)]),
        shortlist_inds=row(labelled.shortlist_inds),
    )  # fmt: skip


def tiny(*, uses_shortlist: bool = False) -> KGLM:
    torch.manual_seed(0)
    tokens = nn.Embedding(len(TOKENS), 6, padding_idx=0)
    return KGLM(
        tokens=tokens, entities=nn.Embedding(len(ENTITIES), 4, padding_idx=0),
        relations=nn.Embedding(4, 4, padding_idx=0), edges=EDGES, hidden_width=5, n_layers=2,
        cutoff=6, uses_shortlist=uses_shortlist,
        words=WordModel(tokens, 4, math.log(7), tied=True),
    ).eval()  # fmt: skip


def together(*parts: Chunk) -> Chunk:
    return Chunk(**{
        f.name: torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Chunk)
    })  # fmt: skip


@pytest.mark.parametrize("uses_shortlist", [False, True])
@torch.no_grad()
def test_a_batch_is_its_rows(uses_shortlist: bool) -> None:
    long = chunk()
    short = chunk(TEXT[:4])
    assert short.shortlist is not None
    short = replace(short, shortlist=nn.functional.pad(short.shortlist, (0, 1)))
    alone = [tiny(uses_shortlist=uses_shortlist)(part).log_p for part in (long, short)]
    both = tiny(uses_shortlist=uses_shortlist)(together(long, short))
    torch.testing.assert_close(both.log_p, sum(alone, torch.zeros(())))


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    losses = [tiny()(chunk(n=n)) for n in (6, 9, 14)]
    for other in losses[1:]:
        torch.testing.assert_close(other.log_p, losses[0].log_p)
        torch.testing.assert_close(other.penalised_log_p, losses[0].penalised_log_p)


@torch.no_grad()
def test_chunks_go_on_where_the_last_one_ended() -> None:
    whole, model, total = chunk(n=6), tiny(), torch.zeros(())
    values = {f.name: getattr(whole, f.name) for f in fields(Chunk)}
    for begin in (0, 3):
        part = {
            name: v if name in ("reset", "shortlist") else v[:, begin : begin + 3]
            for name, v in values.items()
        }
        part["reset"] = torch.tensor([begin == 0])
        total = total + model(Chunk(**part)).log_p
    torch.testing.assert_close(total, tiny()(whole).log_p)


@torch.no_grad()
def test_words_against_loops() -> None:
    model, part = tiny(), chunk(n=6)
    words = model(part).words
    assert words is not None
    assert part.alias_local_ids is not None
    assert part.target is not None
    assert part.alias_copy_inds is not None
    for i in range(6):
        slots = part.alias_local_ids[0, i].flatten().tolist()
        allowed = words.generate_scores[0, i].exp().sum()
        copied = torch.zeros(())
        for slot, number in enumerate(slots):
            if number:
                allowed += words.copy_scores[0, i, slot].exp()
                if number == int(part.alias_copy_inds[0, i]):
                    copied += words.copy_scores[0, i, slot].exp()
        written = words.generate_scores[0, i, int(part.target[0, i])].exp()
        expected = float(((written + copied) / allowed).log())
        assert float(words.of_target[0, i]) == pytest.approx(expected, abs=1e-5)


@torch.no_grad()
def test_a_fact_is_its_parent_and_its_edge() -> None:
    model, part = tiny(), chunk(n=6)
    output = model(part)
    step = 4  # the step before Rome: Ann is the only recent entity
    assert float(output.parent_log_probs[0, step, 0]) == pytest.approx(0, abs=1e-5)
    query = output.encoded[0, step, -4:]
    scores = torch.stack([model.relations.weight[r] @ query for r, _ in EDGES[2]])
    expected = float(scores.log_softmax(0)[0])
    assert float(output.relation_log_probs[0, step, 0]) == pytest.approx(expected, abs=1e-5)
    other = replace(part, raw_entity_ids=torch.full_like(part.raw_entity_ids, 1))
    assert tiny()(other).relation_log_probs[0, step, 0] == -math.inf


def test_one_text_is_learned() -> None:
    model, part = tiny(), chunk()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(120):
        loss = model(part).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    measured = WordPerplexity()
    measured.add(model(part), part.mask)
    assert 1 < measured.values[0] < 3


# ---- recent entities, draws ----------------------------------------------------------------------
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 5), st.integers(1, 12))
def test_recent_entities_against_a_loop(ids: list[int], cutoff: int, cut: int) -> None:
    recent, n = RecentEntities(cutoff), 0
    for begin in range(0, len(ids), cut):
        recent.reset([begin == 0])
        part = ids[begin : begin + cut]
        names, mask = recent(torch.tensor([part]))
        for step in range(len(part)):
            actual = {int(names[0, k]) for k in mask[0, step].nonzero()[:, 0].tolist()}
            expected = {e for e in ids[max(0, begin + step - cutoff) : begin + step] if e}
            assert actual == expected
            n += 1
    assert n == len(ids)


def test_importance_sampling_is_exact_where_the_proposal_is_the_posterior() -> None:
    """Then every draw has the same weight, the marginal."""
    joint = torch.tensor([0.05, 0.15]).log()
    proposal = torch.tensor([0.25, 0.75]).log()
    perplexity = importance_perplexity(joint.tolist(), proposal.tolist(), n_tokens=2)
    assert perplexity == pytest.approx(0.2**-0.5)


def test_what_is_refused() -> None:
    with pytest.raises(BatchError, match="differ in shape"):
        replace(chunk(), mention_type=torch.zeros(1, 2, dtype=torch.long))
    with pytest.raises(BatchError, match="make no perplexity"):
        importance_perplexity([], [], 1)
    with pytest.raises(ConfigError, match="cutoff of 0"):
        RecentEntities(0)
    with pytest.raises(BatchError, match="0 were started"):
        tiny()(replace(chunk(), reset=torch.tensor([False])))
    with pytest.raises(BatchError, match="words need target"):
        tiny()(replace(chunk(), target=None))
    with pytest.raises(BatchError, match="needs shortlist"):
        tiny(uses_shortlist=True)(replace(chunk(), shortlist=None))
    with pytest.raises(BatchError, match="not within the 1 tokens"):
        label(["a", "b"], [Mention(0, 1, "Q1", (), ())], is_generative=True)
    with pytest.raises(BatchError, match="no token"):
        _ = WordPerplexity().values
