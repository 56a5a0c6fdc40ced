"""Write the handbook's PDF documents from the Markdown in ``pdf_sources``.

Run ``python examples/handbook/make_pdfs.py`` after editing a source. The same
source always gives the same bytes, so an unchanged PDF shows no difference.
"""

from datetime import UTC, datetime
from pathlib import Path

from fpdf import FPDF

HERE = Path(__file__).parent
PRODUCER = "contextgrid handbook example"
CREATED = datetime(2025, 3, 4, 9, 0, tzinfo=UTC)
FOLDERS = {
    "crew-duties": "ferry",
    "fire-plan": "safety",
    "inspection-manual": "workshop",
    "members-rules": "cooperative",
    "seasonal-staff-agreement": "people",
}


class Booklet(FPDF):  # type: ignore[misc]  # fpdf is not followed by mypy here
    """An A5 booklet with a numbered footer."""

    def __init__(self) -> None:
        """Set the page, the margins and the fixed metadata."""
        super().__init__(format=(148, 210))
        self.set_margins(18, 18)
        self.set_auto_page_break(True, margin=20)
        self.set_creation_date(CREATED)
        self.set_producer(PRODUCER)

    def footer(self) -> None:
        """Put the page number at the foot of every page."""
        self.set_y(-14)
        self.set_font("Helvetica", size=8)
        self.cell(0, 5, f"Page {self.page_no()} of {{nb}}", align="C")

    def block(self, text: str, size: float, before: float, style: str = "", indent: int = 0) -> None:
        """Write one heading, paragraph or list item, wrapped to the page."""
        self.ln(before)
        self.set_font("Helvetica", style, size)
        self.set_x(self.l_margin + indent)
        self.multi_cell(0, size * 0.48, text, align="L", new_x="LMARGIN", new_y="NEXT")


def render(markdown: str) -> Booklet:
    """Lay out headings, paragraphs and ``-`` lists, one per line of the source."""
    pdf = Booklet()
    pdf.add_page()
    for line in filter(None, markdown.splitlines()):
        if line.startswith("# "):
            pdf.set_title(line[2:])
            pdf.block(line[2:], 20, 0, "B")
        elif line.startswith("## "):
            if pdf.will_page_break(30):  # keep a heading with its first lines
                pdf.add_page()
            pdf.block(line[3:], 14, 5, "B")
        elif line.startswith("- "):
            pdf.block(f"\xb7 {line[2:]}", 10.5, 1.5, indent=4)
        else:
            pdf.block(line, 10.5, 2.5)
    return pdf


def main() -> None:
    """Write each source to its folder under ``documents``."""
    for source in sorted((HERE / "pdf_sources").glob("*.md")):
        folder = HERE / "documents" / FOLDERS[source.stem]
        folder.mkdir(parents=True, exist_ok=True)
        render(source.read_text(encoding="utf-8")).output(str(folder / f"{source.stem}.pdf"))


if __name__ == "__main__":
    main()
