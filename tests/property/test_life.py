"""Any order of install, uninstall, writes, forks, foreign dup2 and replaced streams: frames whole and alone on the
wire.

Each example is one child process that does step by step what hypothesis thinks of; a model of a few lines says what
the client must see. The quick half runs the same examples each time; the slow one looks for new ones.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from faults.harness import Child
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

# The child: reads a step a line, does it, and says so on fd 2 itself.
SERVER = r"""
import os, sys
saved = os.dup(1)
import contextlib, ctypes, io, json, subprocess
import stdout_guard
libc = ctypes.CDLL(None)
libc.printf.argtypes = [ctypes.c_char_p]
original, guard = sys.stdout, None
fds = lambda: sorted((int(n), os.readlink("/proc/self/fd/" + n)) for n in os.listdir("/proc/self/fd")
                     if os.path.exists("/proc/self/fd/" + n))
level = None
def step(name, text):
    global guard, level
    if name == "install":
        level = level or fds()
        guard = stdout_guard.install(channel=text or None)
    elif name == "uninstall":
        stdout_guard.uninstall()
        guard = None
        sys.stdout = sys.__stdout__
        assert fds() == level, (fds(), level)
        assert sys.stdout is original
    elif name == "frame": (guard.wire.write if guard else lambda data: os.write(1, data))(text.encode() + b"\n")
    elif name == "text frame": guard.text_wire.write(text + "\n")
    elif name == "print": print(text, flush=True)
    elif name == "pieces": print(*text.split(" "), sep=" ", flush=True)
    elif name == "original": original.write(text + "\n"); original.flush()
    elif name == "buffer": sys.__stdout__.buffer.write(text.encode() + b"\n")
    elif name == "os.write": os.write(1, text.encode() + b"\n")
    elif name == "native": libc.write(1, text.encode() + b"\n", len(text) + 1)
    elif name == "printf": libc.printf(b"%s\n", text.encode()); libc.fflush(None)
    elif name == "child": subprocess.run(["/bin/echo", text], check=True)
    elif name == "system": assert os.system("echo " + text) == 0
    elif name == "fork":
        pid = os.fork()
        if not pid:
            try:
                try: guard.wire.write(b"by the child\n")
                except stdout_guard.GuardStateError: print(text, file=sys.__stdout__, flush=True)
                os.write(1, b"below " + text.encode() + b"\n")
            finally: os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    elif name == "silenced":
        keep, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        os.write(1, b"silenced\n")
        if guard: guard.wire.write(text.encode() + b"\n")
        os.dup2(keep, 1)
        os.close(keep)
    elif name == "early copy": os.dup2(saved, 1)
    elif name == "wire copy": os.dup2(guard.wire.fileno(), 1); guard.wire.write(text.encode() + b"\n")
    elif name == "closed": os.close(1); guard.wire.write(text.encode() + b"\n")
    elif name == "wrap": sys.stdout = io.TextIOWrapper(sys.__stdout__.buffer, "utf-8", line_buffering=True)
    elif name == "string": sys.stdout = io.StringIO()
    elif name == "none": sys.stdout = None
    elif name == "restore": sys.stdout = sys.__stdout__
    elif name == "redirect":
        with contextlib.redirect_stdout(io.StringIO()): print("kept")
    else: raise AssertionError(name)
for number, line in enumerate(sys.stdin):
    step(*json.loads(line))
    os.write(2, b"done %d.\n" % number)
