"""The package in the build directory: its files, its names and its types."""

import importlib.machinery
import os
import pathlib
import re
import subprocess
import sys

import pytest
import test_seeds

import gpu_dispatch
from gpu_dispatch import _native

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(gpu_dispatch.__file__).parent


def test_version_is_that_of_the_project():
    declared = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8"))
    assert gpu_dispatch.__version__ == declared[1]


def test_extension_is_in_the_package_directory():
    assert pathlib.Path(_native.__file__).parent == PACKAGE
    assert isinstance(_native.__spec__.loader, importlib.machinery.ExtensionFileLoader)


def test_package_has_type_information():
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_native.pyi").exists()


def test_stub_declares_every_name_of_the_extension():
    stub = (PACKAGE / "_native.pyi").read_text(encoding="utf-8")
    declared = set(re.findall(r"^(?:class|def) (\w+)|^(\w+):", stub, re.MULTILINE))
    names = {a or b for a, b in declared} - {"Callbacks", "Host"}  # known to type checkers only
    assert names == {name for name in dir(_native) if not name.startswith("_")}


def test_extension_exports_only_its_init_function():
    listed = subprocess.run(["nm", "-D", "--defined-only", _native.__file__], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["PyInit__native"]


def test_every_source_is_in_the_build():
    source = {path.name for path in (ROOT / "python" / "gpu_dispatch").iterdir() if path.suffix in (".py", ".pyi")}
    assert source == {path.name for path in PACKAGE.iterdir() if path.suffix in (".py", ".pyi")}


# ---- type checkers ----

WORKERS = """
from gpu_dispatch import BaseWorker, Dispatcher

class Named(BaseWorker):
    def setup(self, gpu_id: int, seed: int, model: str = "small", *, depth: int) -> None:
        self.depth = depth

    def load(self, path: str) -> bytes:
        return path.encode()

    def process(self, pixels: bytes) -> int:
        return len(pixels)

    def process_batch(self, images: list[bytes]) -> list[int]:
        return [self.process(image) for image in images]

    def cleanup(self) -> None:
        pass

Dispatcher(Named, [0]).run(["a"], lambda task_id, result, worker_id: None, depth=3)
"""

# The comment of a line is the kind of mistake that mypy must find in it.
MISTAKES = """
from gpu_dispatch import BaseWorker, Dispatcher
class Bare(BaseWorker): pass
Bare()  # abstract
Dispatcher(Bare, [0])  # type-abstract
Dispatcher(int, [0])  # arg-type
class Whole(BaseWorker):
    def setup(self): pass
    def process(self): pass  # override
Dispatcher(Whole, [0]).run([1])  # call-arg
import launcher_multigpu
launcher_multigpu.run_multi_gpu("in", "out", [0, 1], beams=5)  # call-arg
launcher_multigpu.run_multi_gpu("in", "out", [0, 1], formats=5)  # arg-type
"""


def mypy(directory, text):
    """The errors of mypy, as (line, kind)."""
    pytest.importorskip("mypy")
    (directory / "checked.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--check-untyped-defs", "--cache-dir", directory.parent / "mypy_cache",
         "checked.py"],
        cwd=directory,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^checked\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    assert len(found) == done.stdout.count("error:"), done.stdout
    return [(int(line), kind) for line, kind in found]


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="runs only mypy")
@pytest.mark.parametrize("text", [WORKERS, test_seeds.WORKER, test_seeds.USAGE, test_seeds.QUICK_START])
def test_workers_of_any_shape_pass_a_type_checker(tmp_path, text):
    # An example uses names that it does not define.
    assert {kind for _, kind in mypy(tmp_path, text)} <= {"name-defined"}


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="runs only mypy")
def test_mistakes_do_not_pass_a_type_checker(tmp_path):
    wanted = [(at, line.split("# ")[1]) for at, line in enumerate(MISTAKES.splitlines(), 1) if "# " in line]
    assert mypy(tmp_path, MISTAKES) == wanted


def test_help_describes_the_arguments_of_setup():
    done = subprocess.run(
        [sys.executable, "-c", "import gpu_dispatch; help(gpu_dispatch.BaseWorker)"],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PAGER": "cat"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "setup(self, gpu_id: 'int', seed: 'int', **kwargs: 'Any')" in done.stdout
