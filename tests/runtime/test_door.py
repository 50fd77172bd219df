"""Bound calls that go straight into compiled code: which arrays fit, and what is left behind."""

import gc
import os
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

import strategies
import tconv
from tconv.calls import Bound
from tconv.codegen.door import STATE
from tconv.errors import ProblemError
from tconv.runtime import door

Floats = npt.NDArray[np.float32]
OP = tconv.onnx.ConvTranspose(strides=[2, 2], pads=[1, 1, 1, 1])


def numbers(*shape: int, seed: int = 0) -> Floats:
    """Return an array of small whole numbers."""
    return strategies.whole_numbers(shape, "float32", seed).astype(np.float32)


def through(bound: Bound, data: object, out: object = None) -> object:
    """Call by the door alone; None if it does not open."""
    return bound._door(data, out)  # noqa: SLF001 - the door is what is tested


@pytest.fixture
def opened() -> Iterator[tuple[Bound, Floats, Floats]]:
    """Give a bound call that went through its door, its data and the right result."""
    data, weights = numbers(2, 5, 6, 7), numbers(5, 3, 4, 4, seed=1)
    bound = OP.bind(weights)
    right = OP(data, weights)
    for _ in range(3):
        np.testing.assert_array_equal(bound(data), right)
    assert bound._door is not None  # noqa: SLF001 - as above
    yield bound, data, right
    tconv.set_num_threads(2)


def test_known_arrays_go_through(opened: tuple[Bound, Floats, Floats]) -> None:
    """With memory for the result or without it."""
    bound, data, right = opened
    out = np.full_like(right, 99)

    assert through(bound, data, out) is out
    np.testing.assert_array_equal(out, right)
    np.testing.assert_array_equal(through(bound, data), right)


def test_other_arrays_do_not(opened: tuple[Bound, Floats, Floats]) -> None:
    """Another kind, type, shape, order or place: Python looks closer, and is right or refuses."""
    bound, data, right = opened
    frozen = np.empty_like(right)
    frozen.flags.writeable = False
    bytes_ = np.zeros(data.nbytes + 1, np.uint8)
    askew = bytes_[1:].view(np.float32).reshape(data.shape)
    askew[:] = data
    shared = np.zeros(right.size + data.size - 1, np.float32)
    inside, over = shared[: data.size].reshape(data.shape), shared[data.size - 1 :]
    inside[:] = data

    class Mine(np.ndarray):
        pass

    others = [data.tolist(), None, 7, data.view(Mine), data.astype(float), data.astype(">f4")]
    others += [data[:1], data[0], data[:, :, ::-1], data.transpose(0, 1, 3, 2), askew]
    for other in others:
        assert through(bound, other) is None
    outs = [7, right.tolist(), right.view(Mine), frozen, right.astype(float), right[:1]]
    for out in (*outs, np.zeros(right.shape[::-1], np.float32).T):
        assert through(bound, data, out) is None
    assert through(bound, inside, over.reshape(right.shape)) is None
    np.testing.assert_array_equal(bound(askew), right)
    np.testing.assert_array_equal(bound(data.view(Mine)), right)
    with pytest.raises(ProblemError):
        bound(data, out=frozen)
    with pytest.raises(ProblemError):
        bound(inside, out=over.reshape(right.shape))


def test_neighbours_in_memory_are_no_overlap(opened: tuple[Bound, Floats, Floats]) -> None:
    """Data may end where the result begins, and the other way round."""
    bound, data, right = opened
    for first in (True, False):
        memory = np.zeros(data.size + right.size, np.float32)
        parts = memory[: data.size], memory[data.size :]
        if not first:
            parts = memory[right.size :], memory[: right.size]
        given, out = parts[0].reshape(data.shape), parts[1].reshape(right.shape)
        given[:] = data

        assert through(bound, given, out) is out
        np.testing.assert_array_equal(out, right)


def test_views_have_doors_of_their_own() -> None:
    """Strides may be negative; calls of several shapes take turns."""
    weights = numbers(5, 3, 4, 4, seed=1)
    bound = OP.bind(weights, bias=numbers(3, seed=2))
    whole = numbers(2, 5, 6, 14, seed=3)
    views = [whole[..., ::-2], whole[:, ::-1, :, :9], np.ascontiguousarray(whole[:1])]
    for view in views * 4:
        np.testing.assert_array_equal(bound(view), OP(view, weights, numbers(3, seed=2)))


def test_nothing_is_left_behind(opened: tuple[Bound, Floats, Floats]) -> None:
    """References are as many as before, for what opens and for what does not."""
    bound, data, right = opened
    out = np.empty_like(right)
    counted = [data, out, None, np.empty, out.dtype]
    before = [sys.getrefcount(each) for each in counted]
    for _ in range(100):
        through(bound, data, out)
        through(bound, out, data)
        through(bound, data, data)
        through(bound, data)
    after = [sys.getrefcount(each) for each in counted]
    made = weakref.ref(through(bound, data))

    assert all(abs(new - old) < 10 for new, old in zip(after, before, strict=True))
    gc.collect()
    assert made() is None


def test_a_door_keeps_what_it_reads(opened: tuple[Bound, Floats, Floats]) -> None:
    """The builtin function outlives the bound call that it was made for."""
    bound, data, right = opened
    call = bound._door  # noqa: SLF001 - as above
    bound._quick.clear()  # noqa: SLF001 - as above
    del bound
    gc.collect()
    taken = [np.full(right.shape, seed) for seed in range(50)]

    np.testing.assert_array_equal(call(data, None), right)
    assert len(taken) == 50