"""
BELOW = ("os.write", "native", "printf", "child", "system")
ABOVE = ("original", "buffer")


class Life(RuleBasedStateMachine):
    """The model: is there a guard, what is sys.stdout, which frames and texts must the client have seen."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.child: Child | None = None
        self.steps = self.number = 0
        self.installed = False
        self.stdout = "ours"
        self.frames: list[int] = []
        self.texts: list[str] = []

    @initialize(
        wire=st.sampled_from(["pipe", "socket"]), unbuffered=st.booleans(), stderr=st.sampled_from(["pipe", "socket"])
    )
    def start(self, wire: str, unbuffered: bool, stderr: str) -> None:
        self.child = Child(SERVER, self.folder / "run", prelude="", wire=wire, unbuffered=unbuffered, stderr=stderr)

    def do(self, name: str, text: str = "") -> None:
        import json

        assert self.child is not None
        try:
            self.child.order(json.dumps([name, text]))
            self.child.wait_stderr(f"done {self.steps}.")
        except (AssertionError, BrokenPipeError) as error:
            raise AssertionError(f"{error}\n{self.child.report()}") from None
        self.steps += 1

    def frame(self) -> str:
        self.number += 1
        self.frames.append(self.number)
        return f'{{"jsonrpc":"2.0","id":{self.number},"result":0}}'

    def stray(self) -> str:
        self.number += 1
        self.texts.append(f"stray number {self.number}.")
        return self.texts[-1]

    @rule(channel=st.sampled_from(["", "thread", "dup"]))
    @precondition(lambda self: not self.installed)
    def install(self, channel: str) -> None:
        self.do("install", channel)
        self.installed, self.stdout = True, "ours"

    @rule()
    @precondition(lambda self: self.installed)
    def install_again(self) -> None:
        self.do("install")

    @rule()
    @precondition(lambda self: self.installed)
    def uninstall(self) -> None:
        self.do("uninstall")
        self.installed, self.stdout = False, "ours"

    @rule()
    def send(self) -> None:
        self.do("frame", self.frame())

    @rule()
    @precondition(lambda self: self.installed)
    def send_text(self) -> None:
        self.do("text frame", self.frame())

    @rule(way=st.sampled_from(["print", "pieces"]))
    @precondition(lambda self: self.installed and self.stdout != "none")
    def python(self, way: str) -> None:
        text = self.stray()
        if self.stdout == "string":
            self.texts.pop()
        self.do(way, text)

    @rule(way=st.sampled_from([*BELOW, *ABOVE]))
    @precondition(lambda self: self.installed)
    def noise(self, way: str) -> None:
        self.do(way, self.stray())

    @rule()
    @precondition(lambda self: self.installed)
    def fork(self) -> None:
        text = self.stray()
        self.texts.append(f"below {text}")
        self.do("fork", text)

    @rule(how=st.sampled_from(["silenced", "wire copy", "closed"]))
    @precondition(lambda self: self.installed)
    def foreign_hands(self, how: str) -> None:
        self.do(how, self.frame())

    @rule()
    @precondition(lambda self: self.installed)
    def early_copy(self) -> None:
        self.do("early copy")

    @rule(what=st.sampled_from(["wrap", "string", "none", "restore", "redirect"]))
    @precondition(lambda self: self.installed)
    def replace(self, what: str) -> None:
        if what == "redirect" and self.stdout == "none":
            return
        self.do(what)
        self.stdout = {"wrap": "ours", "restore": "ours", "redirect": self.stdout}.get(what, what)

    def teardown(self) -> None:
        try:
            if self.child is not None:
                self.judge(self.child)
        finally:
            if self.child is not None:
                self.child.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def judge(self, child: Child) -> None:
        try:
            assert child.finish() == 0
            assert child.ids() == self.frames
            missing = [text for text in self.texts if text not in child.text]
            assert not missing, missing
            assert "silenced" not in child.text and "Traceback" not in child.text
        except AssertionError as error:
            raise AssertionError(f"{error}\n{child.report()}") from None


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@pytest.mark.timeout(300)
def test_the_same_lives_each_time() -> None:
    """Whatever the order of steps: the wire holds the frames in order and nothing else, every stray text is on stderr,
    and uninstall leaves the descriptors as they were.

    Seen to fail with the check for foreign hands taken out, and with fd 1 left diverted by uninstall.
    """
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Life, settings=settings(max_examples=25, stateful_step_count=30, derandomize=True, **COMMON)
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_new_lives() -> None:
    """The same, looking for orders that were never tried."""
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Life,
        settings=settings(max_examples=300, stateful_step_count=50, phases=(Phase.generate, Phase.shrink), **COMMON),
    )
