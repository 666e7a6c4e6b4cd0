"""The two tests of the article this package follows, with its Gateway replaced by ours and its assertions kept."""

import json

from boundary_adapter import messages

from stdout_guard.boundary import AuthorizedAction, Boundary, Reply, Tool
from stdout_guard.recorder import Recorder as FakeExecutor

HANDSHAKE = (
    b'{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-03-26",'
    b'"capabilities":{},"clientInfo":{"name":"boundary-test","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


class Recorder:
    """The article's fake executor: every attempt is kept as name and arguments."""

    def __init__(self):
        self.door = FakeExecutor()

    @property
    def calls(self):
        return [{"name": name, "arguments": arguments} for name, arguments in self.door.calls]

    def execute(self, action):
        self.door.execute(action)
        return {"ok": True}


class Gateway:
    """The article's interface over a real boundary: one line in, one reply as data out."""

    def __init__(self, executor):
        self.executor = executor
        tool = Tool("safe-test", validate=lambda arguments: isinstance(arguments.get("value"), str))
        self.boundary = Boundary([tool], authorise=lambda call: True)
        self.boundary.feed(HANDSHAKE)

    @property
    def closed(self):
        return self.boundary.closed is not None

    def receive_line(self, raw_line):
        written = b""
        for event in self.boundary.feed(raw_line.encode()):
            if isinstance(event, Reply):
                written += event.data
            elif isinstance(event, AuthorizedAction):
                result = {"content": [], "structuredContent": self.executor.execute(event)}
                written += self.boundary.complete(event, result)
        (reply,) = messages(written)
        if "result" in reply:
            reply["result"] = reply["result"]["structuredContent"]
        return reply


def frame(value):
    return json.dumps(value, separators=(",", ":")) + "\n"


def test_bad_lines_never_execute():
    """Each bad line is answered with a 2.0 error, closes the session and never reaches the executor."""
    bad_lines = [
        "debug: entering tool handler\n",
        "<html>gateway unavailable</html>\n",
        "{not json}\n",
        "null\n",
        frame({"jsonrpc": "1.0", "id": 4, "method": "tools/call", "params": {}}),
        frame({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": "run"}),
    ]

    for raw_line in bad_lines:
        recorder = Recorder()
        gateway = Gateway(recorder)
        response = gateway.receive_line(raw_line)
        assert response["jsonrpc"] == "2.0"
        assert "error" in response
        assert gateway.closed
        assert recorder.calls == []


def test_complete_valid_request_executes_once():
    """A complete valid request runs exactly once, with exactly its arguments."""
    recorder = Recorder()
    gateway = Gateway(recorder)
    request = frame(
        {
            "jsonrpc": "2.0",
            "id": 9,
            "method": "tools/call",
            "params": {"name": "safe-test", "arguments": {"value": "green"}},
        }
    )

    response = gateway.receive_line(request)
    assert response["result"] == {"ok": True}
    assert recorder.calls == [{"name": "safe-test", "arguments": {"value": "green"}}]
