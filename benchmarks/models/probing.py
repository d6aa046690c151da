"""Cloze probing against twenty lines of today and the harness of 2019: the same weights and items.

Twenty lines of today batch by length and score the listed words at the masks alone. What is left
of their time, and of ours, is the forward pass of the host, `forward_share` of ours.

The old shape pads every batch by hand, takes a log-softmax over all words at all positions, picks
the listed words, sorts the best 10,000 of each sample and makes a record of each of them, in a
pool of threads. Ours reads the masks alone and counts. Random weights; the ranks must be equal.

    python benchmarks/models/probing.py [--threads 1] [--repeat 3] [--samples 256] [--base]

JSON lines; ours also over a quarter, half and all of the samples, with the fitted exponent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import Spent, compared, growth, once, three_sizes
from entity_linking.mentions import LinkedText, Mention
from kept.lab.probing.engine import probe
from kept.lab.probing.items.item import HOLE, ClozeItem
from kept.lab.probing.models.plain import PlainMaskedLM

N_WORDS, N_LISTED, DEPTH, BATCH = 30_522, 21_000, 10_000, 32
SIZES = {"MiniLM's size (6 x 384)": (6, 384, 12), "BERT-base's (12 x 768)": (12, 768, 12)}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NAMES = SPECIAL + [f"w{i}" for i in range(N_WORDS - len(SPECIAL))]


def tokenizer() -> PreTrainedTokenizerFast:
    """Every word is one piece."""
    inner = Tokenizer(
        models.WordPiece({name: i for i, name in enumerate(NAMES)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        **{f"{name[1:-1].lower()}_token": name for name in SPECIAL},
    )


def masked_lm(n_layers: int, width: int, heads: int) -> BertForMaskedLM:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=N_WORDS,
        hidden_size=width,
        num_hidden_layers=n_layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    return BertForMaskedLM(config).eval()


def questions(n: int, listed: list[str]) -> list[ClozeItem]:
    """About 12 pieces each, as LAMA's templates are."""
    draws = np.random.default_rng(0)
    items = []
    for number, length in enumerate(np.clip(draws.poisson(9, n) + 1, 3, 38).tolist()):
        words = [NAMES[i] for i in draws.integers(len(SPECIAL), N_WORDS, length)]
        words[int(draws.integers(length))] = HOLE
        text = " ".join(words)
        start = text.index(HOLE)
        hole, answer = Mention(start, start + len(HOLE)), listed[int(draws.integers(len(listed)))]
        items.append(ClozeItem(str(number), "P", LinkedText(text, ()), hole, "", answer))
    return items


def old_shape(
    model: BertForMaskedLM, pieces: Any, items: list[ClozeItem], listed: list[str]
) -> list[int | None]:
    """Ranks by the old shape; None beyond its depth."""
    ids = pieces.convert_tokens_to_ids(listed)
    index, position_of = torch.tensor(ids), {word: i for i, word in enumerate(listed)}
    texts = [pieces(i.linked.text.replace(HOLE, "[MASK]"))["input_ids"] for i in items]
    order = sorted(range(len(items)), key=lambda i: len(texts[i]))
    ranks: list[int | None] = [None] * len(items)

    def sort(task: tuple[int, torch.Tensor]) -> list[dict[str, Any]]:
        number, chances = task
        values, best = torch.topk(chances, DEPTH)
        best = best.numpy().astype(int)
        records = []
        for i in range(DEPTH):
            token = ids[best[i].item()]
            word = NAMES[token]
            records.append({"i": i, "token": token, "word": word, "chance": values[i].item()})
        hits = np.flatnonzero(best == position_of[items[number].answer])
        ranks[number] = int(hits[0]) + 1 if len(hits) else None
        return records

    with ThreadPool() as pool:
        for start in range(0, len(items), BATCH):
            rows = order[start : start + BATCH]
            longest = max(len(texts[i]) for i in rows)
            inputs = torch.tensor([texts[i] + [0] * (longest - len(texts[i])) for i in rows])
            seen = (inputs != 0).long()
            with torch.no_grad():
                chances = model(input_ids=inputs, attention_mask=seen).logits.log_softmax(-1)
            chances = chances.index_select(2, index)
            masks = (inputs == pieces.mask_token_id).nonzero()[:, 1].tolist()
            tasks = [(i, chances[row, masks[row]]) for row, i in enumerate(rows)]
            pool.map(sort, tasks)
    return ranks


