"""The proofs themselves: each assertion, the tripwire and the sentinel can fail."""

import importlib
import os
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest
from boundary_talk import Talk, call

from stdout_guard.recorder import Recorder
from stdout_guard.testing.refused import Sentinel, assert_refused, tripwire


def refused():
    talk = Talk(policy="keep-open")
    talk.say(b"oops\n")
    return talk


def test_refused_frame_passes():
    """One refusal at the right stage and no call."""
    talk = refused()
    assert_refused(talk.recorder)
    assert_refused(talk.recorder, stage="json")


def test_call_fails_the_assertion():
    """Whatever reached the executor is named."""
    talk = refused()
    talk.say(call())
    with pytest.raises(AssertionError, match=r"reached 1 time\(s\): deploy"):
        assert_refused(talk.recorder)


def test_nothing_refused_fails_the_assertion():
    """An empty recorder proves nothing."""
    with pytest.raises(AssertionError, match="nothing was refused"):
        assert_refused(Recorder())


def test_wrong_stage_and_wrong_number_fail_the_assertion():
    """Refused somewhere else, or more often than expected, is a failure too."""
    talk = refused()
    with pytest.raises(AssertionError, match=r"at stage json \(not-json\); expected stage schema"):
        assert_refused(talk.recorder, stage="schema")
    talk.say(b"oops\n")
    with pytest.raises(AssertionError, match="2 refusals"):
        assert_refused(talk.recorder)
    assert_refused(talk.recorder, refusals=2)
    assert_refused(talk.recorder, refusals=None)
    with pytest.raises(ValueError, match="no stage"):
        assert_refused(talk.recorder, stage="parsing")


def connect():
    with socket.socket() as client:
        client.settimeout(5)
        client.connect_ex(("127.0.0.1", 9))


EFFECTS = {
    "connect": connect,
    "resolve": lambda: socket.getaddrinfo("127.0.0.1", 80),
    "process": lambda: subprocess.run([sys.executable, "-S", "-c", ""], check=True),
    "system": lambda: os.system("true"),
    "write": lambda: open(os.devnull, "w").close(),
    "append": lambda: open(os.devnull, "ab").close(),
    "update": lambda: open(os.devnull, "r+").close(),
    "os.open": lambda: os.close(os.open(os.devnull, os.O_WRONLY)),
}


@pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS)
def test_tripwire_goes_off(effect):
    """A socket, a process or a file opened for writing fails the block, also when its error was swallowed."""
    with pytest.raises(AssertionError, match="no trace outside the process"), tripwire() as wire:
        effect()
    assert wire.events


def test_tripwire_leaves_reading_alone():
    """Reading a file is no effect; neither is what another thread does, or what comes after the block."""
    with tripwire():
        open(__file__).close()
        other = threading.Thread(target=lambda: open(os.devnull, "w").close())
        other.start()
        other.join(5)
    open(os.devnull, "w").close()


def test_tripwire_leaves_late_imports_alone(tmp_path, monkeypatch):
    """A module that is imported inside the block may be compiled; what it does when imported still counts."""
    (tmp_path / "late_but_quiet.py").write_text("x = 1\n")
    (tmp_path / "late_and_loud.py").write_text("import os\nopen(os.devnull, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    with tripwire():
        importlib.import_module("late_but_quiet")
    assert list(tmp_path.glob("__pycache__/late_but_quiet*"))
    with pytest.raises(AssertionError, match="open"), tripwire():
        importlib.import_module("late_and_loud")


def test_tripwire_keeps_the_error_of_the_block():
    """An error of the code under test is not hidden."""
    with pytest.raises(ZeroDivisionError), tripwire():
        raise ZeroDivisionError


def test_sentinel_writes_down_what_reaches_it():
    """Requests with their bodies, and connections without a request."""
    with Sentinel(status=201, body=b"made") as sentinel:
        with urllib.request.urlopen(sentinel.url + "/a?b=1", data=b"payload", timeout=5) as answer:
            assert (answer.status, answer.read()) == (201, b"made")
        assert sentinel.url.startswith("http://127.0.0.1:")
        assert sentinel.requests == [("POST", "/a?b=1", b"payload")]
        assert sentinel.connections == 1


def test_recorder_for_a_gateway_of_ones_own():
    """attempt records what a foreign gateway was about to do, as a copy."""
    recorder = Recorder()
    arguments = {"a": [1]}
    recorder.attempt("name", arguments)
    arguments["a"].append(2)
    assert recorder.calls == [("name", {"a": [1]})]
    assert recorder.names == ["name"]


def test_recorder_result_is_what_the_executor_returns():
    """The fake executor may answer as the real one would."""
    talk = Talk()
    talk.recorder._result = lambda action: f"ran {action.name}"
    assert talk.say(call())[0]["result"]["content"][0]["text"] == "ran deploy"
