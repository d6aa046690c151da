"""KnowBERT's candidates, word-piece alignment and masks against the original's results."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import models, normalizers, pre_tokenizers

from kept.batches import IGNORE, MASK_ROW, KnowledgeBatch, Visibility
from kept.convert.knowbert import rows_of
from kept.objectives.entity_linking import mask_span
from tests.reference.original_knowbert_candidates import (
    AliasEntry,
    AliasTable,
    PairPieces,
    Sense,
    SenseTable,
    SpanCandidates,
    alias_candidates,
    gold_sense_candidates,
    pair_pieces,
    sense_candidates,
    unpack,
)

METHOD = "knowbert"
PAD, MASK, NULL = "@@PADDING@@", "@@MASK@@", "@@NULL@@"


@pytest.fixture(scope="module")
def golden(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "candidates.json").read_text())
    return result


def alias_table(wiki: dict[str, Any], max_candidates: int = 30) -> AliasTable:
    rows = [
        (alias, frequency, [AliasEntry(str(i), title, prior) for i, prior, title in entries])
        for alias, frequency, entries in wiki["alias_table"]
    ]
    return AliasTable(rows, allowed=wiki["allowed_entities"], max_candidates=max_candidates)


def sense_table(wordnet: dict[str, Any], smoothing: int = 1, most: int = 30) -> SenseTable:
    senses = [Sense(e["id"], e["pos"], e["synset"], e["count"]) for e in wordnet["entities"]]
    return SenseTable(senses, smoothing=smoothing, max_candidates=most)


def lemmas(wordnet: dict[str, Any]) -> Callable[[str], str]:
    """The look-up list of the original, as far as the data needs it."""
    pairs = [*(pair for run in wordnet["runs"] for pair in run["token_and_lemma"])]
    pairs += wordnet["wsd"]["token_and_lemma"]
    known = dict(map(tuple, pairs))
    return lambda word: known.get(word, word)


def written(candidates: Sequence[SpanCandidates], prior: str = "priors") -> dict[str, Any]:
    """As the original writes spans of words; one placeholder where there is none."""
    candidates = candidates or [SpanCandidates(-1, 0, (PAD,), (1.0,))]
    return {
        "candidate_spans": [[c.start, c.end - 1] for c in candidates],
        "candidate_entities": [list(c.entities) for c in candidates],
        f"candidate_entity_{prior}": [list(c.priors) for c in candidates],
    }


def plain(entries: dict[str, tuple[AliasEntry, ...]]) -> dict[str, list[list[Any]]]:
    return {alias: [list(e) for e in each] for alias, each in entries.items()}


def test_alias_tables(golden: dict[str, Any], compared: Any) -> None:
    wiki = golden["wiki"]
    table = alias_table(wiki)
    compared.equal("p_e_m", plain(table.entries), wiki["p_e_m"])
    compared.equal("p_e_m_low", plain(table.lower_entries), wiki["p_e_m_low"])
    assert list(table.entries) == list(wiki["p_e_m"])
    compared.equal("mention_total_freq", table.frequencies, wiki["mention_total_freq"])
    for most, expected in wiki["tables_with_max_candidates"].items():
        cut = alias_table(wiki, int(most))
        compared.equal(f"p_e_m of {most}", plain(cut.entries), expected["p_e_m"])
        compared.equal(f"p_e_m_low of {most}", plain(cut.lower_entries), expected["p_e_m_low"])
    for item in wiki["process"]:
        actual = [list(e) for e in table.find(item["span"])]
        compared.equal("process", actual, item["out"] or [])


def wiki_generator(wiki: dict[str, Any]) -> Callable[..., list[SpanCandidates]]:
    table = alias_table(wiki)
    words, symbols = wiki["stop_words_among_tokens"], wiki["stop_symbols_among_tokens"]

    def find(text: Sequence[str], **options: Any) -> list[SpanCandidates]:
        return alias_candidates(text, table, stop_words=words, stop_symbols=symbols, **options)

    return find


def test_alias_candidates(golden: dict[str, Any], compared: Any) -> None:
    find = wiki_generator(golden["wiki"])
    for item in golden["wiki"]["sentences"]:
        words = item["text"].split()
        out = {"tokenized_text": words} | written(find(words))
        compared.equal("sentence", out, item["out"])
    for item in golden["wiki"]["with_gold"]:
        words = item["text"].split()
        gold = [(start, end + 1) for start, end in item["gold_spans"]]
        actual = find(words, gold=gold, gold_only=item["keep_gold_only"])
        names = dict(zip(gold, item["gold_entities"], strict=True))
        out = {"tokenized_text": words} | written(actual, "prior")
        out["gold_entities"] = [names.get((c.start, c.end), NULL) for c in actual]
        compared.equal("sentence with gold", out, item["out_sorted_by_span"])


def test_sense_candidates(golden: dict[str, Any], compared: Any) -> None:
    wordnet = golden["wordnet"]
    for run in wordnet["runs"]:
        options = run["settings"]
        table = sense_table(
            wordnet,
            smoothing=options.get("count_smoothing", 1),
            most=options.get("max_number_candidates", 30),
        )
        known = dict(map(tuple, run["token_and_lemma"]))
        words = run["text"].split()
        actual = sense_candidates(
            words,
            table,
            known.__getitem__,
            max_length=options.get("max_entity_length", 7),
            surfaces=options.get("use_surface_form", False),
        )
        compared.equal("senses", {"tokenized_text": words} | written(actual), run["out"])


def test_sense_tables(golden: dict[str, Any], compared: Any) -> None:
    wordnet = golden["wordnet"]
    for name, expected in wordnet["load_candidate_maps"].items():
        smoothing, most = (int(part.split("=")[1]) for part in name.split(","))
        table = sense_table(wordnet, smoothing=max(smoothing, 0), most=most)
        actual = {
            lemma: [
                {
                    "synset_id": sense.synset,
                    "lemma_id": sense.id,
                    "pos": sense.part,
                    "prior": sense.n_tags if smoothing < 0 else prior,
                }
                for sense, prior in (
                    [(s, 0.0) for s in table.senses[lemma]] if smoothing < 0 else table.find(lemma)
                )
            ]
            for lemma in table.senses
        }
        compared.equal(f"senses {name}", actual, expected)


def test_annotated_senses(golden: dict[str, Any], compared: Any) -> None:
    wordnet, wsd = golden["wordnet"], golden["wordnet"]["wsd"]
    words, gold = unpack(wsd["instance"])
    expected = wsd["unpacked"]
    compared.equal("tokenized_text", words, expected["tokenized_text"])
    compared.equal("gold_spans", [[g.start, g.end - 1] for g in gold], expected["gold_spans"])
    compared.equal("gold_lemma_ids", [g.sense for g in gold], expected["gold_lemma_ids"])
    compared.equal("gold_lemmas", [g.lemma for g in gold], expected["gold_lemmas"])
    compared.equal("gold_pos", [g.tag for g in gold], expected["gold_pos"])
    known = dict(map(tuple, wsd["token_and_lemma"]))
    for name, training in (
        ("train (gold spans, raw candidates)", True),
        ("test (gold lemma and pos)", False),
    ):
        actual = gold_sense_candidates(
            words, gold, sense_table(wordnet), known.__getitem__, training=training
        )
        compared.equal(name, {"tokenized_text": words} | written(actual), wsd[name])


class Pairs:
    """Both generators over word pieces, with the vocabularies of the golden pairs."""

    def __init__(self, golden: dict[str, Any]) -> None:
        self.pairs = golden["pairs"]
        self.pieces = {p: i for i, p in enumerate(self.pairs["wordpiece_vocab"])}
        self.model = models.WordPiece(self.pieces, unk_token="[UNK]")
        self.normalise = normalizers.BertNormalizer(lowercase=True).normalize_str
        table, lemmatise = sense_table(golden["wordnet"]), lemmas(golden["wordnet"])
        self.generators: dict[str, Callable[..., list[SpanCandidates]]] = {
            "wordnet": lambda words: sense_candidates(words, table, lemmatise),
            "wiki": wiki_generator(golden["wiki"]),
        }
        vocabularies = self.pairs["entity_vocab (index 0 = @@PADDING@@)"]
        self.names = {n: vocabularies[f"entity_{n}"] for n in self.generators}

    def tokenise(self, word: str) -> list[str]:
        return [token.value for token in self.model.tokenize(self.normalise(word))]

    def encode(self, texts: Sequence[Sequence[str]], max_length: int) -> PairPieces:
        return pair_pieces(texts, self.tokenise, max_length=max_length)

    def find(self, encoded: PairPieces, name: str) -> list[SpanCandidates]:
        """Of both texts, in pieces."""
        texts = range(len(encoded.texts))
        generate = self.generators[name]
        return [c for i in texts for c in encoded.move(i, generate(encoded.texts[i]))]

    def out(self, encoded: PairPieces, candidates: Sequence[SpanCandidates]) -> dict[str, Any]:
        """As the original writes them."""
        fields = written(candidates)
        starts = [c.start for c in candidates] or [-1]
        fields["candidate_segment_ids"] = [encoded.segment_ids[s] for s in starts]
        if len(encoded.texts) == 1:
            fields["tokenized_text"] = list(encoded.texts[0])
        return fields

    def batch(self, encoded: PairPieces) -> KnowledgeBatch:
        """One sample in our form, all graphs' mentions; an empty mention where there is none."""
        spans, ids, priors, graphs = [], [], [], []
        for number, name in enumerate(self.generators):
            order = torch.argsort(rows_of(self.names[name]))
            known = {n: i for i, n in enumerate(self.names[name], start=1)} | {PAD: 0}
            result = self.find(encoded, name) or [SpanCandidates(0, 0, (PAD,), (1.0,))]
            for c in result:
                spans.append([c.start, c.end])
                ids.append([int(order[known.get(entity, 1)]) for entity in c.entities])
                priors.append(list(c.priors))
                graphs.append(number)
        width = max(map(len, ids))
        n_node = len(encoded.pieces)
        return KnowledgeBatch(
            node_ids=torch.tensor([[self.pieces[p] for p in encoded.pieces]]),
            node_kinds=torch.zeros(1, n_node, dtype=torch.int64),
            node_mask=torch.ones(1, n_node, dtype=torch.bool),
            positions=torch.arange(n_node)[None],
            segment_ids=torch.tensor([encoded.segment_ids]),
            visibility=Visibility.everyone(1, n_node),
            mention_spans=torch.tensor([spans]),
            mention_graphs=torch.tensor([graphs]),
            candidate_ids=torch.tensor([[row + [1] * (width - len(row)) for row in ids]]),
            candidate_priors=torch.tensor([[p + [0.0] * (width - len(p)) for p in priors]]),
        )

    def tensors(self, batch: KnowledgeBatch) -> dict[str, Any]:
        """Back to the original's tensors, without segments of candidates."""
        fields = {}
        for number, name in enumerate(self.generators):
            mine = batch.mention_graphs == number
            n_mention = int(mine.sum(1).max())
            back = rows_of(self.names[name])
            rows = []
            for sample in range(len(batch)):
                places = mine[sample].nonzero()[:, 0].tolist()
                spans = (batch.mention_spans[sample, places] - torch.tensor([0, 1])).tolist()
                entities = back[batch.candidate_ids[sample, places]].tolist()
                priors = batch.candidate_priors[sample, places].tolist()
                n_more = n_mention - len(places)
                spans = [s if s != [0, -1] else [-1, -1] for s in spans] + [[-1, -1]] * n_more
                width = batch.candidate_ids.shape[2]
                entities += [[0] * width] * n_more
                priors += [[0.0] * width] * n_more
                rows.append((spans, entities, priors))
            width = max(
                (i + 1 for _, _, p in rows for shares in p for i, v in enumerate(shares) if v),
                default=1,
            )
            fields[name] = {
                "candidate_spans": [s for s, _, _ in rows],
                "candidate_entities": [[c[:width] for c in e] for _, e, _ in rows],
                "candidate_entity_priors": [[c[:width] for c in p] for _, _, p in rows],
            }
        return fields


