#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the pictures of the documentation, from a real run on simulated GPUs.

    pictures.py BUILD_DIR            writes docs/pictures/live-view.svg and docs/pictures/web-page.png

The run is in tmux, which returns the screen with its colours. This becomes an SVG of text. Chromium draws the web page
of the same run. Needs tmux and Chromium.
"""
import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "web"))
import browser  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
PICTURES = ROOT / "docs" / "pictures"
TOKEN = "picture-of-a-run"
COLUMNS, LINES = 100, 15
SHOWN_AT = 45  # percent
GPUS = "4,name=Simulated GPU,memory=80G,free=12G/11G/14G/12G,util=93/88/95/91,temp=61/58/63/60,power=540/512/561/533"
# Takes from a fraction of a second to four seconds, like real files. A few fail.
TASK = """#!/bin/sh
n=$(printf %s "$1" | cksum | cut -c 1-4)
sleep "0.$((n % 9 + 1))"
[ $((n % 3)) != 0 ] || sleep "$((n % 3 + 1))"
[ $((n % 41)) != 0 ] || { echo "$1: not an image" >&2; exit 3; }
set -- "$1" cat dog bird horse ship
eval "label=\\${$((n % 5 + 2))}"
echo "$1  $label  0.$((n % 40 + 60))"
"""
COLOURS = ["#1e1e2e", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#cba6f7", "#94e2d5", "#cdd6f4"]
INK, PAPER, FAINT = "#cdd6f4", "#1e1e2e", "#7f849c"
NO_BREAK = "\u00a0"  # because SVG shows several spaces as one
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.4, 18, 14


def tmux(socket, *words):
    return subprocess.run(["tmux", "-S", socket, *words], check=True, capture_output=True, text=True).stdout


def start(directory):
    """Starts the run in a separate terminal. Returns the terminal's socket."""
    (directory / "images").mkdir()
    for n in range(240):
        (directory / "images" / f"frame-{n:04}.jpg").touch()
    task = directory / "infer"
    task.write_text(TASK)
    task.chmod(0o755)
    (directory / "jobs").mkdir(mode=0o700)
    socket = str(directory / "tmux")
    environment = {
        "LC_ALL": "C.UTF-8", "GPU_DISPATCH_SIM": GPUS, "GPU_DISPATCH_JOBS": str(directory / "jobs"),
        "GPU_DISPATCH_HTTP_TOKEN": TOKEN, "PATH": f"{BUILD}:{os.environ['PATH']}", "SHELL": "/bin/sh",
    }
    words = [f"{name}={value}" for name, value in environment.items()]
    line = "gpu-dispatch run --http 0 ./infer {} ::: images/*.jpg; sleep 60"
    tmux(socket, "-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), "-c", str(directory),
         "env", "-u", "NO_COLOR", *words, "sh", "-c", line)
    return socket


def wait_for(socket, pattern):
    """The first match of a pattern on the screen."""
    for _ in range(3000):
        found = re.search(pattern, tmux(socket, "capture-pane", "-p", "-J"))
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"the screen never showed {pattern}:\n" + tmux(socket, "capture-pane", "-p"))


# ---- the screen as SVG ----


def style_after(style, codes):
    """A new style: (colour, bold, faint)."""
    colour, bold, faint = style
    for code in map(int, codes.split(";") if codes else ["0"]):
        if code == 0:
            colour, bold, faint = INK, False, False
        elif code == 1:
            bold = True
        elif code == 2:
            faint = True
        elif code == 22:
            bold = faint = False
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colour = COLOURS[code % 10]
        elif code == 39:
            colour = INK
    return colour, bold, faint


def spans_of(line, style):
    """Returns (column, text, style) of each piece, and the style at the end of the line."""
    column, spans = 0, []
    for piece in re.split(r"(\x1b\[[\d;]*m)", line):
        codes = re.fullmatch(r"\x1b\[([\d;]*)m", piece)
        if codes:
            style = style_after(style, codes[1])
        elif piece:
            spans.append((column, piece, style))
            column += len(piece)
    return spans, style


def span_to_svg(column, row, text, style):
    colour, bold, faint = style
    x, y = MARGIN + column * CELL_WIDTH, MARGIN + row * CELL_HEIGHT + 13
    shown = html.escape(text).replace(" ", NO_BREAK)
    weight = ' font-weight="bold"' if bold else ""
    return (f'<text x="{x:.1f}" y="{y}" fill="{FAINT if faint else colour}"{weight} '
            f'textLength="{len(text) * CELL_WIDTH:.1f}">{shown}</text>')


def screen_to_svg(screen):
    lines, style, texts = screen.rstrip("\n").split("\n"), (INK, False, False), []
    while lines and not re.sub(r"\x1b\[[\d;]*m", "", lines[0]).strip():
        lines.pop(0)
    while lines and not re.sub(r"\x1b\[[\d;]*m", "", lines[-1]).strip():
        lines.pop()
    for row, line in enumerate(lines):
        spans, style = spans_of(line, style)
        texts += [span_to_svg(column, row, text, one) for column, text, one in spans if text.strip()]
    width, height = 2 * MARGIN + COLUMNS * CELL_WIDTH, 2 * MARGIN + len(lines) * CELL_HEIGHT
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">\n'
            f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n' + "\n".join(texts) + "\n</svg>\n")


# ---- the page ----


def draw_page(url, path):
    with browser.Browser() as shown:
        shown.size(1100, 818)
        shown.open(f"{url}#token={TOKEN}")
        shown.wait("document.documentElement.dataset.drawn")
        time.sleep(12)  # the timeline fills up
        shown.screenshot(path, whole=False)


def main():
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gd-pictures-", dir="/tmp") as name:
        socket = start(pathlib.Path(name))
        try:
            url = wait_for(socket, r"http://127\.0\.0\.1:\d+/")[0]
            wait_for(socket, rf"{SHOWN_AT - 10}\.\d %")
            draw_page(url, PICTURES / "web-page.png")
            wait_for(socket, r"\d+\.\d %")
            screen = tmux(socket, "capture-pane", "-p", "-e")
            (PICTURES / "live-view.svg").write_text(screen_to_svg(screen), encoding="utf-8")
        finally:
            tmux(socket, "kill-server")
    for path in sorted(PICTURES.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
