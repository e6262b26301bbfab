# SPDX-License-Identifier: MIT
"""Tests the check of layers on small trees with one fault in each.

    test_layers.py

Prints a line per case and, last, "N passed, N failed".
"""
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "check"))
sys.dont_write_bytecode = True
import layers  # noqa: E402

TABLE = """# Architecture

## Layers

| layer | holds | may include |
|---|---|---|
| `include/` | public headers | |
| `src/base/` | helpers | `include/` |
| `src/core/` | the scheduler | `src/base/` |
| `app/` | a program | `src/core/`, `src/door.h` |
| `src/door.h` | a private header | |

## Other things

| `nothing/` | of this | `counts/` |
"""
SOUND = {
    "docs/architecture.md": TABLE,
    "include/thing/thing.h": "",
    "src/base/text.h": "#include <stdio.h>\n#include <thing/thing.h>\n",
    "src/base/text.c": '#include "base/text.h"\n',
    "src/core/deep/task.h": '#include "base/text.h"\n',
    "src/door.h": "",
    "app/main.c": '#include "core/deep/task.h"\n  #  include "door.h"\n',
    "tests/test.c": '#include "anything.h"\n',
    "build/generated.c": '#include "anything.h"\n',
}


def problems_of(changes):
    """The messages of the check for the sound tree with these changes. A file whose text is None is removed."""
    with tempfile.TemporaryDirectory(prefix="gd-layers-") as name:
        root = pathlib.Path(name)
        for path, text in {**SOUND, **changes}.items():
            if text is not None:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
        return layers.check_tree(root)


def with_row(old, new):
    assert old in TABLE
    return {"docs/architecture.md": TABLE.replace(old, new)}


CASES = {
    "a sound tree": ({}, []),
    "an include that is not allowed": (
        {"src/base/text.c": '#include "base/text.h"\n#include "door.h"\n'},
        ["src/base/text.c includes src/door.h: src/base/ may not include src/door.h"],
    ),
    "an include in a circle": (
        {"src/base/text.c": '#include "core/deep/task.h"\n'},
        [
            "src/base/text.c includes src/core/deep/task.h: src/base/ may not include src/core/",
            "layers in a circle: src/core/ -> src/base/ -> src/core/",
        ],
    ),
    "a circle that the table allows": (
        {**with_row("| helpers | `include/` |", "| helpers | `include/`, `src/core/` |"),
         "src/base/text.c": '#include "core/deep/task.h"\n'},
        ["layers in a circle: src/core/ -> src/base/ -> src/core/"],
    ),
    "a file of no layer": ({"lost/file.c": ""}, ["lost/file.c belongs to no layer"]),
    "a file beside the layers of its directory": ({"src/loose.c": ""}, ["src/loose.c belongs to no layer"]),
    "a layer without files": (
        {**with_row("| `app/`", "| `gone/` | nothing | |\n| `app/`")},
        ["gone/ has no files"],
    ),
    "an allowance that is not used": (
        {"app/main.c": '#include "core/deep/task.h"\n'},
        ["app/ may include src/door.h, but does not"],
    ),
    "an allowance of no layer": (
        with_row("`src/core/`, `src/door.h`", "`src/core/`, `src/door.h`, `src/window.h`"),
        ["app/ may include src/window.h, which is not a layer of the table",
         "app/ may include src/window.h, but does not"],
    ),
    "a name without its directory": (
        {"src/base/text.c": '#include "text.h"\n'},
        ['src/base/text.c: #include "text.h" is not a path from include/, src/ or the root of the tree'],
    ),
    "a path from the wrong root": (
        {"src/base/text.c": '#include "src/base/text.h"\n'},
        ['src/base/text.c: #include "src/base/text.h" is not a path from include/, src/ or the root of the tree'],
    ),
    "a path that fits twice": (
        {"src/app/view.h": "", "app/view.h": "", "app/main.c": SOUND["app/main.c"] + '#include "app/view.h"\n'},
        ['app/main.c: #include "app/view.h" may mean src/app/view.h or app/view.h',
         "src/app/view.h belongs to no layer"],
    ),
    "a layer with two rows": (
        with_row("| `app/`", "| `src/base/` | helpers | |\n| `app/`"),
        ["src/base/ has two rows"],
    ),
    "a row that cannot be read": (
        with_row("| `app/`", "| everything |\n| `app/`"),
        ["not a row of the form | `layer` | what it holds | `others` |: everything"],
    ),
}


def a_layer_within_a_layer():
    """The longest matching name decides, so a subdirectory can have its own rules."""
    table = layers.Table(TABLE.replace("| `app/`", "| `src/core/deep/` | tasks | |\n| `app/`"))
    assert table.layer_of("src/core/deep/task.h") == "src/core/deep/"
    assert table.layer_of("src/core/other.h") == "src/core/"


def no_table():
    found = problems_of({"docs/architecture.md": "# Architecture\n"})
    assert 'docs/architecture.md has no table under "Layers"' in found, found


def run(name, case):
    try:
        case()
    except AssertionError as error:
        print(f"FAILED {name}: {error}")
        return False
    print("ok", name)
    return True


def compare(changes, expected):
    found = problems_of(changes)
    assert sorted(found) == sorted(expected), "\n  ".join(["found:", *found])


def main():
    results = [run(name, lambda pair=pair: compare(*pair)) for name, pair in CASES.items()]
    results += [run(case.__name__, case) for case in (a_layer_within_a_layer, no_table)]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main())
