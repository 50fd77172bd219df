"""What each thing takes that algorithms do, in nanoseconds of one core.

The prices were fitted to some thousand layers, timed on one machine of each kind with each
algorithm that can do them; what matters is how times compare.  First come those of AVX2 (Zen 3),
then those where an instruction on 64 bytes takes one turn (Zen 5).  Where it takes two (Zen 4), a
fit to 2600 timings chose no better than the first ones, with two turns for each vector; those of
woven groups are that machine's.
"""

from collections.abc import Mapping

Prices = Mapping[str, tuple[float, float]]  # where a machine is not long, and where it is

PRICES: dict[str, Prices] = {
    "gather": {
        "pairs": (0.179, 0.136),  # vectors multiplied, in panels of several
        "singles": (0.238, 0.168),  # in panels of one
        "runs": (0.176, 0.106),  # of channels or taps side by side
        "points": (1.49, 1.59),  # of every panel
        "copied": (0.158, 0.137),  # elements packed
        "turned": (0.217, 0.147),
        "scattered": (0.46, 0.202),
        "lines": (0.326, 0.725),  # of the source that groups share: each of them reads them again
        "far_lines": (3.0, 2.0),  # the same, at steps, of what no cache of a core's own holds
        "staged": (2.59, 1.0),  # points whose channels lie side by side and do not fill vectors
        "stored": (0.191, 0.0756),  # elements, where points lie side by side
        "stored_apart": (0.339, 0.386),  # likewise, in short lines
        "filled": (0.122, 0.0766),  # elements that no tap reaches
        "filled_points": (1.11, 0.686),  # points of them
        "phases": (675.0, 118.0),
    },
    "planes": {
        "rows": (0.151, 0.0968),  # vectors multiplied
        "vectors": (0.234, 0.319),  # loaded for all rows of a tile
        "tiles": (7.55, 5.29),  # begun
        "staged": (14.2, 10.0),  # likewise, where channels lie side by side
        "turned": (0.199, 0.0969),
        "turned_residues": (0.268, 0.126),
        "scattered": (0.621, 0.35),
        "residues": (0.458, 0.186),
        "lines": (10.6, 6.05),
        "far": (0.2, 0.0293),
        "each": (0.628, 0.22),  # elements stored one by one
        "each_beside": (0.301, 0.259),
        "short": (0.988, 0.51),
        "merged": (0.302, 0.13),  # phase by phase
        "merged_beside": (0.442, 0.201),
        "stored": (0.0, 0.0),  # by whole vectors: tiles pay for them
        "filled": (0.2, 0.0791),  # that no tap reaches
        "filled_afar": (0.8, 0.5),  # by channels, of large results
        "jumps": (3.3, 2.0),  # from afar, in many passes: elements
        "jumps_beside": (20.0, 8.0),  # or lines
        "phases": (350.0, 569.0),
    },
    "dots": {
        "multiplied": (0.18, 0.222),
        "runs": (0.344, 0.109),
        "points": (2.32, 1.59),
        "sums": (0.352, 0.195),
        "copied": (0.127, 0.0753),
        "phases": (459.0, 21.2),
        "lines": (0.326, 0.597),  # of the source that groups share
        "far_lines": (5.0, 3.0),
    },
    "woven": {
        "loaded": (0.25, 0.103),  # vectors of points, by taps
        "spread": (0.16, 0.264),  # and multiplied, spread over them within quarters
        "crossed": (0.28, 0.244),  # or across them
        "each": (0.31, 0.224),  # read one by one
        "pairs": (0.2, 0.15),
        "points": (3.0, 2.92),
        "copied": (0.158, 0.0398),
        "filled": (0.122, 0.0441),
        "staged": (2.59, 1.98),
        "phases": (675.0, 684.0),
    },
    "grouped": {
        "vectors": (0.0468, 0.0176),  # multiplied
        "apart": (0.0218, 0.00314),  # more of taps that share nothing
        "sweeps": (2.75, 0.42),
        "rows": (0.103, 0.159),
        "turned": (0.205, 0.175),
        "copied": (0.507, 0.135),
        "stored": (0.526, 0.221),
    },
    "overlap": {
        "vectors": (0.136, 0.126),
        "tiles": (3.5, 3.06),
        "copied": (1.77, 1.67),
        "copied_residues": (3.01, 2.39),
        "turned": (2.83, 2.29),
        "turned_residues": (5.91, 7.27),
        "short": (6.0, 9.35),  # more, for residues of lines that fill no vector
        "far": (4.0, 1.58),  # likewise, from afar
        "folded": (0.135, 0.105),
        "lines": (11.5, 5.75),
        "stored": (1.53, 0.718),
        "stored_phases": (0.835, 0.44),
        "beside": (0.261, 0.085),
        "beside_phases": (0.0913, 0.102),
        "crossed": (0.5, 0.206),  # more, where phases are mixed one by one
        "stages": (7570.0, 5470.0),
    },
    "cells": {
        "pairs": (0.187, 0.14),
        "singles": (0.249, 0.191),
        "points": (0.994, 0.763),
        "runs": (5.0, 2.07),
        "stored": (0.307, 0.128),
        "stored_apart": (0.486, 0.169),
        "begin": (1230.0, 1810.0),
    },
}
"""By algorithm: what one of each thing takes that :mod:`tconv.plan.times` counts."""

OF_VECTORS: dict[str, set[str]] = {
    "gather": {"pairs", "singles"},
    "planes": {"rows", "vectors"},
    "dots": {"multiplied"},
    "woven": {"loaded", "spread", "crossed", "each", "pairs"},
    "grouped": set(),  # counted by lanes
    "overlap": {
        "vectors", "copied", "copied_residues", "turned", "turned_residues", "short", "far",
        "folded",
    },
    "cells": {"pairs", "singles"},
}  # fmt: skip
"""What of it is done to whole vectors."""

SPREAD: Prices = {
    "filled": (0.099, 0.0458),
    "mixed": (0.105, 0.0389),
    "single": (0.45, 0.325),
    "copied": (0.12, 0.0697),
    "runs": (1.2, 0.345),
    "lines": (2.8, 4.78),
    "entries": (3.0, 1.99),
    "chunks": (70.0, 18.7),
    "stages": (6000.0, 6890.0),
}
"""What it takes to spread a smaller result, beside that."""
