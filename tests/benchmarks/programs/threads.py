"""Runs in a child: frames a second of 64 threads that send and print, beside one thread's.

argv: "guarded" or "plain" (a lock around the write, prints to stderr), rounds, frames in a round, file for the figures.
"""

import json
import sys
import threading
import time

_, way, rounds, frames, name = sys.argv
TEXT = "x" * 110
strays = None
if way == "guarded":
    from stdout_guard.auto import guard
    from stdout_guard.writer import FrameWriter

    send = FrameWriter(guard.wire).send
else:
    lock, strays = threading.Lock(), sys.stderr

    def send(message: dict) -> None:
        """What a careful server does by hand."""
        frame = json.dumps(message).encode() + b"\n"
        with lock:
            sys.stdout.buffer.write(frame)
            sys.stdout.buffer.flush()


def work(thread: int, count: int) -> None:
    for number in range(count):
        result = {"content": [{"type": "text", "text": TEXT}], "thread": thread, "number": number}
        send({"jsonrpc": "2.0", "id": f"{thread}-{number}", "result": result})
        print("stray of", thread, number, file=strays)


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
