"""Real models give torch's results and gradients after accelerate, in every element type."""

import copy
from typing import Any

import pytest

from engines import require

torch = require.module("torch")

import tconv.adapters.torch as adapter  # noqa: E402 - without torch this file is skipped
from tconv.bench.models import MODELS, Model  # noqa: E402 - as above

# Of a difference, as a share of the size of what is right.  Both sides round every layer's
# result, and norms divide by small spreads: the last places part, more with every layer.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 0.1}
LAYERS = {"hifigan": 78, "unet-2d": 23, "unet-3d": 23, "dcgan": 5, "pose-head": 4, "codec": 30}

every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def pair(model: Model, dtype: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401 - torch is not typed
    """Return a model, the same accelerated, and an input."""
    theirs, given = model.make(small=True)
    theirs = theirs.to(dtype)
    ours = copy.deepcopy(theirs)
    report = adapter.accelerate(ours)

    assert len(report.replaced) == LAYERS[model.name]
    assert not report.left
    return ours, theirs, given.to(dtype)


def distance(result: Any, right: Any) -> float:  # noqa: ANN401 - torch is not typed
    """Return the size of a difference as a share of what is right."""
    return float((result.double() - right.double()).norm() / right.double().norm())


@every_model
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_inference(model: Model, dtype: Any) -> None:  # noqa: ANN401 - torch is not typed
    """In evaluation, with packed weights in the second call."""
    ours, theirs, given = pair(model, dtype)
    with torch.no_grad():
        right = theirs.eval()(given)
        ours.eval()
        for _ in range(2):
            result = ours(given)

            assert result.shape == right.shape
            assert result.stride() == right.stride()
            assert distance(result, right) < TOLERANCE[dtype]


@every_model
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_training_step(model: Model, dtype: Any) -> None:  # noqa: ANN401 - torch is not typed
    """The loss, and the gradient of every parameter, are torch's.

    float64 decides.  In float32 a rounding may take a value to the other side of a ReLU's kink,
    which changes some gradients by a hundredth, on both sides of the comparison.
    """
    ours, theirs, given = pair(model, dtype)
    losses = []
    for network in (ours, theirs):
        loss = network.train()(given).square().mean()
        loss.backward()
        losses.append(loss.detach())

    assert distance(*losses) < TOLERANCE[dtype]
    compare_gradients(ours, theirs, 1e-8 if dtype is torch.float64 else 5e-2)


@every_model
def test_a_training_step_in_bfloat16_is_as_near_as_torchs(model: Model) -> None:
    """Measured from float64, over all gradients: no further away than torch's own bfloat16."""
    ours, theirs, given = pair(model, torch.bfloat16)
    exact = copy.deepcopy(theirs).double()
    gradients = []
    for network, data in ((ours, given), (theirs, given), (exact, given.double())):
        network.train()(data).square().mean().backward()
        gradients.append(torch.cat([each.grad.double().flatten() for each in network.parameters()]))

    assert distance(gradients[0], gradients[2]) < 1.5 * distance(gradients[1], gradients[2]) + 1e-2


@pytest.mark.parametrize("model", [MODELS[1]], ids=lambda model: model.name)
def test_channels_last_goes_through_a_model(model: Model) -> None:
    """As torch carries it."""
    ours, theirs, given = pair(model, torch.float32)
    given = given.to(memory_format=torch.channels_last)
    with torch.no_grad():
        result, right = ours.eval()(given), theirs.eval()(given)

    assert result.stride() == right.stride()
    assert distance(result, right) < TOLERANCE[torch.float32]


def compare_gradients(ours: Any, theirs: Any, limit: float) -> None:  # noqa: ANN401 - torch is not typed
    """Compare the gradients of all parameters.

    A bias before a norm has no influence: its gradient is rounding alone, on both sides.
    """
    largest = max(each.grad.abs().max() for each in theirs.parameters())
    for (name, mine), right in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if right.grad.abs().max() > 1e-6 * largest:
            assert distance(mine.grad, right.grad) < limit, name
        else:
            assert mine.grad.abs().max() < 1e-5 * largest, name
