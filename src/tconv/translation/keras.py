"""Keras: "valid" and "same" alone, channels last, and no groups in conv_transpose."""

from tconv.problem import Layout, Operand, Problem
from tconv.translation.around import around, rewritten
from tconv.translation.ask import Ask, as_gather
from tconv.translation.fit import Fit, is_same, unpadded
from tconv.translation.notes import NOTES
from tconv.translation.steps import Step
from tconv.translation.translation import Translation
from tconv.translation.write import keywords, write


def to_keras(ask: Ask) -> Translation:
    """Say a call with keras.ops."""
    problem = ask.problem
    if problem.wanted is Operand.WEIGHTS:
        return rewritten(to_keras(as_gather(ask)))
    scatter = problem.wanted is Operand.FINE
    fits = [unpadded(axis, problem.wanted) for axis in problem.axes]
    bare = all(fit.bare for fit in fits)
    same = not bare and is_same(problem.axes, problem.wanted)
    if same:
        fits, bare = [Fit()] * ask.rank, True
    spread = max(ask.each("stride")) > 1 and max(ask.each("dilation")) > 1
    grouped = scatter and problem.groups > 1
    layouts = {
        Operand.COARSE: Layout("n x gc"),
        Operand.FINE: Layout("n x gf"),
        Operand.WEIGHTS: Layout("x f gc"),
    }
    parts = around(ask, layouts, fits, takes_bias=False)
    (data, data_steps), (weights, weights_steps) = parts.inputs
    if spread:
        weights_steps += (_spread(problem),)
    ones = (1,) * ask.rank
    given = keywords(
        {
            "strides": (ask.each("stride"), ones),
            "padding": ('"same"' if same else '"valid"', '"valid"'),
            "dilation_rate": (ones if spread else ask.each("dilation"), ones),
            "data_format": ('"channels_last"', ""),
        }
    )
    texts = write("keras", data_steps, data), write("keras", weights_steps, weights)
    call = (
        _call(*texts, given, problem.groups)
        if grouped
        else (f"keras.ops.{'conv_transpose' if scatter else 'conv'}({', '.join(texts)}{given})")
    )
    result = write("keras", parts.after, call, ask.bias)
    head = "import keras\nimport numpy as np\n" if spread else "import keras\n"
    notes = _notes(fits, scatter=scatter)
    notes += [NOTES["keras groups"]] if grouped else []
    notes += [NOTES["keras spread"]] if spread else []
    code = f"{head}{parts.result} = {result}"
    return Translation("keras", not notes, tuple(notes), code)


def _call(data: str, weights: str, given: str, groups: int) -> str:
    """Return a call for each group, its results joined."""
    halves = (f"keras.ops.split({text}, {groups}, axis=-1)" for text in (data, weights))
    one = f"keras.ops.conv_transpose(x, w{given})"
    return f"keras.ops.concatenate([{one} for x, w in zip({', '.join(halves)})], axis=-1)"


def _spread(problem: Problem) -> Step:
    """Return the step that puts zeros between the taps of a filter whose window comes first."""
    pairs = [(axis.taps, axis.dilation) for axis in problem.axes]
    return Step("spread", (*pairs, (1, 1), (1, 1)))  # channels stay as they are


def _notes(fits: list[Fit], *, scatter: bool) -> list[str]:
    notes = []
    grown, cropped = (any(any(getattr(fit, way)) for fit in fits) for way in ("grow", "crop"))
    if grown:
        notes.append(NOTES["keras grow" if scatter else "keras gather"])
    if cropped:
        notes.append(NOTES["keras crop" if scatter else "more"])
    return notes
