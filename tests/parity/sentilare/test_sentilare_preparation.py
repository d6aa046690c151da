"""SentiLARE's prior polarities, word pieces and samples against the original's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from entity_linking.mentions import LinkedText
from kept.batches import IGNORE, NONE, KnowledgeBatch
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.sentiment import (
    NEUTRAL,
    OTHER,
    PARTS,
    SentimentLexicon,
    polarity,
    prior_score,
    sense_weights,
)
from kept.graphs.views import WORDS_ONLY
from kept.graphs.views.sentilare import PART, POLARITY, RATING, Label, labelled
from kept.objectives.lexical.sentiment import (
    SentimentOptions,
    hides,
    with_labels,
    with_rating,
)
from kept.randomness import generator
from kg_loaders import graph_from_records
from tests.parity.sentilare.sentilare_golden import ATOL, INPUTS, LABELS, RTOL, byte_pieces, read
from tests.reference import original_sentilare as original

METHOD = "sentilare"


# ---- prior polarity ---------------------------------------------------------------------------
def test_the_lexicon(folder: Path, tmp_path: Path, compared: Any) -> None:
    data = read(folder, "prior_polarity")
    lexicon, rows = lexicon_of(folder, tmp_path)
    for word, parts in data["parsed"].items():
        for part, wanted in parts.items():
            actual = [[*sense, rows[sense.gloss]] for sense in lexicon.senses(word, part)]
            compared.equal("senses", actual, wanted)


def lexicon_of(folder: Path, path: Path) -> tuple[SentimentLexicon, dict[str, int]]:
    """The lexicon, and the row of each of its glosses."""
    lines = read(folder, "prior_polarity")["sentiwordnet_data_lines"]
    file = path / "sentiwordnet.txt"
    file.write_text("\n".join(["# comment", *lines, ""]), encoding="utf-8")
    glosses = [line.split("\t")[5] for line in lines]
    cut = [g[: g.index('"') - 2] if '"' in g else g for g in glosses]
    return SentimentLexicon.read(file), {gloss: row for row, gloss in enumerate(cut)}


def test_polarities_of_texts(folder: Path, tmp_path: Path, compared: Any) -> None:
    record, (lexicon, rows) = read(folder, "prior_polarity"), lexicon_of(folder, tmp_path)
    glosses = np.array(record["gloss_embedding"])
    lemmas = {(word, part): lemma for word, part, lemma in record["lemmas"]}
    attention, result = iter(record["gloss_attention_in_order"]), record["result"]
    texts = [text for text in record["texts"] if text.strip()]
    for number, text in enumerate(texts):
        sentence = np.array(record["sentence_embedding"][text])
        parts, signs = [], []
        for word in text.split():
            part = original.part_of(record["ptb_tags"].get(word, ""))
            lemma = lemmas.get((word.lower(), part), word.lower())
            senses = () if part == "u" else lexicon.senses(lemma, part)
            near = [cosine(sentence, glosses[rows[sense.gloss]]) for sense in senses]
            parts.append(PARTS.get(part, OTHER))
            signs.append(polarity(prior_score(senses, near)))
            if senses:
                wanted = next(attention)
                weights = sense_weights([sense.number for sense in senses], near)
                compared.close("weights", weights, wanted["weights"], atol=ATOL, rtol=RTOL)
                scores = [sense.positive - sense.negative for sense in senses]
                compared.close("scores", scores, wanted["scores"], atol=ATOL, rtol=RTOL)
                final = prior_score(senses, near)
                compared.close("final", final, wanted["final"], atol=ATOL, rtol=RTOL)
        compared.equal("words", text.split(), result["words"][number])
        compared.equal("parts", parts, result["pos"][number])
        compared.equal("polarities", signs, result["polarity"][number])
    assert next(attention, None) is None
    compared.equal("their labels shift", record["labels"][: len(texts)], result["labels"])
    mapped = {tag: original.part_of(tag) for tag in record["postag_map"]}
    compared.equal("tags", mapped, record["postag_map"])


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


# ---- inputs -----------------------------------------------------------------------------------
def test_pieces(folder: Path, compared: Any) -> None:
    tokenizer, record = byte_pieces(folder), read(folder, "tokenizer")
    for case in record["cases"]:
        ids = tokenizer(case["text"], add_special_tokens=False)["input_ids"]
        compared.equal("ids", ids, case["ids"])
        names = tokenizer.convert_ids_to_tokens(ids)
        unknown = tokenizer.unk_token_id  # they name what it stands for
        told_names = zip(ids, names, case["tokens"], strict=True)
        known = [name if i == unknown else theirs for i, name, theirs in told_names]
        compared.equal("tokens", names, known)
    for name in ("mask", "pad", "cls", "sep"):
        compared.equal(name, getattr(tokenizer, f"{name}_token_id"), record[f"{name}_token_id"])


def labels_of(words: Sequence[str], parts: Sequence[int], signs: Sequence[int]) -> list[Label]:
    """Where words stand, the blank before them included, for it may be a piece of its own.

    A neutral word of no part has no label.
    """
    result, at = [], 0
    for word, part, sign in zip(words, parts, signs, strict=True):
        if (part, sign) != (OTHER, NEUTRAL):
            result.append(Label(max(at - 1, 0), at + len(word), part, sign))
        at += len(word) + 1
    return result


def sample_of(
    tokenizer: Any, texts: Sequence[tuple[list[str], list[int], list[int]]], length: int
) -> KnowledgeBatch:
    """One text, or two that are a pair, of words with parts and polarities."""
    joined = [" ".join(words) for words, _, _ in texts]
    labels = labels_of(*texts[0])
    start = len(joined[0]) + 1
    if len(texts) > 1:
        second = labels_of(*texts[1])
        labels += [Label(a + start, b + start, part, sign) for a, b, part, sign in second]
    linked = LinkedText(" ".join(joined), (), pair_start=start if len(texts) > 1 else None)
    config = BuilderConfig(max_words=length, max_nodes=2 * length, **WORDS_ONLY)
    graph, draws = graph_from_records([]), generator(0, "parity")
    return labelled(build(linked, tokenizer, graph, generator=draws, config=config), labels)


def visible_ids(batch: KnowledgeBatch, name: str, empty: int, length: int) -> list[int]:
    """The ids of one text in a vocabulary, as they write them."""
    assert batch.extra_ids is not None
    row = batch.extra_ids[name][0, :, 0].tolist() if name in batch.extra_ids else []
    return [empty if i == NONE else i for i in row] + [empty] * (length - len(row))


EMPTY = {PART: OTHER, POLARITY: NEUTRAL}


def test_fine_tuning_inputs(folder: Path, compared: Any) -> None:
    data = read(folder, "finetune_features")
    length, unknown = data["max_seq_length"], read(folder, "config")["polarity_vocab"] - 1
    texts = [(e["words"], e["pos"], e["senti"]) for e in data["examples"]]
    labels = [data["label_list"].index(e["label"]) for e in data["examples"]]
    for case in data["cases"]:
        ends = "<s> $A </s> </s>" if case["sep_token_extra"] else "<s> $A </s>"
        tokenizer = byte_pieces(folder, ends)
        is_pair = case["name"].startswith("pair")
        groups = [data["pair_example"]] if is_pair else [[i] for i in range(len(texts))]
        for group, wanted in zip(groups, case["features"], strict=False):
            batch = sample_of(tokenizer, [texts[i] for i in group], length)
            n = batch.node_ids.shape[1]
            rest = [tokenizer.pad_token_id] * (length - n)
            ids = batch.node_ids[0].tolist() + rest
            compared.equal("input_ids", ids, wanted["input_ids"])
            compared.equal("input_mask", [1] * n + [0] * len(rest), wanted["input_mask"])
            names = tokenizer.convert_ids_to_tokens(batch.node_ids[0].tolist())
            compared.equal("tokens", names, wanted["tokens"][:n])
            compared.equal("pos_ids", visible_ids(batch, PART, OTHER, length), wanted["pos_ids"])
            signs = visible_ids(batch, POLARITY, NEUTRAL, length)
            compared.equal("senti_ids", signs, wanted["senti_ids"])
            compared.equal(
                "unknown", visible_ids(batch, RATING, unknown, length), wanted["polarity_ids"]
            )
            compared.equal("label_id", labels[group[0]], wanted["label_id"])


def reviews_of(record: Any) -> list[list[tuple[list[str], list[int], list[int]]]]:
    """Every review's sentences: words, parts, polarities; an empty line must follow each."""
    signs = iter(record["polarity_lines"])
    results: list[list[tuple[list[str], list[int], list[int]]]] = [[]]
    for is_text, lines in groupby(
        record["word_and_pos_lines"], key=lambda line: bool(line.strip())
    ):
        for line in lines:
            if not is_text:
                results.append([])
                continue
            pairs = [word.rpartition("#") for word in line.split()]
            parts = [record["pos_ids"][part] for _, _, part in pairs]
            results[-1].append(([w for w, _, _ in pairs], parts, [*map(int, next(signs).split())]))
    return results[:-1]


