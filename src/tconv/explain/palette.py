"""Colours of the pictures: phases that colour-blind people can tell apart, on light and dark."""

PALETTE = {
    # Okabe and Ito's colours, in an order in which neighbours differ in lightness as well.
    "phases": ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00"],
    "light": {
        "paper": "#ffffff", "ink": "#1b1f24", "quiet": "#5b6672", "line": "#c9d1da",
        "pad": "#eef1f5", "extra": "#dde3ea", "accent": "#0b5cad",
    },
    "dark": {
        "paper": "#14181d", "ink": "#e9edf2", "quiet": "#a3aebb", "line": "#3b4550",
        "pad": "#20262d", "extra": "#2c343d", "accent": "#7cc0ff",
    },
}  # fmt: skip
