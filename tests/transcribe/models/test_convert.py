# SPDX-License-Identifier: MIT
"""The converter of OpenAI's checkpoints, and the command that runs it. checkpoint.py makes the checkpoints.

    test_convert.py BUILD_DIRECTORY
"""
import json
import os
import pathlib
import subprocess
import sys
import zipfile

sys.dont_write_bytecode = True
import cases  # noqa: E402
import checkpoint  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(sys.argv[1]).resolve()
CONVERTER = ROOT / "apps" / "transcribe" / "convert" / "convert_model.py"


def convert(directory, state, expected=None, dims=checkpoint.DIMS, **more):
    """Converts a checkpoint with these tensors. Checks the model, or returns the error message."""
    checkpoint.write(directory / "it.pt", state, dims, **more)
    return convert_file(directory, expected)


def convert_file(directory, expected=None):
    if not (directory / "assets").exists():
        checkpoint.write_assets(directory / "assets")
    before = set(directory.iterdir())
    done = subprocess.run([sys.executable, CONVERTER, "it.pt", "it.bin", "--assets", "assets"], cwd=directory,
                          capture_output=True, text=True, check=False)
    if expected is None:
        assert done.returncode == 1 and set(directory.iterdir()) == before, (done, list(directory.iterdir()))
        assert done.stderr.count("\n") == 1 and done.stderr.startswith("convert_model: "), done.stderr
        return done.stderr
    assert done.returncode == 0 and not done.stderr, done
    assert (directory / "it.bin").read_bytes() == expected, "the model is not the expected one"
    (directory / "it.bin").unlink()
    return ""


def refused(directory, words, state, **more):
    message = convert(directory, state, **more)
    assert words in message, message


# ---- models ----------------------------------------------------------------------------------------------------------


def a_checkpoint_becomes_the_expected_model(directory):
    convert(directory, checkpoint.tensors(), checkpoint.model())


def weights_of_32_bits_and_of_bfloat16_become_16_bits(directory):
    convert(directory, checkpoint.tensors("FloatStorage"), checkpoint.model())
    convert(directory, checkpoint.tensors("BFloat16Storage"), checkpoint.model())


def a_multilingual_model_has_another_vocabulary(directory):
    dims = dict(checkpoint.DIMS, n_vocab=51865)
    convert(directory, checkpoint.tensors(dims=dims), checkpoint.model(dims, checkpoint.TOKENS["multilingual"]), dims)


def tensors_with_strides_and_offsets(directory):
    state = checkpoint.tensors()
    name = "encoder.blocks.0.mlp.0.weight"
    rows, columns = state[name].shape
    numbers = checkpoint.values(name, (rows, columns))
    turned = [numbers[row * columns + column] for column in range(columns) for row in range(rows)]
    data = checkpoint.packed("HalfStorage", [9.0] * 5 + turned)
    state[name] = checkpoint.Tensor(checkpoint.Storage("HalfStorage", "turned", data), (rows, columns), 5, (1, rows))
    name = "decoder.ln.weight"
    data = checkpoint.packed("HalfStorage", [9.0] * 3 + checkpoint.values(name, (checkpoint.WIDTH,)) + [9.0])
    state[name] = checkpoint.Tensor(checkpoint.Storage("HalfStorage", "later", data), (checkpoint.WIDTH,), 3)
    convert(directory, state, checkpoint.model())


# ---- what is refused -------------------------------------------------------------------------------------------------


def a_checkpoint_cannot_run_code(directory):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(directory / "attacked"),)

    refused(directory, "it names posix.mkdir, which is no part of a checkpoint", checkpoint.tensors(), extra=Attack())
    assert not (directory / "attacked").exists()


def tensors_that_do_not_fit(directory):
    state = checkpoint.tensors()
    del state["decoder.ln.bias"]
    refused(directory, "1 tensors are missing ['decoder.ln.bias']", state)
    state = dict(checkpoint.tensors(), unknown=checkpoint.tensors()["decoder.ln.bias"])
    refused(directory, "1 are unknown ['unknown']", state)
    state = checkpoint.tensors()
    state["decoder.ln.bias"].shape = (checkpoint.WIDTH - 1,)
    refused(directory, "decoder.ln.bias has the shape (7,) instead of (8,)", state)
    state = checkpoint.tensors()
    state["decoder.ln.bias"].offset = 1
    refused(directory, "the data of decoder.ln.bias is shorter than its shape", state)
    state = checkpoint.tensors()
    state["decoder.ln.bias"].storage.kind = "IntStorage"
    refused(directory, "decoder.ln.bias has the type IntStorage", state)
    state["decoder.ln.bias"] = 7
    refused(directory, "decoder.ln.bias has the shape None", state)


def sizes_that_do_not_fit(directory):
    refused(directory, "its vocabulary has 50000 tokens", checkpoint.tensors(), dims=dict(checkpoint.DIMS, n_vocab=50000))
    refused(directory, "differ in width", checkpoint.tensors(), dims=dict(checkpoint.DIMS, n_text_state=9))
    refused(directory, "dims) are not complete", checkpoint.tensors(), dims={"n_vocab": 51864})


def values_that_are_too_large(directory):
    state = checkpoint.tensors("FloatStorage")
    name = "encoder.conv1.weight"
    numbers = [1e6] * checkpoint.count(state[name].shape)
    state[name].storage.data = checkpoint.packed("FloatStorage", numbers)
    refused(directory, f"{name} has a value that is too large for a 16-bit number", state)


