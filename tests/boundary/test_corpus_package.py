"""The corpus as data: append-only, checksummed, every id and action name used once."""

import json
import shutil
import subprocess
import sys

import pytest

from stdout_guard.recorder import STAGES, Recorder
from stdout_guard.testing import corpus
from stdout_guard.testing.corpus import CorpusError, adding, find, load, verify
from stdout_guard.testing.corpus.run import errors, run_case


@pytest.fixture
def home(tmp_path):
    copy = tmp_path / "v1"
    shutil.copytree(corpus.HOME, copy)
    return copy


def cli(*arguments, stdin=b""):
    command = [sys.executable, "-m", "stdout_guard", "corpus", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_shipped_corpus():
    """Every stage is covered, every case has a source, the kept-open half is there and controls as well."""
    cases = load()
    assert {case.expect["stage"] for case in cases} == {*STAGES, "none"}
    assert all(case.source for case in cases)
    assert sum(case.policy == "keep-open" for case in cases) > 100
    assert sum(case.expect["stage"] == "none" for case in cases) >= 12
    assert {case.framing for case in cases} == {"ndjson", "content-length"}


def test_changed_file_is_refused(home):
    """One edited byte and nothing is read; a file without a checksum and a checksum without a file likewise."""
    path = home / "hostile.jsonl"
    path.write_bytes(path.read_bytes().replace(b"null", b"nul1", 1))
    with pytest.raises(CorpusError, match=r"hostile\.jsonl is not what SHA256SUMS says"):
        load(home)
    adding.write_sums(home)
    (home / "extra.jsonl").write_text("{}\n")
    with pytest.raises(CorpusError, match=r"extra\.jsonl"):
        verify(home)
    adding.write_sums(home)
    (home / "extra.jsonl").unlink()
    with pytest.raises(CorpusError, match="listed"):
        verify(home)
    (home / "SHA256SUMS").unlink()
    with pytest.raises(CorpusError, match="SHA256SUMS"):
        verify(home)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "H001"}, "id H001 is used"),
        ({"expect": {"forbidden": ["hx_001_evil"]}}, "action hx_001_evil is used"),
        ({"source": ""}, "names no source"),
    ],
)
def test_rules_of_the_data(home, change, message):
    """An id or a forbidden action name of another case, and a case without source, are refused."""
    adding.append(adding.Defect(data=b"x\n", title="t", source="s", stage="json"), home=home, file="mine.jsonl")
    path = home / "mine.jsonl"
    header, *records = [json.loads(line) for line in path.read_text().splitlines()]
    records[0] |= change | {"expect": records[0]["expect"] | change.get("expect", {})}
    path.write_text("".join(json.dumps(record) + "\n" for record in [header, *records]))
    adding.write_sums(home)
    with pytest.raises(CorpusError, match=message):
        load(home)


def test_other_version_is_refused(home):
    """A reader of version 1 does not guess at version 2."""
    (home / "next.jsonl").write_text('{"version": 2}\n')
    adding.write_sums(home)
    with pytest.raises(CorpusError, match="version 2"):
        load(home)


def test_added_defect_is_a_pair_with_its_own_names(home):
    """Adding appends a close and a keep-open variant under the next id, and touches no earlier byte."""
    before = (home / "found.jsonl").read_bytes()
    number = adding.next_number(home)
    data = b'{"name":"@EVIL@"}\n'
    made = adding.append(adding.Defect(data=data, title="t", source="defect owner/repo#1", stage="jsonrpc"), home=home)
    assert made == [f"H{number}", f"H{number}k"]
    assert (home / "found.jsonl").read_bytes().startswith(before)
    close, kept = (find(name, home) for name in made)
    evil = f"hx_{number}_evil"
    assert next(close.chunks) == data.replace(b"@EVIL@", evil.encode())
    assert (close.expect["forbidden"], close.expect["executor_calls"]) == ([evil, f"hx_{number}_after"], [])
    assert (kept.expect["forbidden"], kept.expect["executor_calls"]) == ([evil + "k"], [f"hx_{number}_afterk"])
    assert (close.expect["closed"], kept.expect["closed"]) == (True, False)
    assert adding.next_number(home) == number + 1


def test_corpus_of_ones_own(tmp_path):
    """An empty folder becomes a corpus; it starts where the package's own numbers do."""
    made = adding.append(adding.Defect(data=b"x\n", title="t", source="s", stage="json", fatal=True), home=tmp_path)
    assert made == ["H200"]
    assert [case.id for case in load(tmp_path)] == ["H200"]


