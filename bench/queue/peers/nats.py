# SPDX-License-Identifier: MIT
"""A NATS server for measurements."""
import os
import re
import subprocess
import threading


class Server:
    """Listens on a free port of this machine. durable: writes each message to the disk before it confirms it."""

    def __init__(self, program, directory, durable):
        config = os.path.join(directory, "nats.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write(f'host: 127.0.0.1\nport: -1\njetstream {{\n  store_dir: "{directory}/nats"\n')
            file.write("  sync_interval: always\n}\n" if durable else "}\n")
        self.process = subprocess.Popen([program, "-c", config], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        self.host, ready = None, False
        for line in self.process.stderr:
            found = re.search(r"Listening for client connections on (\S+)", line)
            self.host = found[1] if found else self.host
            ready = "Server is ready" in line
            if ready:
                break
        if not ready or not self.host:
            raise OSError(f"{program} did not start")
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        for _ in self.process.stderr:
            pass

    def stop(self):
        self.process.kill()
        self.process.wait()
