"""``out`` takes the result in any form, or is left alone bit for bit."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tconv
from errors.callees import CALLEES, Callee
from errors.out_cases import wrong_outs
from inputs.forms import WRITABLE, Array, bits, definition, mapped
from tconv.errors import TconvError

SEVEN = 7  # what an untouched ``out`` is full of

each_callee = pytest.mark.parametrize("name", list(CALLEES))


def memory_of(array: Array) -> Array:
    """Return the whole memory behind an array, not only what its strides reach."""
    whole: Any = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return np.asarray(whole)


@each_callee
@pytest.mark.parametrize("form", list(WRITABLE))
def test_the_result_is_written_into_out_and_nowhere_else(name: str, form: str) -> None:
    """Any strides will do; what lies between the elements is left alone."""
    callee = CALLEES[name]
    arrays = callee.arrays()
    expected = definition(callee, arrays)
    out = WRITABLE[form](np.full(callee.result, SEVEN, np.float32))
    around = memory_of(out).copy()

    result = callee.run(*arrays, out=out)

    assert result is out
    np.testing.assert_array_equal(out, expected)
    out[...] = SEVEN
    assert bits(memory_of(out)) == bits(around)


@each_callee
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_out_of_every_element_type_is_taken(name: str, dtype: str) -> None:
    """Rounding into ``out`` is the rounding of a fresh result."""
    callee = CALLEES[name]
    arrays = callee.arrays(dtype)
    out = np.full(callee.result, SEVEN, dtype)

    result = callee.run(*arrays, out=out)

    assert result is out
    assert bits(out) == bits(callee.run(*arrays))


@each_callee
def test_out_may_be_a_file(name: str, tmp_path: Path) -> None:
    """A memory map takes the result."""
    callee = CALLEES[name]
    arrays = callee.arrays()
    out = mapped(np.full(callee.result, SEVEN, np.float32), tmp_path)

    assert callee.run(*arrays, out=out) is out
    np.testing.assert_array_equal(np.asarray(out), definition(callee, arrays))


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_out_of_one_picture_is_returned_itself(name: str) -> None:
    """Without a batch, ``out`` has none either."""
    callee = CALLEES[f"tconv.{name}"]
    first, second = callee.arrays()
    out = np.full(callee.result[1:], SEVEN, np.float32)

    assert callee.run(first[0], second, out=out) is out
    assert bits(out) == bits(callee.run(first, second)[0])


@each_callee
def test_a_fresh_result_is_a_plain_array_of_its_own(name: str) -> None:
    """C-contiguous, writable, of NumPy's own class, and sharing memory with nothing."""
    callee = CALLEES[name]
    arrays = callee.arrays()
    first, second = (WRITABLE["Fortran"](WRITABLE["subclass"](array)) for array in arrays)

    result = callee.run(first, second)

    assert type(result) is np.ndarray
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert result.flags.aligned
    assert result.dtype.isnative
    assert not any(np.shares_memory(result, array) for array in (first, second))
    assert not np.shares_memory(result, callee.run(first, second))


def untouched(out: Any) -> bool:  # noqa: ANN401 - also what is no array
    """Tell whether an array of sevens still is one."""
    return not isinstance(out, np.ndarray) or bool((np.asarray(out) == SEVEN).all())


WRONG = [(name, note) for name, callee in CALLEES.items() for note in wrong_outs(callee)]


@pytest.mark.parametrize(("name", "note"), WRONG, ids=[f"{n}-{note}" for n, note in WRONG])
def test_a_wrong_out_is_left_alone(name: str, note: str) -> None:
    """Refusing it does not write into it, nor into the inputs that it overlaps."""
    callee = CALLEES[name]
    wrong = wrong_outs(callee)[note]
    before = [bits(array) for array in wrong.inputs]
    memory = bits(memory_of(wrong.out)) if isinstance(wrong.out, np.ndarray) else b""

    with pytest.raises(tconv.ProblemError, match="out "):
        callee.run(*wrong.inputs, out=wrong.out)

    assert [bits(array) for array in wrong.inputs] == before
    assert memory == (bits(memory_of(wrong.out)) if isinstance(wrong.out, np.ndarray) else b"")