def test_add_needs_a_source_and_a_stage(tmp_path):
    """What nobody can look up or place is not added."""
    with pytest.raises(CorpusError, match="source"):
        adding.append(adding.Defect(data=b"x", title="t", source="", stage="json"), home=tmp_path)
    with pytest.raises(CorpusError, match="no stage"):
        adding.append(adding.Defect(data=b"x", title="t", source="s", stage="parsing"), home=tmp_path)
    with pytest.raises(CorpusError, match="plain name"):
        adding.append(adding.Defect(data=b"x", title="t", source="s", stage="json"), home=tmp_path, file="../x.jsonl")


class Careless:
    """A gateway that runs whatever names a tool, as many published servers do."""

    closed = False

    def __init__(self, case, recorder):
        self.recorder = recorder

    def feed(self, data):
        for line in data.split(b"\n"):
            try:
                self.recorder.attempt(json.loads(line)["params"]["name"], {})
            except (ValueError, KeyError, TypeError):
                continue
        return b""

    def eof(self):
        return b""


def test_careless_gateway_is_caught():
    """The corpus tells a gateway that executes damaged input from one that does not."""
    problems = run_case(find("H041"), Careless)
    assert any("executed what must never run: ['hx_041_after', 'hx_041_evil']" in problem for problem in problems)
    assert any("session open" in problem for problem in problems)


def test_wrong_answers_are_caught():
    """Code, id and number of replies are compared, and output that is no message is an error."""

    class Wrong(Careless):
        def feed(self, data):
            return b'{"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"m"}}\n' * 2

    problems = run_case(find("H041"), Wrong)
    assert any("error replies" in problem for problem in problems)
    assert any("code -32000" in problem for problem in problems)
    assert any("error id 9" in problem for problem in problems)
    with pytest.raises(ValueError, match="no message"):
        errors(b"banner\n", "ndjson")
    assert errors(b'{"jsonrpc":"2.0","id":1,"result":{"isError":true}}\n', "ndjson") == [{"id": 1, "code": "isError"}]


def test_recorder_starts_empty():
    """A case that gives the gateway nothing to execute leaves nothing in the recorder."""
    recorder = Recorder()
    assert (recorder.calls, recorder.names, recorder.stages) == ([], [], [])


def test_big_cases_are_generated():
    """A case of many MiB is a rule in the file, and bytes only when it runs."""
    case = find("H030")
    assert sum(map(len, case.chunks)) > 16 * 1024 * 1024
    assert len(json.dumps(dict(case.record))) < 10_000


# ------------------------------------------------------------------------------------------------------------ the verb


def test_verb_lists_and_shows():
    """list is one line for each case, by stage if wanted; show has the bytes and what must happen."""
    code, out, err = cli("list", "--stage", "authorisation")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["H107", "H110"]
    code, out, _err = cli("show", "H001")
    assert code == 0 and "debug: entering tool handler" in out and '"stage": "json"' in out
    code, out, _err = cli("list", "--format", "json")
    assert len([json.loads(line) for line in out.splitlines()]) == len(load())


def test_verb_adds(home, tmp_path):
    """add takes the bytes from a file or stdin and prints the new ids."""
    frame = tmp_path / "frame.bin"
    frame.write_bytes(b"{@EVIL@\n")
    options = ["--title", "t", "--source", "defect a/b#1", "--stage", "json", "--dir", home]
    code, out, err = cli("add", frame, *options)
    assert (code, err) == (0, "") and len(out.split()) == 2
    code, out, err = cli("add", "-", *options, "--last", "--error-id", "7", "--code", "-32600", stdin=b"{@EVIL@")
    assert (code, err) == (0, "") and len(out.split()) == 1
    case = find(out.strip(), home)
    assert case.expect["error_id"] == {"one_of": [7]} and case.expect["code"] == -32600


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["show", "H999"], 3), (["add", "/nonexistent", "--title", "t", "--source", "s", "--stage", "json"], 2), ([], 2)],
)
def test_verb_says_what_is_wrong(arguments, status):
    """An unknown case cannot be judged (3); a request that makes no sense is a usage error (2)."""
    code, out, err = cli(*arguments)
    assert (code, out) == (status, "") and err
