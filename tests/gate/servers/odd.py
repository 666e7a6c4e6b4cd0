"""Odd servers by name: frames written in a wrong way, requests at once treated badly, streams closed."""

import json
import os
import sys
import time

import mcpbase

KIND = sys.argv[1]


def is_call(message):
    return "content" in message.get("result", {})


def put(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def frame(message):
    return json.dumps(message).encode() + b"\n"


def torn(message):
    data = frame(message)
    return data[:20] + b"WARN x\n" + data[20:]


FRAMES = {  # how an answer to a call is written
    "indented": lambda message: json.dumps(message, indent=2).encode() + b"\n",
    "line-break": lambda message: frame(message).replace(b'"42"', b'"4\n2"'),
    "torn": torn,
    "bom": lambda message: b"\xef\xbb\xbf" + frame(message),
    "nul": lambda message: b"\0\0\0" + frame(message),
    "utf-16": lambda message: json.dumps(message).encode("utf-16") + "\n".encode("utf-16-le"),
    "array": lambda message: frame([message]),
    "glued": lambda message: (
        frame({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})[:-1] + frame(message)
    ),
    "float-id": lambda message: frame(
        {**message, "id": float(message["id"])} if isinstance(message["id"], int) else message
    ),
    "text-id": lambda message: frame({**message, "id": str(message["id"])}),
    "both": lambda message: frame({**message, "error": {"code": 1, "message": "x"}}),
    "sent": lambda message: frame(message)[:-1] + b" # sent\n",
}
ALWAYS = {  # how each answer is written
    "header": lambda message: (
        b"Content-Length: %d\r\n\r\n%b" % (len(json.dumps(message)), json.dumps(message).encode())
    ),
    "events": lambda message: b"data: " + frame(message) + b"\n",
    "crlf": lambda message: frame(message)[:-1] + b"\r\n",
    "no-newline": lambda message: frame(message)[:-1],
}


def on_stderr(message):
    print(json.dumps(message), file=sys.stderr, flush=True)


def one_byte_at_a_time(message):
    for byte in frame(message):
        os.write(1, bytes([byte]))


def echo():
    for line in sys.stdin.buffer:
        put(line)


def echo_and_serve():
    mcpbase.serve(accept=lambda message: (print(json.dumps(message), flush=True), mcpbase.well_formed(message))[1])


def debug_and_serve():
    mcpbase.serve(
        accept=lambda message: (print("recv:", json.dumps(message), flush=True), mcpbase.well_formed(message))[1]
    )


def bom_first():
    print("\ufeff", end="", flush=True)
    mcpbase.serve()


def nul_in_tool():
    mcpbase.serve(lambda name, arguments: os.write(1, b"\0\0") and "42")


def closing(number):
    """Close a standard stream after the list, and live on."""

    def send(message):
        mcpbase.send(message)
        if "tools" in message.get("result", {}):
            os.close(number)
            time.sleep(60)

    mcpbase.serve(send=send)


def traceback_in_tool(name, arguments):
    import traceback

    try:
        raise ValueError("no such table")
    except ValueError:
        traceback.print_exc(file=sys.stdout)
    return "42"


def stamp(name, arguments):
    print(f"{time.time()} {os.getpid()} calling {id(arguments):#x}", flush=True)
    return "42"


def slow_loop():
    """An event loop that takes longer for its first answer than the gate waits at first: slow, and right."""
    import asyncio
    import threading

    async def main():
        queue = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read():
            for line in sys.stdin.buffer:
                loop.call_soon_threadsafe(queue.put_nowait, line)
            loop.call_soon_threadsafe(queue.put_nowait, None)

        threading.Thread(target=read, daemon=True).start()
        first = True
        while (line := await queue.get()) is not None:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if mcpbase.well_formed(message) and "id" in message:
                await asyncio.sleep(2.5 if first else 0)
                first = False
                result = mcpbase.result_of(message["method"], message.get("params") or {}, mcpbase.tool)
                mcpbase.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    asyncio.run(main())


def executes_nameless():
    """Executes what it should refuse, and answers with id null."""
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict) and "id" in message:
            params = message.get("params")
            params = params if isinstance(params, dict) else {"name": "get_answer"}
            result = mcpbase.result_of(message["method"], params, mcpbase.tool)
            identifier = message["id"] if mcpbase.well_formed(message) else None
            mcpbase.send({"jsonrpc": "2.0", "id": identifier, "result": result})


