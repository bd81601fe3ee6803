# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a command is, by what it printed."""

from __future__ import annotations

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._progress import Meter, Progress, parse_clock, parse_progress, parse_size
from hypothesis import given
from hypothesis import strategies as st

# Machine output, cut. rsync 3.5.0 and GNU dd 9.1 on Debian 12, tqdm 4 on Python 3.11, 2026-11-30, this project's own machine.
RSYNC = (
    "\r         32,768   0%    0.00kB/s    0:00:00  \r     60,194,816  12%   53.87MB/s    0:00:07  "
    "\r    157,286,400  33%   55.98MB/s    0:00:02 (xfr#1, to-chk=2/4)\r    251,461,632  53%   56.59MB/s    0:00:03  "
)
RSYNC_END = RSYNC + "\r    471,859,200 100%   58.20MB/s    0:00:07 (xfr#3, to-chk=0/4)\n"
DD = "\r210763776 bytes (211 MB, 201 MiB) copied, 2 s, 96.6 MB/s\r315621376 bytes (316 MB, 301 MiB) copied, 3 s, 97.5 MB/s"
DD_END = DD + "\n600+0 records in\n600+0 records out\n629145600 bytes (629 MB, 600 MiB) copied, 6.27793 s, 100 MB/s\n"
TQDM = (
    "\rmodel-00001-of-00039.safetensors:   0%|          | 0.00/5.00G [00:00<?, ?B/s]"
    "\rmodel-00001-of-00039.safetensors:  12%|█▏        | 600M/5.00G [00:00<00:04, 936MB/s] "
    "\rmodel-00001-of-00039.safetensors:  42%|████▏     | 2.10G/5.00G [00:02<00:03, 829MB/s]"
)
TQDM_FILES = "\rFetching 47 files:  17%|█▋        | 8/47 [00:00<00:01, 33.15it/s]\rFetching 47 files:  43%|████▎     | 20/47 [00:00<00:00, 32.77it/s]"
SHARDS = "\rLoading safetensors checkpoint shards:  40% Completed | 2/5 [00:00<00:00,  4.99it/s]"
# docker 20.10 without a terminal, names of layers replaced.
PULL = """v0.27.1: Pulling from vllm/vllm-openai
a1b2c3d4e5f6: Pulling fs layer
b1b2c3d4e5f6: Pulling fs layer
c1b2c3d4e5f6: Pulling fs layer
d1b2c3d4e5f6: Already exists
b1b2c3d4e5f6: Verifying Checksum
b1b2c3d4e5f6: Download complete
a1b2c3d4e5f6: Download complete
a1b2c3d4e5f6: Pull complete
"""
BUILDX = """#1 [internal] load build definition from Dockerfile
#1 DONE 0.0s
#5 [2/3] RUN pip install ray==2.58.0
#5 1.205 Collecting ray==2.58.0
#5 7.803 Installing collected packages: msgpack, ray
"""
CLASSIC = "Step 1/3 : FROM debian\n ---> 5a2b\nStep 2/3 : RUN pip install ray\n"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (RSYNC, "53 % of 474.5 MB, 59 MB/s, 3 s left"),
        (RSYNC_END, "100 % of 471.9 MB, 61 MB/s"),
        (DD, "315.6 MB, 98 MB/s"),
        (DD_END, "629.1 MB, 100 MB/s"),
        (TQDM, "model-00001-of-00039.safetensors: 42 % of 5.0 GB, 829 MB/s, 3 s left"),
        (TQDM_FILES, "Fetching 47 files: 20 of 47, 0 s left"),
        (SHARDS, "Loading safetensors checkpoint shards: 2 of 5, 0 s left"),
        (PULL, "2 of 4 layers"),
        (PULL + "Digest: sha256:abc\nStatus: Downloaded newer image for x\n", "Status: Downloaded newer image for x"),
        (BUILDX, "step 2 of 3: Installing collected packages: msgpack, ray"),
        (BUILDX + "#6 exporting to image\n", "step 2 of 3: exporting to image"),
        (CLASSIC, "step 2 of 3: RUN pip install ray"),
        (CLASSIC + "Installing collected packages: msgpack, ray\n", "step 2 of 3: Installing collected packages: msgpack, ray"),
        ('{"done": 42, "total": 100, "rate": 2, "remaining": 29}\n', "42 % of 100 B, 2 B/s, 29 s left"),
        ('{"done": 12, "total": 47, "unit": "files", "message": "Fetching"}\n', "Fetching: 12 of 47 files"),
        ('{"done": 5}\n', "5 B"),
        ('{"done": 5, "total"', '{"done": 5, "total"'),
        ("Unpacking things\nSetting up python3\n\n", "Setting up python3"),
    ],
)
def test_what_is_said(log: str, said: str) -> None:
    progress = parse_progress(log)
    assert progress is not None
    assert progress.words() == said


