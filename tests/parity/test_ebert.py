"""E-BERT's map, inputs, LAMA answers, relation classes and links against the original's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept import hosts
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.encoders.ebert import EBERT, fit_to_words, whole_words
from kept.graphs.builder import BuilderConfig, build
from kept.graphs.views import WORDS_ONLY, EBERTView, WordsView
from kept.heads.model import KnowledgeForTask
from kept.layers.vector_map import least_squares_map, orthogonal_map
from kept.randomness import generator
from kept.training.finetuning.markers import mark_targets
from kept.vectors import ENTITY_PREFIX, EntityVectors, Wikipedia2VecFile
from kg_loaders import Text, TextKind, graph_from_records
from tests.reference import original_ebert as original

METHOD = "ebert"
ATOL = RTOL = 1e-5
FORMS = ("bert", "linear_replace", "linear_concat")
"""The three inputs of a query, as the original orders and names them."""


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


class EBertInputs:
    """Their words, pages and weights as ours: a file, a graph of its pages, an encoder on both."""

    def __init__(self, folder: Path, path: Path) -> None:
        data = read(folder, "wikipedia2vec")
        self.pages = [name.replace(" ", "_") for name in data["entities"]]
        vectors = load(folder, "wikipedia2vec")["vectors"].tolist()
        keys = [*data["words"], *(ENTITY_PREFIX + page for page in self.pages)]
        lines = [f"{len(keys)} {len(vectors[0])}"]
        lines += [
            f"{key} {' '.join(map(str, row))}" for key, row in zip(keys, vectors, strict=True)
        ]
        self.file = Wikipedia2VecFile(path / "vectors.txt")
        self.file.path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        pages = [*self.pages, "Nobody"]
        self.graph = graph_from_records([Text(p, TextKind.LABEL, p, "en") for p in pages])
        self.tokenizer = word_pieces(folder)
        self.state = load(folder, "state_dict")
        self.map = load(folder, "mapping_outputs")["linear.model"]
        self.encoder = self._encoder(read(folder, "config"))
        self.head = original.masked_words(self.encoder, self.state)
        rows = self.encoder.entity_vectors.weight.detach()
        ids = {page: self.graph.entities.find(page) for page in self.pages}
        self.vectors = {p: rows[i + N_SPECIAL_ROWS] for p, i in ids.items() if i is not None}

    def _encoder(self, config: dict[str, Any]) -> EBERT:
        host = AutoModel.from_config(AutoConfig.for_model("bert", **config))
        theirs = {k.removeprefix("bert."): v for k, v in self.state.items() if "bert." in k}
        host.load_state_dict(theirs)
        result = EBERT.from_host(host, self.graph)
        outcome = self.file(self.graph)  # their models use the map of the other example
        result.set_vectors(EntityVectors(outcome.vectors @ self.map, outcome.known))
        return result.eval()

    def batch(
        self, linked: LinkedText, form: str, *, max_length: int | None = None
    ) -> KnowledgeBatch:
        """The text under the view of `form`, cut to `max_length`; "bert" and "none" show no entity.

        Entities are inserted first, and `[SEP]` is the last node of what is cut.
        """
        shows_entities = form not in ("bert", "none")
        form = form.removeprefix("linear_")
        n_words = max_length if max_length and not shows_entities else 64
        config = BuilderConfig(max_words=n_words, max_nodes=2 * n_words, **WORDS_ONLY)
        if max_length and shows_entities:
            options = {"form": form, "max_length": max_length}
            config = replace(config, **EBERTView.builder_fields(config, options))
        draws = generator(0, "parity")
        graph = build(linked, self.tokenizer, self.graph, generator=draws, config=config)
        if not shows_entities:
            return WordsView()(graph)
        view = EBERTView.of(
            self.graph, self.tokenizer, form=form, vectors_from=self.file.path,
            max_length=max_length,
        )  # fmt: skip
        return view(graph)

    def inputs(self, batch: KnowledgeBatch) -> Tensor:
        """The vectors that enter the host."""
        words = hosts.word_table(self.encoder.host)
        tables = {0: words, 1: self.encoder.entity_vectors, 3: words}
        return self.encoder.node_vectors(batch, tables)

    def tokens(self, batch: KnowledgeBatch) -> list[str]:
        """The nodes of a text as the original writes them."""
        names = []
        for id_, kind in zip(batch.node_ids[0].tolist(), batch.node_kinds[0].tolist(), strict=True):
            page = self.graph.entities.name(id_ - N_SPECIAL_ROWS) if kind == 1 else None
            piece = self.tokenizer.convert_ids_to_tokens(id_) if page is None else page
            names.append(piece if page is None else ENTITY_PREFIX + piece)
        return names


def word_pieces(folder: Path) -> PreTrainedTokenizerFast:
    """Cased word pieces of the folder's vocabulary."""
    names = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    inner = Tokenizer(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=False)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, names.index(name)) for name in ("[CLS]", "[SEP]")]
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


