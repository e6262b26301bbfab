# SPDX-License-Identifier: MIT
"""Adds the documents of the root directory to the site of docs/, and corrects the links between the two.

In the tree docs/index.md links to ../SECURITY.md, and SECURITY.md to docs/limits.md. In the site all of them are in one
directory.
"""
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
FROM_ROOT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def on_files(files, config):
    for name in FROM_ROOT:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown, page, config, files):
    markdown = re.sub(r"\]\(\.\./(" + "|".join(map(re.escape, FROM_ROOT)) + r")", r"](\1", markdown)
    return re.sub(r"\]\(docs/", "](", markdown) if page.file.src_uri in FROM_ROOT else markdown
