# SPDX-License-Identifier: MIT
"""Tests the pages in a browser: their numbers against /api/stats during a run, hostile texts, narrow and wide windows,
dark and light.

    test_page.py BUILD_DIRECTORY [SCREENSHOT_DIRECTORY]

Tasks wait on FIFOs, so that the figures do not change while they are compared. Prints a line per case and, last,
"N passed, N failed"; exits with 77 if there is no browser or the build has no web page.
"""
import contextlib
import ctypes.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request

import browser

COMMAND = os.path.join(os.path.abspath(sys.argv[1]), "gpu-dispatch")
SHOTS = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
HOSTILE = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'</script>"
WIDTHS = (400, 1600)

# Without a proxy, and without the user's settings for devices.
for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "GPU_DISPATCH_HTTP_TOKEN", "GPU_DISPATCH_SIM",
                 "CUDA_VISIBLE_DEVICES", "PARALLEL_SHELL"):
    os.environ.pop(variable, None)
os.environ["SHELL"] = "/bin/sh"


class Run:
    """A run with three kinds of tasks: "bad" fails with a hostile message, "quick" ends soon, and others wait on a
    FIFO."""

    def __init__(self, directory, gpus, waiting, more=()):
        self.directory, self.waiting = directory, [f"wait{i}" for i in range(waiting)]
        self.jobs = os.path.join(directory, "jobs")
        for name in self.waiting:
            os.mkfifo(os.path.join(directory, name))
        script = os.path.join(directory, "task.sh")
        with open(script, "w") as f:
            f.write("case $1 in *bad*) printf '%s\\n' \"$HOSTILE\" >&2; exit 3;; quick*) sleep 0.01;; *) read x < $1;; esac\n")
        self.process = subprocess.Popen(
            [COMMAND, "run", "--http", "127.0.0.1:0", "--progress", "none", "--quiet", "--gpus", f"sim:{gpus}", *more,
             "sh", "task.sh", "{}", ":::", HOSTILE + "bad", *[f"quick{i}" for i in range(40)], *self.waiting],
            cwd=directory, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env={**os.environ, "HOSTILE": HOSTILE, "GPU_DISPATCH_JOBS": self.jobs})
        line = self.process.stderr.readline()
        if "http://" not in line:
            self.process.wait()
            raise LookupError(line.strip())
        self.link = line.split()[-1]  # has the token, because standard error is a pipe, which is private
        self.url, self.token = self.link.split("#token=")

    def stats(self):
        request = urllib.request.Request(self.url + "api/stats", headers={"Authorization": "Bearer " + self.token})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def ask(self, **request):
        """Sends a request to the control socket of the run, and returns the answer."""
        at = next(name for name in os.listdir(self.jobs) if name.endswith(".control"))
        directory = os.open(self.jobs, os.O_PATH)
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(f"/proc/self/fd/{directory}/{at}")  # the whole path may be too long for a socket
                s.sendall(json.dumps(request).encode() + b"\n")
                return json.loads(s.makefile().readline())
        finally:
            os.close(directory)

    def release(self):
        for name in self.waiting:
            with open(os.path.join(self.directory, name), "w") as f:
                f.write("\n")

    def finish(self):
        self.release()
        self.process.communicate(timeout=60)
        return self.process.returncode


@contextlib.contextmanager
def running(gpus, waiting, more=()):
    with tempfile.TemporaryDirectory(prefix="gd-page-") as directory:
        run = Run(directory, gpus, waiting, more)
        try:
            yield run
        finally:
            run.process.kill()
            run.process.communicate()


def settled(gpus):
    """An expression that is true after the quick tasks are done and each worker has started a task that waits."""
    return (f"byId('running').textContent === '{gpus}' && byId('completed').textContent === '40' && "
            "[...document.querySelectorAll('#workers tr')].every((r) => r.children[2].textContent === 'processing')")


