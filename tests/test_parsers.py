"""Each parser gives the text a reader sees, with headings; a file that cannot be read is reported and skipped."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from fpdf import FPDF
from hypothesis import given
from hypothesis import strategies as st

from contextgrid.core.documents import Document, MediaType, Source
from contextgrid.core.errors import ConfigError, CorpusError
from contextgrid.core.tables import DOCUMENTS
from contextgrid.core.words import words
from contextgrid.corpus import Corpus
from contextgrid.parse import PARSERS, parse_corpus


def parse(content: str | bytes, media_type: MediaType, parser: str = "auto") -> Document:
    raw = content.encode() if isinstance(content, str) else content
    return PARSERS.build(parser).parse(Source("d", media_type, raw))


def html(body: str) -> str:
    return parse(f"<!DOCTYPE html><html><body>{body}</body></html>", MediaType.HTML).text


def headings(document: Document) -> list[tuple[int, str]]:
    return [(heading.level, document.text[heading.start : heading.end]) for heading in document.headings]


# text and encodings


def test_the_plugins_are_the_documented_ones() -> None:
    assert PARSERS.names() == ("auto", "html", "markdown", "pdf", "text")


def test_text_is_kept_as_it_is_with_lf_line_ends() -> None:
    assert parse(b"\xef\xbb\xbf a\r\n\r\nb\rc\t<b>\n", MediaType.TEXT).text == " a\n\nb\nc\t<b>\n"


def test_the_text_parser_shows_markup_as_text() -> None:
    assert parse("<p>a</p>", MediaType.HTML, "text").text == "<p>a</p>"
    assert parse("# a", MediaType.MARKDOWN, "text") == Document("d", "# a")


def test_a_byte_order_mark_announces_utf16() -> None:
    assert parse("naïve 文".encode("utf-16"), MediaType.TEXT).text == "naïve 文"


@pytest.mark.parametrize("media_type", [MediaType.TEXT, MediaType.MARKDOWN, MediaType.HTML])
def test_bytes_that_are_no_text_are_an_error_with_the_place(media_type: MediaType) -> None:
    with pytest.raises(CorpusError, match="'d' is not UTF-8 text: bad byte at offset 3; save it as UTF-8"):
        parse(b"caf\xe9", media_type)


# markdown


@given(st.text(st.characters(exclude_characters="\r\ufeff", codec="utf-8")))
def test_markdown_text_is_kept_character_for_character(text: str) -> None:
    document = parse(text, MediaType.MARKDOWN)
    assert document.text == text
    assert all(0 <= heading.start < heading.end <= len(text) for heading in document.headings)


def test_markdown_headings_are_found_with_their_levels() -> None:
    text = (
        "# One #\n\ntext\n## Two\n   ### Three\nUnder\n=====\nLine\n---\n#No\n####### seven\n    # code\n\\# no\n######"
    )
    assert headings(parse(text, MediaType.MARKDOWN)) == [
        (1, "# One #"),
        (2, "## Two"),
        (3, "   ### Three"),
        (1, "Under\n====="),
        (2, "Line\n---"),
        (6, "######"),
    ]


def test_fenced_code_and_front_matter_hold_no_headings() -> None:
    text = (
        "---\ntitle: x\n---\n# A\n```sh\n# comment\n~~~\n# still\n```\n# B\n"
        "~~~~ md\n```\n# c\n~~~\n# d\n~~~~~\n# C\n````\n# open to the end\n```"
    )
    assert headings(parse(text, MediaType.MARKDOWN)) == [(1, "# A"), (1, "# B"), (1, "# C")]


def test_a_rule_after_a_list_a_table_or_a_blank_line_is_no_heading() -> None:
    text = "- item\n---\n| a |\n---\n\n---\n> quote\n===\n1. one\n---\ntext\n-\n"
    assert headings(parse(text, MediaType.MARKDOWN)) == []


# html


def test_blocks_become_paragraphs_and_white_space_within_them_one_space() -> None:
    assert html("<p>One\n  <b>two</b>\t<i>three</i>.</p>\n<div>Four<div>five</div>six</div>") == (
        "One two three.\n\nFour\n\nfive\n\nsix"
    )
    assert html("a<br>b<br><br>c<hr>d") == "a\nb\n\nc\n\nd"
    assert html("un<b>bro</b>ken<!-- note --> word") == "unbroken word"


def test_entities_no_break_spaces_and_soft_hyphens_become_plain_text() -> None:
    assert html("<p>&lt;a&gt; &amp; b&nbsp;c &#8220;d&#x201d; soft&shy;en &euro;</p>") == "<a> & b c “d” soften €"


def test_what_a_reader_does_not_see_is_left_out() -> None:
    hidden = (
        "<script>var x='no';</script><style>p{}</style><template><p>no</p></template><noscript>no</noscript>"
        "<p hidden>no</p><p style='color:red; display: none'>no</p><span aria-hidden='true'>no</span>"
        "<svg><text>no</text></svg><select><option>no</option></select><textarea>no</textarea><!-- no -->"
    )
    page = f"<html><head><title>no</title></head><body>{hidden}<p>yes</p></body></html>"
    assert parse(page, MediaType.HTML).text == "yes"


def test_navigation_is_left_out_but_not_a_text_that_is_only_called_so() -> None:
    navigation = (
        "<nav><a href='/'>home</a></nav><div role='navigation'>menu</div><ul class='breadcrumbs big'><li>a</li></ul>"
        "<div class='navheader'><table><tr><th>Chapter 1</th></tr><tr><td><a>Next</a></td></tr></table></div>"
        "<div class='site-nav'>b</div><div class='navfooter'>c</div><div class='pagination'>2</div>"
    )
    assert html(f"{navigation}<p class='navy navigable'>Text</p>") == "Text"
    assert html("<div class='navigation'><p>A whole page.</p></div>") == "A whole page."


def test_lists_have_marks_and_numbers() -> None:
    assert html("<p>Do:</p><ul><li>one<li>two <b>b</b></ul>") == "Do:\n\n- one\n- two b"
    assert html("<ul><li><p>one</p><p>more</p></li><li><p>two</p></li></ul>") == "- one\n\nmore\n\n- two"
    assert html("<ol start=3><li>c</li><li><ul><li>inner</li></ul></li><li>e</li></ol>") == "3. c\n\n- inner\n\n5. e"
    assert html("<dl><dt>term</dt><dd>meaning</dd><dt>other</dt></dl>") == "term\nmeaning\nother"


def test_table_cells_are_parted_by_tabs_and_rows_by_lines() -> None:
    table = (
        "<p>before</p><table><caption>Prices</caption><thead><tr><th>item</th><th>price</th></tr></thead>"
        "<tbody><tr><td><p>a <b>b</b></p></td><td><p>3</p></td></tr><tr><td>c</td><td>4</td></tr></tbody></table>after"
    )
    assert html(table) == "before\n\nPrices\nitem\tprice\na b\t3\nc\t4\n\nafter"


def test_preformatted_text_stays_verbatim() -> None:
    code = "<p>Run:</p><pre>\n  if x:\n      <b>y</b>()\n\n\n<span>z</span>\n</pre><p>Done  now</p>"
    assert html(code) == "Run:\n\n  if x:\n      y()\n\n\nz\n\nDone now"
    lines = "<pre><span>a</span>\n<span>b</span><br><span>c</span></pre>"
    assert html(lines) == "a\nb\nc"


def test_html_headings_are_spans_of_the_text() -> None:
    page = "<h1>Title <em>one</em></h1><p>x</p><section><h2>\n Two<br>lines </h2></section><h3></h3><h6>Six</h6>"
    assert headings(parse(page, MediaType.HTML)) == [(1, "Title one"), (2, "Two\nlines"), (6, "Six")]


@pytest.mark.parametrize(
    "page",
    [
        "<meta charset='iso-8859-1'><p>café “x”</p>".encode("cp1252"),
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1252"><p>café “x”</p>'.encode("cp1252"),
        '<?xml version="1.0" encoding="UTF-8"?><p>café “x”</p>'.encode(),
        "<p>café “x”</p>".encode("utf-8-sig"),
        "<meta charset=ascii><p>café “x”</p>".encode("utf-16"),
        "<meta charset=no-such-thing><p>café “x”</p>".encode(),
        "<meta charset=utf-16><p>café “x”</p>".encode(),
    ],
)
def test_a_page_declares_its_encoding(page: bytes) -> None:
    assert parse(page, MediaType.HTML).text == "café “x”"


def test_chinese_pages_in_their_national_encoding_are_read() -> None:
    assert parse("<meta charset=gb2312><p>保修期</p>".encode("gb18030"), MediaType.HTML).text == "保修期"


def test_deep_nesting_and_tag_soup_are_survived() -> None:
    assert html("<div>" * 5000 + "deep" + "</div>" * 5000) == "deep"
    assert html("<p>a<li>b</ul></td><h2>c") == "a\n\n- b\n\nc"
    assert parse("", MediaType.HTML).text == ""
    assert parse("just text", MediaType.HTML).text == "just text"


@given(st.text(st.sampled_from(list("ab <>/&;ptdrhulipe1=\"'\n\t-")), max_size=60))
def test_any_markup_gives_headings_within_the_text(markup: str) -> None:
    document = parse(markup, MediaType.HTML)
    assert all(0 <= h.start < h.end <= len(document.text) for h in document.headings)
    assert document.text == document.text.lstrip("\n")


# pdf

BODY = (
    "Refunds are issued within thirty days of purchase when the goods are unused and in their first packaging. "
    "The customer pays for the return unless the goods were damaged or wrong when they arrived at the door. "
)


class Paper(FPDF):  # type: ignore[misc]
    """A4 pages set as prose usually is: Times 11, justified."""

    running_header: str | None = None

    def header(self) -> None:
        if self.running_header is not None:
            self.set_font("Times", size=9)
            self.cell(0, 5, self.running_header.format(page=self.page_no()))
            self.ln(14)

    def footer(self) -> None:
        if self.running_header is not None:
            self.set_y(-15)
            self.set_font("Times", size=9)
            self.cell(0, 5, f"Page {self.page_no()} of 9", align="C")

    def say(self, text: str, size: float = 11, space: float = 4, width: float = 0) -> None:
        self.set_font("Times", size=size)
        self.multi_cell(width, size * 0.45, text, align="J" if size == 11 else "L", new_x="LMARGIN", new_y="NEXT")
        self.ln(space)

    def content(self) -> bytes:
        return bytes(self.output())


def paper(running_header: str | None = None) -> Paper:
    pdf = Paper()
    pdf.running_header = running_header
    pdf.add_page()
    return pdf


def pdf_text(pdf: Paper) -> str:
    return parse(pdf.content(), MediaType.PDF).text


def test_lines_of_a_pdf_are_joined_into_paragraphs() -> None:
    pdf = paper()
    pdf.say(BODY * 3)
    pdf.say(BODY)
    pdf.say("A short one.")
    assert pdf_text(pdf) == f"{(BODY * 3).strip()}\n\n{BODY.strip()}\n\nA short one."


def test_larger_print_is_a_heading_and_the_largest_is_level_one() -> None:
    pdf = paper()
    pdf.say("Terms of sale", size=22)
    pdf.say("1 Refunds and a title that is so long that it has to be set on two lines of the page", size=16)
    pdf.say(BODY * 2)
    pdf.say("2 Shipping", size=16)
    pdf.say(BODY * 2)
    assert headings(parse(pdf.content(), MediaType.PDF)) == [
        (1, "Terms of sale"),
        (2, "1 Refunds and a title that is so long that it has to be set on two lines of the page"),
        (2, "2 Shipping"),
    ]


def test_hyphens_at_line_ends_are_undone_where_the_word_goes_on() -> None:
    pdf = paper()
    pdf.set_font("Times", size=11)
    for line in (
        "This long line of the manual is about documentation and about well-known de-",
        "fects, and about the documen-",
        "tation of well-",
        "known faults, of 32-",
        "bit machines and of non-",
        "Linux systems.",
    ):
        pdf.cell(0, 5, line, new_x="LMARGIN", new_y="NEXT")
    assert pdf_text(pdf).replace("\n", " ") == (
        "This long line of the manual is about documentation and about well-known defects, and about the "
        "documentation of well-known faults, of 32-bit machines and of non-Linux systems."
    )


def test_running_headers_footers_and_page_numbers_are_dropped() -> None:
    pdf = paper("Terms of sale, version 4, page {page}")
    for number in range(4):
        if number:
            pdf.add_page()
        pdf.say(f"Part {number}", size=16)
        pdf.say(BODY * 2)
    text = pdf_text(pdf)
    assert "version" not in text
    assert "Page" not in text
    assert re.findall(r"Part \d", text) == ["Part 0", "Part 1", "Part 2", "Part 3"]


def test_a_paragraph_goes_on_over_the_page() -> None:
    pdf = paper("Terms of sale {page}")
    pdf.say(BODY * 40)
    assert pdf.page_no() >= 2
    pdf.say("The end.")
    assert pdf_text(pdf) == f"{(BODY * 40).strip()}\n\nThe end."


def test_two_columns_are_read_one_after_the_other() -> None:
    pdf = paper()
    with pdf.text_columns(ncols=2, gutter=10, text_align="J") as columns:
        pdf.set_font("Times", size=11)
        columns.write(BODY * 30)
    joined = re.sub(r"\s+", " ", pdf_text(pdf)).strip()
    assert joined == (BODY * 30).strip()


def test_bullets_become_list_items() -> None:
    pdf = paper()
    pdf.say("You need:")
    pdf.set_font("Times", size=11)
    for item in ("a receipt", "the goods, which must be unused"):
        pdf.cell(5, 5, "\x95")  # the bullet of the core fonts' encoding
        pdf.cell(0, 5, item, new_x="LMARGIN", new_y="NEXT")
    assert pdf_text(pdf) == "You need:\n\n- a receipt\n- the goods, which must be unused"


def test_footnote_marks_do_not_run_into_their_word() -> None:
    pdf = paper()
    pdf.set_font("Times", size=11)
    for text, position in (
        ("the archives", "LINE"),
        ("12", "SUP"),
        (" of 30 m", "LINE"),
        ("2", "SUP"),
        (" are", "LINE"),
    ):
        pdf.char_vpos = position
        pdf.write(5, text)
    assert pdf_text(pdf) == "the archives[12] of 30 m2 are"


def test_addresses_broken_at_a_line_end_are_whole_again() -> None:
    pdf = paper()
    pdf.set_font("Times", size=11)
    for line in ("Further reading for those who want it is at https://www.", "example.org/intro.html. The rest."):
        pdf.cell(0, 5, line, new_x="LMARGIN", new_y="NEXT")
    assert "https://www.example.org/intro.html. The rest." in pdf_text(pdf)


def test_listings_keep_their_lines_and_indentation() -> None:
    pdf = paper()
    pdf.say(BODY)
    pdf.set_font("Courier", size=9)
    for line in ("def answer(question):", "    if question:", "        return 42"):
        pdf.cell(0, 4, line, new_x="LMARGIN", new_y="NEXT")
    assert pdf_text(pdf).endswith("\n\ndef answer(question):\n    if question:\n        return 42")


def test_an_encrypted_a_damaged_and_a_scanned_pdf_are_errors() -> None:
    pdf = paper()
    pdf.say("secret")
    pdf.set_encryption(owner_password="a", user_password="b")
    with pytest.raises(CorpusError, match="'d' is encrypted; save it without a password"):
        parse(pdf.content(), MediaType.PDF)
    for damaged in (b"", b"%PDF-1.4\nnonsense", paper().content()[:200]):
        with pytest.raises(CorpusError, match="'d' is not a readable PDF file"):
            parse(damaged, MediaType.PDF)
    with pytest.raises(CorpusError, match="'d' holds no text, only images; run text recognition"):
        parse(paper().content(), MediaType.PDF)


def test_pdfs_may_be_parsed_by_several_threads() -> None:
    pdf = paper()
    pdf.say(BODY * 20)
    content = pdf.content()
    with ThreadPoolExecutor(4) as threads:
        texts = set(threads.map(lambda _: parse(content, MediaType.PDF).text, range(16)))
    assert texts == {(BODY * 20).strip()}


# whole corpora


def table(**files: bytes | str) -> pa.Table:
    kinds = {"md": MediaType.MARKDOWN, "txt": MediaType.TEXT, "html": MediaType.HTML, "pdf": MediaType.PDF}
    return Corpus(
        tuple(
            Source(name.replace("_", "."), kinds[name.split("_")[1]], f.encode() if isinstance(f, str) else f)
            for name, f in files.items()
        )
    ).to_table()


@pytest.mark.parametrize("parser", ["auto", "text", "markdown", "html", "pdf"])
def test_a_mixed_corpus_works_under_any_parser(parser: str) -> None:
    pdf = paper()
    pdf.say("from a PDF")
    parsed = parse_corpus(
        table(a_md="# from Markdown", b_html="<p>from HTML", c_pdf=pdf.content(), d_txt="from text"), parser
    )
    assert parsed.schema == DOCUMENTS
    assert parsed["source_id"].to_pylist() == ["a.md", "b.html", "c.pdf", "d.txt"]
    assert parsed["error"].to_pylist() == [None] * 4
    texts = parsed["text"].to_pylist()
    assert texts[1] == ("<p>from HTML" if parser == "text" else "from HTML")
    assert [texts[0], texts[2], texts[3]] == ["# from Markdown", "from a PDF", "from text"]


def test_a_file_that_cannot_be_read_is_reported_and_the_others_go_on() -> None:
    parsed = parse_corpus(table(a_pdf=b"not a PDF", b_txt=b"\xff\xfe\xff", c_txt="fine"), "auto")
    assert parsed["text"].to_pylist() == [None, None, "fine"]
    errors = parsed["error"].to_pylist()
    assert "'a.pdf' is not a readable PDF file" in errors[0]
    assert "'b.txt' is not UTF-16 text" in errors[1]
    assert errors[2] is None


def test_a_corpus_that_yields_no_text_is_an_error() -> None:
    with pytest.raises(
        CorpusError, match=r"none of the 2 documents can be read; the first is 'a.pdf': .* not a readable"
    ):
        parse_corpus(table(a_pdf=b"x", b_txt=b"\xff"), "auto")
    with pytest.raises(CorpusError, match=r"all 2 documents are blank; add documents with text"):
        parse_corpus(table(a_txt="", b_md=" \n\t"), "auto")
    with pytest.raises(CorpusError, match=r"all 1 documents are blank \(1 more cannot be read\)"):
        parse_corpus(table(a_txt="", b_pdf=b"x"), "auto")


def test_unknown_parsers_and_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown parser 'markdwon'; did you mean 'markdown'"):
        parse_corpus(table(a_txt="x"), "markdwon")
    with pytest.raises(ConfigError, match="takes no argument"):
        parse_corpus(table(a_txt="x"), "html:3")


def test_one_line_of_five_megabytes_takes_seconds() -> None:
    line = "The quick brown fox jumps over the lazy dog. " * 110_000
    start = time.perf_counter()
    parsed = parse_corpus(table(a_txt=line, b_md=line, c_html=f"<p>{line}"), "auto")
    assert time.perf_counter() - start < 10
    assert [len(text) for text in parsed["text"].to_pylist()] == [len(line), len(line), len(line) - 1]


# one manual in three formats

_URL = re.compile(r"\(?(?:https?|ftp)\s?:\s?/\s?/[^\s)“]*(?:\s/?[^\s)“]*(?=\) ?[.,;)a-z]|\)))?\)?")
_TITLE_OF_REFERENCE = re.compile(r"((?:Section|Chapter) [\d.]+), “.*?”(?=[ .,;)])")
_CHAPTERS = (
    "basic-defs getting-debian choosing compatibility software ftparchives pkg-basics pkgtools uptodate kernel "
    "customizing support contributing redistributing nextrelease faqinfo"
).split()


def prose(text: str) -> list[str]:
    """The words of the manual without what its publisher writes in one format only: addresses, titles of references."""
    flat = _URL.sub(" ", re.sub(r"\s+", " ", text))
    return list(words(_TITLE_OF_REFERENCE.sub(r"\1", flat)))


def similarity(one: list[str], other: list[str]) -> float:
    """Share of words that both have in the same order (longest common subsequence over mean length)."""
    from rapidfuzz.distance import LCSseq

    numbers: dict[str, int] = {}
    first, second = ([numbers.setdefault(word, len(numbers)) for word in text] for text in (one, other))
    return 2 * LCSseq.similarity(first, second) / (len(first) + len(second))


@pytest.fixture(scope="module")
def manual(shared_data: Path) -> dict[str, str]:
    corpus = Corpus.from_dir(shared_data / "debian_faq" / "documents")
    contents = re.compile(rb'<div class="toc">.*?</dl></div>', re.S)
    parser = PARSERS.build("auto")
    texts = {s.id: parser.parse(Source(s.id, s.media_type, contents.sub(b"", s.content))).text for s in corpus}
    txt, pdf = texts["debian-faq.en.txt"].replace("\xa0", " "), texts["debian-faq.en.pdf"]
    return {
        "html": "\n".join(texts[f"{chapter}.en.html"] for chapter in _CHAPTERS),
        "txt": txt[txt.index("Chapter 1. Definitions") :],
        "pdf": pdf[pdf.index("\nChapter 1\n") : pdf.rindex("\nIndex P")],
    }


@pytest.mark.parametrize(
    ("one", "other", "expected"), [("html", "txt", 0.995), ("html", "pdf", 0.975), ("txt", "pdf", 0.975)]
)
def test_the_same_text_comes_out_of_html_text_and_pdf(
    manual: dict[str, str], one: str, other: str, expected: float
) -> None:
    assert similarity(prose(manual[one]), prose(manual[other])) > expected


def test_the_sections_of_the_manual_are_headings_in_html_and_pdf(shared_data: Path) -> None:
    corpus = Corpus.from_dir(shared_data / "debian_faq" / "documents")
    found: dict[str, set[str]] = {"html": set(), "pdf": set()}
    for source in corpus:
        document = PARSERS.build("auto").parse(source)
        for _, title in headings(document):
            if number := re.match(r"\d+(?:\.\d+)+", title):
                found.setdefault(source.id.rsplit(".", 1)[1], set()).add(number[0])
    assert len(found["pdf"]) > 130
    # The PDF sets the deepest level in the size of the text.
    assert found["pdf"] == {number for number in found["html"] if number.count(".") <= 2}


def test_the_handbook_has_no_page_numbers_or_running_headers(manual: dict[str, str]) -> None:
    assert not re.search(r"^CHAPTER \d+\.", manual["pdf"], re.M)
    assert len(re.findall(r"^\d{1,3}$", manual["pdf"], re.M)) <= 2  # footnote marks that stand alone in the original
