# SPDX-License-Identifier: MIT
"""A real Slurm of a few nodes on this machine, each with two GPUs that do nothing.

It has its own directory, ports, key and configuration, so several of them can run at the same time, next to a Slurm
that the machine may belong to. The daemons are Debian's (munge, slurmctld, slurmd, slurm-client). Nothing is installed
and no service is used. The process that creates a Cluster must have a guard (guard.py), which ends the daemons.

slurmctld calls a script at the end of each job (JobCompType). The script writes to a FIFO, from which the tests read,
so they wait for the end of a job without asking again and again.
"""
import os
import select
import shutil
import signal
import socket
import subprocess
import time

import guard

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
GPUS = 2
LIMIT_S = 120  # for each wait. A wait that takes as long has failed
START_S = 60  # for the start of the daemons
KILL_WAIT_S = 5  # from SIGTERM to SIGKILL
GRACE_S = 8  # of a preempted job
POLL_S = 0.05

# cred_expire: Slurm waits for this long before it starts a requeued job again, because its old credentials might be
# used until then. The default is two minutes.
CONFIGURATION = """\
ClusterName=gd
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={at}/munge.socket,cred_expire=8
CredType=cred/munge
SlurmctldPort={ports[0]}
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool/%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
JobCompType=jobcomp/script
JobCompLoc={at}/job_ended
JobRequeue=1
ReturnToService=2
SlurmdTimeout=10
KillWait={kill_wait}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0,requeue_delay=1
{nodes}
PartitionName=batch Nodes=ALL Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace}
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF
"""


class Unavailable(Exception):
    """There can be no Slurm here. The text says why."""


class Late(Exception):
    """Something did not happen in time."""