def shot(b, name):
    if SHOTS:
        height = b.value("document.documentElement.scrollHeight")
        b.screenshot(os.path.join(SHOTS, name + ".png"))
        return height


def number(text):
    return int(text.replace(",", ""))


def check_fits(b):
    """Checks that nothing is wider than the page."""
    assert b.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), "wider than the window"
    over = b.value("""[...document.querySelectorAll('section')].filter((s) => s.scrollWidth > s.clientWidth + 1)
        .map((s) => s.ariaLabel).join()""")
    assert over == "", f"too wide: {over}"


# --- cases ----------------------------------------------------------------------------


def page_shows_the_figures_of_the_stats(b):
    with running(4, 9) as run:
        b.open(run.link)
        b.wait(settled(4))
        stats = run.stats()
        for name in ("completed", "failed", "timeouts", "retried", "running", "pending", "skipped", "cancelled", "restarts",
                     "crashes"):
            shown = number(b.value(f"byId('{name}').textContent"))
            assert shown == stats["stats"][name], f"{name}: {shown}, not {stats['stats'][name]}"
        assert stats["stats"]["failed"] == 1 and stats["stats"]["total"] == 50
        assert b.value("byId('progress-text').textContent").startswith("41 of 50 tasks")
        rows = b.value("[...document.querySelectorAll('#workers tr')].map((r) => [...r.children].map((c) => c.textContent))")
        assert len(rows) == len(stats["workers"]) == 4
        for row, worker in zip(rows, stats["workers"]):
            assert row[1] == str(worker["worker_id"]) and row[2] == "processing", row
            assert row[3] == f"#{worker['current_task']} {worker['task']}", row
            assert number(row[5]) == worker["completed"] and number(row[6]) == worker["failed"], row
        assert run.finish() == 1
        b.wait("byId('status').textContent === 'ended'")
        assert b.value("byId('completed').textContent") == "49"
        assert b.value("byId('running').textContent") == "0"


