"""Installs the package with `pip install .` into a fresh environment, and runs the README's example there."""

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import venv

import pytest
import speech

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = ("PYTHONPATH", "PYTHONMALLOC", "LD_PRELOAD", "GPU_DISPATCH_HOST", "CFLAGS", "LDFLAGS", "DESTDIR")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="the same as without a sanitizer, and slower"),
    pytest.mark.timeout(1500),  # everything is compiled again
]

# Messages of pip if it cannot download the tools that build the package.
NOT_AVAILABLE = r"No matching distribution found for (meson|ninja)|Max retries exceeded|Read timed out|Connection broken"


def user_environment():
    """The environment of a user without a build directory."""
    return {name: value for name, value in os.environ.items() if name not in OURS}


def run(*command, cwd):
    return subprocess.run(command, cwd=cwd, env=user_environment(), stdin=subprocess.DEVNULL, capture_output=True,
    text=True)


def same_libraries():
    """Options that make pip's build find whisper.cpp in the same place as this build."""
    known = json.loads((speech.BUILD / "meson-info" / "intro-buildoptions.json").read_text(encoding="utf-8"))
    path = next(option["value"] for option in known if option["name"] == "pkg_config_path")
    return [f"--config-settings=setup-args=-Dpkg_config_path={','.join(path)}"] if path else []


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of a fresh environment with the package in it."""
    directory = tmp_path_factory.mktemp("install")
    venv.create(directory / "venv", with_pip=True)
    python = directory / "venv" / "bin" / "python"
    options = ["--disable-pip-version-check", f"--config-settings=build-dir={directory / 'build'}", *same_libraries()]
    done = run(python, "-m", "pip", "install", *options, ROOT, cwd=directory)
    output = done.stdout + done.stderr
    if done.returncode != 0 and re.search(NOT_AVAILABLE, output):
        pytest.skip("pip cannot download what the build needs")
    assert done.returncode == 0, output
    return python


def site_packages(python):
    return next((python.parents[1] / "lib").glob("python*/site-packages"))


def test_wheel_has_the_package_and_nothing_else(installed):
    dist = next(importlib.metadata.distributions(name="gpu_dispatch", path=[str(site_packages(installed))]))
    tops = {file.parts[0] for file in dist.files}
    assert tops == {
        "..",  # its scripts, in the environment's bin
        "__pycache__",
        "gpu_dispatch",
        f"gpu_dispatch-{dist.version}.dist-info",
        "launcher_multigpu.py",
    }
    source = {path.name for path in (ROOT / "python" / "gpu_dispatch").iterdir() if path.suffix in (".py", ".pyi", ".typed")}
    assert source | {"py.typed"} <= {file.name for file in dist.files if file.parts[0] == "gpu_dispatch"}


def test_dependencies_are_only_extras(installed):
    meta = next(importlib.metadata.distributions(name="gpu_dispatch", path=[str(site_packages(installed))])).metadata
    assert all("extra ==" in wanted for wanted in meta.get_all("Requires-Dist"))
    assert {"ui", "dev"} <= set(meta.get_all("Provides-Extra"))
    assert meta["Requires-Python"] == ">=3.10"


def test_package_is_imported_from_site_packages(installed, tmp_path):
    done = run(installed, "-c", "import gpu_dispatch; print(gpu_dispatch.__file__)", cwd=tmp_path)
    assert pathlib.Path(done.stdout.strip()).is_relative_to(site_packages(installed)), done.stderr


def test_readme_example_runs(installed, tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r'^```python title="power.py"\n(.*?)^```$', readme, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    done = run(installed, "example.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(f"{n}: {n * n}" for n in range(100))


# ---- the command that it brings ----


def test_wheel_has_the_command(installed, tmp_path):
    script = installed.with_name("gpu-dispatch")
    done = run(script, "--version", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("gpu-dispatch "), done.stderr
    done = run(script, "run", "--gpus", "sim:2", "-k", "echo", "{}", ":::", "a", "b", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "a\nb\n"), done.stderr


def test_wheel_has_the_converter_of_models(installed, tmp_path):
    (tmp_path / "it.pt").write_text("x")
    done = run(installed.with_name("gpu-dispatch"), "models", "convert", "it.pt", cwd=tmp_path)
    assert done.returncode == 1 and "it.pt: is not a checkpoint of PyTorch" in done.stderr, done.stderr


def test_command_is_in_the_package(installed, tmp_path):
    """The command in the package needs no library of this project or of a build directory."""
    ask = "from gpu_dispatch import _transcribe; print(_transcribe.find_command())"
    command = pathlib.Path(run(installed, "-c", ask, cwd=tmp_path).stdout.strip())
    assert command == site_packages(installed) / "gpu_dispatch" / "_prefix" / "bin" / "gpu-dispatch"
    linked = run("ldd", command, cwd=tmp_path).stdout
    assert "libgpu_dispatch" not in linked and "not found" not in linked


@pytest.mark.parametrize("how", ["script", "module"])
def test_launcher(installed, tmp_path, how):
    command = [installed.with_name("launcher_multigpu")] if how == "script" else [installed, "-m", "launcher_multigpu"]
    done = run(*command, "--help", cwd=tmp_path)
    assert done.returncode == 0 and "launcher_multigpu [OPTIONS]" in done.stdout, done.stderr


def test_transcribes(installed, tmp_path):
    """Uses the transcriber and the model of the wheel, if it was built with them."""
    if not speech.CAN_TRANSCRIBE:
        pytest.skip(speech.WITHOUT)
    example = f"""
from gpu_dispatch.multigpu import LauncherOrchestrator
print(LauncherOrchestrator().run({str(speech.CLIPS)!r}, "out", "cpu", "demo", pattern={list(speech.SURE)!r}))
"""
    done = run(installed, "-c", example, cwd=tmp_path)
    assert done.stdout.endswith("0\n"), done.stdout + done.stderr
    texts = {path.with_suffix(".flac").name: path.read_text().strip() for path in (tmp_path / "out").iterdir()}
    assert texts == speech.SURE
