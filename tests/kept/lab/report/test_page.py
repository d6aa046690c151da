"""The report page escapes what it shows and needs nothing from outside."""

from pathlib import Path

from kept.lab.report.page import Section, embedded_page, page, picture, prose, table


def test_everything_is_escaped() -> None:
    nasty = '<script>alert("x")</script>'
    html = page(nasty, nasty, [Section(nasty, (prose(nasty), table([nasty], [[nasty]], nasty)))])
    assert html.count("<script>") == 1  # the page's own
    assert html.count("&lt;script&gt;") == 9  # title, heading, lead, section and caption twice


def test_page_is_offline(tmp_path: Path) -> None:
    png = tmp_path / "dot.png"
    png.write_bytes(b"\x89PNG")
    inner = embedded_page("<p>in 'here' & \"there\"</p>", "frame", 100)
    html = page("t", "l", [Section("s", (picture(png, "a dot"), inner))])
    assert "http://" not in html
    assert "https://" not in html
    assert 'src="data:image/png;base64,iVBORw=="' in html
    assert "&lt;p&gt;in &#x27;here&#x27; &amp; &quot;there&quot;&lt;/p&gt;" in html


def test_there_are_no_empty_tables_columns_or_parts() -> None:
    assert table(("a", "b"), [], "none") == ""
    assert table(("a", "b"), [["", ""]], "none") == ""
    filled = table(("a", "b", "verdict"), [["1", "", "x"], ["2", "", "y"]], "some")
    assert '<th scope="col">b</th>' not in filled
    assert filled.count(' class="held"') == 3  # the head and two cells
    html = page("t", "", [Section("empty", ("", "")), Section("full", (filled,), folded=True)])
    assert "empty" not in html
    assert '<details id="s0"><summary><h2>full</h2></summary>' in html
