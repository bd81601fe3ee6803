# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import string

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._redact import REDACTED, redact_file, redact_text
from hypothesis import given
from hypothesis import strategies as st

TOKEN = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('DGX_NAME="DGX Spark"\nDGX_SERIAL_NUMBER="1980000000001"\n', "1980000000001"),
        ("DGX_SERIAL_NUMBER=1980000000001\n", "1980000000001"),
        ("Serial Number: S8AA0A0A000000\n", "S8AA0A0A000000"),
        (f"token is {TOKEN} here", TOKEN),
        ("Authorization: Bearer abc.def-123\n", "abc.def-123"),
        ("OPENAI_API_KEY=swordfish-1\nPATH=/bin\n", "swordfish-1"),
        ("vllm serve --api-key swordfish --port 8000", "swordfish"),
        ("https://user:swordfish@registry.example/v2/", "swordfish"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n", "b3BlbnNzaC1rZXk"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEcut", "MIIEcut"),
        ("\tSerial Number: To Be Filled By X9 Corp\n", "Filled"),
        ("    Serial Number                         : 1320123456789\n", "1320123456789"),
        ("sn        : S4EVNX0R123456\n", "S4EVNX0R123456"),
        ("\tUUID: 03000200-0400-0500-0006-000700080009\n", "03000200"),
        ('password: "sword fish"\n', "fish"),
        ("key AKIAIOSFODNN7EXAMPLE here", "AKIAIOSFODNN7EXAMPLE"),
        ("jwt eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2 end", "SflKxwRJSMeKKF2"),
        ("sk-proj-abcdefghijklmnop1234", "abcdefghijklmnop1234"),
        ("RAY_AUTH_TOKEN_PATH=swordfish", "swordfish"),
        ('{"Env":["RAY_AUTH_TOKEN_PATH=swordfish"]}', "swordfish"),
        ('{"key_file_token":"/swordfish","access_key_path":"swordfish"}', "swordfish"),
    ],
)
def test_text(text: str, secret: str) -> None:
    redacted = redact_text(text)
    assert secret not in redacted
    assert REDACTED in redacted


@pytest.mark.parametrize(
    "text",
    [
        'DGX_NAME="DGX Spark"\nDGX_OTA_VERSION="7.6.0"\n',
        "f\t5\t1\tuser\thub/models--org--sk-learn-tokenizer-key/snapshots/abc/tokenizer.json\n",
        "console=tty0 plymouth.ignore-serial-consoles crashkernel=1G-:0M",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINaBp7XMamQ0pEiKngLsj0fBsPHEgSy4s root@spark",
        "0, NVIDIA GB10, 0000000F:01:00.0, 580.142, 12.1, 36, 0 %, 4.12 W, [N/A]\n",
        "RAY_AUTH_TOKEN_PATH=/run/gb10/ray-token NETRC_PASSWORD_FILE=~/.netrc-password",
        '{"Env":["RAY_AUTH_TOKEN_PATH=/run/gb10/ray-token"],"token_dir":"~/tokens"}',
        "",
    ],
)
def test_what_facts_need_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("path", ["/sys/class/dmi/id/product_serial", "/sys/class/nvme/nvme0/serial", "/sys/class/dmi/id/product_uuid"])
def test_files_that_are_a_serial_number(path: str) -> None:
    assert redact_file(path, "S4EVNX0R123456\n") == "REDACTED\n"


def test_other_files() -> None:
    assert redact_file("/sys/class/dmi/id/product_name", "GX10\n") == "GX10\n"
    assert redact_file("/etc/dgx-release", "DGX_SERIAL_NUMBER=1980\n") == "DGX_SERIAL_NUMBER=REDACTED\n"


def test_docker_inspect() -> None:
    inspect = [
        {
            "Args": ["serve", "--api-key", "swordfish", "--hf-token=swordfish", "--port", "8000"],
            "Config": {
                "Env": ["HF_TOKEN=swordfish", "MY_SECRET_THING=sword=fish", "DB_PASSWORD=sword fish", "NCCL_NET=IB", "AWS_ACCESS_KEY_ID=swordfish"],
                "Labels": {"gb10.deployment": "x", "api_key": "swordfish", "cache.key": "788acd"},
            },
        }
    ]
    redacted = redact_text(json.dumps(inspect))
    assert "swordfish" not in redacted and "fish" not in redacted
    (row,) = json.loads(redacted)
    assert row["Args"] == ["serve", "--api-key", REDACTED, f"--hf-token={REDACTED}", "--port", "8000"]
    assert row["Config"]["Env"][3] == "NCCL_NET=IB"
    assert row["Config"]["Labels"] == {"gb10.deployment": "x", "api_key": REDACTED, "cache.key": "788acd"}


def test_json_lines() -> None:
    redacted = redact_text('{"Name":"a","token":"swordfish"}\n{"Name":"b"}\nHF_TOKEN=swordfish\n')
    assert "swordfish" not in redacted
    assert json.loads(redacted.splitlines()[1]) == {"Name": "b"}


def test_json_cut_off_is_still_redacted() -> None:
    assert "swordfish" not in redact_text('[{"Env": ["HF_TOKEN=swordfish", "A=b"], "Args": ["--api-key=swordfish"')


SECRETS = st.text(string.ascii_letters + string.digits, min_size=20, max_size=40)
PLACES = [
    "hf_{}",
    "HF_TOKEN={}\nPATH=/bin\n",
    "vllm serve model --api-key {} --port 8000",
    "vllm serve model --api-key={}",
    "Authorization: Bearer {}\n",
    "https://user:{}@registry.example/v2/",
    'DGX_SERIAL_NUMBER="{}"\n',
    "Serial Number: {}\n",
    '[{{"Config": {{"Env": ["VLLM_API_KEY={}", "A=b"]}}}}]',
    '[{{"Args": ["serve", "--hf-token", "{}", "x"], "Path": "vllm"}}]',
    '{{"SerialNumber": "{}", "Name": "a"}}\n{{"Name": "b"}}\n',
    '{{"HttpProxy": "http://user:{}@proxy:3128"}}',
]


@pytest.mark.parametrize("place", PLACES)
@given(secret=SECRETS)
def test_no_secret_of_any_look_gets_through(place: str, secret: str) -> None:
    redacted = redact_text(place.format(secret))
    assert secret not in redacted
    assert redact_text(redacted) == redacted


@given(text=st.text())
def test_any_text(text: str) -> None:
    assert redact_text(redact_text(text)) == redact_text(text)