def models_of_transformers(directory):
    refused(directory, "convert-h5-to-ggml.py", checkpoint.tensors(), dims=None)


def files_that_are_not_checkpoints(directory):
    (directory / "it.pt").write_bytes(b"no archive")
    assert "is not a checkpoint of PyTorch 1.6 or later" in convert_file(directory)
    with zipfile.ZipFile(directory / "it.pt", "w") as archive:
        archive.writestr("something", "else")
    assert "it has no data.pkl" in convert_file(directory)
    checkpoint.write(directory / "it.pt", checkpoint.tensors())
    data = (directory / "it.pt").read_bytes()
    (directory / "it.pt").write_bytes(data[: len(data) // 2])
    assert "is not a checkpoint" in convert_file(directory)


def damaged_checkpoints(directory):
    """Any byte of the pickle may be wrong. The message is always one line."""
    checkpoint.write(directory / "whole.pt", checkpoint.tensors())
    with zipfile.ZipFile(directory / "whole.pt") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    pickled = files["archive/data.pkl"]
    for size in (0, 1, 100, len(pickled) // 2, len(pickled) - 1):
        with zipfile.ZipFile(directory / "it.pt", "w") as archive:
            for name, content in files.items():
                archive.writestr(name, pickled[:size] if name.endswith("data.pkl") else content)
        assert "its data.pkl is damaged" in convert_file(directory)


# ---- filters and vocabulary ------------------------------------------------------------------------------------------


def the_package_that_is_needed_is_named(directory):
    checkpoint.write(directory / "it.pt", checkpoint.tensors())
    done = subprocess.run([sys.executable, "-I", "-S", CONVERTER, "it.pt", "it.bin"], cwd=directory, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1 and "-m pip install openai-whisper" in done.stderr, done


def the_package_is_used_without_importing_it(directory):
    checkpoint.write(directory / "it.pt", checkpoint.tensors())
    checkpoint.write_assets(directory / "packages" / "whisper" / "assets")
    (directory / "packages" / "whisper" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    done = subprocess.run([sys.executable, CONVERTER, "it.pt", "it.bin"], cwd=directory, capture_output=True, text=True,
                          check=False, env=dict(os.environ, PYTHONPATH=str(directory / "packages")))
    assert done.returncode == 0, done
    assert (directory / "it.bin").read_bytes() == checkpoint.model()


def filters_for_other_bands(directory):
    checkpoint.write(directory / "it.pt", checkpoint.tensors())
    checkpoint.write_assets(directory / "assets", mels=3)
    assert "has no filters for 2 mel bands" in convert_file(directory)


# ---- the command -----------------------------------------------------------------------------------------------------


def command(directory, *words):
    return subprocess.run([BUILD / "gpu-dispatch", "models", *words], cwd=directory, capture_output=True, text=True,
                          check=False)


def the_command_converts(directory):
    checkpoint.write(directory / "small one.pt", checkpoint.tensors())
    checkpoint.write_assets(directory / "assets")
    done = command(directory, "convert", "--assets", "assets", "small one.pt")
    assert done.returncode == 0 and done.stdout == "small one.bin\n", done
    assert "English; use it with gpu-dispatch transcribe --model 'small one.bin'" in done.stderr, done
    assert (directory / "small one.bin").read_bytes() == checkpoint.model()
    done = command(directory, "convert", "small one.pt", "ggml-made.bin", "--assets", "assets")
    assert done.returncode == 0 and done.stdout == "ggml-made.bin\n", done
    listed = json.loads(command(directory, "--json", "--model-dir", ".").stdout)["found"][0]
    assert listed["name"] == "made" and listed["error"] is None and listed["multilingual"] is False, listed


def the_command_overwrites_nothing(directory):
    checkpoint.write(directory / "it.pt", checkpoint.tensors())
    (directory / "it.bin").write_text("precious")
    done = command(directory, "convert", "it.pt")
    assert done.returncode == 1 and "it.bin: exists already" in done.stderr, done
    assert (directory / "it.bin").read_text() == "precious"


def the_command_reports_failures(directory):
    done = command(directory, "convert", "none.pt")
    assert done.returncode == 1 and "none.pt: cannot be read: No such file" in done.stderr, done
    (directory / "it.pt").write_bytes(b"no archive")
    done = command(directory, "convert", "it.pt")
    assert done.returncode == 1 and done.stderr.endswith("gpu-dispatch: it.pt was not converted\n"), done
    done = subprocess.run([BUILD / "gpu-dispatch", "models", "convert", "it.pt"], cwd=directory, capture_output=True,
                          text=True, check=False, env={"PATH": str(directory)})
    assert done.returncode == 1 and "python3 cannot be started: No such file or directory: install Python 3" in done.stderr


checkpoint.pretend_torch()
sys.exit(cases.run((
    a_checkpoint_becomes_the_expected_model, weights_of_32_bits_and_of_bfloat16_become_16_bits,
    a_multilingual_model_has_another_vocabulary, tensors_with_strides_and_offsets, a_checkpoint_cannot_run_code,
    tensors_that_do_not_fit, sizes_that_do_not_fit, values_that_are_too_large, models_of_transformers,
    files_that_are_not_checkpoints, damaged_checkpoints, the_package_that_is_needed_is_named,
    the_package_is_used_without_importing_it, filters_for_other_bands, the_command_converts,
    the_command_overwrites_nothing, the_command_reports_failures)))