def test_a_new_number_of_threads_counts_at_once(opened: tuple[Bound, Floats, Floats]) -> None:
    """A door is closed until the number is known in there."""
    bound, data, right = opened
    tconv.set_num_threads(1)

    assert through(bound, data) is None
    np.testing.assert_array_equal(bound(data), right)
    assert through(bound, data) is not None


def test_more_scratch_is_arranged_for() -> None:
    """A larger layer of the same call needs more memory than the doors have."""
    weights = numbers(5, 3, 4, 4, seed=1)
    bound = OP.bind(weights)
    for size in (3, 30, 60):
        data = numbers(1, 5, size, size)
        for _ in range(3):
            np.testing.assert_array_equal(bound(data), OP(data, weights))
        assert through(bound, data) is not None


def test_several_threads_may_call(opened: tuple[Bound, Floats, Floats]) -> None:
    """One is inside, the others take Python's way; all are right."""
    bound, data, right = opened
    wrong: list[int] = []

    def call(seed: int) -> None:
        mine = data * (seed + 1)
        found = (np.array_equal(bound(mine), right * (seed + 1)) for _ in range(300))
        wrong.extend(seed for good in found if not good)

    callers = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()

    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_doors(opened: tuple[Bound, Floats, Floats]) -> None:
    """Even when somebody was inside at that time, who is not there in the child."""
    bound, data, right = opened
    state = door._state()  # noqa: SLF001 - as above
    assert state is not None
    state.put("lock", 1)
    child = os.fork()
    if child == 0:
        good = all(np.array_equal(bound(data), right) for _ in range(3))
        os._exit(0 if good and through(bound, data) is not None else 1)
    state.put("lock", 0)
    _, status = os.waitpid(child, 0)

    assert status == 0


def test_an_interrupt_leaves_no_freed_memory_behind(
    opened: tuple[Bound, Floats, Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled code has been told of new scratch; whoever told it was interrupted just then."""
    bound, _, _ = opened
    state = door._state()  # noqa: SLF001 - as above
    assert state is not None
    real = state.fit

    def interrupted(*words: int) -> None:
        real(*words)
        raise KeyboardInterrupt

    monkeypatch.setattr(state, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        state.arrange(state.size + 4096, tconv.get_num_threads())
    monkeypatch.undo()
    told = int(state.words[STATE.index("scratch")])

    assert told in [where for _, where in state.kept]
    data = numbers(1, 5, 9, 9)
    for _ in range(3):
        np.testing.assert_array_equal(bound(data), OP(data, numbers(5, 3, 4, 4, seed=1)))


def test_doors_of_several_threads_share_one_state() -> None:
    """Or a new number of threads would close some of them for ever."""
    found: list[object] = []
    shared = list(door._shared)  # noqa: SLF001 - as above
    door._shared.clear()  # noqa: SLF001 - as above
    try:
        callers = [
            threading.Thread(target=lambda: found.append(door._state()))  # noqa: SLF001
            for _ in range(4)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    finally:
        door._shared[:] = shared  # noqa: SLF001 - as above

    assert len({id(state) for state in found}) == 1


def test_without_memory_for_a_door_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is there already: a call does not fail for it."""

    def none_left(size: int) -> None:
        raise MemoryError(size)

    monkeypatch.setattr(door, "on_lines", none_left)
    weights, data = numbers(5, 3, 4, 4, seed=1), numbers(1, 5, 40, 41)
    bound = OP.bind(weights)
    for _ in range(3):
        np.testing.assert_array_equal(bound(data), OP(data, weights))


def test_nobody_enters_an_occupied_room(opened: tuple[Bound, Floats, Floats]) -> None:
    """Records and scratch are there once; whoever finds them in use takes Python's way."""
    bound, data, right = opened
    state = door._state()  # noqa: SLF001 - as above
    assert state is not None
    state.put("lock", 1)
    try:
        assert through(bound, data) is None
        np.testing.assert_array_equal(bound(data), right)
    finally:
        state.put("lock", 0)

    assert through(bound, data) is not None


def test_infinite_weights_have_no_door() -> None:
    """Zeros around a picture must not be multiplied by them."""
    weights = numbers(5, 3, 4, 4, seed=1)
    weights[0, 0, 0, 0] = np.inf
    bound, data = OP.bind(weights), numbers(1, 5, 6, 7)
    for _ in range(3):
        found = bound(data)

    assert bound._door is None  # noqa: SLF001 - as above
    np.testing.assert_array_equal(found, OP(data, weights))


def test_what_is_not_finite_is_computed_again() -> None:
    """A transform spreads an infinity: its door does not open, and Python does that image again."""
    weights, data = numbers(64, 64, 3, 3, seed=1), numbers(2, 64, 14, 14)
    op = tconv.onnx.Conv(pads=[1, 1, 1, 1])
    bound = op.bind(weights, algorithm="winograd")
    for _ in range(3):
        np.testing.assert_allclose(bound(data), op(data, weights), atol=0.1)
    assert through(bound, data) is not None
    data[1, 3, 5, 6] = np.inf
    direct = op.bind(weights, algorithm="direct")(data)

    assert through(bound, data) is None
    np.testing.assert_array_equal(np.isfinite(bound(data)), np.isfinite(direct))
    data[1, 3, 5, 6] = 0
    assert through(bound, data) is not None


def test_arrays_that_are_not_as_expected_close_all_doors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code reads arrays only where they were found to lie."""
    assert door._as_expected()  # noqa: SLF001 - as above
    monkeypatch.setattr(door, "HEADER", door.HEADER + 8)

    assert not door._as_expected()  # noqa: SLF001 - as above
