#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a C file from a page, during the build.

    embed.py NAME PAGE.html STYLE.css SCRIPT.js... > NAME.c

In the page, @STYLE@ and @SCRIPT@ are replaced by the contents of the files. @STYLE_HASH@ and @SCRIPT_HASH@ are replaced
by their hashes, in the form of a content security policy. Scripts are joined in the order in which they are given.
"""
import base64
import hashlib
import pathlib
import sys

BYTES_PER_LINE = 24


def policy_hash(text):
    return b"sha256-" + base64.b64encode(hashlib.sha256(text).digest())


def assemble(page, style, script):
    """Returns the page with its style and script. Only the first occurrence of each mark is replaced."""
    for mark, content in (
        (b"@STYLE_HASH@", policy_hash(style)),
        (b"@SCRIPT_HASH@", policy_hash(script)),
        (b"@STYLE@", style),
        (b"@SCRIPT@", script),
    ):
        page = page.replace(mark, content, 1)
    return page


def as_c(name, page, style, script):
    lines = (page[at : at + BYTES_PER_LINE] for at in range(0, len(page), BYTES_PER_LINE))
    array = "\n".join("".join(f"{byte}," for byte in line) for line in lines)
    return (
        f'#include "web/pages.h"\n\nconst unsigned char {name}_page[] = {{\n{array}\n}};\n'
        f"const size_t {name}_page_size = sizeof {name}_page;\n"
        f'const char {name}_style_hash[] = "{policy_hash(style).decode()}";\n'
        f'const char {name}_script_hash[] = "{policy_hash(script).decode()}";\n'
    )


def main(name, page_file, style_file, *script_files):
    page, style = (pathlib.Path(path).read_bytes() for path in (page_file, style_file))
    script = b"".join(pathlib.Path(path).read_bytes() for path in script_files)
    if b"</script" in script or b"</style" in style:
        sys.exit(f"embed.py: {name}: a script or style contains its own end tag")
    sys.stdout.write(as_c(name, assemble(page, style, script), style, script))


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit("usage: embed.py NAME PAGE.html STYLE.css SCRIPT.js...")
    main(*sys.argv[1:])