@pytest.fixture(scope="module")
def world(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> EBertInputs:
    return EBertInputs(folder, tmp_path_factory.mktemp("ebert"))


def link(start: int, end: int, page: str) -> Link:
    return Link(Mention(start, end), (Candidate(page, 1.0, 1.0),), page, 1.0)


# ---- the map ----------------------------------------------------------------------------------
def test_maps(folder: Path, compared: Any) -> None:
    inputs, expected = load(folder, "mapping_inputs"), load(folder, "mapping_outputs")
    x, y, weights, query = (inputs[name] for name in ("x", "y", "w", "query"))
    linear = least_squares_map(x, y)
    compared.close("linear", linear, expected["linear.model"], atol=ATOL, rtol=RTOL)
    compared.close("apply", query @ linear, expected["linear.apply"], atol=ATOL, rtol=RTOL)
    alone = query[0] @ linear
    compared.close("apply_1d", alone, expected["linear.apply_1d"], atol=ATOL, rtol=RTOL)
    n_rows = int(inputs["underdetermined_rows"][0])
    few = least_squares_map(x[:n_rows], y[:n_rows])
    wanted = expected["linear_underdetermined.model"]
    compared.close("underdetermined", few, wanted, atol=ATOL, rtol=RTOL)
    weighted = least_squares_map(x, y, weights)
    compared.close("weighted", weighted, expected["linear_weighted.model"], atol=ATOL, rtol=RTOL)
    ortho = orthogonal_map(x, y)
    wanted = expected["ortho.model"][: x.shape[1]]
    compared.close("orthogonal", ortho, wanted, atol=ATOL, rtol=RTOL)
    compared.close("ortho.apply", query @ ortho, expected["ortho.apply"], atol=ATOL, rtol=RTOL)


def test_the_map_of_shared_words(folder: Path, world: EBertInputs, compared: Any) -> None:
    data = read(folder, "wikipedia2vec")
    shared = world.file.words(whole_words(world.tokenizer).keys())
    compared.equal("pairs", sorted([w, w] for w in shared), sorted(data["aligned_pairs"]))
    words = hosts.word_table(world.encoder.host).weight.detach()
    actual = fit_to_words(world.file, words, world.tokenizer)
    expected = load(folder, "alignment_outputs")["aligned.model"]
    compared.close("aligned", actual, expected, atol=ATOL, rtol=RTOL)
    pages = world.file(world.graph)
    compared.equal("pages", int(pages.known.sum()), len(world.pages))
    result = EBERT.for_graph(
        world.encoder.host, world.graph, world.tokenizer, seed=0, vectors_from=world.file.path
    )
    table = result.entity_vectors.weight[N_SPECIAL_ROWS:]
    compared.close("mapped", table, pages.vectors @ expected, atol=ATOL, rtol=RTOL)


# ---- LAMA -------------------------------------------------------------------------------------
def queries(folder: Path) -> Iterator[tuple[dict[str, Any], list[str | None]]]:
    """Every run, and the page that each of its queries shows."""
    pages = {n.replace(" ", "_") for n in read(folder, "wikipedia2vec")["entities"]}
    for run in read(folder, "lama")["runs"]:
        titles = [
            [title.removeprefix(ENTITY_PREFIX) for title in result["wiki_titles"]]
            for result in run["results"]
        ]
        yield run, original.titles_of_queries(titles, pages)


def samples_of(
    world: EBertInputs, result: dict[str, Any], page: str | None
) -> list[KnowledgeBatch]:
    """The three inputs of a query."""
    start = result["template"].index("[X]")
    before = result["template"][:start].replace("[Y]", "[MASK]")
    text = result["template"].replace("[X]", result["sub_label"]).replace("[Y]", "[MASK]")
    stop = len(before) + len(result["sub_label"])
    links = () if page is None else (link(len(before), stop, page),)
    return [world.batch(LinkedText(text, links), form) for form in FORMS]


def test_lama_inputs(folder: Path, world: EBertInputs, compared: Any) -> None:
    for run, pages in queries(folder):
        for result, page in zip(run["results"], pages, strict=True):
            tokens = [" ".join(world.tokens(b)) for b in samples_of(world, result, page)]
            names = ("query_bert", "query_wiki", "query_slash")
            compared.equal("lama queries", tokens, [result[name] for name in names])
            compared.equal("replaceable", int(page is not None), result["replaceable"])


@torch.no_grad()
def test_lama_states_and_answers(folder: Path, world: EBertInputs, compared: Any) -> None:
    expected, allowed = load(folder, "lama_outputs"), read(folder, "lama")["allowed_words"]
    mask_id = world.tokenizer.mask_token_id
    for run, pages in queries(folder):
        at = 0
        for number in range(len(run["results"])):
            name = f"set{run['set']}.batch{number}"
            if f"{name}.attention_mask" not in expected:
                break
            n_queries = len(expected[f"{name}.attention_mask"]) // len(FORMS)
            chosen = list(zip(run["results"], pages, strict=True))[at : at + n_queries]
            at += n_queries
            parts = [b for result, page in chosen for b in samples_of(world, result, page)]
            batch = KnowledgeBatch.stack(parts, word_pad_id=world.tokenizer.pad_token_id)
            width = expected[f"{name}.attention_mask"].shape[1]
            batch = batch.pad_to(width, word_pad_id=world.tokenizer.pad_token_id)
            mask = batch.node_mask
            compared.close("lama mask", mask, expected[f"{name}.attention_mask"], atol=0)
            states = world.encoder(batch).node_states
            if f"{name}.hidden" in expected:
                vectors = world.inputs(batch)
                compared.close("inputs", vectors, expected[f"{name}.input_vectors"], atol=ATOL)
                theirs = expected[f"{name}.hidden"][mask]
                compared.close("hidden", states[mask], theirs, atol=ATOL, rtol=RTOL)
            hole = (batch.node_ids == mask_id) & (batch.node_kinds == 0)
            compared.close(
                "at the hole", states[hole], expected[f"{name}.mask_hidden"], atol=ATOL, rtol=RTOL
            )
            logits = world.head.logits(states[hole], hosts.word_table(world.encoder.host).weight)
            part, batch_name = name.split(".")  # stored before the restriction, whatever the name
            theirs = expected[f"{part}.{run['vocabulary']}.{batch_name}.logits_after_restriction"]
            compared.close("lama logits", logits, theirs, atol=ATOL, rtol=RTOL)
            if run["vocabulary"] == "restricted":
                out = torch.ones(logits.shape[1], dtype=torch.bool)
                out[world.tokenizer.convert_tokens_to_ids(allowed)] = False
                logits[:, out] = -10000.0
            shares = logits.softmax(-1).view(n_queries, len(FORMS), -1)
            for (result, _), three in zip(chosen, shares, strict=True):
                compare_answers(world, result, three, compared)


def compare_answers(
    world: EBertInputs, result: dict[str, Any], three: Tensor, compared: Any
) -> None:
    """Best words, their shares, rank and share of the gold word, of each input and ensemble."""
    outcome = dict(zip(FORMS, three, strict=True))
    for rule in ("avg", "max"):
        one, other = outcome["bert"], outcome["linear_replace"]
        outcome[f"linear_ens_{rule}"] = original.ensemble(one, other, rule)
    gold = world.tokenizer.convert_tokens_to_ids(result["obj_label"])
    for name, share in outcome.items():
        best = share.topk(len(result[f"top10:{name}"]))
        words = world.tokenizer.convert_ids_to_tokens(best.indices.tolist())
        compared.equal("best words", words, result[f"top10:{name}"])
        theirs = result[f"top10_prob:{name}"]
        compared.close("their shares", best.values, theirs, atol=ATOL, rtol=RTOL)
        rank = 1 + int((share > share[gold]).sum())
        compared.equal("rank", rank, result[f"gold_rank:{name}"])
        compared.close("gold share", share[gold], result[f"gold_prob:{name}"], atol=1.1e-5)


# ---- relation classification ------------------------------------------------------------------
def example_of(record: dict[str, Any], example: dict[str, Any], pages: list[str]) -> Any:
    """The text with its links, and the two mentions in the order of the list."""
    links, targets = [], []
    for name, start, end, score in example["ents"]:
        targets.append(Mention(start, end))
        titles = sorted(record["wikidata_to_titles"].get(name, []))
        page = next((title for title in titles if title in pages), None)
        if page is not None and score > record["threshold"]:
            links.append(link(start, end, page))
    links.sort(key=lambda one: one.mention.start)
    return LinkedText(example["text"], tuple(links)), targets


def relation_batches(
    folder: Path, world: EBertInputs
) -> Iterator[tuple[dict[str, Any], KnowledgeBatch]]:
    """Every case, and its examples cut and padded to the length."""
    data = read(folder, "relation_classification")
    width, pad = data["max_seq_length"], world.tokenizer.pad_token_id
    for case in data["cases"]:
        marks = [p[0] for p in case["pattern"]] if isinstance(case["pattern"], list) else []
        parts = []
        for example in data["examples"]:
            linked, targets = example_of(data, example, world.pages)
            linked, _ = mark_targets(linked, targets, marks)
            parts.append(world.batch(linked, case["ent_type"], max_length=width))
        yield case, KnowledgeBatch.stack(parts, word_pad_id=pad).pad_to(width, word_pad_id=pad)


def test_relation_inputs(folder: Path, world: EBertInputs, compared: Any) -> None:
    for case, batch in relation_batches(folder, world):
        tokens = [world.tokens(batch.take(slice(i, i + 1))) for i in range(len(batch))]
        compared.equal("re tokens", tokens, case["tokens"])
        compared.equal("re mask", batch.node_mask.long().tolist(), case["input_mask"])


@torch.no_grad()
def test_relation_classes(folder: Path, world: EBertInputs, compared: Any) -> None:
    expected = load(folder, "relation_classification_outputs")
    classes = [str(i) for i in range(len(world.state["classifier.bias"]))]
    model = KnowledgeForTask.of(world.encoder, "pooled", classes).eval()
    model.head.classes.load_state_dict(
        {part: world.state[f"classifier.{part}"] for part in ("weight", "bias")}
    )
    for case, batch in relation_batches(folder, world):
        marked = isinstance(case["pattern"], list)
        logits = model(batch).class_logits
        name = f"{case['ent_type']}.{'markers' if marked else 'plain'}"
        compared.close("re logits", logits, expected[f"{name}.logits"], atol=ATOL, rtol=RTOL)
        loss = F.cross_entropy(logits, torch.tensor(case["label_id"]))
        compared.close("re loss", loss, expected[f"{name}.loss"], atol=0, rtol=RTOL)
        if f"{name}.input_vectors" in expected:
            vectors = world.inputs(batch)
            compared.close("re inputs", vectors, expected[f"{name}.input_vectors"], atol=ATOL)
