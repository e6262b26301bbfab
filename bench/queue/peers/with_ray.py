# SPDX-License-Identifier: MIT
"""Ray on one host: a head without slots, and nodes. See peer.py."""
import os
import re
import time

import peer


class Ray(peer.Peer):
    name = "ray"

    def start(self):
        import ray
        self.ray, self.kept = ray, []
        self.program = peer.beside_python("ray")
        self.environment = {"PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "RAY_USAGE_STATS_ENABLED": "0"}
        path = os.path.join(self.directory, "head")
        with open(path, "wb") as log:
            self.nodes.append(peer.Node(
                [self.program, "start", "--head", "--num-cpus=0", "--port=0", "--include-dashboard=false", "--block",
                 f"--temp-dir={self.directory}/ray", "--disable-usage-stats"], "server",
                stdout=log, stderr=log, env=self.environment))
        self.address = self.find_address(path)
        ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
        self.task = ray.remote(num_cpus=1, max_retries=-1)(peer.task)
        self.nothing = ray.remote(num_cpus=1)(peer.nothing)

    def find_address(self, path):
        for _ in range(600):
            with open(path, encoding="utf-8", errors="replace") as log:
                found = re.search(r"ray start --address='([^']+)'", log.read())
            if found:
                return found[1]
            time.sleep(0.1)
        raise peer.Skipped("ray start did not print an address")

    def start_node(self, name, slots):
        return self.spawn(name, [self.program, "start", f"--address={self.address}", f"--num-cpus={slots}", "--block",
                                 "--disable-usage-stats"], env=self.environment)

    def submit(self, names):
        self.kept += [self.task.remote(self.directory, name) for name in names]

    def run_nothing(self, count):
        start = time.perf_counter()
        self.ray.get([self.nothing.remote(i) for i in range(count)])
        return time.perf_counter() - start

    def stop(self):
        if hasattr(self, "ray"):
            self.ray.shutdown()
        super().stop()


if __name__ == "__main__":
    peer.measure(Ray)
