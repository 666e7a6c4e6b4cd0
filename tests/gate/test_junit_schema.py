"""The JUnit report is valid under the schema of Jenkins' xunit plugin (junit-10.xsd, MIT licence, beside this file).

Only what that schema uses of XML Schema is read: global elements, attributes with ``use`` and a pattern, choices and
sequences of references, text.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from stdout_guard.testing import artefacts, gate, junit
from stdout_guard.testing.conditions import CONDITIONS
from stdout_guard.testing.config import Expected, Plan
from stdout_guard.testing.run import Server
from stdout_guard.testing.safe import Redactor

XS = "{http://www.w3.org/2001/XMLSchema}"
SCHEMA = ET.parse(Path(__file__).parent / "junit-10.xsd").getroot()
ELEMENTS = {element.get("name"): element for element in SCHEMA.findall(f"{XS}element")}
COMPLEX = {kind.get("name"): kind for kind in SCHEMA.findall(f"{XS}complexType")}
PATTERNS = {
    kind.get("name"): kind.find(f"{XS}restriction/{XS}pattern").get("value")
    for kind in SCHEMA.findall(f"{XS}simpleType")
}


def violations(document: bytes) -> list[str]:
    """What is against the schema in ``document``, with the place."""
    root = ET.fromstring(document)
    if root.tag not in ELEMENTS:
        return [f"{root.tag}: no such document"]
    return list(_element(root, root.tag))


def _element(element: ET.Element, place: str) -> Iterator[str]:
    declared = ELEMENTS[element.tag]
    kind = declared.find(f"{XS}complexType")
    if kind is None:
        kind = COMPLEX.get(declared.get("type"), ET.Element("string", mixed="true"))
    yield from _attributes(element, kind, place)
    if kind.get("mixed") != "true" and "".join([element.text or "", *(child.tail or "" for child in element)]).strip():
        yield f"{place}: text where none may be"
    allowed = {one.get("ref"): one.get("maxOccurs", "1") for one in kind.iter(f"{XS}element")}
    many = any(group.get("maxOccurs") == "unbounded" for group in kind.iter(f"{XS}choice"))
    for child in element:
        if child.tag not in allowed:
            yield f"{place}: no {child.tag} may be in it"
        else:
            yield from _element(child, f"{place}/{child.tag}")
    for tag, most in allowed.items():
        if not many and most == "1" and len(element.findall(tag)) > 1:
            yield f"{place}: more than one {tag}"


def _attributes(element: ET.Element, kind: ET.Element, place: str) -> Iterator[str]:
    known = {one.get("name"): one for one in kind.findall(f"{XS}attribute")}
    for name, value in element.attrib.items():
        pattern = PATTERNS.get(known[name].get("type")) if name in known else None
        if name not in known:
            yield f"{place}: no attribute {name}"
        elif pattern is not None and not re.fullmatch(pattern, value):
            yield f"{place}: {name}={value!r} does not match {pattern}"
    for name, declared in known.items():
        if declared.get("use") == "required" and name not in element.attrib:
            yield f"{place}: without {name}"


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"<report/>", "no such document"),
        (b"<testsuites seconds='1'/>", "no attribute seconds"),
        (b"<testsuites><testcase name='x'/></testsuites>", "no testcase may be in it"),
        (b"<testsuite name='x' tests='1' failures='0'/>", "without errors"),
        (b"<testsuite name='x' tests='1' failures='0' errors='0' time='1e3'/>", "time='1e3' does not match"),
        (b"<testcase name='x'>words</testcase>", "text where none may be"),
        (b"<testcase name='x'><system-out><b/></system-out></testcase>", "no b may be in it"),
    ],
)
def test_the_check_itself_sees_what_is_wrong(document, complaint):
    """A schema check that cannot fail proves nothing."""
    assert any(complaint in line for line in violations(document))


def test_every_kind_of_outcome_is_valid(check, command_of, tmp_path):
    """Passed, failed, could not be tested, not tested, told only, skipped, stale, expected, corpus, attachments."""
    dirty = check("noise_at_exit", conditions=["plain", "merged", "bad-argument", "eof"], find_culprits=False)
    dirty.stale = [Expected("plain", "nan", "was mended")]
    dirty.corpus, dirty.corpus_executed = ["H001: a result", "H002: error -32600"], ["H001"]
    gate._take_expected(dirty.outcomes, [Expected("eof", "not-json", "is known")])
    dead = check("dies_at_start", conditions=["plain", "no-home"])
    skipped = gate.check(Plan(Server("clean", tuple(command_of("clean"))), (CONDITIONS["plain"],), ("start-failure",)))
    packaging = gate.ServerResult(Plan(Server("x", ()), ()), [], packaging="no such wheel")
    results = [dirty, dead, skipped, packaging]
    report = junit.render(results, Redactor(), artefacts.write(str(tmp_path), results, Redactor()))
    print(report.decode())
    assert violations(report) == []
    tags = {element.tag for element in ET.fromstring(report).iter()}
    assert tags >= {"failure", "error", "skipped", "system-out", "system-err"}


def test_the_ugliest_bytes_are_valid_too(check, servers, tmp_path):
    """Every byte there is, XML's illegal characters, a CDATA end and a long line, on both streams and in the name."""
    script = tmp_path / "ugly ]]> & \x01.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(1, {str(servers)!r})\nimport mcpbase\n"
        "ugly = bytes(range(256)) + b']]>&lt;<a>' + '\\ufffe\\uffff\\U0001f600\\u202e'.encode() + b'x' * 70000\n"
        "for line in ugly.splitlines(keepends=True) + [b'\\n']:\n    os.write(1, line), os.write(2, line)\n"
        "mcpbase.serve()\n"
    )
    result = check([sys.executable, str(script)], find_culprits=False)
    report = junit.render([result], Redactor())
    assert result.status == "broken" and violations(report) == []
