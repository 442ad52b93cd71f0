"""A figure that can be had in two widths and as SVG, PNG or PDF."""
import io
import re

import matplotlib
from matplotlib.figure import Figure

WIDE, NARROW = 9.2, 4.3  # inches: of a page, and of a phone
INK, FAINT = "#1a1a1a", "#d0d0d0"

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "microdnn",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "hatch.linewidth": 0.7,
}


class Drawing:
    """`draw(figure, narrow)` fills a figure; `height(narrow)` in inches. `text` says in words what is to be seen."""

    def __init__(self, name, title, text, draw, height):
        self.name, self.title, self.text = name, title, text
        self._draw, self._height = draw, height
        self._wide = None

    def _figure(self, narrow):
        figure = Figure(figsize=(NARROW if narrow else WIDE, self._height(narrow)), layout="constrained")
        self._draw(figure, narrow)
        return figure

    def file(self, kind, narrow=False):
        out = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            about = {"Date": None, "Creator": "microdnn"} if kind == "svg" else None
            try:
                self._figure(narrow).savefig(out, format=kind, dpi=160, metadata=about)
            except ValueError:
                raise SystemExit(f"microdnn: a picture can be .svg, .png or .pdf, not '.{kind}'") from None
        return out.getvalue()

    def png(self):
        return self.file("png")

    def svg(self):
        if self._wide is None:
            self._wide = self.file("svg")
        return self._wide.decode()

    def inline(self, narrow):
        """The SVG element alone, with names that no other one on the page has."""
        text = self.file("svg", narrow).decode() if narrow else self.svg()
        text = text[text.index("<svg"):]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
        prefix = f"{self.name}-{'narrow' if narrow else 'wide'}-"
        text = re.sub(r'\bid="', f'id="{prefix}', text)
        text = re.sub(r'href="#', f'href="#{prefix}', text)
        text = re.sub(r"url\(#", f"url(#{prefix}", text)
        # Sizes are the page's; the text in the picture is there for people who look, not for readers of the page.
        text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
        text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
        return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