def a_resumed_run_from_a_pipe(b):
    """The total is unknown before the end of the input. Tasks that were done before are counted, and no task is counted
    twice."""
    with tempfile.TemporaryDirectory(prefix="gd-page-") as directory:
        os.mkfifo(os.path.join(directory, "go"))
        command = [COMMAND, "run", "--journal", "run.db", "--resume", "--quiet", "--progress", "none", "--gpus", "sim:1"]
        task = ["--", "case {} in 9) read x < go;; esac"]
        if subprocess.run(command + task, cwd=directory, input="1\n2\n3\n4\n5\n", text=True).returncode:
            return "no journals"
        run = subprocess.Popen(command + ["--http", "0"] + task, cwd=directory, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            run.stdin.write("".join(f"{i}\n" for i in range(1, 11)))
            run.stdin.close()
            b.open(run.stderr.readline().split()[-1])
            b.wait("byId('progress-text').textContent.startsWith('8 of 10 tasks (80 %)')")
            assert b.value("byId('skipped').textContent") == "5" and b.value("byId('completed').textContent") == "3"
            assert b.value("byId('bar').children[0].style.width") == "80%"
            with open(os.path.join(directory, "go"), "w") as f:
                f.write("\n")
            b.wait("byId('progress-text').textContent.startsWith('10 of 10 tasks (100 %)')")
            assert run.wait() == 0
        finally:
            run.kill()
            run.stderr.close()


def small_figures_have_enough_digits(b):
    with running(1, 1) as run:
        b.open(run.link)
        b.wait("typeof rate === 'function' && typeof axisTime === 'function'")
        for r, text in ((0, "0/s"), (0.00028, "0.00028/s"), (0.5, "0.50/s"), (1, "1.0/s"), (19.4, "19/s"), (1234.5, "1,235/s")):
            assert b.value(f"rate({r})") == text, (r, b.value(f"rate({r})"))
        for t, step, text in ((0.004, 0.002, "0.004s"), (0.3, 0.1, "0.3s"), (0.25, 0.05, "0.25s"), (5, 5, "5s"), (90, 30, "1m30")):
            assert b.value(f"axisTime({t}, {step})") == text, (t, step, b.value(f"axisTime({t}, {step})"))
        b.value("drawRates(byId('rates'), [], 0, 1)")
        labels = b.value("[...document.querySelectorAll('#rates text')].map((t) => t.textContent)")
        assert labels[0] == "0.0" and max(map(len, labels)) < 6, labels
        assert b.value("stepDigits(0.001)") == 3 and b.value("stepDigits(2)") == 0


def hostile_texts_are_shown_as_text(b):
    with running(2, 2) as run:
        b.open(run.link)
        b.wait(settled(2))
        error = b.value("document.querySelector('.failure pre').textContent")
        assert HOSTILE in error, error
        assert b.value("document.querySelector('.failure .mono').textContent").startswith("<img src=x")
        assert b.value("document.images.length + document.querySelectorAll('script').length") == 1
        assert b.value("document.title") != "taken"


def the_timeline_shows_what_a_worker_did(b):
    with running(2, 2) as run:
        b.size(1600, 900)
        b.open(run.link)
        # wait until the waiting tasks fill a large part of the timeline, however long the time before them was
        b.wait(settled(2) + " && run.view.seconds > 1.5 && run.view.workers.every((w) => run.view.seconds - w.since > "
               "0.3 * run.view.seconds)")
        box = b.value("(({x, y, width, height}) => ({x, y, width, height}))(byId('timeline').getBoundingClientRect())")
        # near the right end every worker is at its waiting task
        b.hover(box["x"] + box["width"] - 8, box["y"] + 10)
        b.wait("document.querySelector('.tip') && !document.querySelector('.tip').hidden")
        text = b.value("document.querySelector('.tip').textContent")
        assert re.match(r"task \d+, running for .*\nfrom .*, worker 0 on GPU 0", text), text
        b.wait("document.querySelectorAll('#rates polyline').length >= 1")


def the_page_fits_every_width_in_light_and_dark(b):
    with running(64, 64) as run:
        for dark in (False, True):
            b.scheme(dark)
            for width in WIDTHS:
                b.size(width, 900)
                b.open(run.link)
                b.wait(settled(64))
                check_fits(b)
                assert b.value("document.querySelectorAll('#workers tr').length") == 64
                shot(b, f"live-{width}-{'dark' if dark else 'light'}")
        b.scheme(False)


def no_empty_space_next_to_or_between_charts(b):
    """For any number of GPUs, charts in the same row are about equally tall, and there is only the gap between
    charts."""
    boxes = """[...document.querySelectorAll('section')].map((s) => s.getBoundingClientRect())
        .map(({left, right, top, bottom}) => [left, right, top, bottom])"""
    for gpus in (1, 4, 8, 64):
        with running(gpus, gpus) as run:
            for width, height in ((1280, 800), (400, 800)):
                b.size(width, height)
                b.open(run.link)
                b.wait(settled(gpus))
                check_fits(b)
                shot(b, f"live-{gpus}-gpus-{width}")
                sections = b.value(boxes)
                page = (min(s[0] for s in sections), max(s[1] for s in sections))
                area = sum((s[1] - s[0]) * (s[3] - s[2]) for s in sections)
                whole = (page[1] - page[0]) * (max(s[3] for s in sections) - min(s[2] for s in sections))
                beside = [abs(s[3] - t[3]) for s in sections for t in sections if s[2] == t[2]]
                assert max(beside) < 100, (gpus, width, max(beside))
                assert area > 0.85 * whole, (gpus, width, area / whole)


def the_page_shows_requests_and_the_state_of_the_run(b):
    with running(2, 3) as run:
        b.open(run.link)
        b.wait(settled(2))
        assert b.value("byId('requests-section').hidden && byId('limit').parentElement.hidden")
        requests = ((dict(do="timeout", ms=3600000), "time limit of a task set to 3600 s", True),
                    (dict(do="add", gpu=0), "0 of 1 workers added to GPU 0: no place", False),
                    (dict(do="remove", gpu=0), "1 worker removed from GPU 0", True),
                    (dict(do="pause"), "paused: 2 running tasks go on", True))
        for request, message, ok in requests:
            answer = run.ask(**request)
            assert answer["ok"] == ok and answer["message"].startswith(message), answer
        b.wait("byId('status').textContent.startsWith('paused')")
        assert b.value("byId('status').className") == "badge slow" and b.value("document.title").startswith("paused: ")
        assert b.value("byId('limit').textContent") == "1h00m" and not b.value("byId('limit').parentElement.hidden")
        assert b.value("byId('time-left').textContent") == "" and b.value("byId('eta').textContent") == "–"
        rows = b.value("[...document.querySelectorAll('#requests tr')].map((r) => [...r.children].map((c) => c.textContent))")
        assert len(rows) == len(requests), rows
        for row, (_, message, ok) in zip(rows, reversed(requests)):
            assert row[1] == ("done" if ok else "refused") and row[2].startswith(message), (row, message)
        check_fits(b)
        shot(b, "live-paused")
        b.size(400, 900)
        check_fits(b)
        b.open(run.url)  # a viewer that comes later sees them too
        b.wait("document.querySelectorAll('#requests tr').length === 4 && byId('status').textContent.startsWith('paused')")
        assert run.ask(do="resume")["ok"]
        b.wait("byId('status').textContent === 'running' && document.querySelectorAll('#requests tr').length === 5")
        assert run.ask(do="drain")["ok"]
        b.wait("byId('status').textContent.startsWith('draining')")
        b.wait("byId('cancelled').textContent === '1'")  # the third task that would wait
        assert b.value("document.querySelectorAll('.failure').length") == 1, "a cancelled task has not failed"
        for name in run.waiting[:2]:
            with open(os.path.join(run.directory, name), "w") as f:
                f.write("\n")
        b.wait("byId('status').textContent === 'ended'")


def groups_and_tasks_in_flight(b):
    """A stream program with up to three tasks in flight, on groups of two GPUs."""
    program = ("import json, sys\nprint(json.dumps({'ready': True, 'concurrency': 3}), flush=True)\nfirst, ids = True, []\n"
               "for line in sys.stdin:\n    t = json.loads(line)\n    if 'id' not in t: continue\n    ids.append(t['id'])\n"
               "    if len(ids) == 3:\n        open(sys.argv[1]).read()\n        for i in ids: print(json.dumps({'id': i, 'output': 1}), flush=True)\n"
               "        ids = []\n")
    with tempfile.TemporaryDirectory(prefix="gd-page-") as directory:
        os.mkfifo(os.path.join(directory, "go"))
        run = subprocess.Popen([COMMAND, "run", "--quiet", "--progress", "none", "--http", "0", "--gpus", "0+1,2+3",
                                "--output", "/dev/null", "--stream", sys.executable, "-c", program, "go", ":::", *"abcdef"],
                               cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "GPU_DISPATCH_SIM": "4"})
        try:
            b.open(run.stderr.readline().split()[-1])
            b.wait("run.view && run.view.workers.length === 2 && run.view.workers.every((w) => w.in_flight === 3)")
            b.wait("[...document.querySelectorAll('#workers tr')].every((r) => r.children[3].textContent.startsWith('3 in flight'))")
            rows = b.value("[...document.querySelectorAll('#workers tr')].map((r) => [...r.children].map((c) => c.textContent))")
            assert rows[0][0].startswith("0+1 (2 × ") and rows[1][0].startswith("2+3 (2 × "), rows
            assert re.fullmatch(r"3 in flight, the oldest is #\d \w", rows[0][3]), rows
            assert b.value("timeline.lanes.map((l) => l.label)") == ["GPU 0+1", "GPU 2+3"]
            check_fits(b)
            shot(b, "live-groups")
        finally:
            run.kill()
            run.communicate()


