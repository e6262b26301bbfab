"""The package as it lies in the build folder."""

import importlib.machinery
import pathlib
import re
import subprocess

import gpu_dispatch
from gpu_dispatch import _native

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(gpu_dispatch.__file__).parent


def test_version_is_the_projects():
    declared = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8"))
    assert gpu_dispatch.__version__ == declared[1]


def test_extension_lies_beside_the_package():
    assert pathlib.Path(_native.__file__).parent == PACKAGE
    assert isinstance(_native.__spec__.loader, importlib.machinery.ExtensionFileLoader)


def test_is_typed():
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_native.pyi").exists()


def test_stub_names_what_the_extension_has():
    stub = (PACKAGE / "_native.pyi").read_text(encoding="utf-8")
    declared = set(re.findall(r"^(?:class|def) (\w+)|^(\w+):", stub, re.MULTILINE))
    names = {a or b for a, b in declared} - {"Callbacks", "Host"}  # known to type checkers only
    assert names == {name for name in dir(_native) if not name.startswith("_")}


def test_exports_its_entry_alone():
    listed = subprocess.run(["nm", "-D", "--defined-only", _native.__file__], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["PyInit__native"]


def test_every_source_is_in_the_build():
    source = {path.name for path in (ROOT / "python" / "gpu_dispatch").iterdir() if path.suffix in (".py", ".pyi")}
    assert source == {path.name for path in PACKAGE.iterdir() if path.suffix in (".py", ".pyi")}
