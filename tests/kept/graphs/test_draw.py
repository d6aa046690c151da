"""The picture shows every node once, says why, escapes what it is given, and fetches nothing."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import kept.graphs.drawing
from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.graphs.builder import BuilderConfig, build, build_many
from kept.graphs.drawing.draw import draw_html, draw_svg
from kept.graphs.drawing.layout import BOX, WIDTH, lay_out
from kept.graphs.explain import explain
from kept.graphs.graph import NodeKind, WordKnowledgeGraph
from kept.graphs.views import adjacency
from kept.randomness import generator
from kg_loaders import (
    GraphMismatchError,
    KnowledgeGraph,
    Text,
    TextKind,
    Triple,
    graph_from_records,
)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NASTY = "</script><b>\"&'\x00\x1b@@data@@\ud800"


@pytest.fixture(scope="module", params=["replaced", "kept", "both directions"])
def graphs(
    request: Any, tokenizer: Any, small_graph: KnowledgeGraph, linked: list[LinkedText]
) -> list[WordKnowledgeGraph]:
    config = BuilderConfig(
        replace_mentions=request.param != "kept",
        directions="both" if request.param == "both directions" else "head",
    )
    return build_many(linked, tokenizer, small_graph, seed=0, config=config)


@pytest.fixture
def nasty(tokenizer: Any) -> tuple[WordKnowledgeGraph, KnowledgeGraph]:
    names = [NASTY.replace("\ud800", "") + end for end in "ab"]
    records = [Triple(names[0], "r", names[1]), Text(names[0], TextKind.LABEL, names[0])]
    graph = graph_from_records([*records, Text("r", TextKind.LABEL, names[0], is_relation=True)])
    link = Link(Mention(0, 5), (Candidate(names[1], 0.1, 0.1),), names[0], 1.0)
    text = LinkedText(f"river {NASTY}".replace("\ud800", ""), (link,))
    draws = generator(0, "graph", 0, 0)
    return build(text, tokenizer, graph, generator=draws), graph


def test_every_node_has_one_home_and_none_overlap(
    graphs: list[WordKnowledgeGraph], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    for built in graphs:
        drawing = lay_out(built, explain(built, small_graph, tokenizer))
        boxes = [*drawing.boxes, *(b for f in drawing.facts for b in (f.relation, f.other))]
        assert sorted(b.node for b in boxes if not b.is_echo) == list(range(built.n_nodes))
        for box in boxes:
            assert box.x >= 0
            assert box.x + box.width <= WIDTH
            assert box.y + BOX <= drawing.height
        for a, b in itertools.combinations(boxes, 2):
            apart = a.x + a.width <= b.x or b.x + b.width <= a.x or abs(a.y - b.y) >= BOX
            assert apart, (a, b)


def test_svg_is_sound_and_tells_why(
    graphs: list[WordKnowledgeGraph], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    for built in graphs:
        root = ElementTree.fromstring(draw_svg(built, small_graph, tokenizer))
        name = {"s": "http://www.w3.org/2000/svg"}
        assert root.find("s:title", name) is not None
        assert root.find("s:desc", name) is not None
        drawn = root.findall(".//s:g[@data-node]", name)
        assert {int(g.attrib["data-node"]) for g in drawn} == set(range(built.n_nodes))
        for g in drawn:
            node = int(g.attrib["data-node"])
            position = g.findtext("s:text[@class='position']", None, name)
            assert position == str(built.positions[node])
            tip = g.findtext("s:title", "", name)
            assert len(tip.splitlines()) >= 2


def test_reasons(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    link = Link(
        Mention(0, 5), (Candidate("Q90", 0.8, 1.0), Candidate("Q830149", 0.2, 0.1)), "Q90", 0.75
    )
    config = BuilderConfig(policy="file")
    draws = generator(0, "graph", 0, 0)
    text = LinkedText("Paris river", (link,))
    built = build(text, tokenizer, small_graph, generator=draws, config=config)
    nodes = explain(built, small_graph, tokenizer)
    why = {node.role: " ".join(node.why) for node in nodes}
    assert "“Paris” (characters 0 to 5), linked to Paris [Q90]" in why["anchor"]
    assert "confidence 0.75" in why["anchor"]
    assert "Paris [Q830149] (prior 0.20)" in why["anchor"]
    facts = [node for node in nodes if node.role == "relation"]
    assert "Paris — capital of → France, ranked 1 among" in facts[0].why[0]
    assert "ranked 3 among" in facts[2].why[0]
    assert "France [Q142] is part of 2 of the facts" in " ".join(
        line for node in nodes if node.label == "France" for line in node.why
    )


def test_page_is_offline_and_complete(
    graphs: list[WordKnowledgeGraph], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    for built in graphs[:10]:
        page = draw_html(built, small_graph, tokenizer)
        rest = page.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]|<link|<img|src=|@import|url\((?!#)", rest)
        found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
        assert found is not None
        data = json.loads(found[1])
        assert [n["position"] for n in data["nodes"]] == built.positions.tolist()
        seen = np.zeros((built.n_nodes, built.n_nodes), bool)
        for i, node in enumerate(data["nodes"]):
            seen[i, node["sees"]] = True
        np.testing.assert_array_equal(seen, adjacency(built))
        layers = re.findall(r'<path class="cells \w+" d="([^"]*)"', page)
        assert sum(layer.count("M") for layer in layers) == int(seen.sum())
        assert page.count("<tr data-node") == int((built.kinds == NodeKind.RELATION).sum())


def test_hostile_text_is_escaped(
    nasty: tuple[WordKnowledgeGraph, KnowledgeGraph], tokenizer: Any
) -> None:
    built, graph = nasty
    ElementTree.fromstring(draw_svg(built, graph, tokenizer))
    page = draw_html(built, graph, tokenizer)
    assert "</script><b>" not in page
    assert "\x00" not in page
    assert page.count("<script") == 2
    assert "@@" not in page
    found = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert found is not None
    assert "</script><b>" in [node["label"] for node in json.loads(found[1])["nodes"]][-1]
    page.encode("utf-8")


def test_a_graph_of_other_ids_is_refused(
    nasty: tuple[WordKnowledgeGraph, KnowledgeGraph], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    with pytest.raises(GraphMismatchError, match="open the graph it was built with"):
        draw_svg(nasty[0], small_graph, tokenizer)


def luminance(colour: str) -> float:
    digits = colour if len(colour) == 6 else "".join(2 * c for c in colour)
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_stands_out_from_its_ground() -> None:
    css = (Path(kept.graphs.drawing.__file__).parent / "graph.css").read_text()

    def colour(rule: str) -> str:
        found = re.search(re.escape(rule) + r"[^{]*{[^}]*?fill: #([0-9a-f]+)", css)
        assert found is not None, rule
        return found[1]

    pairs = {
        (".graph .anchor .label", ".graph .anchor rect"),
        (".graph text", ".graph .neighbour rect"),
        (".graph text", ".graph .relation polygon"),
        (".graph text", ".graph .word rect"),
        (".graph .special .label", ".graph .special rect"),
        (".graph .neighbour .position", ".graph .neighbour rect"),
        (".graph .neighbour .position", ".graph .relation polygon"),
        (".graph .position", ".graph .word rect"),
    }
    for text, ground in sorted(pairs):
        low, high = sorted((luminance(colour(text)), luminance(colour(ground))))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_page_works_in_a_browser(
    tmp_path: Path, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    text = LinkedText("Paris river", (Link(Mention(0, 5), (), "Q90", 0.75),))
    built = build(text, tokenizer, small_graph, generator=generator(0, "graph", 0, 0))
    page = draw_html(built, small_graph, tokenizer)
    anchor = int(np.flatnonzero(built.kinds == NodeKind.ENTITY)[0])
    act = (
        f"document.querySelector('[data-node=\"{anchor}\"]').dispatchEvent(new Event('click'));"
        "document.querySelector('#layers input').click();"
        "const m = document.querySelector('.matrix'), b = m.getBoundingClientRect();"
        "const at = {clientX: b.left + 152, clientY: b.top + 152};"
        "m.dispatchEvent(new MouseEvent('mousemove', at));"
    )
    (tmp_path / "page.html").write_text(page.replace("</body>", f"<script>{act}</script></body>"))
    flags = "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run"
    flags += " --disable-component-update --disable-sync --disable-dev-shm-usage --dump-dom"
    done = subprocess.run(
        [str(CHROMIUM), *flags.split(), f"--user-data-dir={tmp_path / 'profile'}",
         (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert re.search(rf'<g class="node anchor picked" data-node="{anchor}"', done.stdout)
    detail = re.search(r'id="detail".*?</div>', done.stdout, re.S)
    assert detail is not None
    assert "confidence 0.75" in detail[0]
    assert '<path class="cells block hidden"' in done.stdout
    assert "“[CLS]” (special token) sees itself" in done.stdout
    n_unseen = built.n_nodes - int(adjacency(built)[anchor].sum())
    assert len(set(re.findall(r'unseen" data-node="(\d+)"', done.stdout))) == n_unseen


def test_long_labels_are_cut_and_named_in_full(tokenizer: Any) -> None:
    long = "W" * 90
    graph = graph_from_records([Triple("A", long, "B" + long)])
    link = Link(Mention(0, 1), (), "A", 1.0)
    built = build(LinkedText("a", (link,)), tokenizer, graph, generator=generator(0, "graph", 0, 0))
    svg = draw_svg(built, graph, tokenizer)
    labels = re.findall(r'class="label"[^>]*>([^<]*)<', svg)
    assert all(label.endswith("…") and len(label) < 30 for label in labels)
    assert f"<title>{long}" in svg
    assert dataclasses.asdict(explain(built, graph, tokenizer)[-1])["label"] == long


def test_a_relation_that_is_asked_for_is_drawn(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    text = LinkedText("Paris river", (Link(Mention(0, 5), (), "Q90", 0.75),))
    built = build(text, tokenizer, small_graph, generator=generator(0, "graph", 0, 0))
    asked = int(np.flatnonzero(built.kinds == NodeKind.RELATION)[0])
    origins = built.origins.copy()
    origins[asked, 1:] = -1
    built = dataclasses.replace(built, origins=origins)
    assert "prediction target" in explain(built, small_graph, tokenizer)[asked].why[0]
    assert draw_html(built, small_graph, tokenizer).count("<tr data-node") == 2


def test_a_page_long_description_is_cut_at_a_word(tokenizer: Any) -> None:
    said = "a river that " + "flows and " * 99
    texts = [Text("Q1", TextKind.LABEL, "Seine"), Text("Q1", TextKind.DESCRIPTION, said)]
    graph = graph_from_records([Triple("Q1", "r", "Q2"), *texts])
    linked = LinkedText("Seine", (Link(Mention(0, 5), (), "Q1", 0.75),))
    built = build(linked, tokenizer, graph, generator=generator(0))
    (why,) = {
        line for node in explain(built, graph, tokenizer) for line in node.why if "river" in line
    }
    assert why.startswith("Seine: a river that flows and")
    assert why.endswith(" ….")
    assert len(why) < 140