def tasks_in_flight_are_drawn_above_each_other(b):
    with running(1, 1) as run:
        b.open(run.link)
        b.wait("typeof stackBars === 'function'")
        rows = "((bars) => [stackBars(bars), bars.map((x) => x.row)])(%s.map(([start, end]) => ({ start, end })))"
        for bars, expected in (
            ([[0, 1], [1, 2], [2.05, 3]], [1, [None] * 3]),  # one after the other
            ([[0, 1], [0.995, 2]], [1, [None] * 2]),  # the times differ a little
            ([[0, 1], [0, 1], [0.001, 1], [1, 2]], [1, [None] * 4]),  # a batch
            ([[0, 10], [1, 3], [2, 4], [3, 5], [4.5, 9]], [3, [0, 1, 2, 1, 2]]),
            ([[1, 3], [0, 10]], [2, [1, 0]]),  # they come in the order of their ends
        ):
            assert b.value(rows % json.dumps(bars)) == expected, (bars, b.value(rows % json.dumps(bars)))
        n, placed = b.value(rows % json.dumps([[i, 50] for i in range(40)]))
        assert n == 8 and set(placed) == set(range(8)), (n, placed)


def the_page_reports_that_the_server_is_gone(b):
    with running(1, 1) as run:
        b.open(run.link)
        b.wait(settled(1))
        run.process.kill()
        b.wait("byId('status').textContent.startsWith('connection lost')")


