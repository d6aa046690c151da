"""Adapters are made, trained, saved and loaded one by one, and change nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.adapters import AdapterOptions
from kept.adapters.files import HEADER_FILE, WEIGHTS_FILE
from kept.batches import KnowledgeBatch, Visibility
from kept.encoders.kadapter import KAdapter
from kept.errors import CheckpointError, ConfigError
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WORDS_ONLY, LinkedWordsView
from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.pretraining.data import WordGraphData
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.flips import forge
from tests.kept.tiny_hosts import tiny_host

TWO = {"factual": {}, "linguistic": {"layers": [1, 0], "graph_hash": ""}}


@pytest.fixture(scope="module")
def batch() -> KnowledgeBatch:
    ids = torch.tensor([[2, 5, 6, 7, 8, 3], [2, 9, 10, 3, 1, 1]])
    mask = ids != 1
    return KnowledgeBatch(
        node_ids=ids,
        node_kinds=torch.zeros_like(ids),
        node_mask=mask,
        positions=torch.arange(6).expand(2, 6),
        segment_ids=torch.zeros_like(ids),
        visibility=Visibility.among(mask),
        target_spans=torch.tensor([[[1, 2], [3, 4]], [[1, 2], [2, 3]]]),
        labels=torch.tensor([1, 0]),
    )


@pytest.fixture(scope="module")
def synsets() -> KnowledgeGraph:
    """A few synsets as kg_loaders.formats.wordnet names them and their relations."""
    records: list[Triple | Text] = [
        Triple("wn:02084071-n", "hypernym", "wn:02083346-n"),
        Triple("wn:02121620-n", "hypernym", "wn:02120997-n"),
        Triple("wn:02084071-n", "part_meronym", "wn:02158846-n"),
    ]
    labels = {"wn:02084071-n": "dog", "wn:02083346-n": "canine", "wn:02158846-n": "flag"}
    records += [Text(node, TextKind.LABEL, label, "en") for node, label in labels.items()]
    return graph_from_records(records)


def encoder(graph: KnowledgeGraph, seed: int = 0, **options: Any) -> KAdapter:
    host = tiny_host(n_words=120)
    torch.manual_seed(seed)
    return KAdapter.from_host(host, graph, **{"adapters": TWO, **options}).eval()


def state_of(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def moving(model: torch.nn.Module) -> set[str]:
    names = {name for name, value in model.named_parameters() if value.requires_grad}
    return {".".join(name.split(".")[: 3 if "adapters" in name else 2]) for name in names}


def synset_texts() -> list[LinkedText]:
    surfaces = {"dog": "wn:02084071-n", "canine": "wn:02083346-n", "flag": "wn:02158846-n"}
    texts = []
    for one, other in (("dog", "canine"), ("dog", "flag"), ("flag", "canine"), ("canine", "dog")):
        text = f"the {one} of the {other}"
        links = tuple(
            Link(
                Mention(text.index(name), text.index(name) + len(name)),
                (Candidate(surfaces[name], 1.0, 1.0),),
                surfaces[name],
                1.0,
            )
            for name in (one, other)
        )
        texts.append(LinkedText(text, links))
    return texts


def test_a_third_adapter_changes_nothing_of_the_other_two(
    small_graph: KnowledgeGraph,
    synsets: KnowledgeGraph,
    tokenizer: Any,
    batch: KnowledgeBatch,
    tmp_path: Path,
) -> None:
    """WordNet's adapter learns synset relations; factual and linguistic stay to the bit."""
    model = encoder(small_graph)
    others, before = state_of(model), model(batch)
    model.add_adapter("wordnet", graph=synsets, layers=[0, 2])
    assert model.names == ["factual", "linguistic", "wordnet"]
    model.train_adapter("wordnet")
    task = {"relation_pairs": {"n_relations": synsets.n_relations}}
    training = KnowledgeForPreTraining.of(model, task).train()
    assert {"encoder.adapters.wordnet"} == {n for n in moving(training) if "encoder" in n}
    data = WordGraphData(
        synset_texts(),
        synsets,
        tokenizer,
        builder=BuilderConfig(max_words=40, **WORDS_ONLY),
        view=LinkedWordsView(),
        objectives=task,
    )
    samples = [data.sample(i, epoch=0, seed=0) for i in range(len(data))]
    pairs = data.collate(samples, epoch=0, seed=0, step=0)
    first = training(pairs).losses["relation_pairs"].item()
    optimiser = torch.optim.Adam([p for p in training.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(40):
        optimiser.zero_grad()
        losses = training(pairs).losses["relation_pairs"]
        if losses.item() < 0.5 * first:
            break
        losses.backward()
        optimiser.step()
    assert losses.item() < 0.5 * first
    after = model.eval()(batch)
    for name, value in others.items():
        assert torch.equal(model.state_dict()[name], value), name
    for name in TWO:
        assert torch.equal(after.adapter_states[name], before.adapter_states[name])
    other = encoder(small_graph, seed=5)
    model.save_adapter(tmp_path / "wn", "wordnet")
    assert other.load_adapter(tmp_path / "wn", graph=synsets) == "wordnet"
    again = other.eval()(batch).adapter_states["wordnet"]
    assert torch.equal(again, after.adapter_states["wordnet"])
    described = other.config.adapters["wordnet"]
    assert described["graph_hash"] == synsets.content_hash
    assert described["trained_on"] == "relation_pairs"


def test_an_adapter_of_another_graph_is_refused_unless_told(
    small_graph: KnowledgeGraph, synsets: KnowledgeGraph, tmp_path: Path
) -> None:
    model = encoder(small_graph)
    for name in TWO:
        model.save_adapter(tmp_path / name, name)
    other = encoder(synsets, adapters={})
    with pytest.raises(GraphMismatchError, match=small_graph.content_hash):
        other.load_adapter(tmp_path / "factual")
    assert other.names == []
    other.load_adapter(tmp_path / "linguistic")  # was trained on no graph
    other.load_adapter(tmp_path / "factual", graph=small_graph)
    other.load_adapter(tmp_path / "factual", name="again", any_graph=True)
    assert other.names == ["again", "factual", "linguistic"]
    with pytest.raises(ConfigError, match="there is an adapter 'factual' already"):
        other.load_adapter(tmp_path / "factual", any_graph=True)


def test_a_faulty_adapter_file_is_refused(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    model = encoder(small_graph)
    model.save_adapter(tmp_path, "factual")
    header = json.loads((tmp_path / HEADER_FILE).read_text())

    def rewritten(**changes: Any) -> None:
        (tmp_path / HEADER_FILE).write_text(json.dumps(header))
        forge(tmp_path, changes, HEADER_FILE)

    other = encoder(small_graph, adapters={})
    for changes, message in (
        ({"kind": "tea"}, "is not an adapter, but 'tea'"),
        ({"format_version": 7}, "version 7"),
        ({"host": header["host"] | {"hidden_size": 768}}, "hidden_size 768, this one has 16"),
        ({"host": {}}, "lacks host.hidden_size"),
        ({"options": header["options"] | {"n_heads": 3}}, "adapter.json: .*n_heads 3"),
        ({"options": header["options"] | {"tea": 7}}, "no option 'tea'"),
        ({"options": header["options"] | {"n_layers": 1}}, "unexpected"),
        ({"files": {"../x": header["files"][WEIGHTS_FILE]}}, "none inside the folder"),
        ({"files": {}}, "does not list the files"),
    ):
        rewritten(**changes)
        with pytest.raises(CheckpointError, match=message):
            other.load_adapter(tmp_path)
        assert other.names == []
    rewritten()
    weights = bytearray((tmp_path / WEIGHTS_FILE).read_bytes())
    weights[-1] ^= 1
    (tmp_path / WEIGHTS_FILE).write_bytes(bytes(weights))
    with pytest.raises(CheckpointError, match="was altered"):
        other.load_adapter(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    next(iter(tensors.values())).view(-1)[0] = torch.nan
    save_file(tensors, tmp_path / WEIGHTS_FILE)
    rewritten()
    with pytest.raises(CheckpointError, match="NaN or infinite"):
        other.load_adapter(tmp_path)
    (tmp_path / WEIGHTS_FILE).unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        other.load_adapter(tmp_path)
    (tmp_path / HEADER_FILE).write_text("{")
    with pytest.raises(CheckpointError, match="is damaged"):
        other.load_adapter(tmp_path)


def test_what_moves_in_which_stage(small_graph: KnowledgeGraph) -> None:
    model = encoder(small_graph, fusion="concat")
    assert moving(model) == {"adapters.factual.blocks", "adapters.linguistic.blocks"}
    model.train_adapter("factual")
    model.train()
    assert moving(model) == {"adapters.factual.blocks"}
    assert not model.host.training
    assert model.adapters["factual"].training
    assert not model.adapters["linguistic"].training
    task = KnowledgeForTask.of(model, "pooled", ["a", "b"])
    task.train()
    assert {n for n in moving(task) if "adapters" in n} == set()
    assert {n.split(".")[1] for n in moving(task) if n.startswith("encoder.")} == {"host", "fusion"}
    assert model.host.training
    assert not model.adapters["factual"].training
    assert task.head.training
    model.train_only(("fusion",))
    assert {name.split(".")[0] for name in moving(model)} == {"fusion"}


def test_a_task_model_saved_and_loaded_is_in_its_stage(
    small_graph: KnowledgeGraph, batch: KnowledgeBatch, tmp_path: Path
) -> None:
    model = KnowledgeForTask.of(encoder(small_graph, fusion="concat"), "targets", ["a", "b"]).eval()
    model.save_pretrained(tmp_path)
    again = KnowledgeForTask.from_pretrained(tmp_path).eval()
    assert moving(again) == moving(model)
    assert torch.equal(again(batch).class_logits, model(batch).class_logits)
    assert again.encoder.config.adapters == model.encoder.config.adapters


def test_frozen_adapters_hand_gradients_to_the_host(
    small_graph: KnowledgeGraph, batch: KnowledgeBatch
) -> None:
    """Section 3.4: the host is tuned through its adapters, too."""
    model = encoder(small_graph, adapters={"factual": {"layers": [0]}}, fusion="concat")
    with torch.no_grad():
        model.fusion.each["factual"].weight[:, :16] = 0  # what comes straight from the host
        model.adapters["factual"].blocks[0].up_project.weight.normal_()
    task = KnowledgeForTask.of(model, "targets", ["a", "b"])
    task(batch).losses["class"].backward()
    assert task.encoder.host.embeddings.word_embeddings.weight.grad.abs().sum() > 0
    assert all(p.grad is None for p in task.encoder.adapters.parameters())


def test_fusions(small_graph: KnowledgeGraph, batch: KnowledgeBatch) -> None:
    model = encoder(small_graph, fusion="none")
    output = model(batch)
    host, adapters = output.hidden_states[-2], output.adapter_states
    assert torch.equal(output.node_states, host)
    model.fuse("sum")
    total = host + adapters["factual"] + adapters["linguistic"]
    assert torch.equal(model(batch).node_states, total)
    model.fuse("concat")
    each = [
        torch.cat([host, adapters[name]], -1) @ layer.weight.T + layer.bias
        for name, layer in model.fusion.each.items()
    ]
    joint = torch.cat(each, -1) @ model.fusion.joint.weight.T + model.fusion.joint.bias
    torch.testing.assert_close(model(batch).node_states, joint)
    with pytest.raises(ConfigError, match="use one of"):
        model.fuse("product")
    with pytest.raises(ConfigError, match="needs an adapter"):
        encoder(small_graph, adapters={}, fusion="concat")


def test_an_untrained_adapter_hands_on_what_it_reads(
    small_graph: KnowledgeGraph, batch: KnowledgeBatch
) -> None:
    model = encoder(small_graph, adapters={"factual": {"layers": [0, 2]}})
    output = model(batch)
    read = output.hidden_states[0] + output.hidden_states[2]
    torch.testing.assert_close(output.adapter_states["factual"], read, atol=2e-2, rtol=0)


def test_released_padding_changes_results(
    small_graph: KnowledgeGraph, batch: KnowledgeBatch
) -> None:
    """Why it is not the default."""
    for padding, same in (("masked", True), ("released", False)):
        model = encoder(small_graph, padding=padding)
        for parameter in model.adapters.parameters():
            parameter.data.normal_(std=0.3)
        plain, longer = model(batch), model(batch.pad_to(12))
        states = longer.node_states[:, :6][batch.node_mask]
        assert torch.allclose(states, plain.node_states[batch.node_mask], atol=1e-4) is same
        host = longer.hidden_states[-2][:, :6][batch.node_mask]
        torch.testing.assert_close(host, plain.hidden_states[-2][batch.node_mask])


def test_defaults_have_the_proportions_of_the_paper() -> None:
    sizes = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
    options = AdapterOptions.read({}, AutoConfig.for_model("roberta", **sizes))
    assert options.layers == (0, 11, 23)
    assert (options.width, options.n_heads, options.intermediate) == (768, 12, 3072)
    assert options.n_layers == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adapters": {"factual": {"layers": [3]}}}, "host has states 0 to 2"),
        ({"adapters": {"factual": {"layers": []}}}, "one state of the host or more"),
        ({"adapters": {"factual": {"skip": 1}}}, "skip 1"),
        ({"adapters": {"factual": {"width": 7, "n_layers": 0}}}, "n_layers 0.*"),
        ({"adapters": {"factual": {"tea": 1}}}, "no option 'tea'"),
        ({"adapters": {"Fac.tual": {}}}, "cannot name an adapter"),
        ({"adapters": {"items": {}}}, "cannot name an adapter"),
        ({"pretraining_trains": ["adapters.none"]}, "pretraining_trains 'adapters.none'"),
        ({"stage": "dreaming", "padding": "some", "still": ["tea"]}, "stage.*padding.*still"),
    ],
)
def test_faulty_configurations_name_the_fault(
    options: dict[str, Any], message: str, small_graph: KnowledgeGraph
) -> None:
    with pytest.raises(ConfigError, match=message):
        encoder(small_graph, **options)


def test_adapters_that_are_not_there(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    model = encoder(small_graph)
    with pytest.raises(ConfigError, match="no adapter 'tea'"):
        model.save_adapter(tmp_path, "tea")
    with pytest.raises(ConfigError, match="no adapter 'tea'"):
        model.train_adapter("tea")
    with pytest.raises(ConfigError, match="there is an adapter 'factual' already"):
        model.add_adapter("factual")
    with pytest.raises(ConfigError, match="name one in its options"):
        KnowledgeForPreTraining.of(model, {"relation_pairs": {}})  # two are in training
