"""Colours of the pictures: phases that colour-blind people can tell apart, on light and dark."""

from typing import Any

PALETTE: dict[str, Any] = {
    # Okabe and Ito's colours, in an order in which neighbours differ in lightness as well.
    "phases": ["#56b4e9", "#d55e00", "#f0e442", "#cc79a7", "#e69f00", "#0072b2", "#009e73"],
    "light": {
        "paper": "#ffffff", "ink": "#1b1f24", "quiet": "#55606c", "line": "#b9c3ce",
        "pad": "#eceff4", "accent": "#0b5cad",
    },
}  # fmt: skip


def phase_colour(number: int) -> str:
    """Return the colour of a phase."""
    colours: list[str] = PALETTE["phases"]
    return colours[number % len(colours)]


def ink_on(colour: str) -> str:
    """Return black or white, whichever reads better on a colour.

    >>> ink_on("#f0e442"), ink_on("#0072b2")
    ('#10151b', '#ffffff')
    """
    return "#10151b" if lightness(colour) > 0.179 else "#ffffff"


def lightness(colour: str) -> float:
    """Return the relative luminance of a colour, from 0 to 1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