def the_token_does_not_stay_in_the_address(b):
    with running(1, 1) as run:
        b.open(run.link)
        b.wait(settled(1))
        assert b.value("location.href") == run.url, b.value("location.href")
        b.value("window.before = true")
        b.send("Page.reload")  # the tab has stored the token
        b.wait("!window.before && " + settled(1))
        assert b.value("byId('ask').hidden") and b.value("location.href") == run.url
        assert b.value("document.cookie") == "" and b.value("localStorage.length") == 0


def without_the_token_the_page_asks_for_it(b):
    with running(1, 1) as run:
        for dark in (False, True):
            b.scheme(dark)
            for width in WIDTHS:
                b.size(width, 900)
                b.open(run.url)
                b.wait("!byId('ask').hidden && document.querySelector('main').hidden")
                assert "address that gpu-dispatch printed" in b.value("byId('ask').innerText")
                check_fits(b)
                shot(b, f"ask-{width}-{'dark' if dark else 'light'}")
        b.scheme(False)
        paste = "byId('token').value = %s; byId('token-form').requestSubmit()"
        for text, note in (("wrong-token", "not the token of this run"), ("with spaces", "letters, digits"), ("", "letters, digits")):
            b.value(paste % json.dumps(text))
            b.wait(f"byId('token-note').textContent.includes('{note}')")
            assert not b.value("byId('ask').hidden")
        b.value(paste % json.dumps(" " + run.link + "\n"))
        b.wait("byId('ask').hidden && " + settled(1))
    with running(1, 1) as run:
        b.open(run.url)
        b.wait("!byId('ask').hidden")
        b.value(paste % json.dumps(run.token))
        b.wait(settled(1))
    with running(1, 1) as run:
        b.open(run.url)
        b.wait("!byId('ask').hidden")
        b.open(run.link)  # the same page; only the part after # is new
        b.wait(settled(1))
    b.complaints = [c for c in b.complaints if "401" not in c]


