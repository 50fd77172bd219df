"""Say so when a document has two answers to one call."""

import inspect
import warnings
from pathlib import Path

from tconv.dialects.call import Shape, shape_text
from tconv.errors import AmbiguousSpecWarning

PACKAGE = str(Path(__file__).parents[1])


def warn_ambiguous(
    title: str, document: str, engine: tuple[Shape, Shape], printed: tuple[Shape, Shape]
) -> None:
    """Name both pairs of pads, at the line of the caller."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{title}: the document contradicts its engine for this call.\n"
        f"  engine    pads_begin {shape_text(engine[0])}, pads_end {shape_text(engine[1])}"
        "   (used)\n"
        f"  document  pads_begin {shape_text(printed[0])}, pads_end {shape_text(printed[1])}"
        f"   (the formula printed in {document})\n"
        '  fix       pass reading="engine" or reading="document" to choose and silence this',
        AmbiguousSpecWarning,
        stacklevel=level,
    )