def find_programs():
    """Raises Unavailable if a program is missing."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [package for name, package in PROGRAMS.items() if not shutil.which(name)]
    if missing:
        raise Unavailable(f"no Slurm: Debian packages {' '.join(missing)} are missing (make test-cluster installs them)")
    if os.geteuid() != 0:
        raise Unavailable("the tests with Slurm must be run as root, because slurmd must be")


def free_ports(n):
    """Ports that nobody listens on now. Another process may take one of them before we do; then we start again."""
    sockets = [socket.socket() for _ in range(n)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def tail(path, n):
    """The name of a file and its last n lines."""
    with open(path, errors="replace", encoding="utf-8") as f:
        return f"--- {os.path.basename(path)}\n" + "".join(f.readlines()[-n:])


class Daemon:
    """A daemon and all processes below it, under a process that adopts the orphans among them. slurmstepd, which runs the
    jobs of a node, leaves slurmd in this way."""

    def __init__(self, log, *words):
        self.name, self.log = os.path.basename(log), log
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(self.keep(words))
        self.pidfd = os.pidfd_open(self.pid)

    def keep(self, words):
        os.setsid()
        guard.adopt_orphans()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
        with open(self.log, "ab") as log:
            daemon = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGCHLD}))
        while signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGCHLD:
            pid, ended = 1, []
            while pid > 0:
                pid, _ = os.waitpid(-1, os.WNOHANG) if guard.children_of(os.getpid()) else (0, 0)
                ended.append(pid)
            if daemon.pid in ended:
                return 1  # what runs below it goes on, below the guard
        guard.kill_all_below()
        return 0

    def running(self):
        return not select.select([self.pidfd], [], [], 0)[0]

    def kill(self):
        """Ends it and all processes below it with SIGKILL, as a power failure would, and waits until they are gone."""
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


class Event:
    """The end of one execution of a job. A job that is requeued ends several times."""

    def __init__(self, line):
        # The fields are those of the script in Cluster.write_files().
        self.job, self.array, self.element, self.state, self.code, self.nodes = line.split("|")

    def __repr__(self):
        return f"job {self.job} ({self.array}_{self.element}) {self.state} {self.code} on {self.nodes}"


class Cluster:
    def __init__(self, directory, nodes=3):
        self.at, self.names = directory, [f"n{i + 1}" for i in range(nodes)]
        self.nodes, self.events = {}, []
        os.chmod(directory, 0o755)
        os.environ["SLURM_CONF"] = f"{directory}/slurm.conf"
        for attempt in range(3):
            self.write_files(free_ports(nodes + 1))
            if self.start():
                return
            self.stop()
        print(self.logs(), flush=True)
        raise Unavailable("no Slurm: its daemons do not start here, see their logs above")

    # --- configuration ---

    def write(self, name, text, mode=0o644):
        with open(f"{self.at}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(f"{self.at}/{name}", mode)

    def write_files(self, ports):
        host = socket.gethostname().split(".")[0]
        lines = [f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=1000 "
                 f"Gres=gpu:{GPUS} State=UNKNOWN" for name, port in zip(self.names, ports[1:])]
        os.makedirs(f"{self.at}/state", exist_ok=True)
        os.makedirs(f"{self.at}/spool", exist_ok=True)
        self.write("slurm.conf", CONFIGURATION.format(
            at=self.at, host=host, ports=ports, nodes="\n".join(lines), kill_wait=KILL_WAIT_S, grace=GRACE_S))
        # Each GPU must be a character device: /dev/null under another name.
        for i in range(GPUS):
            if not os.path.exists(f"{self.at}/gpu{i}"):
                try:
                    os.mknod(f"{self.at}/gpu{i}", 0o20666, os.makedev(1, 3))
                except OSError as e:
                    raise Unavailable(f"no Slurm: mknod for a GPU that does nothing: {e.strerror}") from e
        self.write("gres.conf", f"NodeName={','.join(self.names)} Name=gpu File={self.at}/gpu[0-{GPUS - 1}] "
                                "Flags=nvidia_gpu_env\n")
        if not os.path.exists(f"{self.at}/ended"):
            os.mkfifo(f"{self.at}/ended")
            # Opened for both directions: opening does not block, and there is never an end of file.
            self.ended = os.open(f"{self.at}/ended", os.O_RDWR | os.O_CLOEXEC)
            self.unread = b""
        self.write("job_ended", "#!/bin/sh\nexec printf '%s|%s|%s|%s|%s|%s\\n' \"$JOBID\" \"$ARRAYJOBID\" \"$ARRAYTASKID\" "
                                f"\"$JOBSTATE\" \"$EXITCODE\" \"$NODES\" >{self.at}/ended\n", 0o755)
        self.write("munge.key", os.urandom(512).hex(), 0o400)

    # --- starting and ending ---

    def start(self):
        """Returns False if a daemon ended, as it does if another process has taken its port."""
        self.munged = Daemon(
            f"{self.at}/munged.out", "munged", "-F", "--force", f"--key-file={self.at}/munge.key",
            f"--socket={self.at}/munge.socket", f"--pid-file={self.at}/munge.pid", f"--log-file={self.at}/munge.log",
            f"--seed-file={self.at}/munge.seed")
        if not self.until(lambda: os.path.exists(f"{self.at}/munge.socket") or not self.munged.running(), START_S):
            return False
        self.control = Daemon(f"{self.at}/slurmctld.out", "slurmctld", "-D", "-c")
        for name in self.names:
            self.start_node(name)
        begun = self.until(lambda: not self.all_running() or self.count_idle() == len(self.names), START_S)
        return begun and self.all_running()

    def start_node(self, name):
        self.nodes[name] = Daemon(f"{self.at}/{name}.out", "slurmd", "-D", "-N", name)

    def all_running(self):
        return all(d.running() for d in (self.munged, self.control, *self.nodes.values()))

    def count_idle(self):
        done = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True)
        return int(done.stdout.strip() or 0) if done.returncode == 0 else 0

    def stop(self):
        for daemon in (*self.nodes.values(), self.control, self.munged):
            if daemon.running():
                daemon.kill()
        self.nodes = {}

    def logs(self):
        """The ends of the logs of all daemons."""
        return "".join(tail(f"{self.at}/{name}", 8) for name in sorted(os.listdir(self.at)) if name.endswith(".out"))

    def job_logs(self, work):
        """What the jobs of a case have printed."""
        return "".join(tail(f"{work}/{name}", 30) for name in sorted(os.listdir(work)) if name.startswith("slurm-"))

    def clear(self):
        """Cancels all jobs, starts nodes that were killed, and waits until all nodes are idle."""
        self.command("scancel", "--user=root")
        for name, daemon in list(self.nodes.items()):
            if not daemon.running():
                self.start_node(name)
        if not self.until(lambda: self.count_idle() == len(self.names)):
            raise Late(f"the nodes do not become idle:\n{self.logs()}")
        self.events = []

    @staticmethod
    def until(condition, limit=LIMIT_S):
        """For states that nothing reports: asks again until it is so. Returns False if it takes too long."""
        end = time.monotonic() + limit
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(POLL_S)
        return True

    # --- jobs ---

    def submit(self, *words, cwd):
        """Submits a batch job and returns its number."""
        done = subprocess.run(["sbatch", "--parsable", *words], cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def next_event(self):
        end = time.monotonic() + LIMIT_S
        while b"\n" not in self.unread:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.ended], [], [], left)[0]:
                queue = subprocess.run(["squeue", "-o", "%i %T %r %S"], capture_output=True, text=True)
                raise Late(f"no job has ended for {LIMIT_S} s:\n{queue.stdout}{self.logs()}")
            self.unread += os.read(self.ended, 4096)
        line, _, self.unread = self.unread.partition(b"\n")
        return Event(line.decode())

    def wait_end(self, job, states=("COMPLETED",), count=1):
        """Waits until the job, or this many elements of an array, have ended in one of these states, and returns these
        events. Other ends of the job, such as those of requeued executions, are skipped."""
        found = []
        while len(found) < count:
            matching = [e for e in self.events if job in (e.job, e.array) and e.state in states]
            if matching:
                self.events.remove(matching[0])
                found.append(matching[0])
            else:
                self.events.append(self.next_event())
        return found

    def command(self, *words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout
