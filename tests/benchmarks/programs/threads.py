"""Runs in a child: frames a second of 64 threads that send and print, beside one thread's.

argv: rounds, frames in a round, file for the figures.
"""

import json
import sys
import threading
import time

from stdout_guard.auto import guard
from stdout_guard.writer import FrameWriter

_, rounds, frames, name = sys.argv
writer = FrameWriter(guard.wire)
TEXT = "x" * 110


def work(thread: int, count: int) -> None:
    for number in range(count):
        result = {"content": [{"type": "text", "text": TEXT}], "thread": thread, "number": number}
        writer.send({"jsonrpc": "2.0", "id": f"{thread}-{number}", "result": result})
        print("stray of", thread, number)


def run(threads: int) -> float:
    share = int(frames) // threads
    started = [threading.Thread(target=work, args=(number, share)) for number in range(threads)]
    began = time.perf_counter()
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return share * threads / (time.perf_counter() - began)


run(1)
found = [(run(1), run(64)) for _ in range(int(rounds))]
with open(name, "w") as file:
    json.dump(found, file)
