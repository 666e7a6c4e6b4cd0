"""The server of a test: a real child process to talk to, judged to its last byte when the test is over."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

from stdout_guard.errors import StdoutGuardError
from stdout_guard.testing import culprit, explain, gate, text
from stdout_guard.testing.conditions import CONDITIONS, Condition
from stdout_guard.testing.config import ConfigError, Plan, choose, protocol
from stdout_guard.testing.protocols import Json, mapping
from stdout_guard.testing.run import Server, name_of, opened
from stdout_guard.testing.safe import Redactor
from stdout_guard.testing.scanner import Message
from stdout_guard.testing.steps import STEPS, Session
from stdout_guard.testing.verdicts import Outcome, evaluate

__tracebackhide__ = True  # pytest shows the line of the test
_KEYS = {"command", "framing", "protocol", "env", "cwd"}


class NoAnswer(StdoutGuardError):
    """A request was not answered; the text holds what the server did instead."""


def server_of(given: Mapping[str, Any]) -> Server:
    """The server that the marker's arguments describe. Raises ConfigError naming what is wrong and what there is."""
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise ConfigError(f"no argument {unknown[0]!r}; there are {', '.join(sorted(_KEYS))}")
    command: Any = given.get("command")
    if not command:
        raise ConfigError(
            "no command; give @pytest.mark.stdio_server(command=...), --stdout-guard-command, STDOUT_GUARD_COMMAND "
            "or ini stdout_guard_command"
        )
    words: list[str] = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    framing = given.get("framing")
    name = given.get("protocol") or ("lsp" if framing == "content-length" else "mcp")
    return Server(
        name=name_of(words),
        command=tuple(words),
        protocol=protocol(name, framing),
        env=dict(given.get("env") or {}),
        cwd=None if given.get("cwd") is None else str(given["cwd"]),
    )


class StdioServer:
    """A running server. ``handshake`` has taken place when the protocol has one; offsets and steps are kept.

    ``close()`` ends it and returns the outcome: the problems are those that ``stdout-guard check`` would report for the
    same run.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        condition = Condition("pytest", "what the test did", script=("handshake", "close"))
        self._run, self._process = opened(server, condition)
        self._outcome: Outcome | None = None
        assert self._run.session is not None
        self.session: Session = self._run.session
        if self.session.dialogue.protocol.opening is not None:
            try:
                self._step("handshake")
            except NoAnswer:
                self._process.finish(grace=0.0)
                raise

    def _step(self, name: str) -> None:
        try:
            STEPS[name](self.session, 0.0)
        except Exception as error:
            raise NoAnswer(self.describe(f"no answer to {name}")) from error

    @property
    def stdout(self) -> bytes:
        """All that came on stdout so far."""
        return self._process.stdout.bytes()

    @property
    def stderr(self) -> bytes:
        """All that came on stderr so far."""
        return self._process.stderr.bytes()

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self._process.pid

    def request(self, method: str, params: Json | None = None, timeout: float | None = None) -> Json:
        """Send a request; its whole answer (``result`` or ``error``). Raises NoAnswer."""
        with self.session.dialogue.step(method):
            answer: Message | None = self.session.dialogue.request(method, params, timeout)
        if answer is None:
            self.session.give_up(method)
            raise NoAnswer(self.describe(f"no answer to {method!r}"))
        return answer.content

    def call(self, name: str, arguments: Json | None = None) -> Json:
        """Call a tool (or, where the protocol has none, a method); its result. Raises NoAnswer."""
        method, params = self.session.dialogue.protocol.calls(name, arguments or {})
        with self.session.dialogue.step(f"call {name}"):
            answer = self.session.dialogue.request(method, params)
        if answer is None:
            self.session.give_up(method)
            raise NoAnswer(self.describe(f"no answer to the call of {name!r}"))
        if "error" in answer.content:
            raise NoAnswer(self.describe(f"the call of {name!r} failed: {answer.content['error']}"))
        return mapping(answer.content.get("result"))

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification."""
        self.session.dialogue.notify(method, params)

    def send(self, data: bytes, *, well_formed: bool = False) -> None:
        """Send bytes as they are; ``well_formed`` ones count when answers are paired."""
        self.session.dialogue.write(data, well_formed=well_formed)

    def close(self) -> Outcome:
        """Close stdin, wait, read everything, judge. The same outcome when called again."""
        if self._outcome is None:
            for name in ("leave", "close"):
                STEPS[name](self.session, 0.0)
            self._run.fill(self._process)
            self._outcome = evaluate(self._run)
            culprit.investigate(self.server, [self._outcome], self._run.stdin)
            for problem in self._outcome.problems:
                problem.advice = problem.advice or explain.advice(problem, self._outcome)
        return self._outcome

    def gate(self, *conditions: str) -> gate.ServerResult:
        """The release gate over this server's command: all conditions, or those named."""
        chosen, skipped = choose(CONDITIONS, list(conditions) or None, None)
        return gate.check(Plan(self.server, chosen, skipped))

    def report(self, outcome: Outcome | None = None) -> str:
        """The text report of this run."""
        result = gate.ServerResult(Plan(self.server, ()), [outcome or self.close()])
        return text.render([result], Redactor.from_environment(self.server.env, _environment()))

    def describe(self, what: str) -> str:
        """``what``, with the command and both streams as they are now."""
        redactor = Redactor.from_environment(self.server.env, _environment())
        if self._process.stdout.eof:
            self._process.finish()  # so that the end of stderr is there
        parts = [
            f"{what} ({'running' if self._process.running else 'the server has ended'})",
            f"command: {' '.join(redactor.argv(self.server.command))}",
            f"stdin: {redactor.show(bytes(self._process.stdin), 2000)}",
            f"stdout: {redactor.show(self.stdout, 2000)}",
            f"stderr: {redactor.lines(self.stderr, 2000)}",
        ]
        return "\n".join(parts)


def _environment() -> dict[str, str | None]:
    return dict(os.environ)
