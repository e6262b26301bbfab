"""What `pip install .` gives in an environment of its own, and the README's example run from there."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import venv

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = ("PYTHONPATH", "PYTHONMALLOC", "LD_PRELOAD", "GPU_DISPATCH_HOST", "CFLAGS", "LDFLAGS", "DESTDIR")

pytestmark = pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="the same as without a sanitizer, and slower")


def stranger():
    """The environment of somebody who has never seen a build folder."""
    return {name: value for name, value in os.environ.items() if name not in OURS}


def run(*command, cwd):
    return subprocess.run(command, cwd=cwd, env=stranger(), stdin=subprocess.DEVNULL, capture_output=True, text=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of a fresh environment with the package in it."""
    folder = tmp_path_factory.mktemp("install")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    options = "--disable-pip-version-check", f"--config-settings=build-dir={folder / 'build'}"
    done = run(python, "-m", "pip", "install", *options, ROOT, cwd=folder)
    said = done.stdout + done.stderr
    if re.search(r"No matching distribution found for (meson|ninja)", said):
        pytest.skip("the build's own requirements cannot be had here")
    assert done.returncode == 0, said
    return python


def site_packages(python):
    return next((python.parents[1] / "lib").glob("python*/site-packages"))


def test_brings_the_package_and_nothing_else(installed):
    dist = next(importlib.metadata.distributions(name="gpu_dispatch", path=[str(site_packages(installed))]))
    tops = {file.parts[0] for file in dist.files}
    assert tops == {"gpu_dispatch", f"gpu_dispatch-{dist.version}.dist-info"}
    source = {path.name for path in (ROOT / "python" / "gpu_dispatch").iterdir() if path.suffix in (".py", ".pyi", ".typed")}
    assert source | {"py.typed"} <= {file.name for file in dist.files if file.parts[0] == "gpu_dispatch"}


def test_needs_nothing_and_offers_extras(installed):
    meta = next(importlib.metadata.distributions(name="gpu_dispatch", path=[str(site_packages(installed))])).metadata
    assert all("extra ==" in wanted for wanted in meta.get_all("Requires-Dist"))
    assert {"ui", "dev"} <= set(meta.get_all("Provides-Extra"))
    assert meta["Requires-Python"] == ">=3.10"


def test_imports_from_where_it_was_installed(installed, tmp_path):
    done = run(installed, "-c", "import gpu_dispatch; print(gpu_dispatch.__file__)", cwd=tmp_path)
    assert pathlib.Path(done.stdout.strip()).is_relative_to(site_packages(installed)), done.stderr


def test_readme_example_runs(installed, tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    done = run(installed, "example.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(f"{n}: {n * n}" for n in range(100))
