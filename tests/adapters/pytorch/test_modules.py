"""The six modules stand in for torch.nn's, wherever those stand."""

import copy
import inspect
import io
import pickle
from typing import Any

import pytest

from engines import require

torch = require.module("torch")

import tconv.adapters.torch as adapter  # noqa: E402 - without torch this file is skipped
from tconv.adapters.torch import kept  # noqa: E402 - as above

nn = torch.nn
NAMES = [f"{kind}{rank}d" for kind in ("Conv", "ConvTranspose") for rank in (1, 2, 3)]
SHAPES = {1: (2, 4, 7), 2: (2, 4, 6, 5), 3: (2, 4, 5, 4, 3)}

every_module = pytest.mark.parametrize("name", NAMES)


def pair(name: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:  # noqa: ANN401 - the constructor's
    """Return a module of ours and torch's, with the same whole numbers in both."""
    made = []
    for source in (adapter, nn):
        module = getattr(source, name)(*arguments, **options)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for each in module.parameters():
                each.copy_(torch.randint(-2, 3, each.shape, generator=generator))
        made.append(module)
    return made[0], made[1]


def given(name: str, dtype: Any = torch.float32) -> Any:  # noqa: ANN401 - torch is not typed
    """Return a picture of whole numbers."""
    generator = torch.Generator().manual_seed(2)
    return torch.randint(-2, 3, SHAPES[int(name[-2])], generator=generator).to(dtype)


@every_module
def test_a_module_is_torchs(name: str) -> None:
    """Constructor, class, printed form, parameters and state."""
    ours, theirs = pair(name, 4, 6, 3, stride=2, bias=False)

    assert isinstance(ours, type(theirs))
    assert repr(ours) == repr(theirs)
    assert inspect.signature(type(ours)) == inspect.signature(type(theirs))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all numbers": {"stride": 2, "padding": 1, "dilation": 2, "groups": 2},
    "no bias": {"bias": False},
    "float64": {"dtype": torch.float64},
    "bfloat16": {"dtype": torch.bfloat16, "device": "cpu"},
}


@every_module
@pytest.mark.parametrize("what", OPTIONS)
@pytest.mark.parametrize("training", [True, False])
def test_results_are_torchs(name: str, what: str, *, training: bool) -> None:
    """In training and in evaluation, twice: the second time with packed weights."""
    ours, theirs = (each.train(training) for each in pair(name, 4, 6, 2, **OPTIONS[what]))
    data = given(name, OPTIONS[what].get("dtype", torch.float32))

    for _ in range(2):
        torch.testing.assert_close(ours(data), theirs(data), rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "zeros"])
@pytest.mark.parametrize("padding", [1, "same", "valid"])
@pytest.mark.parametrize("name", NAMES[:3])
def test_padding_modes(name: str, mode: str, padding: int | str) -> None:
    """Torch's own padding goes before our convolution."""
    ours, theirs = pair(name, 4, 2, 3, padding=padding, padding_mode=mode)

    torch.testing.assert_close(ours(given(name)), theirs(given(name)), rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES[3:])
def test_output_size(name: str) -> None:
    """It chooses among the sizes that a stride leaves open, and refuses others as torch does."""
    ours, theirs = pair(name, 4, 2, 3, stride=3)
    data = given(name)
    shape = theirs(data).shape
    for more in (0, 1, 2):
        size = [number + more for number in shape[2:]]
        for asked in (size, list(shape[:2]) + size, torch.Size(size)):
            torch.testing.assert_close(ours(data, asked), theirs(data, output_size=asked))
    for module in (ours, theirs):
        with pytest.raises(ValueError, match=r"output.size"):
            module(data, output_size=[number + 3 for number in shape[2:]])


WRONG: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((4, 6, 3), {"groups": 3}),
    ((4, 6, 3), {"groups": 0}),
    ((4, 6, 3), {"padding_mode": "none"}),
    ((4, 6), {}),
    ((4, 6, "3"), {}),
    ((4.5, 6, 3), {}),
    ((4, 6, 3), {"padding": "full"}),
    ((4, 6, 3), {"padding": "same", "stride": 2}),
    ((4, 6, 3), {"device": "nowhere"}),
    ((4, 6, 3), {"depth": 1}),
]


