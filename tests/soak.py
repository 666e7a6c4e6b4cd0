"""A long run of everything at once: ``python tests/soak.py --minutes 20``. It stops by itself; status 0 means it held.

A guarded server answers numbered requests while threads, tasks, signals, children and C code print. The client checks
that each frame arrives once and whole, that each stray line is on stderr or counted as dropped, and that descriptors,
threads and memory of the server stay level.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from faults.harness import environment, frames

SERVER = r"""
import os, sys
import stdout_guard
guard = stdout_guard.install()
import asyncio, ctypes, itertools, json, logging, resource, signal, subprocess, threading, warnings
warnings.simplefilter("ignore")
libc = ctypes.CDLL(None)
logging.basicConfig(stream=sys.stdout, format="%(message)s")
wrote = dict.fromkeys(("thread", "task", "signal", "child", "native", "log", "fork"), 0)
stop = threading.Event()
frame = lambda i, result: json.dumps({"jsonrpc": "2.0", "id": i, "result": result}).encode() + b"\n"
PAUSE = float(sys.argv[1])

def thread():
    while not stop.wait(PAUSE):
        wrote["thread"] += 1
        print(f"stray thread {wrote['thread']}")
def native():
    while not stop.wait(PAUSE):
        wrote["native"] += 1
        data = b"stray native %d\n" % wrote["native"]
        libc.write(1, data, len(data))
def children():
    while not stop.wait(PAUSE * 10):
        wrote["child"] += 1
        subprocess.run(["/bin/echo", f"stray child {wrote['child']}"])
def logs():
    while not stop.wait(PAUSE):
        wrote["log"] += 1
        logging.warning("stray log %d", wrote["log"])
numbers = itertools.count(1)
def handler(*_):
    wrote["signal"] = number = next(numbers)  # one step: a late handler may interrupt this one
    os.write(1, b"stray signal %d\n" % number)
    guard.wire.write(frame(f"s{number}", "notice"))
async def tasks():
    async def one():
        while not stop.is_set():
            wrote["task"] += 1
            sys.stdout.write(f"stray task {wrote['task']}\n")
            await asyncio.sleep(PAUSE)
    await asyncio.gather(*(one() for _ in range(3)))
def state():
    status = open("/proc/self/status").read()
    return {
        "fds": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "rss": int(status.partition("VmRSS:")[2].split()[0]),
    }
def answer(request):
    if request["method"] == "fork":
        wrote["fork"] += 1
        pid = os.fork()
        if not pid:
            print(f"stray fork {wrote['fork']}")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)
    if request["method"] == "state": return state()
    return request["method"] * (request["id"] % 3000)