def a_report_has_the_figures_of_its_run(b):
    with running(4, 4, ("--journal", "run.db")) as run:
        run.finish()
        page = os.path.join(run.directory, "report.html")
        if subprocess.run([COMMAND, "report", "run.db", "-o", page], cwd=run.directory, stdout=subprocess.DEVNULL).returncode:
            return "no report could be made"
        for dark in (False, True):
            b.scheme(dark)
            for width in WIDTHS:
                b.size(width, 900)
                b.open("file://" + page)
                b.wait("document.documentElement.dataset.drawn")
                check_fits(b)
                shot(b, f"report-{width}-{'dark' if dark else 'light'}")
        b.scheme(False)
        assert b.value("byId('done').textContent") == "44" and b.value("byId('failed').textContent") == "1"
        assert b.value("byId('status').textContent") == "finished"
        assert b.value("document.querySelectorAll('#gpus tr').length") == 4
        total = b.value("[...document.querySelectorAll('#gpus tr')].reduce((n, r) => n + Number(r.children[2].textContent), 0)")
        assert total == 44, total
        assert b.value("document.querySelectorAll('#slowest tr').length") == 45
        assert HOSTILE in b.value("document.querySelector('.failure pre').textContent")
        assert b.value("document.images.length") == 0 and b.value("document.title") != "taken"
        assert b.value("document.querySelectorAll('script').length") == 2


@contextlib.contextmanager
def queue_server(directory):
    """A NATS server on any port; yields its address."""
    with subprocess.Popen([os.environ["GD_TEST_NATS_SERVER"], "-js", "-a", "127.0.0.1", "-p", "-1", "-sd",
                           os.path.join(directory, "store")], stderr=subprocess.PIPE, text=True) as server:
        try:
            address = None
            for line in server.stderr:
                found = re.search(r"Listening for client connections on (\S+)", line)
                address = found.group(1) if found else address
                if "Server is ready" in line:
                    break
            threading.Thread(target=server.stderr.read, daemon=True).start()
            yield address
        finally:
            server.kill()


