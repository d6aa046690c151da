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
from kept.graphs.drawing.draw import clean, draw_html, draw_svg, safe, shape
from kept.graphs.drawing.layout import BOX, WIDTH, lay_out
from kept.graphs.explain import explain
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.views import adjacency, is_anchor
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
        nodes = root.findall(".//s:g[@data-node]", name)
        assert {int(g.attrib["data-node"]) for g in nodes} == set(range(built.n_nodes))
        for g in nodes:
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
        data_of_page = re.search(
            r'<script type="application/json" id="data">(.*?)</script>', page, re.S
        )
        assert data_of_page is not None
        data = json.loads(data_of_page[1])
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
    match = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert match is not None
    assert "</script><b>" in [node["label"] for node in json.loads(match[1])["nodes"]][-1]
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
        match = re.search(re.escape(rule) + r"[^{]*{[^}]*?fill: #([0-9a-f]+)", css)
        assert match is not None, rule
        return match[1]

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
    node = int(np.flatnonzero(built.kinds == NodeKind.RELATION)[0])
    origins = built.origins.copy()
    origins[node, 1:] = -1
    built = dataclasses.replace(built, origins=origins)
    assert "prediction target" in explain(built, small_graph, tokenizer)[node].why[0]
    assert draw_html(built, small_graph, tokenizer).count("<tr data-node") == 2


def test_a_page_long_description_is_cut_at_a_word(tokenizer: Any) -> None:
    description = "a river that " + "flows and " * 99
    texts = [Text("Q1", TextKind.LABEL, "Seine"), Text("Q1", TextKind.DESCRIPTION, description)]
    graph = graph_from_records([Triple("Q1", "r", "Q2"), *texts])
    linked = LinkedText("Seine", (Link(Mention(0, 5), (), "Q1", 0.75),))
    built = build(linked, tokenizer, graph, generator=generator(0))
    (why,) = {
        line for node in explain(built, graph, tokenizer) for line in node.why if "river" in line
    }
    assert why.startswith("Seine: a river that flows and")
    assert why.endswith(" ….")
    assert len(why) < 140


# ---- where lines, marks and cells are ------------------------------------------------------------
SVG = {"s": "http://www.w3.org/2000/svg"}


