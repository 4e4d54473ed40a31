"""Differences that are explained: the fuzzer counts them apart (see fuzz_api.py).

Each row: kinds of finding, what the line or the detail matches, and why it is no failure.
"""
from __future__ import annotations

import re
from typing import Any

KNOWN: list[tuple[str, str, str]] = []


def known(finding: dict[str, Any]) -> str:
    """Why a finding is no failure, or ''."""
    text = f"{finding['line']}\n{finding['detail']}"
    for kinds, pattern, why in KNOWN:
        if re.search(kinds, finding["kind"]) and re.search(pattern, text, re.S):
            return why
    return ""