def modern_lines(
    model: BertForMaskedLM, pieces: Any, items: list[ClozeItem], listed: list[str]
) -> list[int]:
    """Ranks by today's lines: batches by length, the head at the masks, the listed words alone."""
    index = torch.tensor(pieces.convert_tokens_to_ids(listed))
    position_of = {word: i for i, word in enumerate(listed)}
    answers = torch.tensor([position_of[item.answer] for item in items])
    texts = pieces([item.linked.text.replace(HOLE, "[MASK]") for item in items])["input_ids"]
    order = sorted(range(len(items)), key=lambda i: len(texts[i]))
    head, ranks = model.cls.predictions, torch.zeros(len(items), dtype=torch.long)
    weights, bias = head.decoder.weight[index], head.decoder.bias[index]
    with torch.inference_mode():
        for start in range(0, len(items), BATCH):
            rows = order[start : start + BATCH]
            batch = pieces.pad({"input_ids": [texts[i] for i in rows]}, return_tensors="pt")
            states = model.bert(**batch).last_hidden_state
            masks = states[batch["input_ids"] == pieces.mask_token_id]
            scores = head.transform(masks) @ weights.T + bias
            right = scores.gather(1, answers[rows, None])
            ranks[rows] = 1 + (scores > right).sum(1)
    return ranks.tolist()


def forward_alone(model: BertForMaskedLM, pieces: Any, items: list[ClozeItem]) -> None:
    """The host over the same batches by length: what neither can do without."""
    texts = pieces([item.linked.text.replace(HOLE, "[MASK]") for item in items])["input_ids"]
    texts.sort(key=len)
    with torch.inference_mode():
        for start in range(0, len(items), BATCH):
            batch = pieces.pad({"input_ids": texts[start : start + BATCH]}, return_tensors="pt")
            model.bert(**batch)


def medians(runs: Sequence[Callable[[], Any]], repeat: int) -> list[Spent]:
    """Of each the median seconds, in turn, and what came out."""
    rounds = [[once(run) for run in runs] for _ in range(repeat)]
    return [
        Spent(*np.median([spent[:2] for spent in each], axis=0).tolist(), each[-1].result)
        for each in zip(*rounds, strict=True)
    ]


def compare(name: str, pieces: Any, items: list[ClozeItem], listed: list[str], repeat: int) -> None:
    """Both in single precision by the clock, then in double, where their ranks must be equal."""

    def old() -> list[int | None]:
        return old_shape(model, pieces, items, listed)

    def new(n: int | None = None) -> list[int]:
        answers = probe(probed, items[:n], vocabulary=listed, objects=None).answers
        return [answer.restricted.rank for answer in answers if answer.restricted is not None]

    model = masked_lm(*SIZES[name])
    probed = PlainMaskedLM(masked_lm(*SIZES[name]), pieces)  # takes the head of its model apart
    theirs, ours, modern, forward = medians(
        [
            old, new, lambda: modern_lines(model, pieces, items, listed),
            lambda: forward_alone(model, pieces, items),
        ],
        repeat,
    )  # fmt: skip
    n_equal = sum(a == b for a, b in zip(theirs.result, ours.result, strict=True))
    sizes = three_sizes(len(items))
    parts = medians([lambda n=n: new(n) for n in sizes], repeat)
    model, probed = model.double(), PlainMaskedLM(masked_lm(*SIZES[name]).double(), pieces)
    pairs = list(zip(new(), old(), strict=True))
    unequal = [(a, b) for a, b in pairs if a != (b or a)]
    assert not unequal, f"ranks differ (kept, loop): {unequal[:5]}"
    lost = [a for a, b in pairs if b is None]
    assert all(rank > DEPTH for rank in lost), "the loop lost a rank within its depth"
    compared(
        "cloze", ours, theirs, equal=True, peer="2019 loop", model=name, samples=len(items),
        equal_ranks_in_single=n_equal, beyond_depth=len(lost),
    )  # fmt: skip
    assert new() == modern_lines(model, pieces, items, listed), "ranks differ from today's lines"
    compared(
        "cloze, today's lines", ours, modern, equal=True, peer="twenty lines of today", model=name,
        samples=len(items), forward_share=round(forward.processor / ours.processor, 2),
    )  # fmt: skip
    growth("cloze", "samples", sizes, [spent.processor for spent in parts], kind=name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--base", action="store_true", help="BERT-base's size, too")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    pieces, draws = tokenizer(), np.random.default_rng(1)
    rows = len(SPECIAL) + draws.choice(N_WORDS - len(SPECIAL), N_LISTED, replace=False)
    listed = [NAMES[i] for i in np.sort(rows).tolist()]
    items = questions(arguments.samples, listed)
    for name in list(SIZES)[: 2 if arguments.base else 1]:
        compare(name, pieces, items, listed, arguments.repeat)


if __name__ == "__main__":
    main()
