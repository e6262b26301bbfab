#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the documents of this tree against the tree, without a network. Prints what is wrong; status 1 if anything is.

    check_docs.py [DOCUMENT...]

- A link to a file leads to a file, and one with an anchor to a heading of it.
- A path in backticks that begins with a directory of this tree (`src/core/sched.h`, `docs/*.md`) exists; NAME stands for any.
- A name of the C API in backticks (`gd_run()`, `GD_OPTIONS_INIT`) is in the headers; `gd__` names are in the sources or tests.
- A test in backticks (`unit_json`) has its file in tests/.
- A target in backticks (`make test`) is in the Makefile.
- A message in the tables of docs/troubleshooting.md is in the sources; ... stands for what is filled in.
- README.md has at most 150 lines.
"""
import glob
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.*/-]+/[\w.*/-]*")
TARGET = re.compile(r"(?:[A-Z]+=\S+ )*make ([a-z][a-z-]*)$")
NAME = re.compile(r"\b(?:gd_|GD_)[A-Za-z_]\w*\b(?!\.\.\.)")
README_MOST = 150
SOURCES = ("src", "cli", "tui", "web", "apps", "python", "include")


def documents():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True,
                           text=True, check=True).stdout.split()
    return [ROOT / name for name in names if (ROOT / name).exists()]


def prose_of(text):
    """The lines outside fenced blocks, with their numbers."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors_of(document):
    """The anchors of its headings, as GitHub and MkDocs make them."""
    anchors = set()
    for _, line in prose_of(document.read_text(encoding="utf-8")):
        heading = re.match(r"#+ (.*)", line)
        if heading:
            kept = re.sub(r"[^\w\s-]", "", heading[1].lower()).strip()
            anchors.add(re.sub(r"\s", "-", kept))
    return anchors


def link_problem(document, target):
    if re.match(r"[a-z]+:", target):
        return None  # elsewhere: there is no network here
    name, _, anchor = target.partition("#")
    file = (document.parent / name).resolve() if name else document
    if not file.exists():
        return f"there is no {target}"
    if anchor and anchor not in anchors_of(file):
        return f"{file.name} has no heading for #{anchor}"
    return None


def path_problem(code, tops):
    """Of a path in backticks: whether it is one of this tree, and is missing."""
    if not PATH.fullmatch(code) or code.split("/")[0] not in tops or "NAME" in code:
        return None
    return None if glob.glob(str(ROOT / code)) else f"there is no {code}"


def target_problem(code, targets):
    found = TARGET.match(code)
    return f"the Makefile has no target {found[1]}" if found and found[1] not in targets else None


def name_problem(code, sources):
    missing = [name for name in NAME.findall(code) if name not in sources and not name.endswith("_")]
    return f"no source has {missing[0]}" if missing else None


def test_problem(code, sources):
    """`SUITE_NAME` is tests/SUITE/test_NAME.c, test_NAME.py or, of fuzzers, fuzz_NAME.c; docs_examples has its own."""
    suite, _, name = code.partition("_")
    if not re.fullmatch(r"[a-z]+_[a-z_]+", code) or not (ROOT / "tests" / suite).is_dir() or code in sources:
        return None
    found = glob.glob(f"{ROOT}/tests/{suite}/test_{name}.*") or glob.glob(f"{ROOT}/tests/{suite}/{code}.*")
    return None if found or code == "docs_examples" else f"there is no test {code}"


def makefile_targets():
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def source_texts(tops):
    """All source texts as one, with the parts of each string literal joined and escapes undone."""
    text = ""
    for top in tops:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".c", ".h", ".py"):
                text += path.read_text(encoding="utf-8")
    return re.sub(r'"\s*f?"', "", text).replace('\\"', '"')


def message_problems(document, sources):
    """Messages that the sources no longer have: the first cells of tables under a heading "message"."""
    in_messages = False
    for number, line in prose_of(document.read_text(encoding="utf-8")):
        if not line.startswith("|"):
            in_messages = False
            continue
        first = line.split("|")[1].strip()
        if first == "message":
            in_messages = True
        elif in_messages and first.startswith("`"):
            for part in first.strip("`").split("..."):
                part = part.split(": No space")[0].split(": Address")[0].strip(" :()")
                if part and part not in sources:
                    yield number, f"no source has the message part: {part}"


def problems_of(document, tops, targets, sources, tests):
    text = document.read_text(encoding="utf-8")
    for number, line in prose_of(text):
        for target in LINK.findall(line):
            yield number, link_problem(document, target)
        for code in CODE.findall(line):
            yield number, path_problem(code, tops)
            yield number, target_problem(code, targets)
            yield number, test_problem(code, sources)
            yield number, name_problem(code, sources + tests)
    if document == ROOT / "README.md" and text.count("\n") > README_MOST:
        yield text.count("\n"), f"more than {README_MOST} lines"
    if document.name == "troubleshooting.md":
        yield from message_problems(document, sources)


def main():
    chosen = [pathlib.Path(name).resolve() for name in sys.argv[1:]] or documents()
    tops = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("build")}
    targets, sources, tests, wrong = makefile_targets(), source_texts(SOURCES), source_texts(["tests"]), 0
    for document in chosen:
        for number, problem in problems_of(document, tops, targets, sources, tests):
            if problem:
                print(f"{document.relative_to(ROOT)}:{number}: {problem}")
                wrong += 1
    print(f"{len(chosen)} documents, {wrong} problems")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
