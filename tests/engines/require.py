"""Skip tests whose engine is missing, or fail them where every engine must be there."""

import importlib
import os
from typing import Any, NoReturn

import pytest

VARIABLE = "TCONV_REQUIRE_ENGINES"
FRAMEWORKS = "TCONV_REQUIRE_FRAMEWORKS"  # the optional ones too: JAX and Keras


def module(name: str) -> Any:  # noqa: ANN401 - engines are not typed
    """Import an engine, or skip the calling test module; with the variable set to 1, fail it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        refuse(f"{name} cannot be imported: {error}")


def optional(name: str) -> Any:  # noqa: ANN401 - engines are not typed
    """Import a framework of the optional test environment, or skip the calling test."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if os.environ.get(FRAMEWORKS) == "1":
            pytest.fail(f"{name} cannot be imported: {error}, and {FRAMEWORKS} is 1", pytrace=False)
        pytest.skip(f"{name} is not installed: pip install 'tconv[frameworks]' ({error})")


def usable(reason: str | None) -> None:
    """Go on when there is no reason against it, else skip or fail the calling test module."""
    if reason is not None:
        refuse(reason)


def refuse(reason: str) -> NoReturn:
    """Skip with the reason, or fail with it where every engine is required."""
    if os.environ.get(VARIABLE) == "1":
        pytest.fail(f"{reason}, and {VARIABLE} is 1", pytrace=False)
    pytest.skip(reason, allow_module_level=True)
