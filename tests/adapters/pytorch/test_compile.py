"""torch.compile and torch.export take the operators whole: no graph break, sizes that change."""

import copy
import shutil
from typing import Any

import pytest

from engines import require

torch = require.module("torch")
testing = require.module("torch._dynamo.testing")

import tconv.adapters.torch as adapter  # noqa: E402 - without torch this file is skipped
from tconv.adapters.torch import fallback  # noqa: E402 - as above

nn = torch.nn
pytestmark = pytest.mark.filterwarnings(
    # From inside of torch's own compiler.
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::UserWarning:torch",
    "ignore:Complex modules are a new feature:UserWarning",
)


@pytest.fixture(autouse=True)
def _fresh() -> Any:  # noqa: ANN401 - a generator
    """Forget graphs of other tests."""
    torch._dynamo.reset()  # noqa: SLF001 - torch's public name for it
    yield
    torch._dynamo.reset()  # noqa: SLF001 - as above


def pair() -> tuple[Any, Any]:
    """Return a model of torch's layers, and the same of ours."""
    torch.manual_seed(0)
    theirs = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1, groups=2),
        nn.Conv2d(4, 4, 3, padding="same"),
    )
    ours = copy.deepcopy(theirs)
    adapter.accelerate(ours)
    return theirs, ours


def step(model: Any, given: Any, parameters: Any) -> tuple[Any, ...]:  # noqa: ANN401 - torch is not typed
    """Return a model's result and the gradients of its parameters."""
    result = model(given)
    return result, *torch.autograd.grad(result.square().mean(), parameters)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_one_graph_for_all_sizes(memory_format: Any) -> None:  # noqa: ANN401 - torch is not typed
    """Forward and backward, without a graph break and without compiling again."""
    theirs, ours = pair()
    counter = testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(ours, backend=counter, fullgraph=True, dynamic=True)
    for height, width in ((8, 9), (12, 7), (5, 16)):
        given = torch.randn(2, 3, height, width).contiguous(memory_format=memory_format)
        found = step(compiled, given, list(ours.parameters()))
        right = step(theirs, given, list(theirs.parameters()))

        for mine, other in zip(found, right, strict=True):
            assert mine.stride() == other.stride()
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 1


def test_evaluation_keeps_packed_weights_inside_of_a_graph() -> None:
    """And notices when they change."""
    theirs, ours = (each.eval() for each in pair())
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    given = torch.randn(1, 3, 6, 6)
    with torch.no_grad():
        for change in (0.0, 1.0):
            for model in (theirs, ours):
                model[2].weight += change

            torch.testing.assert_close(compiled(given), theirs(given), rtol=1e-4, atol=1e-5)


def test_autocast_inside_of_a_graph() -> None:
    """The graph contains the conversions."""
    theirs, ours = pair()
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    given = torch.randn(1, 3, 6, 6)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        result = compiled(given)
        right = theirs(given)

    assert result.dtype is right.dtype is torch.bfloat16
    torch.testing.assert_close(result, right, rtol=5e-2, atol=5e-2)


def test_what_is_left_to_torch_makes_no_graph_break() -> None:
    """Torch's own operator stands in the graph, without a note."""
    theirs, ours = (each.to(torch.complex64) for each in pair())
    compiled = torch.compile(ours[2], backend="aot_eager", fullgraph=True)
    given = torch.randn(1, 8, 6, 6, dtype=torch.complex64)

    torch.testing.assert_close(compiled(given), theirs[2](given))


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_inductor() -> None:
    """The default backend, which writes code for what stands between our operators."""
    theirs, ours = pair()
    compiled = torch.compile(ours[:3], fullgraph=True)
    given = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    with torch.no_grad():
        result, right = compiled(given), theirs[:3](given)

    assert result.stride() == right.stride()
    torch.testing.assert_close(result, right, rtol=1e-4, atol=1e-5)


def test_export_holds_our_operators() -> None:
    """A graph for other tools, with a batch size that is left open."""
    theirs, ours = pair()
    batch = torch.export.Dim("batch", min=2, max=64)
    given = torch.randn(4, 3, 8, 8)
    program = torch.export.export(ours, (given,), dynamic_shapes=({0: batch},))
    names = [str(node.target) for node in program.graph.nodes]
    other = torch.randn(7, 3, 8, 8)

    assert names.count("tconv.conv.default") == 2
    assert names.count("tconv.conv_transpose.default") == 1
    torch.testing.assert_close(program.module()(other), theirs(other), rtol=1e-4, atol=1e-5)


def test_symbolic_tracing_gives_a_model_that_computes_the_same() -> None:
    """The tracer's objects are no tensors; torch's own operators stand in its graph."""
    theirs, ours = pair()
    fallback._noted.clear()  # noqa: SLF001 - each note comes once
    with pytest.warns(adapter.FallbackWarning, match="Proxy"):
        traced = torch.fx.symbolic_trace(ours)
    given = torch.randn(2, 3, 6, 6)

    torch.testing.assert_close(traced(given), theirs(given), rtol=1e-4, atol=1e-5)
