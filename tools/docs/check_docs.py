#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the documents of this tree against the tree, without a network. Prints every problem. Exits with 1 if there is
one.

    check_docs.py [DOCUMENT...]

- A link to a file leads to a file, and a link with an anchor to a heading of that file.
- A path in backticks that begins with a directory of this tree (`src/core/sched.h`, `docs/*.md`) exists. NAME in a path
  stands for any name.
- A name of the C API in backticks (`gd_run()`, `GD_OPTIONS_INIT`) is in the sources or tests.
- A test in backticks (`unit_heap`) has its file in tests/.
- A target in backticks (`make test`) is in the Makefile.
- A message in the tables of docs/troubleshooting.md is in the sources; "..." stands for a value.
- README.md has at most 150 lines.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.*/-]+/[\w.*/-]*")
TARGET = re.compile(r"(?:[A-Z]+=\S+ )*make ([a-z][a-z-]*)$")
NAME = re.compile(r"\b(?:gd_|GD_)[A-Za-z_]\w*\b")
TEST = re.compile(r"([a-z]+)_([a-z_]+)")
SYSTEM_WORDS = re.compile(r": (?:No space|Address)\b.*")  # a text of strerror() at the end of a message
SOURCES = ("src", "cli", "tui", "web", "view", "apps", "python", "include")
README_MOST = 150


def prose_of(document):
    """The lines outside fenced blocks, with their numbers."""
    fenced = False
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors_of(document):
    """The anchors of its headings, as GitHub and MkDocs make them."""
    headings = (re.match(r"#+ (.*)", line) for _, line in prose_of(document))
    texts = (re.sub(r"[^\w\s-]", "", heading[1].lower()).strip() for heading in headings if heading)
    return {re.sub(r"\s", "-", text) for text in texts}


def texts_below(root, tops):
    """The sources below these directories as one text, with the parts of string literals joined and escapes undone."""
    paths = (path for top in tops for path in sorted((root / top).rglob("*")) if path.suffix in (".c", ".h", ".py"))
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    return re.sub(r'"\s*f?"', "", text).replace('\\"', '"')


def link_problem(document, target):
    if re.match(r"[a-z]+:", target):
        return None  # an address elsewhere, which is not checked without a network
    name, _, anchor = target.partition("#")
    file = (document.parent / name).resolve() if name else document
    if not file.exists():
        return f"there is no {target}"
    if anchor and anchor not in anchors_of(file):
        return f"{file.name} has no heading for #{anchor}"
    return None


class Tree:
    def __init__(self, root):
        self.root = root
        self.tops = {path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("build")}
        self.targets = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        self.sources = texts_below(root, SOURCES)
        self.tests = texts_below(root, ("tests",))

    def has(self, pattern):
        return any(True for _ in self.root.glob(pattern))

    def path_problem(self, code):
        if not PATH.fullmatch(code) or code.split("/")[0] not in self.tops or "NAME" in code:
            return None
        return None if self.has(code) else f"there is no {code}"

    def target_problem(self, code):
        found = TARGET.match(code)
        return f"the Makefile has no target {found[1]}" if found and found[1] not in self.targets else None

    def name_problem(self, code):
        missing = [name for name in NAME.findall(code) if name not in self.sources and name not in self.tests]
        return f"no source has {missing[0]}" if missing else None

    def test_problem(self, code):
        found = TEST.fullmatch(code)
        if not found or not (self.root / "tests" / found[1]).is_dir() or code in self.sources:
            return None
        places = (f"test_{found[2]}.*", f"{code}.*", f"{found[2]}.py")
        return None if any(self.has(f"tests/{found[1]}/**/{place}") for place in places) else f"there is no test {code}"

    def message_problems(self, document):
        """Messages that are not in the sources. They are the first cells of tables whose first column is called
        "message"."""
        in_messages = False
        for number, line in prose_of(document):
            first = line.split("|")[1].strip() if line.startswith("|") else None
            in_messages = first is not None and (in_messages or first == "message")
            for message in CODE.findall(first) if in_messages else ():
                parts = (part.strip(" :()") for part in SYSTEM_WORDS.sub("", message).split("..."))
                yield from ((number, f"no source has this part of a message: {part}") for part in parts
                            if part not in self.sources)

    def problems_of(self, document):
        """The problems of a document: (line, problem or None)."""
        lines = list(prose_of(document))
        for number, line in lines:
            for target in LINK.findall(line):
                yield number, link_problem(document, target)
            for code in CODE.findall(line):
                for look in (self.path_problem, self.target_problem, self.name_problem, self.test_problem):
                    yield number, look(code)
        if document == self.root / "README.md" and lines[-1][0] > README_MOST:
            yield lines[-1][0], f"more than {README_MOST} lines"
        if document.name == "troubleshooting.md":
            yield from self.message_problems(document)


def documents():
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True,
                           text=True, check=True).stdout.split()
    return [ROOT / name for name in names if (ROOT / name).exists()]


def main():
    tree, wrong = Tree(ROOT), 0
    chosen = [pathlib.Path(name).resolve() for name in sys.argv[1:]] or documents()
    for document in chosen:
        for number, problem in tree.problems_of(document):
            if problem:
                print(f"{document.relative_to(ROOT)}:{number}: {problem}")
                wrong += 1
    print(f"{len(chosen)} documents, {wrong} problems")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
