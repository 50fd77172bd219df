"""Every peer computes what the definition says, so that the race is about one result."""

import subprocess
import sys

import numpy as np
import pytest

from bench.layers import GROUPED, LAYERS, ONE, POINTWISE, TWO, UNEVEN
from engines import require
from tconv.bench.judge import TOLERANCE, error_of, right_answer
from tconv.bench.peers import OURS, PEERS, Peer
from tconv.bench.peers.peer import Ready, Refused, Task
from tconv.bench.suite import LAYOUTS, Layer
from tconv.problem import DTYPES, Operand
from tconv.reference import answer

ALL = (*OURS.values(), *PEERS)
RACES = [
    pytest.param(peer, wanted, layout, id=f"{peer.name} {peer.function}-{wanted.name}-{layout}")
    for peer in ALL
    for wanted, layout in sorted(peer.races, key=str)
]
every_race = pytest.mark.parametrize(("peer", "wanted", "layout"), RACES)


def make_task(layer: Layer, wanted: Operand, layout: str, dtype: str = "float32") -> Task:
    """Return a task with small whole numbers, whose sums are exact in float32."""
    generator = np.random.default_rng(0)
    given = {
        operand: generator.integers(-3, 4, layer.shape(operand)).astype(array.dtype)
        for operand, array in layer.arrays(wanted, dtype).items()
    }
    return Task(layer, wanted, layout, dtype, threads=2, given=given)


def prepare(peer: Peer, task: Task) -> Ready:
    """Prepare a peer, or skip (or fail, where every engine must be there) if it is missing."""
    try:
        peer.version()
    except Refused as refusal:
        require.refuse(f"{peer.name}: {refusal}")
    return peer.prepare(task)


def attempt(peer: Peer, task: Task) -> Ready | str:
    """Prepare a peer, or return why it refuses."""
    try:
        return prepare(peer, task)
    except Refused as refusal:
        return str(refusal)


@every_race
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_peer_computes_what_the_definition_says(
    peer: Peer, wanted: Operand, layout: str, layer: Layer
) -> None:
    """Exactly: no peer computes another layer, layout or orientation of the window."""
    task = make_task(layer, wanted, layout)
    ready = prepare(peer, task)
    ready.run()
    first = ready.result().copy()
    ready.run()

    np.testing.assert_array_equal(first, answer(layer.problem(wanted), *task.given.values()))
    np.testing.assert_array_equal(first, ready.result())


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "float32"])
@every_race
def test_other_types_are_computed_or_refused_with_a_reason(
    peer: Peer, wanted: Operand, layout: str, dtype: str
) -> None:
    """What a peer does not have is a note in the report, not an error."""
    task = make_task(ONE, wanted, layout, dtype)
    ready = attempt(peer, task)
    if isinstance(ready, str):
        assert peer.module not in ("ours", "torch")
        assert ready
        return
    ready.run()
    right = answer(ONE.problem(wanted), *task.given.values())

    assert error_of(ready.result(), right) <= TOLERANCE[dtype]


@every_race
def test_pads_that_differ_are_computed_or_refused(peer: Peer, wanted: Operand, layout: str) -> None:
    """Functions with torch's arguments have one pad for both ends; nobody computes another."""
    task = make_task(UNEVEN, wanted, layout)
    if peer.module == "torch" or peer.function == "eager":
        with pytest.raises(Refused, match="pads differ"):
            prepare(peer, task)
        return
    ready = prepare(peer, task)
    ready.run()

    np.testing.assert_array_equal(
        ready.result(), answer(UNEVEN.problem(wanted), *task.given.values())
    )


@pytest.mark.parametrize("name", ["onednn", "onednn any"])
def test_the_engine_that_would_crash_is_not_asked(name: str) -> None:
    """A run must not end in the middle because an engine writes past its memory."""
    peer = next(peer for peer in PEERS if peer.name == name)

    with pytest.raises(Refused, match="may crash"):
        prepare(peer, make_task(POINTWISE, Operand.WEIGHTS, "NXC"))


def test_an_engine_that_is_missing_refuses() -> None:
    """Nobody has to install all peers."""
    absent = Peer("absent", "absent", "nothing", frozenset())

    with pytest.raises(Refused, match="cannot be imported"):
        absent.version()


@pytest.mark.parametrize("wanted", list(Operand))
@pytest.mark.parametrize("layer", [*LAYERS, UNEVEN, POINTWISE], ids=lambda layer: layer.name)
def test_the_judge_equals_the_definition(layer: Layer, wanted: Operand) -> None:
    """The judge is quick enough for whole layers and says the same."""
    task = make_task(layer, wanted, "NCX")
    problem = layer.problem(wanted)

    np.testing.assert_array_equal(
        right_answer(problem, *task.given.values()), answer(problem, *task.given.values())
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_judge_knows_both_layouts(layout: str) -> None:
    """The layout moves numbers, and changes none."""
    task = make_task(GROUPED, Operand.FINE, layout)
    problem = GROUPED.problem(Operand.FINE, layout)
    given = [task.array(operand) for operand in problem.given]

    np.testing.assert_array_equal(right_answer(problem, *given), answer(problem, *given))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_lost_tap_of_a_small_layer_is_more_than_the_tolerance(dtype: str) -> None:
    """A tolerance that lets a lost tap pass would check nothing."""
    given = TWO.arrays(Operand.FINE, dtype)
    coarse, weights = given.values()
    right = right_answer(TWO.problem(Operand.FINE), coarse, weights)
    weights[0, :, 0, 0] = 0

    assert (
        error_of(right_answer(TWO.problem(Operand.FINE), coarse, weights), right) > TOLERANCE[dtype]
    )
    assert error_of(right.astype(np.float32), right) < TOLERANCE["float32"]


def test_nothing_but_a_race_imports_an_engine() -> None:
    """The command line starts quickly, and on machines without any engine."""
    code = (
        "import sys, tconv.bench.command\n"
        "print([m for m in ('torch', 'openvino', 'onnx', 'onnxruntime') if m in sys.modules])"
    )
    run = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert run.stdout.strip() == "[]"