def failing_calls(callee: Callee) -> dict[str, Any]:
    """Return calls that fail for reasons of their own, with a sound ``out``."""
    first, second = callee.arrays()
    channel = -1 if callee.name.startswith("onednn") else 1
    less = np.delete(first, 0, channel)
    calls: dict[str, Any] = {
        "type": lambda out: callee.run(first.astype("i4"), second.astype("i4"), out=out),
        "mixture": lambda out: callee.run(first, second.astype("f8"), out=out),
        "channels": lambda out: callee.run(less, second, out=out),
        "list": lambda out: callee.run(first.tolist(), second, out=out),
        "rank": lambda out: callee.run(first[0, 0], second, out=out),
        "third": lambda out: callee.run(first, second, "nonsense", out=out),
        "attribute": lambda out: callee.run(first, second, out=out, unheard_of=1),
    }
    if callee.is_function:  # an unknown argument of a function is Python's business
        del calls["attribute"]
    if callee.bias() is not None:
        calls["bias"] = lambda out: callee.run(first, second, np.ones(9, "f4"), out=out)
    return calls


@each_callee
def test_out_is_untouched_after_every_failed_call(name: str) -> None:
    """Whatever else is wrong, a sound ``out`` keeps every bit."""
    callee = CALLEES[name]
    for note, call in failing_calls(callee).items():
        out = np.full(callee.result, SEVEN, np.float32)
        with pytest.raises(TconvError):
            call(out)

        assert untouched(out), note


@pytest.mark.parametrize(
    "name", ["onednn.ConvolutionBackpropData", "openvino.ConvolutionBackpropData"]
)
def test_out_is_untouched_when_a_warning_becomes_an_error(name: str) -> None:
    """The warning comes before the work."""
    callee = CALLEES[name]
    arrays = callee.arrays()
    changes = {"auto_pad": "same_upper"} if name.startswith("onednn") else {}
    sizes = (6, 4) if name.startswith("onednn") else (4, 3)
    shape = (2, *sizes, 6) if name.startswith("onednn") else (2, 6, *sizes)
    out = np.full(shape, SEVEN, np.float32)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(tconv.AmbiguousSpecWarning):
            callee.run(*arrays, sizes, out=out, **changes)

    assert untouched(out)


@each_callee
@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
def test_out_may_not_overlap_an_input_in_another_byte_order(name: str, place: int) -> None:
    """An input that is converted first is still the caller's memory."""
    callee = CALLEES[name]
    arrays = list(callee.arrays())
    shape = callee.shapes[place]
    count = max(int(np.prod(shape)), int(np.prod(callee.result)))
    memory = np.full(count, SEVEN, np.float32)
    mine = memory.view(memory.dtype.newbyteorder())[: int(np.prod(shape))].reshape(shape)
    mine[...] = arrays[place]
    before = bits(memory)
    arrays[place] = mine
    out = memory[: int(np.prod(callee.result))].reshape(callee.result)

    with pytest.raises(tconv.ProblemError, match="out overlaps the input "):
        callee.run(*arrays, out=out)

    assert bits(memory) == before


def test_out_may_lie_between_the_elements_of_an_input() -> None:
    """Interleaved is not overlapping."""
    memory = np.zeros((1, 1, 6), np.float32)
    memory[..., ::2] = [1, 2, 3]

    tconv.conv(memory[..., ::2], np.full((1, 1, 1), 2, np.float32), out=memory[..., 1::2])

    np.testing.assert_array_equal(memory.ravel(), [1, 2, 2, 4, 3, 6])


def test_out_of_another_call_can_be_used_again() -> None:
    """What was in ``out`` before does not show."""
    callee = CALLEES["onnx.ConvTranspose"]
    arrays = callee.arrays()
    out = np.full(callee.result, np.nan, np.float32)

    first = bits(callee.run(*arrays, out=out))
    second = bits(callee.run(*arrays, out=out))

    assert first == second == bits(definition(callee, arrays))