def publish(address, subject, data):
    """Publishes a message, as anybody could who may write to the queue."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as s:
        s.sendall(b'CONNECT {"verbose":false}\r\nPUB %s %d\r\n%s\r\nPING\r\n' % (subject.encode(), len(data), data))
        for line in s.makefile():
            if line.startswith("PONG"):
                return


def start_node(directory, address):
    process = subprocess.Popen(
        [COMMAND, "run", "--queue", f"nats://{address}/q", "--http", "127.0.0.1:0", "--progress", "none", "--quiet",
         "--gpus", "sim:2", "sh", "task.sh", "{}"],
        cwd=directory, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env={**os.environ, "GPU_DISPATCH_JOBS": os.path.join(directory, "jobs")})
    line = next((line for line in process.stderr if "http://" in line), "")
    assert line, "no page"
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return process, line.split()[-1]


def hostile_status(**more):
    return json.dumps({"version": 1, "host": HOSTILE, "pid": 1, "state": "running", "workers": 3, "busy": 2, "done": 1, "failed": 0,
                       "held": 4, "tasks_per_day": 86400, "note": HOSTILE, **more}).encode()


def the_page_shows_all_nodes_of_the_queue(b):
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-page-", ignore_cleanup_errors=True))
        address = stack.enter_context(queue_server(directory))
        waiting = [f"wait{i}" for i in range(4)]  # come first: nodes take no task in advance before one has ended
        with open(os.path.join(directory, "task.sh"), "w") as f:
            f.write("case $1 in quick*) ;; *) read x < $1;; esac\n")
        for name in waiting:
            os.mkfifo(os.path.join(directory, name))
        subprocess.run([COMMAND, "push", "--queue", f"nats://{address}/q", "--quiet", ":::", *waiting, "quick1", "quick2"],
                       cwd=directory, check=True, stdout=subprocess.DEVNULL)
        # "gd.q.s.node." and an id. The second status has an address that is not that of a page, and is not shown.
        publish(address, "gd.q.s.node." + "a" * 32, hostile_status(http='http://x/"><img src=x>'.replace(" ", "%20")))
        publish(address, "gd.q.s.node." + "b" * 32, hostile_status(http="javascript:document.title='taken'"))
        nodes = []
        for _ in range(2):
            nodes.append(start_node(directory, address))
            stack.callback(nodes[-1][0].wait)
            stack.callback(nodes[-1][0].kill)
        b.open(nodes[0][1])
        rows = "[...document.querySelectorAll('#nodes tr')]"
        b.wait(f"{rows}.length === 3 && byId('queue-text').textContent.startsWith('0 of 6 task messages recorded; ')")
        # Each of the two nodes has two busy workers. The third one is lost after a while.
        b.wait(f"{rows}.filter((r) => r.children[1].textContent === 'running' && "
               "r.children[2].textContent === '2' && r.children[3].textContent === '2').length === 2")
        names = b.value(f"{rows}.map((r) => r.children[0].textContent)")
        assert HOSTILE + " · 1" in names, names
        assert re.fullmatch("[23] of 3 at work", b.value("byId('nodes-text').textContent"))
        pages = sorted(b.value(f"{rows}.map((r) => r.children[9].textContent)"))
        assert pages == ["open", "open", "this page"], pages
        links = b.value("[...document.querySelectorAll('#nodes a')].map((a) => a.getAttribute('href'))")
        assert nodes[1][1].split("#")[0] in links and 'http://x/"><img%20src=x>' in links, links
        assert b.value("document.images.length") == 0 and b.value("document.title") != "taken"
        assert b.value("document.querySelectorAll('script').length") == 1
        for dark in (False, True):
            b.scheme(dark)
            for width in WIDTHS:
                b.size(width, 900)
                b.wait(f"innerWidth === {width}")
                check_fits(b)
                shot(b, f"queue-{width}-{'dark' if dark else 'light'}")
        b.scheme(False)
        nodes[1][0].send_signal(signal.SIGTERM)
        b.wait(f"{rows}.some((r) => r.children[1].textContent === 'draining' || r.children[1].textContent === 'left')")


CASES = (page_shows_the_figures_of_the_stats, a_resumed_run_from_a_pipe, small_figures_have_enough_digits,
         hostile_texts_are_shown_as_text, the_timeline_shows_what_a_worker_did,
         the_page_fits_every_width_in_light_and_dark, no_empty_space_next_to_or_between_charts,
         the_page_shows_requests_and_the_state_of_the_run, groups_and_tasks_in_flight,
         tasks_in_flight_are_drawn_above_each_other, the_page_reports_that_the_server_is_gone,
         the_token_does_not_stay_in_the_address, without_the_token_the_page_asks_for_it,
         a_report_has_the_figures_of_its_run)
if ctypes.util.find_library("nats") and os.path.exists(os.environ.get("GD_TEST_NATS_SERVER", "")):
    CASES += (the_page_shows_all_nodes_of_the_queue,)


def why_not():
    """Why the tests cannot run; None: they can."""
    if not browser.find():
        return "there is no chromium: tools/setup.sh test installs it"
    try:
        with running(1, 1):
            return None
    except LookupError as e:
        return str(e)


def main():
    missing = why_not()
    if missing:
        print(f"skipped: {missing}\n0 passed, 0 failed, {len(CASES)} skipped")
        return 77
    try:
        started = browser.Browser()
    except (OSError, RuntimeError) as e:
        print(f"skipped: the browser does not start: {e}\n0 passed, 0 failed, {len(CASES)} skipped")
        return 77
    failed = 0
    with started as b:
        for case in CASES:
            b.complaints = []
            b.size(1600, 900)
            try:
                case(b)
                # ignore network errors: a run may be killed while its page is open
                complaints = [c for c in b.complaints if "net::ERR_" not in c]
                assert not complaints, complaints
                print("ok", case.__name__)
            except (AssertionError, RuntimeError, subprocess.SubprocessError) as e:
                failed += 1
                print(f"FAILED {case.__name__}: {e}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