@pytest.mark.parametrize("log", ["", "\n\r\n", "\x1b[2K\r"])
def test_silence_is_no_progress(log: str) -> None:
    assert parse_progress(log) is None


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    progress = parse_progress(text)
    assert progress is None or isinstance(progress.words(), str)


@given(st.lists(st.sampled_from([RSYNC, DD, TQDM, PULL, BUILDX, SHARDS, "42%|", "{}", '{"done": true}', "\r", "\n"])), st.integers(0, 200))
def test_a_tail_may_begin_anywhere(parts: list[str], cut: int) -> None:
    progress = parse_progress("".join(parts)[cut:])
    assert progress is None or Progress.from_dict(progress.to_dict()) == progress


@pytest.mark.parametrize(
    ("text", "base", "value"),
    [
        ("1,238,099", 1024, 1238099),
        ("2.10G", 1000, 2.1e9),
        ("31.25MB", 1024, 31.25 * 1024**2),
        ("512 MiB", 1000, 512 * 1024**2),
        ("1,5k", 1000, 1500),
        ("nonsense", 1000, None),
        ("1.2.3", 1000, None),
    ],
)
def test_size(text: str, base: int, value: float | None) -> None:
    assert parse_size(text, base) == value


@pytest.mark.parametrize(("text", "seconds"), [("00:14", 14), ("0:03:12", 192), ("1-02:00:00", 93600), ("?", None)])
def test_clock(text: str, seconds: float | None) -> None:
    assert parse_clock(text) == seconds


def test_a_known_total_gives_percent_and_time() -> None:
    progress = Progress(done=1e9, rate=1e8).with_total(4_000_000_000)
    assert progress.words() == "25 % of 4.0 GB, 100 MB/s, 30 s left"
    assert Progress(done=3.0, unit="layers").with_total(10).total is None


class TestMeter:
    def test_adds_the_speed_that_the_command_does_not_give(self) -> None:
        meter = Meter()
        assert meter.line(0, Progress(done=0, total=100e9, percent=0)) == "0 % of 100.0 GB"
        assert meter.line(10, Progress(done=5e9, total=100e9, percent=5)) == "5 % of 100.0 GB, 500 MB/s, 3 min left"

    def test_says_nothing_twice(self) -> None:
        meter = Meter()
        assert meter.line(1, Progress(message="busy")) == "busy"
        assert meter.line(6, Progress(message="busy")) is None
        assert meter.line(7, Progress(message="done")) == "done"

    def test_says_less_the_longer_it_takes(self) -> None:
        meter = Meter()
        said = [now for now in range(0, 3600, 5) if meter.line(now, Progress(message=f"at {now}"))]
        assert [now for now in said if now < 60] == list(range(0, 60, 5))
        assert 60 <= len(said) < 140
        assert said[-1] - said[-2] == 60

    def test_breaks_a_long_silence(self) -> None:
        meter = Meter()
        meter.line(0, Progress(message="compiling"))
        assert meter.line(59, Progress(message="compiling")) is None
        assert meter.line(60, Progress(message="compiling")) == "compiling (no news, 60 s in all)"
        assert meter.line(65, None) is None
        assert Meter().line(61, None) == "no output yet (no news, 61 s in all)"

    def test_a_second_file_starts_its_own_speed(self) -> None:
        meter = Meter()
        meter.line(0, Progress(done=1e9))
        meter.line(10, Progress(done=2e9))
        assert meter.line(20, Progress(done=1e6)) == "1.0 MB"
