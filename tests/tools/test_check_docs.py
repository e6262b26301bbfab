# SPDX-License-Identifier: MIT
"""Tests the check of documents on a small tree: correct lines pass, and each fault is found.

    test_check_docs.py

Prints a line per case and, last, "N passed, N failed".
"""
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "docs"))
sys.dont_write_bytecode = True
import check_docs  # noqa: E402

TREE = {
    "Makefile": "all: setup\ntest: all\n",
    "src/run.c": 'say("%s is no number: write "\n    "\\"1\\" or more", text);\nint gd_run(void);\n',
    "tests/unit/base/test_heap.c": "",
    "tests/text/test_json.c": "",
    "docs/guide.md": "# A guide\n\n## The first part\n",
}
# Lines of README.md, and the message that the check prints for each. None: no message.
LINES = {
    "[a](docs/guide.md) [b](docs/guide.md#the-first-part) [c](https://elsewhere.example/x)": None,
    "[a](docs/gone.md)": "there is no docs/gone.md",
    "[a](docs/guide.md#the-last-part)": "guide.md has no heading for #the-last-part",
    "[a](#nowhere)": "README.md has no heading for #nowhere",
    "`src/run.c`, `src/*.c`, `src/NAME.c`, `elsewhere/file.c`, `a/b` and `--option`": None,
    "`src/gone.c`": "there is no src/gone.c",
    "`gd_run()` and `struct gd_run`": None,
    "`gd_gone()`": "no source has gd_gone",
    "`make`, `make test` and `CC=clang make all`": None,
    "`make gone`": "the Makefile has no target gone",
    "`unit_heap`, `text_json` and `other_thing`": None,
    "`unit_gone`": "there is no test unit_gone",
}
MESSAGES = {
    '| message | what to do |\n|---|---|\n| `... is no number: write "1"` | x |\n| plain text | x |\n': None,
    "| message | what to do |\n|---|---|\n| `is no fish` | x |\n": "no source has this part of a message: is no fish",
    "| problem | what to do |\n|---|---|\n| `is no fish` | x |\n": None,
}


def found_in(name, text):
    """The messages of the check for a document with this text."""
    with tempfile.TemporaryDirectory(prefix="gd-docs-") as directory:
        root = pathlib.Path(directory).resolve()
        for path, content in {**TREE, name: text}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content, encoding="utf-8")
        return [problem for _, problem in check_docs.Tree(root).problems_of(root / name) if problem]


def main():
    cases = [("README.md", text, wanted) for text, wanted in LINES.items()]
    cases += [("docs/troubleshooting.md", text, wanted) for text, wanted in MESSAGES.items()]
    cases += [("README.md", "x\n" * 151, "more than 150 lines"), ("README.md", "```sh\n`make gone`\n```\nx\n", None)]
    failed = 0
    for name, text, wanted in cases:
        found = found_in(name, text)
        right = found == ([wanted] if wanted else [])
        print(f"{'ok' if right else 'FAILED'} {text[:60]!r}" + ("" if right else f": found {found}"))
        failed += not right
    print(f"{len(cases) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
