"""The layer table of docs/architecture.md is a test, and so are the file sizes."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "tconv"
LONGEST_FILE = 400
BANNED = ("utils", "helpers", "common", "misc", "base")

# Module prefix -> the only things it may import besides the standard library.
# The longest prefix that fits a module counts.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": (),
    "version": (),
    "settings": ("tconv.errors",),
    "threads": ("tconv.settings", "tconv.dialects.attributes"),
    "problem": ("numpy", "ml_dtypes", "tconv.errors", "tconv.problem"),
    "dialects": ("numpy", "tconv.errors", "tconv.problem", "tconv.dialects"),
    "reference": ("numpy", "tconv.problem"),
    "plan": ("numpy", "tconv.errors", "tconv.problem", "tconv.plan"),
    "codegen": ("numpy", "llvmlite.ir", "tconv.errors", "tconv.plan", "tconv.codegen"),
    "jit": ("llvmlite", "llvmlite.binding", "tconv.errors", "tconv.plan.machine", "tconv.jit"),
    "runtime": ("numpy", "tconv.errors", "tconv.problem", "tconv.plan", "tconv.runtime",
                "tconv.threads"),
    "runtime.kernels": ("llvmlite.ir", "tconv.codegen", "tconv.jit", "tconv.plan",
                        "tconv.settings"),
    "runtime.pool": ("llvmlite.ir", "tconv.codegen", "tconv.jit", "tconv.settings",
                     "tconv.threads"),
    "runtime.door": ("numpy", "llvmlite.ir", "tconv.codegen", "tconv.errors", "tconv.jit",
                     "tconv.runtime", "tconv.settings", "tconv.threads"),
    "engine": ("numpy", "tconv.errors", "tconv.problem", "tconv.plan", "tconv.runtime",
               "tconv.settings"),
    # The layer of operators that run: arrays in, arrays out.
    "arrays": ("numpy", "tconv.errors", "tconv.problem"),
    "files": ("numpy", "tconv.errors", "tconv.problem", "tconv.arrays"),
    "calls": ("numpy", "tconv.errors", "tconv.problem", "tconv.dialects", "tconv.plan",
              "tconv.engine", "tconv.quick", "tconv.arrays"),
    "quick": ("numpy", "tconv.problem", "tconv.dialects", "tconv.engine",
              "tconv.runtime.scratch", "tconv.arrays"),
    "ops": ("numpy", "tconv.arrays", "tconv.calls", "tconv.quick", "tconv.dialects"),
    "onednn": ("tconv.calls", "tconv.dialects"),
    "onnx": ("tconv.calls", "tconv.dialects"),
    "openvino": ("tconv.calls", "tconv.dialects", "tconv.errors"),
    "translation": ("numpy", "tconv.calls", "tconv.dialects", "tconv.errors", "tconv.onednn",
                    "tconv.onnx", "tconv.openvino", "tconv.ops", "tconv.problem",
                    "tconv.translation"),
    "__init__": ("tconv.errors", "tconv.onednn", "tconv.onnx", "tconv.openvino", "tconv.ops",
                 "tconv.threads", "tconv.translation", "tconv.version"),
    # What people see.
    "adapters.onnx": ("numpy", "onnx", "tconv"),
    "adapters.torch": ("numpy", "torch", "tconv", "tconv.errors", "tconv.problem",
                       "tconv.dialects", "tconv.calls", "tconv.runtime", "tconv.adapters.torch"),
    "explain": ("numpy", "tconv", "tconv.*"),
    "bench": ("numpy", "llvmlite.ir", "tconv", "tconv.*"),
    "bench.models": ("torch", "tconv", "tconv.*"),
    "bench.peers": ("numpy", "torch", "openvino", "onnx", "onnxruntime", "tconv", "tconv.*"),
    "benchdnn": ("numpy", "tconv.calls", "tconv.errors", "tconv.onednn", "tconv.problem",
                 "tconv.reference"),
    "arguments": ("tconv.*",),
    "cli": ("tconv", "tconv.*"),
    "__main__": ("tconv.cli",),
}  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    """Yield every module of the package by its dotted name inside it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        yield ".".join(parts), path


def imports(source: str) -> Iterator[str]:
    """Yield the modules that a source imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            if node.module in ("tconv", "llvmlite"):  # the name imported is a module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield str(node.module)


def allowed(module: str, imported: str) -> bool:
    """Tell whether the table lets a module import another."""
    if imported.partition(".")[0] in sys.stdlib_module_names:
        return True
    prefixes = [p for p in MAY_IMPORT if module == p or module.startswith(f"{p}.")]
    if not prefixes:
        return False
    for name in MAY_IMPORT[max(prefixes, key=len)]:
        if name == "tconv" and imported.count(".") <= 1 and imported.startswith("tconv"):
            return True  # the public face
        if name == "tconv.*" and imported.startswith("tconv."):
            return True
        if imported == name or imported.startswith(f"{name}."):
            return True
    return False


@pytest.mark.parametrize(("module", "path"), [pytest.param(m, p, id=m) for m, p in modules()])
def test_every_import_points_down_the_table(module: str, path: Path) -> None:
    """A module imports only what its layer may know."""
    wrong = [name for name in imports(path.read_text()) if not allowed(module, name)]

    assert wrong == []


@pytest.mark.parametrize(("module", "path"), [pytest.param(m, p, id=m) for m, p in modules()])
def test_no_file_is_too_long_or_badly_named(module: str, path: Path) -> None:
    """A file has one job, says so in its docstring and its name, and fits in a head."""
    source = path.read_text()

    assert len(source.splitlines()) <= LONGEST_FILE
    assert ast.get_docstring(ast.parse(source))
    assert module.rpartition(".")[2] not in BANNED


def test_the_import_check_can_fail() -> None:
    """The check must catch an import that points up, and one hidden in a function."""
    hidden = "def f():\n    from tconv import engine\n"

    assert list(imports(hidden)) == ["tconv.engine"]
    assert not allowed("problem.axis", "tconv.engine")
    assert not allowed("reference", "tconv.engine")
    assert not allowed("dialects.onnx", "onnx")
    assert allowed("runtime.taps", "tconv.plan")
