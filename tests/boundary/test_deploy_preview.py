"""deploy-preview: partial validation, a print, a credential check - and a service that must see nothing of a refusal.

The example server runs as a child process; a loopback HTTP server stands for the remote service.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from boundary_adapter import messages
from boundary_talk import INITIALIZED, call, initialize

from stdout_guard.testing.corpus import load
from stdout_guard.testing.refused import Sentinel

SERVER = Path(__file__).parents[2] / "examples" / "boundary_server.py"
HELLO = initialize() + INITIALIZED


def deploy(request_id=7, **arguments):
    arguments = {"branch": "main", "credential": "preview-bot"} | arguments
    return call("deploy-preview", request_id, arguments=arguments)


@pytest.fixture(scope="module")
def sentinel():
    with Sentinel() as sentinel:
        yield sentinel


def serve(sentinel, data, credentials="preview-bot"):
    """Run the example with these bytes; returns (status, messages, stderr)."""
    sentinel.requests.clear()
    sentinel.connections = 0
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STDOUT_GUARD")}
    environment |= {"DEPLOY_URL": sentinel.url, "DEPLOY_CREDENTIALS": credentials, "no_proxy": "*"}
    command = [sys.executable, str(SERVER)]
    done = subprocess.run(command, input=data, capture_output=True, timeout=60, env=environment, check=False)
    print(f"command {command}\nstdin {data!r}\nstdout {done.stdout!r}\nstderr {done.stderr.decode()}")
    return done.returncode, messages(done.stdout), done.stderr.decode()


def test_authorised_call_is_made_once(sentinel):
    """The service sees exactly one request, the client one result, and the forgotten print is on stderr."""
    status, replies, stderr = serve(sentinel, HELLO + deploy())
    assert sentinel.requests == [("POST", "/previews", b'{"branch": "main"}')]
    assert [reply["id"] for reply in replies] == ["init", 7]
    assert replies[1]["result"]["content"][0]["text"] == "preview requested: 200"
    assert "in deploy_preview: deploying main" in stderr
    assert "execution " in stderr and "refusal " not in stderr
    assert status == 0


def test_denied_call_leaves_no_trace_at_the_service(sentinel):
    """The credential check comes before the request exists: no connection, and the audit says denied."""
    status, replies, stderr = serve(sentinel, HELLO + deploy(credential="release-bot"))
    assert (sentinel.connections, sentinel.requests) == (0, [])
    assert replies[1]["error"] == {"code": -31403, "message": "not authorised"}
    assert '"stage": "authorisation"' in stderr and "execution " not in stderr
    assert "deploying" not in stderr
    assert status == 0


@pytest.mark.parametrize(
    "frame",
    [
        deploy(branch="../../etc"),
        deploy(branch=5),
        deploy(target="http://10.0.0.1/"),
        deploy().replace(b'"branch":"main"', b'"branch":"x","branch":"main"'),
        deploy().replace(b"main", b"ma\xffn"),
        b"target: main " + deploy(),
        deploy()[:-1],
        deploy()[:-2] + b"\n",
        b"[" + deploy()[:-1] + b"]\n",
    ],
    ids=["pattern", "type", "extra", "duplicate", "utf-8", "banner", "no-newline", "cut", "batch"],
)
def test_refused_call_leaves_no_trace_at_the_service(sentinel, frame):
    """Whatever stage refuses, and whatever follows in the same write: the service sees nothing."""
    status, replies, stderr = serve(sentinel, HELLO + frame + (deploy(8) if frame.endswith(b"\n") else b""))
    assert (sentinel.connections, sentinel.requests) == (0, [])
    assert len([reply for reply in replies if "error" in reply]) <= 1
    assert stderr.count("refusal ") == 1 and "execution " not in stderr
    assert status == 1


def one_case_a_stage():
    """For each stage the first case of the corpus that fits this server."""
    stages = {}
    for case in load():
        fits = case.framing == "ndjson" and case.policy == "close" and case.revision == "2025-11-25"
        if fits and len(case.stdin) < 9000:
            stages.setdefault(case.expect["stage"], case)
    return stages


STAGES = one_case_a_stage()


def test_every_stage_has_a_case():
    """The sample below is one of every stage, and one that must not be refused."""
    assert len(STAGES) >= 9


@pytest.mark.parametrize("stage", STAGES)
def test_hostile_corpus_at_the_process(sentinel, stage):
    """Through real stdin: nothing of it reaches the service, and stdout stays clean."""
    _status, replies, _stderr = serve(sentinel, STAGES[stage].stdin)
    assert (sentinel.connections, sentinel.requests) == (0, [])
    assert all(reply["jsonrpc"] == "2.0" for reply in replies)