def test_pre_training_samples(folder: Path, compared: Any) -> None:
    record, tokenizer = read(folder, "pretrain_examples"), byte_pieces(folder)
    reviews, length, options = reviews_of(record), record["max_seq_length"], SentimentOptions()
    n_ratings = read(folder, "config")["polarity_vocab"] - 1
    assert options.late == record["task_ratio"]
    for case in record["cases"]:
        assert case["error"] is None
        review = reviews[case["index"]]
        words, parts, signs = ([x for each in review for x in each[i]] for i in range(3))
        draws = iter([tuple(draw) for draw in case["draws"]])
        hidden = original.hidden_words(
            words, signs, draws, mask_id=tokenizer.mask_token_id,
            pieces=lambda word: tokenizer(word, add_special_tokens=False)["input_ids"],
            reviews=[sentences[0][0] for sentences in reviews],
        )  # fmt: skip
        is_polar = np.array(signs) != NEUTRAL
        chosen = hides(np.array([draw for *_, draw in hidden]), is_polar, options)
        compared.equal("chosen", chosen.tolist(), [label for _, label, _, _ in hidden])
        batch = sample_of(tokenizer, [(words, parts, signs)], length)
        n = batch.node_ids.shape[1]
        flat = [(i, label, lost) for row, label, lost, _ in hidden for i in row][: n - 2]
        marks = torch.zeros(2, 1, n, dtype=torch.bool)
        ids = batch.node_ids.clone()
        for node, (i, label, lost) in enumerate(flat, start=1):
            ids[0, node] = i
            marks[:, 0, node] = torch.tensor([label, lost])
        labels = batch.node_ids.masked_fill(~marks[0], IGNORE)
        marked = with_labels(batch.replace(node_ids=ids, node_labels=labels), marks[1])
        is_word = torch.ones_like(ids, dtype=torch.bool)
        is_word[0, [0, n - 1]] = False
        rating = int(float(record["stars"][case["index"]]))
        late = original.is_late(draws, record["task_ratio"])
        marked = with_rating(marked, is_word, rating, late)
        padding = length - n
        pads = [tokenizer.pad_token_id] * padding
        compared.equal("input ids", ids[0].tolist() + pads, case["input_ids"])
        assert case["tokens"][:n] == tokenizer.convert_ids_to_tokens(ids[0].tolist())
        compared.equal("attention_mask", [1] * n + [0] * padding, case["attention_mask"])
        compared.equal("segments", [0] * length, case["token_type_ids"])
        asked_words = [-1 if i == IGNORE else i for i in labels[0].tolist()] + [-1] * padding
        compared.equal("word labels", asked_words, case["masked_lm_labels"])
        assert marked.extra_labels is not None
        for name, empty in (*EMPTY.items(), (RATING, n_ratings)):
            actual = visible_ids(marked, name, empty, length)
            compared.equal(f"{name} ids", actual, case[INPUTS[name]])
            row = marked.extra_labels[name][0, :, 0].tolist()
            actual = [-1 if i == IGNORE else i for i in row] + [-1] * padding
            compared.equal(f"{name} labels", actual, case[LABELS[name]])
