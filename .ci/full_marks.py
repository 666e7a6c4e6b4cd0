"""Fail unless every scored case of a report is protected and full."""

import json
import sys
from pathlib import Path

report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
rows = [row for row in report["rows"] if row["status"] == "run"]
scored = [row for row in rows if not row["detect_only"]]
short = [row["name"] for row in scored if not row["full"]]
print(f"{len(scored) - len(short)} of {len(scored)} cases full; short: {', '.join(short) or 'none'}")
sys.exit(1 if short or not scored else 0)