def descriptor():
    """Frames go around Python's streams, as asyncio's pipe writers send them; a print does not."""
    wire = os.fdopen(1, "wb", buffering=0, closefd=False)

    def tool(name, arguments):
        print("listing tables", flush=True)
        return "42"

    mcpbase.serve(tool, send=lambda message: wire.write(frame(message)))


def strict():
    import stdout_guard

    guard = stdout_guard.install("strict")

    def tool(name, arguments):
        try:
            print("listing tables")
        except stdout_guard.StrayWriteError:
            pass
        return "42"

    mcpbase.serve(tool, send=lambda message: guard.wire.write(frame(message)))


def unknown_writer():
    import stdout_guard.auto  # noqa: F401

    mcpbase.serve()


def http():
    print("INFO: Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)", flush=True)
    sys.stdin.read()


def prompt():
    input("Proceed? [y/N] ")
    mcpbase.serve()


def one_at_a_time():
    """Answer what is asked alone; of what comes at once (in one write), do what the kind says."""

    def answer(message):
        result = mcpbase.result_of(message["method"], message.get("params") or {}, mcpbase.tool)
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    while data := os.read(0, 65536):
        batch = []
        for line in data.splitlines():
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if mcpbase.well_formed(message) and "id" in message:
                batch.append(message)
        if len(batch) > 2:
            AT_ONCE[KIND](batch, answer)
        else:
            for message in batch:
                mcpbase.send(answer(message))


def mixed(batch, answer):
    for message, other in zip(batch, batch[1:] + batch[:1], strict=True):
        mcpbase.send({**answer(message), "id": other["id"]})


def last_only(batch, answer):
    mcpbase.send(answer(batch[-1]))


def numbers_only(batch, answer):
    for message in batch:
        if isinstance(message["id"], int):
            mcpbase.send(answer(message))


def twice(batch, answer):
    for message in [*batch, batch[0]]:
        mcpbase.send(answer(message))


def printing(batch, answer):
    for message in batch:
        print("busy", flush=True)
        mcpbase.send(answer(message))


def tearing(batch, answer):
    """Another frame in the middle of one: two writers without a lock."""
    first, second, *rest = [frame(answer(message)) for message in batch]
    for data in (first[:30], second, first[30:], *rest):
        put(data)


def interleaved(batch, answer):
    """Pieces of all frames in turn: as many writers as requests, none with a lock."""
    frames = [frame(answer(message)) for message in batch]
    for start in range(0, max(map(len, frames)), 10):
        for data in frames:
            put(data[start : start + 10])


def backwards(batch, answer):
    for message in reversed(batch):
        mcpbase.send(answer(message))


def crashing(batch, answer):
    os.abort()


AT_ONCE = {
    "mixed": mixed,
    "last-only": last_only,
    "numbers-only": numbers_only,
    "twice": twice,
    "printing": printing,
    "tearing": tearing,
    "interleaved": interleaved,
    "backwards": backwards,
    "crashing": crashing,
}
WHOLE = {
    "echo": echo,
    "echo-and-serve": echo_and_serve,
    "debug": debug_and_serve,
    "bom-first": bom_first,
    "nul-in-tool": nul_in_tool,
    "closes-stdin": lambda: closing(0),
    "closes-stdout": lambda: closing(1),
    "traceback": lambda: mcpbase.serve(traceback_in_tool),
    "stamp": lambda: mcpbase.serve(stamp),
    "slow-loop": slow_loop,
    "executes-nameless": executes_nameless,
    "descriptor": descriptor,
    "strict": strict,
    "unknown-writer": unknown_writer,
    "http": http,
    "prompt": prompt,
    "stderr": lambda: mcpbase.serve(send=on_stderr),
    "bytes": lambda: mcpbase.serve(send=one_byte_at_a_time),
    "data-file": lambda: (open("data.json").close(), mcpbase.serve()),
    "refuses-null": lambda: mcpbase.serve(accept=lambda message: mcpbase.well_formed(message) or refuse(message)),
}


def refuse(message):
    mcpbase.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "invalid request"}})


if KIND in FRAMES:
    mcpbase.serve(send=lambda message: put(FRAMES[KIND](message) if is_call(message) else frame(message)))
elif KIND in ALWAYS:
    mcpbase.serve(send=lambda message: put(ALWAYS[KIND](message)))
elif KIND in AT_ONCE:
    one_at_a_time()
else:
    WHOLE[KIND]()