def test_pairs(golden: dict[str, Any], compared: Any) -> None:
    pairs = Pairs(golden)
    encodings = []
    for item in pairs.pairs["pairs"]:
        texts = [item[t].split() for t in ("text_a", "text_b") if item[t] is not None]
        encoded = pairs.encode(texts, item["max_word_piece_sequence_length"])
        encodings.append(encoded)
        out = item["out"]
        compared.equal("tokens", list(encoded.pieces), out["tokens"])
        compared.equal("segment_ids", list(encoded.segment_ids), out["segment_ids"])
        for name, ends in zip(("offsets_a", "offsets_b"), encoded.ends, strict=False):
            compared.equal(name, list(ends), out[name])
        for name in pairs.generators:
            actual = pairs.out(encoded, pairs.find(encoded, name))
            compared.equal("candidates", actual, out["candidates"][name])
        batch = pairs.batch(encoded)
        check_tensors(pairs, batch, item["tensors"], compared)
        check_masked(pairs, batch, item["after_masking_span"], compared)
    stored = pairs.pairs["whole_batch_tensors"]
    first = encodings[: len(stored["tokens"])]
    whole = KnowledgeBatch.stack([pairs.batch(encoded) for encoded in first])
    check_tensors(pairs, whole, stored, compared)


def check_tensors(
    pairs: Pairs, batch: KnowledgeBatch, expected: dict[str, Any], compared: Any
) -> None:
    compared.equal("token ids", batch.node_ids.tolist(), expected["tokens"])
    compared.equal("segments", batch.segment_ids.tolist(), expected["segment_ids"])
    for name, fields in pairs.tensors(batch).items():
        for field, value in fields.items():
            compared.equal(field, value, expected["candidates"][name][field])


