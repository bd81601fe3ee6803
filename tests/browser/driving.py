# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A headless Chromium and the few things that the tests do with it. Without one they fail: tools/browser.sh installs it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRIVERS = ("chromedriver", "chromium.chromedriver")


def program(names: tuple[str, ...]) -> str:
    found = next((path for path in map(shutil.which, names) if path), None)
    if not found:
        pytest.fail(f"None of {', '.join(names)} is installed here. Run tools/browser.sh, which installs or says what is missing.", pytrace=False)
    return found


class Browser:
    """The few things that the tests do with a browser."""

    def __init__(self, driver: webdriver.Chrome, folder: Path) -> None:
        self.driver = driver
        self._folder = folder

    def cdp(self, command: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.driver.execute_cdp_cmd(command, arguments)
        return answer

    def js(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def media(self, scheme: str = "light", kind: str = "screen") -> None:
        self.cdp("Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, html: str, width: int = 1280, scheme: str = "light") -> str:
        """Show the page at this width; its URL. What was logged before is forgotten."""
        path = self._folder / "report.html"
        path.write_text(html, encoding="utf-8")
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.media(scheme)
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(path.as_uri())
        return path.as_uri()

    def requests(self) -> list[str]:
        """URLs that were asked for since the page was opened, whether they were answered or not."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def unfold(self) -> None:
        self.js("document.querySelectorAll('details').forEach(one => one.open = true)")


def start() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = program(BROWSERS)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for argument in ("--headless=new", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        # Chromium refuses to sandbox what root runs; the page is our own file.
        options.add_argument("--no-sandbox")
    return webdriver.Chrome(options=options, service=Service(program(DRIVERS)))
