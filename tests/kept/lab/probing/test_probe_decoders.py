"""A probed decoder against a loop over candidates, and the facts that it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from entity_linking.mentions import LinkedText, Mention
from kept import decoders
from kept.errors import ConfigError
from kept.lab.probing.decoders import NOT_AT_THE_END, DecoderLM, PieceTree, is_decoder
from kept.lab.probing.engine import probe
from kept.lab.probing.items.item import HOLE, ClozeItem
from kept.lab.probing.opening import open_model
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_decoders import tiny_decoder

WORDS = [
    "padre",
    "met",
    "jasper",
    "works",
    "as",
    "lives",
    "in",
    "old",
    "town",
    "baker",
    "rome",
    ".",
]
OBJECTS = {"lives in": ["old rome", "old town", "old town padre", "rome", "town"]}
FACTS = [("padre", "works as", "baker"), ("padre", "lives in", "old town")]
every_family = pytest.mark.parametrize("family", decoders.FAMILIES)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    tokenizer_ = Tokenizer(
        models.WordLevel(
            {w: i for i, w in enumerate(["<unk>", "<pad>", "</s>", *WORDS])}, unk_token="<unk>"
        )
    )
    tokenizer_.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_, pad_token="<pad>", unk_token="<unk>", eos_token="</s>"
    )


def item(text: str = "padre lives in [Y] .") -> ClozeItem:
    start = text.index(HOLE)
    return ClozeItem(
        "1", "lives in", LinkedText(text, ()), Mention(start, start + len(HOLE)), "padre",
        "old town", ("rome",), ("padre", "lives in", "old town"),
    )  # fmt: skip


def model(family: str, tokenizer: PreTrainedTokenizerFast, **options: object) -> DecoderLM:
    host = tiny_decoder(family, vocab_size=len(tokenizer), max_position_embeddings=64)
    return DecoderLM(host, tokenizer, "tiny", **options)  # type: ignore[arg-type]


@every_family
def test_scores_and_ranks_are_those_of_each_candidate_alone(
    family: str, tokenizer: PreTrainedTokenizerFast
) -> None:
    decoder = model(family, tokenizer)
    result = probe(decoder, [item()], vocabulary=["town", "rome", "baker"], objects=OBJECTS)
    (answer,) = result.answers
    scores = {}
    for name in OBJECTS["lives in"]:
        ids = tokenizer("padre lives in")["input_ids"]
        pieces = tokenizer(name)["input_ids"]
        with torch.no_grad():
            logs = decoder.host(torch.tensor([[*ids, *pieces]])).logits[0].log_softmax(-1)
        of_pieces = [float(logs[len(ids) - 1 + i, piece]) for i, piece in enumerate(pieces)]
        scores[name] = sum(of_pieces) / len(of_pieces)
    best = sorted(scores, key=lambda name: -scores[name])
    assert answer.objects is not None
    assert list(answer.objects.top) == best
    assert answer.objects.score == pytest.approx(scores["old town"], abs=1e-5)
    assert answer.objects.rank == 1 + [n for n in best if n != "rome"].index("old town")
    assert answer.objects.n_candidates == len(OBJECTS["lives in"]) - 1
    assert answer.skipped["restricted"] == "the answer has more than one piece"
    assert (result.likelihood, result.method, result.mode) == (
        "left_to_right",
        "decoder",
        "weights",
    )


def test_words_of_one_piece_are_ranked_by_the_same_pass(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    decoder, words = model("llama", tokenizer), ["town", "rome", "baker"]
    one = ClozeItem(
        "1", "r", LinkedText("padre met [Y]", ()), Mention(10, 13), "padre", "rome", (), None
    )
    (answer,) = probe(decoder, [one], vocabulary=words, objects=None).answers
    with torch.no_grad():
        logits = decoder.host(torch.tensor([tokenizer("padre met")["input_ids"]])).logits[0, -1]
    order = sorted(words, key=lambda w: -float(logits[tokenizer(w)["input_ids"][0]]))
    assert answer.restricted is not None
    assert list(answer.restricted.top) == order


def test_a_hole_within_the_text_is_skipped_with_the_reason(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    (answer,) = probe(
        model("llama", tokenizer), [item("in [Y] lives padre")], vocabulary=None, objects=OBJECTS
    ).answers
    assert answer.skipped["objects"] == NOT_AT_THE_END
    assert answer.objects is None


def test_facts_stand_before_the_text_and_the_asked_one_only_if_it_may(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    graph = KnowledgeGraph.from_triples(FACTS)
    plain, hidden, with_facts = (
        model("llama", tokenizer, graph=g, show_asked=s)
        for g, s in ((None, False), (graph, False), (graph, True))
    )
    assert plain.prompt(item()) == ("padre lives in", False)
    assert hidden.prompt(item()) == ("padre works as baker. padre lives in", False)
    text, has_asked = with_facts.prompt(item()) or ("", False)
    assert has_asked
    assert text == "padre lives in old town. padre works as baker. padre lives in"
    few = model("llama", tokenizer, graph=graph, show_asked=True, n_facts=1)
    assert few.prompt(item()) == ("padre lives in old town. padre lives in", True)
    results = [probe(m, [item()], vocabulary=None, objects=OBJECTS) for m in (hidden, with_facts)]
    assert [r.asked_facts for r in results] == ["hidden", "shown"]
    assert [r.answers[0].asked_shown for r in results] == [False, True]


def test_what_begins_alike_is_read_once() -> None:
    tree = PieceTree.of([(3, 4), (3, 4, 5), (3, 6), (7,)])
    assert (tree.parents, tree.pieces) == ((-1, 0), (3, 4))


def test_a_decoder_is_known_by_its_folder(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    host = tiny_decoder("llama", vocab_size=len(tokenizer))
    host.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert is_decoder(tmp_path)
    assert is_decoder("smollm2")
    assert not is_decoder(tmp_path / "elsewhere")
    opened = open_model(tmp_path)
    assert isinstance(opened, DecoderLM)
    assert opened.mode == "weights"
    with pytest.raises(ConfigError, match="give the graph"):
        open_model(tmp_path, "graph")
