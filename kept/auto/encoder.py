"""`AutoEncoder`: the encoder of any saved run, from texts to vectors in one call.

Axis legend: text, token, mention, entity, layer (the embedding first), width.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.dictionary import DictionaryLinker
from entity_linking.mentions import LinkedText, Linker
from entity_linking.names.rules.case import Case
from kept import hosts
from kept.auto.card import About, model_card
from kept.auto.computing import Agreement, Backend, Computation, Precision
from kept.auto.encoded import Encoded, EncodedText, encoded_text, stitched
from kept.auto.hub import CARD, model_folder, push_folder
from kept.auto.saved import (
    ENCODER_FILE,
    STORED_SETTINGS,
    saved_builder,
    saved_case,
    saved_encoder,
    saved_settings,
    saved_tokenizer,
    saved_view,
)
from kept.auto.sentence_modules import (
    MODULES,
    SentenceModules,
    longest_text,
    read_sentence_modules,
    write_sentence_modules,
)
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.knowbert import KnowBERT
from kept.encoders.plain import Plain
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig, join_all
from kept.graphs.cuts import UNCUT, Cut, cut_of_each, cut_of_rows, report_cut
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.places import text_nodes
from kept.graphs.views import KnowBERTView, View
from kept.graphs.windows import LONG, Long, TextWindow, windows_of
from kept.graphs.words import Words, encode_words
from kept.inputs.lengths import builder_on
from kept.inputs.views import builder_for, view_for
from kept.linking.knowbert import choices
from kept.methods import BASELINE, method, method_of
from kept.model_files import MODEL, seal_model
from kept.randomness import generator, torch_draws
from kg_loaders import KnowledgeGraph, graph_from_records
from kg_loaders.disk.seals import is_of
from kg_loaders.disk.writing import whole_folder, write_json, write_text


class AutoEncoder:
    """An encoder with its tokenizer, its method's view and the settings it was trained with."""

    def __init__(
        self,
        encoder: KnowledgeEncoder,
        tokenizer: PreTrainedTokenizerBase,
        *,
        builder: BuilderConfig | None = None,
        view: Mapping[str, Any] | None = None,
        case: Case = "smart",
    ) -> None:
        self.encoder, self.tokenizer = encoder.eval(), tokenizer
        self.case: Case = case
        self.method = method_of(encoder)
        self.view = dict(view or {})
        settings = builder_for(self.method, builder or BuilderConfig(), self.view)
        self.builder = dataclasses.replace(settings, drop_probability=0.0)
        self._seen: tuple[str, View, DictionaryLinker | None] | None = None
        self.sentence_modules: SentenceModules | None = None
        self._folder: Path | None = None
        self._settings: dict[str, Any] = {}
        self._computation = Computation(self.encoder)

    def __repr__(self) -> str:
        return f"AutoEncoder({type(self.encoder).__name__}, {self.builder}, view={self.view})"

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        builder: BuilderConfig | None = None,
        view: Mapping[str, Any] | None = None,
        case: Case | None = None,
        backend: Backend = "torch",
        precision: Precision = "fp32",
    ) -> AutoEncoder:
        """Return the encoder of a run's folder, a saved one, a host alone, or a hub name of these.

        A host (`minilm`, a folder or a hub name) reads words alone. A model of
        sentence-transformers gives its own vectors of sentences, by its pooling and normalisation;
        what else `modules.json` names is not read, as the log says. `revision` is the branch, tag
        or commit of a hub's. Tokenizer, builder settings, the view's options and the `case` of
        links by names are those of the folder where none are given. `backend` and `precision` are
        those of `compute_with`. Weights are read from safetensors alone, and no code that came with
        them is run. Raises `CheckpointError` when a
        folder holds no model, no tokenizer, or not what was saved, `HostError` for a host that
        cannot be opened.

        >>> AutoEncoder.from_pretrained("minilm").encode("A text.").sentences.shape
        torch.Size([1, 384])
        """
        folder = model_folder(name, revision)
        if folder is None:
            host = hosts.load_host(name, revision=revision)
            encoder = Plain.from_host(host, graph_from_records([]))
            tokenizer = tokenizer or hosts.load_tokenizer(name, revision=revision)
            modules = read_sentence_modules(name, revision)
            settings = _settings(BASELINE, name, builder, view)
            n_words = longest_text(modules, tokenizer)
            if builder is None and n_words is not None:
                settings["builder"] = _shortened(settings["builder"], n_words)
            alone = cls(encoder, tokenizer, case=case or "smart", **settings)
            alone.sentence_modules = modules
            alone._settings = {"host": str(name)}
            return alone.compute_with(backend, precision)
        opened = cls(
            saved_encoder(folder),
            tokenizer or saved_tokenizer(folder),
            builder=builder or saved_builder(folder),
            view=saved_view(folder) if view is None else view,
            case=case or saved_case(folder),
        )
        opened._folder, opened._settings = folder, saved_settings(folder)
        opened.sentence_modules = SentenceModules.of_settings(opened._settings)
        return opened.compute_with(backend, precision)

    def compute_with(
        self, backend: Backend = "torch", precision: Precision = "fp32"
    ) -> AutoEncoder:
        """Let `encode` be computed by torch, OpenVINO ("openvino") or ONNX Runtime ("onnx").

        The last two export the host's layers once, into kept's cache folder. `precision`: "fp32";
        "bf16" (torch, OpenVINO) and "int8" (torch), whose vectors differ; or "auto" (torch): the
        fastest of these whose vectors have a cosine of at least 0.999 with float32's. The first
        batch is compared with torch in float32: `agreement` has the result, and the log. The
        weights are taken as they are now. Returns itself. Raises `MissingExtraError`, and
        `ConfigError` for a host or method that the backend cannot compute, at the latest at the
        first `encode`.
        """
        self._computation = Computation(self.encoder, backend, precision)
        return self

    @property
    def agreement(self) -> Agreement | None:
        """How the first batch agreed with torch in float32; None before it, and for torch."""
        return self._computation.agreement

    @property
    def is_trained(self) -> bool:
        """Whether it was opened from a folder of a run, which has settings of its own."""
        return self._folder is not None

    def save_pretrained(
        self, folder: str | Path, *, about: About | None = None, force: bool = False
    ) -> None:
        """Write encoder, tokenizer, settings and a model card, all or nothing; sealed.

        A head is left out. `about` is what the card says beside what is known here; `force`
        replaces a model that is there. Raises `ExistsError`, `WriteError`, and what the card
        raises (`kept.auto.card`).
        """
        self._write(Path(folder), Path(folder).name, about or About(), force=force)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        about: About | None = None,
        private: bool = True,
        token: str | None = None,
        message: str = "Model of kept",
    ) -> str:
        """Send what `save_pretrained` writes to a hub, as one commit; return its address.

        The repository is made where there is none, private unless said otherwise: a table of
        entities may tell what the graph says. `token` is that of `hf auth login` where none is
        given. Raises `ConfigError` without a network, and the hub's own errors.
        """
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            self._write(folder, repo_id, about or About(), force=False)
            return push_folder(folder, repo_id, private=private, token=token, message=message)

    def export_host(self, folder: str | Path, *, force: bool = False) -> None:
        """Write the host alone, as it was trained, for transformers and sentence-transformers.

        Both open the folder by its path: the vectors of sentences are the mean of all tokens, or
        what `sentence_modules` says. What the method adds to its host, and the graph, are left out.
        Raises `ConfigError` for a host with adapters inside, whose weights have other names,
        `ExistsError` and `WriteError`.
        """
        if self.encoder.config.inside:
            raise ConfigError(
                f"the host has {', '.join(self.encoder.config.inside)} inside, which no other "
                "library opens; use save_pretrained, or train without"
            )
        modules = self.sentence_modules or SentenceModules("mean")
        host = self.encoder.host
        with whole_folder(
            folder, kind="an exported host", is_kind=lambda path: (path / MODULES).is_file(),
            force=force,
        ) as part:  # fmt: skip
            host.save_pretrained(part)
            self.tokenizer.save_pretrained(part)
            longest = min(self.builder.max_words, hosts.n_positions(host))
            write_sentence_modules(
                part, modules, width=int(host.config.hidden_size), max_words=longest
            )

    def _write(self, folder: Path, name: str, about: About, *, force: bool) -> None:
        settings = self._settings
        card = model_card(self.encoder, name, about, run=self._folder, settings=settings)
        stored = {key: settings[key] for key in STORED_SETTINGS if key in settings}
        stored |= {"graph": dataclasses.asdict(self.builder), "view": self.view, "case": self.case}
        if self.sentence_modules is not None:
            stored["sentences"] = self.sentence_modules.as_json()
        with whole_folder(
            folder, kind=MODEL.what, is_kind=lambda path: is_of(path, MODEL), force=force
        ) as part:
            self.encoder.save_pretrained(part)
            self.tokenizer.save_pretrained(part)
            write_json(part / ENCODER_FILE, json.loads(json.dumps(stored)))
            write_text(part / CARD, card)
            seal_model(part)

    @classmethod
    def from_host(
        cls,
        method_name: str,
        host: str | Path,
        kg: KnowledgeGraph | str | Path,
        *,
        untrained: bool = False,
        as_published: bool = False,
        seed: int = 0,
        builder: BuilderConfig | None = None,
        view: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AutoEncoder:
        """A new encoder around a host, for methods that work without training (K-BERT).

        `options` are those of the encoder, `view` those of the view, such as `max_branches`. What
        is not given is that of the method's recipe, with which it reads facts; `as_published` takes
        the paper's. A `builder` is taken as it is, with none of the recipe's settings. Raises
        `ConfigError` for methods that need training unless `untrained`; their vectors then mean
        little.

        >>> AutoEncoder.from_host("kbert", "minilm", graph_from_records([])).view["max_branches"]
        8
        """
        chosen, graph = method(method_name), _opened(kg)
        if chosen.needs_training and not untrained:
            raise ConfigError(
                f"{method_name} must be trained before its vectors mean anything; train it "
                "(kept pretrain, kept finetune) and use from_pretrained, or say untrained=True"
            )
        recipe = {} if as_published else chosen.recipe.fields()
        options = {**recipe.get("options", {}), **options}
        view = {**recipe.get("view", {}), **(view or {})}
        tokenizer = hosts.load_tokenizer(host)
        with torch_draws(seed, "initial weights"):
            encoder = chosen.new_encoder(host, graph, tokenizer, seed=seed, **options)
        settings = _settings(method_name, host, builder, view)
        if builder is None:
            settings["builder"] = dataclasses.replace(
                settings["builder"], **recipe.get("graph", {})
            )
        created = cls(encoder, tokenizer, **settings)
        created._settings = {"method": method_name, "host": str(host)}
        return created

    def encode(
        self,
        texts: Sequence[str | LinkedText] | str,
        kg: KnowledgeGraph | str | Path | None = None,
        linker: Linker | None = None,
        *,
        batch_size: int = 32,
        layers: bool = False,
        long: Long | None = None,
    ) -> Encoded:
        """Vectors of every text, on the CPU; the same call gives the same vectors.

        Plain texts are linked by `linker`, without one by the labels and aliases of `kg`
        in the `case` of the training; a
        `LinkedText` keeps its links. A text's neighbours depend on the text alone. `kg` may be
        left out where the method reads no graph at inference (KEPLER, K-Adapter). `layers`: with
        the tokens' states after every layer. A text that is too long is read in windows, and each
        token has its state from the window in whose middle it is nearest; with `long` "cut" its
        first pieces are read, as models of sentence-transformers do unless `long` is "windows".
        `Encoded.cut` counts both, and the log names what is cut. Raises `ConfigError` where `kg`
        may not be left out, `GraphMismatchError` for a graph of other ids.
        """
        batch_texts = [texts] if isinstance(texts, str) else list(texts)
        graph = self._graph(kg)
        view, own_linker = self._tools(graph, needs_linker=kg is not None and linker is None)
        linked = _linked(batch_texts, linker or own_linker)
        order = sorted(range(len(linked)), key=lambda i: (len(linked[i].text), i))
        long = long or ("windows" if self.sentence_modules is None else "cut")
        words, windows = self._windows(linked, order, view, long, batch_size)
        rows = [(i, window) for i in order for window in windows[i]]
        parts: dict[int, list[EncodedText]] = {i: [] for i in order}
        for start in range(0, len(rows), batch_size):
            chosen = rows[start : start + batch_size]
            batch = [
                linked[i] if len(windows[i]) == 1 else window.text(linked[i])
                for i, window in chosen
            ]
            pieces = [window.words for _, window in chosen]
            encoded = self._encode(batch, pieces, graph, view, layers=layers)
            for (i, _), part in zip(chosen, encoded, strict=True):
                parts[i].append(part)
        cut = self._cut(linked, words, windows)
        report_cut(cut, self._remedy_for_cuts())
        ordered = tuple(
            parts[i][0]
            if len(parts[i]) == 1
            else stitched(text, windows[i], parts[i], self.sentence_modules)
            for i, text in enumerate(linked)
        )
        width = self.encoder.host.config.hidden_size
        sentences = [text.sentence for text in ordered] or [torch.zeros(0, width)]
        return Encoded(ordered, torch.stack(sentences) if ordered else sentences[0], cut)

    def batch(
        self,
        texts: Sequence[str | LinkedText],
        kg: KnowledgeGraph | str | Path | None = None,
        linker: Linker | None = None,
    ) -> tuple[KnowledgeBatch, Bool[Tensor, "text node"]]:
        """Return what the encoder reads of the texts, and which nodes are the tokens of each.

        For training loops of others: `encode` is this batch through the encoder, where all texts
        fit; a longer one is cut. The arguments are those of `encode`, and so are the errors.
        """
        graph = self._graph(kg)
        view, _ = self._tools(graph, needs_linker=False)
        linked = self.linked(texts, kg, linker)
        built, samples, batch = self._read(linked, self._words(linked), graph, view)
        is_token = torch.zeros_like(batch.node_mask)
        for row, word_graph, sample in zip(is_token, built, samples, strict=True):
            places = view.places(word_graph, sample)[text_nodes(word_graph)]
            row[torch.from_numpy(places[places >= 0])] = True
        is_token[~is_token.any(dim=1), 0] = True  # a text without tokens has its first node
        return batch, is_token

    def linked(
        self,
        texts: Sequence[str | LinkedText],
        kg: KnowledgeGraph | str | Path | None = None,
        linker: Linker | None = None,
    ) -> list[LinkedText]:
        """Return the texts with the links that `encode` would read."""
        needs_linker = kg is not None and linker is None
        _, own_linker = self._tools(self._graph(kg), needs_linker=needs_linker)
        return _linked(texts, linker or own_linker)

    def _read(
        self, texts: Sequence[LinkedText], words: Sequence[Words], graph: KnowledgeGraph, view: View
    ) -> tuple[list[WordKnowledgeGraph], list[KnowledgeBatch], KnowledgeBatch]:
        """The word-knowledge graph of each text, each as the view shows it, and all as a batch."""
        built = join_all(
            texts,
            words,
            graph,
            generators=[generator(0, "encode", text.text) for text in texts],
            config=self.builder,
        )
        samples = [view(word_graph) for word_graph in built]
        pad_id = hosts.padding_id(self.tokenizer)
        return built, samples, KnowledgeBatch.stack(samples, word_pad_id=pad_id)

    def _words(self, texts: Sequence[LinkedText], max_words: int | None = None) -> list[Words]:
        """The pieces of each text, cut to `max_words` or the builder's."""
        return encode_words(
            [text.text for text in texts],
            self.tokenizer,
            max_words=max_words or self.builder.max_words,
            pair_starts=[text.pair_start for text in texts],
        )

    def _windows(
        self, linked: Sequence[LinkedText], order: Sequence[int], view: View, long: Long, size: int
    ) -> tuple[dict[int, Words], dict[int, list[TextWindow]]]:
        """The pieces of each text and its windows.

        One window, cut to the builder's `max_words`, of a text that fits, and of each text where
        `long` is "cut".
        """
        if long not in LONG:
            raise ConfigError(f"long {long!r}: one of {', '.join(LONG)}")
        words: dict[int, Words] = {}
        windows: dict[int, list[TextWindow]] = {}
        room = min(view.most_words(self.builder), self.builder.max_words)
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            words.update(zip(chosen, self._words([linked[i] for i in chosen]), strict=True))
            full = [i for i in chosen if long == "windows" and len(words[i].ids) >= room]
            wholes = self._words([linked[i] for i in full], UNCUT) if full else []
            for i, whole in zip(full, wholes, strict=True):
                opened = windows_of(whole, max_words=room, pair_start=linked[i].pair_start)
                if len(opened) > 1:
                    windows[i], words[i] = opened, whole
            for i in chosen:
                windows.setdefault(i, [TextWindow(words[i], 0, UNCUT)])
        return words, windows

    def _cut(
        self,
        linked: Sequence[LinkedText],
        words: Mapping[int, Words],
        windows: Mapping[int, Sequence[TextWindow]],
    ) -> Cut:
        """What is cut of the texts, and how many are read in windows."""
        n_words = self.builder.max_words
        short = [i for i in range(len(linked)) if len(windows[i]) == 1]
        long = [i for i in range(len(linked)) if len(windows[i]) > 1]
        of_short = cut_of_each(
            [linked[i] for i in short], [words[i] for i in short], self.tokenizer, n_words
        )
        of_long, _ = cut_of_rows(
            [linked[i] for i in long],
            [words[i] for i in long],
            [[window.words for window in windows[i]] for i in long],
            n_words,
            are_windows=True,
        )
        return of_short + of_long

    def _remedy_for_cuts(self) -> str:
        """What to do about texts that are longer than `max_words`."""
        n_positions = hosts.n_positions(self.encoder.host)
        longest, _ = self.method.view.within_positions(n_positions, self.view)
        if longest <= self.builder.max_words:
            return "the host reads no longer ones: give parts of the texts"
        return (
            f"the host reads {longest}: give builder=BuilderConfig(max_words={longest}, "
            f"max_nodes={2 * longest}), or parts of the texts"
        )

    def _graph(self, kg: KnowledgeGraph | str | Path | None) -> KnowledgeGraph:
        if kg is not None:
            graph = _opened(kg)
            self.encoder.require_graph(graph)
            return graph
        if self.method.view.reads_graph:
            raise ConfigError(
                f"{type(self.encoder).__name__} reads the graph whenever it encodes: give kg, the "
                f"graph it was trained with (id space {self.encoder.config.id_space_hash[:12]})"
            )
        return _no_graph()

    def _tools(
        self, graph: KnowledgeGraph, *, needs_linker: bool
    ) -> tuple[View, DictionaryLinker | None]:
        """View and linker of the graph; those of the last graph are kept."""
        seen = self._seen
        if seen is None or seen[0] != graph.content_hash:
            view = view_for(self.method, graph, self.tokenizer, self.view)
            seen = (graph.content_hash, view, None)
        if needs_linker and seen[2] is None:
            seen = (*seen[:2], DictionaryLinker(graph, case=self.case))
        self._seen = seen
        return seen[1], seen[2]

    @torch.no_grad()
    def _encode(
        self,
        texts: Sequence[LinkedText],
        words: Sequence[Words],
        graph: KnowledgeGraph,
        view: View,
        *,
        layers: bool,
    ) -> Iterator[EncodedText]:
        built, samples, batch = self._read(texts, words, graph, view)
        batch = batch.to(self.encoder.device)
        output = self._computation(batch)
        every = output.hidden_states if layers else (output.node_states,)
        states = torch.stack(every, 1).float().cpu()
        entity_states = output.entity_states
        for i, (text, word_graph, sample) in enumerate(zip(texts, built, samples, strict=True)):
            places = view.places(word_graph, sample)
            aligned = None if entity_states is None else entity_states[i].float().cpu()
            encoded = encoded_text(text, word_graph, sample, places, states[i], aligned, graph)
            if self.sentence_modules is not None:
                whole = states[i, -1][batch.node_mask[i].cpu()]
                encoded = dataclasses.replace(encoded, sentence=self.sentence_modules.vector(whole))
            scores = output.linking_scores
            if isinstance(self.encoder, KnowBERT) and scores is not None:
                assert isinstance(view, KnowBERTView)
                chosen = choices(self.encoder, view, word_graph, sample, scores[i].float().cpu())
                encoded = dataclasses.replace(encoded, linking=chosen)
            yield encoded


def _settings(
    name: str, host: str | Path, builder: BuilderConfig | None, view: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Settings of a new encoder: where there is no builder, texts as long as its host reads."""
    if builder is not None:
        return {"builder": builder, "view": view}
    builder, options = builder_on(host, name, view or {})
    return {"builder": builder, "view": options}


def _shortened(builder: BuilderConfig, n_words: int) -> BuilderConfig:
    n_words = max(3, min(builder.max_words, n_words))
    return dataclasses.replace(builder, max_words=n_words, max_nodes=2 * n_words)


@cache
def _no_graph() -> KnowledgeGraph:
    """The graph of a method that reads none."""
    return graph_from_records([])


def _opened(kg: KnowledgeGraph | str | Path) -> KnowledgeGraph:
    return kg if isinstance(kg, KnowledgeGraph) else KnowledgeGraph.open(kg)


def _linked(texts: Sequence[str | LinkedText], linker: Linker | None) -> list[LinkedText]:
    """Plain texts linked; without a linker they have no links."""
    plain = [text for text in texts if isinstance(text, str)]
    linked = iter(linker.link(plain) if linker else [LinkedText(text, ()) for text in plain])
    return [text if isinstance(text, LinkedText) else next(linked) for text in texts]
