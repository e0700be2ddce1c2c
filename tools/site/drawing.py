"""Small SVG drawings: rectangles, lines and text on a white card, in a fixed set of colours."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

INK, FAINT = "#1f2933", "#7b8794"
# Fill and edge by what a rectangle stands for.
COLOURS = {
    "input": ("#e8eef7", "#5b7db1"),
    "stage": ("#e6f4ea", "#3f8f5f"),
    "output": ("#fdf1dc", "#c07d1c"),
    "empty": ("#f3f4f6", "#b8bfc8"),
    "strong": ("#d8e2f3", "#2f5597"),
}


@dataclass
class Svg:
    """A drawing of `width` x `height` units; `title` is what a screen reader reads."""

    width: float
    height: float
    title: str
    parts: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, w: float, h: float, colour: str = "input", radius: float = 2) -> None:
        """A rectangle in a colour of `COLOURS`."""
        fill, edge = COLOURS[colour]
        place = f'x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{radius:g}"'
        self.parts.append(f'<rect {place} fill="{fill}" stroke="{edge}"/>')

    def text(
        self, x: float, y: float, words: str, *, size: float = 12, anchor: str = "middle",
        colour: str = INK, bold: bool = False, turned: bool = False,
    ) -> None:  # fmt: skip
        """Words with their baseline at (x, y); `turned` by 90 degrees, to be read upwards."""
        turn = f' transform="rotate(-90 {x:g} {y:g})"' if turned else ""
        weight = ' font-weight="bold"' if bold else ""
        style = f'font-size="{size:g}" text-anchor="{anchor}" fill="{colour}"{weight}{turn}'
        self.parts.append(f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>')

    def arrow(self, x: float, y: float, to_x: float, to_y: float, bend: float = 0) -> None:
        """An arrow; `bend` moves the middle of the line down."""
        middle = (x + to_x) / 2, (y + to_y) / 2 + bend
        path = f"M{x:g} {y:g} Q{middle[0]:g} {middle[1]:g} {to_x:g} {to_y:g}"
        self.parts.append(f'<path d="{path}" fill="none" stroke="{FAINT}" marker-end="url(#a)"/>')

    def line(self, x: float, y: float, to_x: float, to_y: float, colour: str = FAINT) -> None:
        """A straight line."""
        self.parts.append(f'<path d="M{x:g} {y:g} L{to_x:g} {to_y:g}" stroke="{colour}"/>')

    def __str__(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" role="img" font-family="sans-serif">'
        )
        marker = (
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="{FAINT}"/></marker></defs>'
        )
        card = f'<rect width="{self.width:g}" height="{self.height:g}" fill="#fff"/>'
        return "\n".join(
            [head, f"<title>{escape(self.title)}</title>", marker, card, *self.parts, "</svg>", ""]
        )
