#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the table of layers in docs/architecture.md with the #includes of the sources.

The table is the one under "Layers". A row is

    | `src/shm/` | what it holds | `include/`, `src/base/` |

It has a layer (a directory with everything below it, or one file), what the layer holds, and the layers whose headers
it may include. A file belongs to the layer with the longest name that matches. These faults are reported:

    a source file that belongs to no layer, and a layer without files,
    an #include of a layer that the row does not allow, and an allowance that no #include uses,
    layers that depend on each other in a circle,
    an #include "..." that is not the path from include/, src/ or the root of the tree, or that fits two of them.

Tests and benchmarks may include every layer, so they are not in the table.

usage: layers.py [ROOT]        exit 1: something is wrong
"""
import collections
import pathlib
import re
import sys

DOCUMENT = "docs/architecture.md"
HEADING = "## Layers"
UNCHECKED = ("tests", "bench", "build", ".")  # beginnings of names in the root
INCLUDE_ROOTS = ("include/", "src/", "")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")


class Table:
    """The layers, in the order of the table, and what each may include."""

    def __init__(self, text):
        self.problems = []
        self.allowed = {}
        rows = self._rows(text)
        for cells in rows:
            self._add(cells)
        for layer, others in self.allowed.items():
            for other in others:
                if other not in self.allowed:
                    self.problems.append(f"{layer} may include {other}, which is not a layer of the table")
        if not self.allowed:
            self.problems.append(f'{DOCUMENT} has no table under "{HEADING[3:]}"')

    @staticmethod
    def _rows(text):
        section = text.partition(HEADING + "\n")[2].partition("\n## ")[0]
        lines = [line.strip() for line in section.splitlines() if line.strip().startswith("|")]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]

    def _add(self, cells):
        names = NAME.findall(cells[0])
        if len(cells) != 3 or len(names) != 1:
            self.problems.append(f"not a row of the form | `layer` | what it holds | `others` |: {' | '.join(cells)}")
        elif names[0] in self.allowed:
            self.problems.append(f"{names[0]} has two rows")
        else:
            self.allowed[names[0]] = NAME.findall(cells[2])

    def layer_of(self, path):
        """The layer that a file belongs to, or None."""
        fitting = [name for name in self.allowed if path == name or (name.endswith("/") and path.startswith(name))]
        return max(fitting, key=len, default=None)


def find_sources(root):
    """The paths of all C files, from the root."""
    places = [place for place in root.iterdir() if place.is_dir() and not place.name.startswith(UNCHECKED)]
    files = [path for place in places for pattern in ("*.c", "*.h") for path in place.rglob(pattern)]
    return sorted(path.relative_to(root).as_posix() for path in files)


def resolve(sources, quote, name):
    """The files of this tree that an #include may mean."""
    found = [root + name for root in INCLUDE_ROOTS if root + name in sources]
    if quote == "<":
        return [path for path in found if path.startswith("include/")]
    return [path for path in found if not (name.startswith(INCLUDE_ROOTS[:2]) and path == name)]


def read_includes(root, sources):
    """All #includes as (file, included file), and the problems with their names."""
    known, edges, problems = set(sources), [], []
    for path in sources:
        for quote, name in INCLUDE.findall((root / path).read_text(encoding="utf-8", errors="replace")):
            found = resolve(known, quote, name)
            if len(found) == 1:
                edges.append((path, found[0]))
            elif len(found) > 1:
                problems.append(f'{path}: #include "{name}" may mean {" or ".join(found)}')
            elif quote == '"':
                problems.append(f'{path}: #include "{name}" is not a path from include/, src/ or the root of the tree')
    return edges, problems


def find_cycle(graph):
    """A cycle of layers, as a list that begins and ends with the same layer. None if there is no cycle."""
    done = set()

    def visit(layer, trail):
        if layer in trail:
            return trail[trail.index(layer) :] + [layer]
        if layer in done:
            return None
        for other in sorted(graph.get(layer, ())):
            cycle = visit(other, trail + [layer])
            if cycle:
                return cycle
        done.add(layer)
        return None

    for layer in sorted(graph):
        cycle = visit(layer, [])
        if cycle:
            return cycle
    return None


def check_edges(table, edges):
    """Violations, unused allowances, and a cycle if there is one."""
    problems, used = [], collections.defaultdict(set)
    for path, included in edges:
        layer, other = table.layer_of(path), table.layer_of(included)
        if layer is None or other is None or layer == other:
            continue
        used[layer].add(other)
        if other not in table.allowed[layer]:
            problems.append(f"{path} includes {included}: {layer} may not include {other}")
    for layer, others in table.allowed.items():
        problems += [f"{layer} may include {other}, but does not" for other in others if other not in used[layer]]
    graph = {layer: used[layer] | set(others) for layer, others in table.allowed.items()}
    cycle = find_cycle(graph)
    if cycle:
        problems.append("layers in a circle: " + " -> ".join(cycle))
    return problems


def check_tree(root):
    """All problems of a tree, as lines of text."""
    table = Table((root / DOCUMENT).read_text(encoding="utf-8"))
    sources = find_sources(root)
    edges, problems = read_includes(root, sources)
    homes = {path: table.layer_of(path) for path in sources}
    problems += [f"{path} belongs to no layer" for path, layer in homes.items() if layer is None]
    problems += [f"{layer} has no files" for layer in table.allowed if layer not in homes.values()]
    return table.problems + problems + check_edges(table, edges)


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else pathlib.Path(__file__).resolve().parents[2])
    problems = check_tree(root)
    for problem in problems:
        print(problem)
    if problems:
        print(f"The layers are the table in {DOCUMENT}.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