def numbers(path: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?[\d.]+", path)]


def test_lines_lead_from_the_middle_of_a_box_to_the_middle_of_the_next(
    graphs: list[WordKnowledgeGraph], small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """A fact hangs from the middle of its anchor; a mention's words lead to that of theirs."""
    n_facts, n_threads = 0, 0
    for built in graphs:
        drawing = lay_out(built, explain(built, small_graph, tokenizer))
        root = ElementTree.fromstring(draw_svg(built, small_graph, tokenizer))
        lines = [p.attrib for p in root.findall(".//s:path[@data-edge]", SVG)]
        boxes = {box.node: box for box in drawing.boxes}
        facts = [line for line in lines if "mention" not in line["class"]]
        for fact, (down, across) in zip(
            drawing.facts, zip(facts[::2], facts[1::2], strict=True), strict=True
        ):
            anchor, relation, other = fact.anchor, fact.relation, fact.other
            assert down["data-edge"] == f"{anchor.node} {relation.node}"
            assert across["data-edge"] == f"{relation.node} {other.node}"
            ends = numbers(down["d"])
            assert ends[:2] == pytest.approx([anchor.x + anchor.width / 2, anchor.y + BOX], abs=0.1)
            assert ends[-1] == pytest.approx(relation.x, abs=0.1)
            assert numbers(across["d"]) == pytest.approx(
                [relation.x + relation.width, relation.y + BOX / 2, other.x], abs=0.1
            )
            side = "marker-end" if fact.from_anchor else "marker-start"
            assert side in down
            assert side in across
            assert ("marker-start" in down) is not fact.from_anchor
            n_facts += 1
        joined = built.edges[built.edge_kinds == EdgeKind.MENTION_ENTITY].tolist()
        threads = [line for line in lines if "mention" in line["class"]]
        lines_by_edge = {
            tuple(map(int, line["data-edge"].split())): numbers(line["d"]) for line in threads
        }
        assert len(lines_by_edge) == len(threads)
        assert set(lines_by_edge) == {(word, anchor) for word, anchor in joined}
        for (word, anchor), ends in lines_by_edge.items():
            upper, lower = boxes[word], boxes[anchor]
            assert ends == pytest.approx(
                [upper.x + upper.width / 2, upper.y + BOX, lower.x + lower.width / 2, lower.y],
                abs=0.1,
            )
            n_threads += 1
    assert n_facts
    assert n_threads or all(not (g.edge_kinds == EdgeKind.MENTION_ENTITY).any() for g in graphs)


def test_a_relation_is_a_hexagon_of_its_width() -> None:
    points = re.search(r'points="([^"]*)"', shape("relation", 5.0, 7.0, 100.0))
    assert points is not None
    corners = [tuple(map(float, point.split(","))) for point in points[1].split()]
    assert corners == [(5, 20), (15, 7), (95, 7), (105, 20), (95, 33), (15, 33)]


def test_other_shapes_are_told_by_their_corners() -> None:
    for role, radius in (("word", 2), ("special", 2), ("anchor", 13), ("neighbour", 13)):
        markup = shape(role, 1.0, 2.0, 50.0)
        assert f'x="1.0" y="2.0" width="50.0" height="{BOX}"' in markup
        assert f'rx="{radius}" ry="{radius}"' in markup


def test_the_sentence_is_whole_and_marks_its_anchors(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    links = (Link(Mention(4, 9), (), "Q90", 0.75), Link(Mention(20, 26), (), "Q64", 0.5))
    text = LinkedText("old Paris lies near Berlin & on", links)
    built = build(text, tokenizer, small_graph, generator=generator(0))
    page = draw_html(built, small_graph, tokenizer)
    match = re.search(r"old <mark.*? on", page)
    assert match is not None
    assert re.sub(r' data-node="\d+"', "", match[0]) == (
        "old <mark>Paris<sub>Q90</sub></mark> lies near <mark>Berlin<sub>Q64</sub></mark> &amp; on"
    )


def test_the_matrix_has_a_cell_where_one_sees_the_other(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    text = LinkedText("Paris river", (Link(Mention(0, 5), (), "Q90", 0.75),))
    built = build(text, tokenizer, small_graph, generator=generator(0))
    page = draw_html(built, small_graph, tokenizer)
    match = re.search(r'<svg class="matrix".*?</svg>', page, re.S)
    assert match is not None
    root = ElementTree.fromstring(match[0])
    side, cell, n = (float(root.attrib[f"data-{name}"]) for name in ("side", "cell", "n"))
    assert (n, cell) == (built.n_nodes, 16.0)
    seen: dict[str, set[tuple[int, int]]] = {}
    for layer in root.findall("path"):
        kind = layer.attrib["class"].removeprefix("cells ")
        corners = re.findall(r"M([\d.]+) ([\d.]+)h", layer.attrib["d"])
        seen[kind] = {
            (round((float(y) - side - 0.5) / cell), round((float(x) - side - 0.5) / cell))
            for x, y in corners
        }
    visible = {tuple(pair) for pair in np.argwhere(adjacency(built)).tolist()}
    block = (built.kinds == NodeKind.WORD) | is_anchor(built)
    assert seen["self"] == {(i, i) for i in range(built.n_nodes)}
    assert seen["block"] == {(i, j) for i, j in visible if i != j and block[i] and block[j]}
    assert seen["fact"] == {(i, j) for i, j in visible if i != j and not (block[i] and block[j])}
    divides = root.find("path[@class='divide']")
    assert divides is not None
    borders = {
        round((float(y) - side) / cell) for y in re.findall(r"M150 ([\d.]+)H", divides.attrib["d"])
    }
    n_words, n_anchors = int((built.kinds == NodeKind.WORD).sum()), int(is_anchor(built).sum())
    n_relations = int((built.kinds == NodeKind.RELATION).sum())
    assert borders == {n_words, n_words + n_anchors, built.n_nodes - n_relations}
    grid = root.find("path[@class='grid']")
    assert grid is not None
    lines = [numbers(line) for line in re.findall(r"M[^M]*H[^V]*", grid.attrib["d"])]
    assert len({tuple(line) for line in lines}) == built.n_nodes + 1
    assert float(root.attrib["width"]) == round(side + n * cell + 2)
    names = [node.label for node in explain(built, small_graph, tokenizer)]
    short = [name if len(name) <= 17 else f"{name[:16]}…" for name in names]
    for axis in ("data-row", "data-column"):
        assert [t.text for t in root.findall(f"text[@{axis}]")] == short
    rows, columns = (
        [t.attrib for t in root.findall(f"text[@{axis}]")] for axis in ("data-row", "data-column")
    )
    assert [(float(t["y"]) - side) / cell - 0.76 for t in rows] == pytest.approx(
        range(built.n_nodes), abs=0.01
    )
    assert [(numbers(t["transform"])[0] - side) / cell - 0.76 for t in columns] == pytest.approx(
        range(built.n_nodes), abs=0.01
    )


def test_a_large_matrix_has_small_cells_and_short_names(tokenizer: Any) -> None:
    name = "W" * 18
    graph = graph_from_records([Triple("A", "r", name)])
    link = Link(Mention(0, 1), (), "A", 1.0)
    text = LinkedText("a " + "river " * 60, (link,))
    built = build(text, tokenizer, graph, generator=generator(0))
    page = draw_html(built, graph, tokenizer)
    assert f'data-cell="{720 / built.n_nodes:.3f}"' in page
    assert f">{'W' * 16}…<" in page
    tiny = build(LinkedText("a " + "river " * 110, (link,)), tokenizer, graph,
                 generator=generator(0))  # fmt: skip
    assert 'data-cell="7.000"' in draw_html(tiny, graph, tokenizer)


def test_the_summary_counts_kinds_and_the_table_says_no_fact(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    text = LinkedText("Paris river", (Link(Mention(0, 5), (), "Q90", 0.75),))
    built = build(text, tokenizer, small_graph, generator=generator(0))
    counts = [int((built.kinds == kind).sum()) for kind in NodeKind]
    svg = draw_svg(built, small_graph, tokenizer)
    assert (
        f"{counts[0]} word pieces, 1 anchors, {counts[1] - 1} neighbour entities and {counts[2]} "
        f"relations; {built.n_nodes} nodes in all."
    ) in svg
    assert counts[2] == 3
    assert "No fact was injected" not in draw_html(built, small_graph, tokenizer)
    plain = build(LinkedText("river", ()), tokenizer, small_graph, generator=generator(0))
    assert "No fact was injected" in draw_html(plain, small_graph, tokenizer)


def test_characters_that_xml_forbids_are_replaced() -> None:
    allowed = "a\t\n \x7f\ud7ff\ue000\ufffd\U00010000"
    assert clean(allowed) == allowed
    assert clean("\x00\x0b\x1f\ud800\udfff\ufffe\uffff") == "\ufffd" * 7
    assert safe("<\"'&\x00") == "&lt;&quot;&#x27;&amp;\ufffd"


def test_labels_are_in_the_middle_of_words_and_at_the_left_of_facts(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    text = LinkedText("Paris river", (Link(Mention(0, 5), (), "Q90", 0.75),))
    built = build(text, tokenizer, small_graph, generator=generator(0))
    nodes = explain(built, small_graph, tokenizer)
    drawing = lay_out(built, nodes)
    boxes = [*drawing.boxes, *(b for f in drawing.facts for b in (f.relation, f.other))]
    root = ElementTree.fromstring(draw_svg(built, small_graph, tokenizer))
    groups = root.findall(".//s:g[@data-node]", SVG)
    assert len(groups) == len(boxes)
    by_corner = {(b.x, b.y): b for b in boxes}
    assert len(by_corner) == len(boxes)
    for box in boxes:
        texts = [
            t.attrib
            for g in groups
            for t in g.findall("s:text", SVG)
            if g.attrib["data-node"] == str(box.node)
        ]
        (label,) = [t for t in texts if t["class"].startswith("label")][:1]
        is_hung = nodes[box.node].role in ("relation", "neighbour")
        assert ("middle" in label["class"]) is not is_hung
        expected = box.x + 35 if is_hung else box.x + box.width / 2
        if not box.is_echo:
            assert float(label["x"]) == pytest.approx(expected, abs=0.1)


def test_the_title_of_a_page_is_the_start_of_its_text(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    text = "river " * 13 + "12345"
    built = build(LinkedText(text, ()), tokenizer, small_graph, generator=generator(0))
    page = draw_html(built, small_graph, tokenizer)
    assert text[:80] + "<" in page.partition("</title>")[0] + "<"
    assert text[:81] not in page.partition("</title>")[0]


def test_the_table_ranks_facts_from_one(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    text = LinkedText("Paris river", (Link(Mention(0, 5), (), "Q90", 0.75),))
    config = BuilderConfig(policy="file")
    built = build(text, tokenizer, small_graph, generator=generator(0), config=config)
    rows = re.findall(r"<tr data-node=.*?</tr>", draw_html(built, small_graph, tokenizer))
    cells = [re.findall("<td>(.*?)</td>", row) for row in rows]
    assert [row[1] for row in cells] == ["Paris"] * 3
    assert sorted(row[2] for row in cells) == ["1", "2", "3"]
    assert cells[0][0] == "Paris — capital of → France"
    assert cells[0][3] == "Q90 P1376 Q142"
