"""What each thing takes that algorithms do, in nanoseconds of one core.

The prices were fitted to some thousand layers, timed on one machine (AVX2) with each algorithm that
can do them; what matters is how times compare.  On another one with AVX-512 (Zen 4) a fit to 2600
timings chose no better than these, with two turns for each vector; those of woven groups are that
machine's.
"""

PRICES: dict[str, dict[str, float]] = {
    "gather": {
        "pairs": 0.179, "singles": 0.238,  # vectors multiplied, in panels of two and of one
        "runs": 0.176, "points": 1.49,  # of channels or taps side by side; of every panel
        "copied": 0.158, "turned": 0.217, "scattered": 0.46,  # elements packed
        "lines": 0.326,  # of the source that groups share: each of them reads them again
        "far_lines": 3.0,  # the same, at steps, of what no cache of a core's own holds
        "staged": 2.59,  # points whose channels do not fill vectors, where they lie side by side
        "stored": 0.191, "stored_apart": 0.339,  # elements, where points do; in short lines
        "filled": 0.122, "filled_points": 1.11,  # elements that no tap reaches; beside them, points
        "phases": 675.0,
    },
    "planes": {
        "rows": 0.151, "vectors": 0.234,  # multiplied, and loaded for all rows of a tile
        "tiles": 7.55, "staged": 14.2,  # begun; where channels lie side by side
        "turned": 0.199, "turned_residues": 0.268, "scattered": 0.621, "residues": 0.458,
        "lines": 10.6, "far": 0.2,
        "each": 0.628, "each_beside": 0.301, "short": 0.988,  # elements stored one by one
        "merged": 0.302, "merged_beside": 0.442,  # phase by phase
        "stored": 0.0,  # by whole vectors: tiles pay for them
        "filled": 0.2, "filled_afar": 0.8,  # that no tap reaches; by channels, of large results
        "phases": 350.0,
    },
    "dots": {
        "multiplied": 0.18, "runs": 0.344, "points": 2.32, "sums": 0.352,
        "copied": 0.127, "phases": 459.0,
        "lines": 0.326, "far_lines": 5.0,  # of the source that groups share
    },
    "woven": {
        "loaded": 0.25,  # vectors of points, by taps
        "spread": 0.16, "crossed": 0.28,  # and multiplied, spread over them within quarters or not
        "each": 0.31, "pairs": 0.2,  # read one by one
        "points": 3.0, "copied": 0.158, "filled": 0.122, "staged": 2.59, "phases": 675.0,
    },
    "grouped": {
        "vectors": 0.0468, "apart": 0.0218,  # multiplied; more of taps that share nothing
        "sweeps": 2.75, "rows": 0.103,
        "turned": 0.205, "copied": 0.507, "stored": 0.526,
    },
    "overlap": {
        "vectors": 0.136, "tiles": 3.5,
        "copied": 1.77, "copied_residues": 3.01, "turned": 2.83, "turned_residues": 5.91,
        "short": 6.0, "far": 4.0,  # more, for residues of lines that fill no vector; from afar
        "folded": 0.135, "lines": 11.5,
        "stored": 1.53, "stored_phases": 0.835, "beside": 0.261, "beside_phases": 0.0913,
        "crossed": 0.5,  # more, where phases are mixed one by one
        "stages": 7570.0,
    },
    "cells": {
        "pairs": 0.187, "singles": 0.249, "points": 0.994,
        "runs": 5.0, "stored": 0.307, "stored_apart": 0.486, "begin": 1230.0,
    },
}  # fmt: skip
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

SPREAD = {
    "filled": 0.099, "mixed": 0.105, "single": 0.45, "copied": 0.12,  # elements
    "runs": 1.2, "lines": 2.8, "entries": 3.0, "chunks": 70.0, "stages": 6000.0,
}  # fmt: skip
"""What it takes to spread a smaller result, beside that."""
