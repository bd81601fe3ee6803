# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must not leave a node: secrets and serial numbers."""

from __future__ import annotations

import json
import re
from typing import Any

REDACTED = "REDACTED"

_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
# In a map a bare "key" is seldom a secret: a label's or a sandbox's name.
_SECRET_FIELD = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(?:API|ACCESS|PRIVATE)[_-]?KEY|SERIAL", re.IGNORECASE)
# RAY_AUTH_TOKEN_PATH=/etc/...: where a secret is may be known.
_PLACE_NAME = re.compile(r"_(?:PATH|FILE|DIR)$", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"^--?[\w-]*(?:token|api-?key|secret|password|passwd)$", re.IGNORECASE)
_SECRET_OPTION_VALUE = re.compile(r"^(--?[\w-]*(?:token|api-?key|secret|password|passwd)=).+$", re.IGNORECASE | re.DOTALL)

_SERIAL_LINE = "Serial Number|Asset Tag|UUID|GPU UUID|sn|password|psk"

# Value patterns, for text of any tool. The order matters: blocks first, then names, then bare tokens.
_TEXT = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), REDACTED),
    # Of a line that is nothing but a serial number all of it goes, blanks and all: dmidecode, nvidia-smi -q, nvme id-ctrl; passwords in YAML.
    (re.compile(rf"^([ \t]*(?:[A-Za-z]+ )?(?:{_SERIAL_LINE})[ \t]*: *)\S.*$", re.MULTILINE), rf"\g<1>{REDACTED}"),
    (re.compile(r"(serial[ _]?(?:number|no)?[\"']?[ \t]*[:=][ \t]*[\"']?)[^\s\"',]+", re.IGNORECASE), rf"\g<1>{REDACTED}"),
    (re.compile(r"(\b(?!\w*_(?:PATH|FILE|DIR)=~?/)\w*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD)\w*=)[^\s\"'\\,]+"), rf"\g<1>{REDACTED}"),
    (re.compile(r"(?<![\w/.-])(--?[\w-]*(?:token|api-?key|secret|password|passwd)[= ])[^\s\"'\\]+"), rf"\g<1>{REDACTED}"),
    (re.compile(r"(\bBearer\s+)[^\s\"'\\]+", re.IGNORECASE), rf"\g<1>{REDACTED}"),
    (re.compile(r"\b(?:hf_|nvapi-|ghp_|gho_|glpat-|sk-(?:proj-|ant-)?)[A-Za-z0-9_]{16,}"), REDACTED),
    (re.compile(r"\b(?:AKIA[A-Z0-9]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})"), REDACTED),
    (re.compile(r"(://[^/\s:@\"']+:)[^/\s@\"']+@"), rf"\g<1>{REDACTED}@"),
)


# Files that hold a serial number and nothing else.
_SERIAL_FILE = re.compile(r"(?:^|/|_)(?:serial|uuid|vpd|asset_tag)$")


def redact_file(path: str, content: str) -> str:
    """A file's content; there are files whose name is all that says what stands in them."""
    return f"{REDACTED}\n" if _SERIAL_FILE.search(path) and content.strip() else redact_text(content)


def redact_text(text: str) -> str:
    """Text with its secrets replaced; JSON keeps its shape."""
    stripped = text.lstrip()
    if stripped[:1] in ("{", "["):
        try:
            return json.dumps(_redact_value(json.loads(text)), ensure_ascii=False, separators=(",", ":"))
        except ValueError:
            return "\n".join(_redact_line(line) for line in text.split("\n"))
    return _redact_string(text)


def _redact_line(line: str) -> str:
    """A line of JSON lines, or of any text."""
    if line[:1] in ("{", "["):
        try:
            return json.dumps(_redact_value(json.loads(line)), ensure_ascii=False, separators=(",", ":"))
        except ValueError:
            return _redact_string(line)
    return _redact_string(line)


def _redact_string(text: str) -> str:
    for pattern, replacement in _TEXT:
        text = pattern.sub(replacement, text)
    return text


def _redact_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: REDACTED if _hides(name, entry) else _redact_value(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return _redact_list(value)
    if isinstance(value, str):
        name, separator, rest = value.partition("=")
        if separator and name.isidentifier() and _SECRET_NAME.search(name) and not _is_place(name, rest):
            return f"{name}={REDACTED}"
        return _redact_string(value)
    return value


def _hides(name: str, value: Any) -> bool:
    """A map's entry whose name says secret or serial: labels, options, device attributes."""
    if not isinstance(value, str) or not value:
        return False
    return bool(_SECRET_FIELD.search(name)) and not _is_place(name, value)


def _is_place(name: str, value: str) -> bool:
    return bool(_PLACE_NAME.search(name)) and value.startswith(("/", "~/"))


def _redact_list(values: list[Any]) -> list[Any]:
    """An argv or an environment: the word after `--api-key` is as secret as `--api-key=…`."""
    result: list[Any] = []
    hide_next = False
    for value in values:
        if hide_next and isinstance(value, str):
            result.append(REDACTED)
            hide_next = False
            continue
        if isinstance(value, str):
            hide_next = bool(_SECRET_OPTION.match(value))
            value = _SECRET_OPTION_VALUE.sub(rf"\g<1>{REDACTED}", value)
        result.append(_redact_value(value))
    return result