def serve():
    for line in guard.take_stdin():
        request = json.loads(line)
        guard.wire.write(frame(request["id"], answer(request)))
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
loop = threading.Thread(target=lambda: asyncio.run(tasks()))
workers = [threading.Thread(target=target) for target in (thread, native, children, logs)] + [loop]
for worker in workers: worker.start()
serve()
signal.setitimer(signal.ITIMER_REAL, 0)
stop.set()
for worker in workers: worker.join()
wrote["signal"] = next(numbers) - 1
os.write(2, b"\nWROTE " + json.dumps(wrote).encode() + b"\n")
"""
STRAY = re.compile(rb"stray (thread|task|signal|child|native|log|fork) (\d+)")
DROPPED = re.compile(rb"(\d+) lines \(\d+ bytes\) dropped")
LEVEL = {"fds": 70, "threads": 2, "rss": 16 << 10}  # more than at first: what is in flight (64 child pipes); rss in KiB


class Client:
    """The other side: asks, reads to the end, keeps the books."""

    def __init__(self, process: subprocess.Popen[bytes], pauses: bool) -> None:
        self.process, self.pauses = process, pauses
        self.pending = b""
        self.answers: collections.Counter[object] = collections.Counter()
        self.states: list[dict[str, int]] = []
        self.seen: dict[bytes, set[int]] = collections.defaultdict(set)
        self.twice = self.dropped = 0
        self.wrote: dict[str, int] = {}
        self.problems: list[str] = []
        self.threads = [threading.Thread(target=self._wire), threading.Thread(target=self._stderr)]
        for thread in self.threads:
            thread.start()

    def _wire(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                (message,) = frames(line)
            except AssertionError as error:
                self.problems.append(str(error))
                continue
            self.answers[message["id"]] += 1
            if isinstance(message["result"], dict):
                self.states.append(message["result"])

    def _stderr(self) -> None:
        assert self.process.stderr is not None
        for number, line in enumerate(self.process.stderr):
            for kind, found in STRAY.findall(line):
                self.twice += int(found) in self.seen[kind]
                self.seen[kind].add(int(found))
            for lines in DROPPED.findall(line):
                self.dropped += int(lines)
            if line.startswith(b"WROTE "):
                self.wrote = json.loads(line[6:])
            elif b"Traceback" in line or b"Exception" in line:
                self.problems.append(f"stderr: {line!r}")
            if self.pauses and number % 200_000 == 199_999:
                time.sleep(3)  # a reader that is dead for a while: the fault itself

    def ask(self, number: int, method: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method}).encode() + b"\n")
        self.process.stdin.flush()

    def judge(self, asked: int) -> list[str]:
        """What did not hold, in words."""
        found = list(self.problems[:20])
        numbers = [n for n in self.answers if isinstance(n, int)]
        if sorted(numbers) != list(range(asked)) or max(self.answers.values()) > 1:
            found.append(f"asked {asked}, answered {len(numbers)} ids, most {max(self.answers.values())} times")
        signals = sum(1 for n in self.answers if isinstance(n, str))
        if signals != self.wrote.get("signal"):
            found.append(f"{self.wrote.get('signal')} frames of the signal handler, {signals} arrived")
        missing = {k: n - len(self.seen[k.encode()]) for k, n in self.wrote.items() if n != len(self.seen[k.encode()])}
        if sum(missing.values()) > self.dropped:
            found.append(f"stray lines missing: {missing}, said to be dropped: {self.dropped}")
        if self.twice:
            found.append(f"{self.twice} stray lines came twice")
        if not self.wrote:
            found.append("the server did not come to its end")
        for key, more in LEVEL.items():
            values = [state[key] for state in self.states]
            if values and max(values[len(values) // 2 :]) > min(values[1 : len(values) // 4 + 2]) + more:
                found.append(f"{key} does not stay level: {values[:3]} ... {values[-3:]}")
            if key != "rss" and values and min(values[-5:]) > max(values[:5]) + 2:
                found.append(f"{key} does not come back: {values[:5]} ... {values[-5:]}")
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to run (default 20)")
    parser.add_argument("--channel", choices=("thread", "dup"), default="thread")
    parser.add_argument("--pause", type=float, default=0.002, help="seconds between two stray lines of one writer")
    parser.add_argument("--dead-reader", action="store_true", help="stderr is not read for 3 s from time to time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "server.py").write_text(SERVER)
        process = subprocess.Popen(
            [sys.executable, str(folder / "server.py"), str(args.pause)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(folder, channel=args.channel),
            cwd=folder,
            start_new_session=True,
        )
        client, began, asked = Client(process, args.dead_reader), time.monotonic(), 0
        try:
            while time.monotonic() < began + args.minutes * 60 and process.poll() is None:
                method = "state" if asked % 500 == 499 else "fork" if asked % 50 == 0 else "echo"
                client.ask(asked, method)
                asked += 1
                while asked - len(client.answers) > 50 and process.poll() is None:
                    time.sleep(0.001)  # no more than 50 on their way (signals' frames count as well)
                time.sleep(0.002)
            assert process.stdin is not None
            process.stdin.close()
            status = process.wait(120)
            for thread in client.threads:
                thread.join(120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    problems = client.judge(asked) + ([f"exit status {status}"] if status else [])
    cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    print(
        f"{time.monotonic() - began:.0f} s, {asked} requests, {sum(client.answers.values())} frames, strays "
        f"{client.wrote}, dropped {client.dropped}, cpu {cpu:.0f} s, "
        f"states {client.states[:: max(1, len(client.states) // 6)]}"
    )
    for problem in problems:
        print("DID NOT HOLD:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