def check_masked(
    pairs: Pairs, batch: KnowledgeBatch, expected: dict[str, Any], compared: Any
) -> None:
    start, end = expected["span"]
    span = (0, 0) if start < 0 else (start, end + 1)
    masked = mask_span(batch, span)
    chosen = (batch.mention_spans[0] == torch.tensor(span)).all(1)
    assert masked.candidate_ids[0, chosen][:, 0].tolist() == [MASK_ROW] * int(chosen.sum())
    for number, name in enumerate(pairs.generators):
        fields = expected["candidates"][name]
        mine = batch.mention_graphs[0] == number
        back = [PAD, *pairs.names[name]]
        ids = rows_of(pairs.names[name])[masked.candidate_ids[0, mine]].tolist()
        priors = masked.candidate_priors[0, mine].tolist()
        known = set(pairs.names[name])
        for i, (entities, shares) in enumerate(
            zip(fields["candidate_entities"], fields["candidate_entity_priors"], strict=True)
        ):
            result = [back[entity] for entity in ids[i] if entity > 0] or [PAD]
            names = [n if n in known or n == PAD else "@@UNKNOWN@@" for n in entities]
            compared.equal("after masking", result, names)
            compared.close("priors after masking", priors[i][: len(shares)], shares, atol=1e-7)


def test_text_with_punctuation(golden: dict[str, Any], compared: Any) -> None:
    pairs = Pairs(golden)
    item = pairs.pairs["basic_tokenizer_mode (whitespace_tokenize=False)"]
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(item["text"])
    encoded = pairs.encode([[word for word, _ in split]], 512)
    out = item["out"]
    compared.equal("tokens", list(encoded.pieces), out["tokens"])
    compared.equal("offsets_a", list(encoded.ends[0]), out["offsets_a"])
    compared.equal("segment_ids", list(encoded.segment_ids), out["segment_ids"])
    for name in pairs.generators:
        actual = pairs.out(encoded, pairs.find(encoded, name))
        compared.equal("candidates", actual, out["candidates"][name])


def test_masking_a_span_takes_its_label(golden: dict[str, Any]) -> None:
    pairs = Pairs(golden)
    for item in pairs.pairs["pairs"]:
        batch = pairs.batch(pairs.encode([item["text_a"].split()], 512))
        labels = torch.full_like(batch.mention_graphs, 5)
        span = batch.mention_spans[0, 0]
        with_labels = dataclasses.replace(batch, mention_labels=labels)
        masked = mask_span(with_labels, (int(span[0]), int(span[1])))
        chosen = (batch.mention_spans == span).all(2)
        assert (masked.mention_labels[chosen] == IGNORE).all()
        assert (masked.mention_labels[~chosen] == 5).all()