def outcome(make: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:  # noqa: ANN401 - a class
    """Return what type of error a constructor raises, or None."""
    try:
        make(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error)
    return None


@every_module
@pytest.mark.parametrize("index", range(len(WRONG)))
def test_a_constructor_refuses_what_torchs_refuses(name: str, index: int) -> None:
    """With the same type of error."""
    arguments, options = WRONG[index]
    theirs, ours = (outcome(getattr(source, name), arguments, options) for source in (nn, adapter))

    assert theirs is ours


@every_module
def test_a_call_refuses_what_torchs_refuses(name: str) -> None:
    """Wrong channels, wrong ranks, no tensor."""
    ours, theirs = pair(name, 4, 6, 3)
    data = given(name)
    for wrong in (data[:, :3], data[0, 0], data.double(), None, data.numpy()):
        errors = []
        for module in (theirs, ours):
            with pytest.raises((RuntimeError, TypeError, ValueError, AttributeError)) as caught:
                module(wrong)
            errors.append(caught.type)

        assert errors[0] is errors[1]


def test_modules_are_copied_and_pickled_without_their_packed_weights() -> None:
    """A copy packs its own."""
    module, _ = pair("Conv2d", 4, 6, 3)
    module.eval()
    data = given("Conv2d")
    right = module(data)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)

    assert buffer.getbuffer().nbytes < 8000
    for twin in (
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),  # noqa: S301 - our own
        torch.load(buffer, weights_only=False),
    ):
        assert torch.equal(twin(data), right)


def step(module: Any) -> None:  # noqa: ANN401 - torch is not typed
    """Change the parameters as training does."""
    with torch.enable_grad():
        module(given("Conv2d")).sum().backward()
    torch.optim.SGD(module.parameters(), lr=1.0).step()


CHANGES: dict[str, Any] = {
    "in place": lambda module: module.weight.add_(1),
    "one element": lambda module: module.weight[0, 0, 0].fill_(7),
    "through data": lambda module: module.weight.data.add_(1),
    "other data": lambda module: setattr(module.weight, "data", module.weight.data + 1),
    "another parameter": lambda module: setattr(
        module, "weight", nn.Parameter(module.weight.detach() + 1)
    ),
    "a state": lambda module: module.load_state_dict(
        {name: value + 1 for name, value in module.state_dict().items()}
    ),
    "a state, assigned": lambda module: module.load_state_dict(
        {name: value + 1 for name, value in module.state_dict().items()}, assign=True
    ),
    "an optimizer": step,
    "another type": lambda module: module.double(),
    "another memory format": lambda module: module.to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights_are_packed_again(change: str) -> None:
    """However they change."""
    ours, theirs = (each.eval() for each in pair("Conv2d", 4, 6, 3))
    data = given("Conv2d")
    with torch.no_grad():
        ours(data)
        for module in (ours, theirs):
            CHANGES[change](module)
        data = data.to(ours.weight.dtype)

        torch.testing.assert_close(ours(data), theirs(data), rtol=0, atol=0)


def packs(module: Any) -> int:  # noqa: ANN401 - torch is not typed
    """Return how many times a module's weights are kept packed."""
    found = kept._kept.get(id(module.weight))  # noqa: SLF001 - what is kept
    return len(found.pack_of) if found else 0


def test_weights_are_packed_once_in_evaluation_and_not_kept_in_training() -> None:
    """What is kept goes with the weights."""
    module, _ = pair("ConvTranspose2d", 4, 6, 3, stride=2)
    data = given("ConvTranspose2d")
    module.train()
    module(data)

    assert packs(module) == 0
    module.eval()
    module(data)
    first = kept._kept[id(module.weight)]  # noqa: SLF001 - what is kept
    module(data)

    assert kept._kept[id(module.weight)] is first  # noqa: SLF001 - as above
    assert packs(module) == 1
    number = id(module.weight)
    del module, first

    assert number not in kept._kept  # noqa: SLF001 - as above


def test_a_layer_that_meets_many_sizes_does_not_keep_a_pack_for_each() -> None:
    """Memory stays bounded."""
    module, theirs = (each.eval() for each in pair("ConvTranspose1d", 2, 2, 9, stride=4))
    with torch.no_grad():
        for size in range(1, 24):
            data = torch.ones(1, 2, size)

            assert torch.equal(module(data), theirs(data))
    assert packs(module) <= kept.MOST_PACKS


def test_weights_made_in_inference_mode_are_never_kept() -> None:
    """Torch does not count their changes."""
    with torch.inference_mode():
        ours, theirs = (each.eval() for each in pair("Conv1d", 4, 6, 3))
        data = given("Conv1d")
        for change in (0, 1):
            for module in (ours, theirs):
                module.weight[0, 0, 0] += change

            assert torch.equal(ours(data), theirs(data))
    assert packs(ours) == 0


def test_gradients_in_evaluation_are_torchs() -> None:
    """Packed weights serve the gradient of the input, too."""
    ours, theirs = (each.eval() for each in pair("Conv2d", 4, 6, 3))
    found = []
    for module in (ours, theirs):
        for _ in range(2):
            data = given("Conv2d").requires_grad_()
            module.zero_grad()
            module(data).square().sum().backward()
        found.append([data.grad, module.weight.grad, module.bias.grad])

    torch.testing.assert_close(*found, rtol=0, atol=0)
