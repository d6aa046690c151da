"""The report page escapes what it shows and needs nothing from outside."""

from pathlib import Path

from kept.report.page import Section, embedded_page, page, picture, prose, table


def test_everything_is_escaped() -> None:
    nasty = '<script>alert("x")</script>'
    html = page(nasty, nasty, [Section(nasty, (prose(nasty), table([nasty], [[nasty]], nasty)))])
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") == 9


def test_page_is_offline(tmp_path: Path) -> None:
    png = tmp_path / "dot.png"
    png.write_bytes(b"\x89PNG")
    inner = embedded_page("<p>in 'here' & \"there\"</p>", "frame", 100)
    html = page("t", "l", [Section("s", (picture(png, "a dot"), inner))])
    assert "http://" not in html
    assert "https://" not in html
    assert 'src="data:image/png;base64,iVBORw=="' in html
    assert "&lt;p&gt;in &#x27;here&#x27; &amp; &quot;there&quot;&lt;/p&gt;" in html
