#!/usr/bin/python
# Copyright (c) 2026 the gb10.cluster authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask an OpenAI-compatible endpoint for a real completion, and measure it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_info
short_description: Ask an OpenAI-compatible endpoint for a real completion, and measure it
version_added: 0.1.0
description:
  - Lists the served models and asks one for a completion, as a stream, so that the time to the first token and the speed are measured.
  - A completion is the only proof that an engine works. C(/health) and open ports are never asked; they have been seen to lie both ways.
  - With O(wait) it keeps asking until a completion comes, says every ten seconds or so what the engine is doing, and stops waiting at
    once when O(unit) has failed.
options:
  url:
    description:
      - Base URL of the API, up to and including C(/v1).
    type: str
    required: true
  api_key:
    description:
      - API key, sent as bearer token.
    type: str
  model:
    description:
      - Model to ask. By default the first one that is served.
      - A model that is not served is an error that names those that are.
    type: str
  prompt:
    description:
      - What to ask.
    type: str
    default: Say in one sentence what you are.
  max_tokens:
    description:
      - Limit of the answer in tokens. An answer that is cut there is a good answer, also one that is all reasoning.
    type: int
    default: 32
  parameters:
    description:
      - More fields of the request, such as C(temperature), or C(chat_template_kwargs) with which some models can be told not to think.
    type: dict
    default: {}
  completion:
    description:
      - Whether to ask for a completion. With V(false) only the models are listed, which proves that the API's process runs and nothing more.
    type: bool
    default: true
  timeout:
    description:
      - Seconds for one completion, from the request to its last token. The first one after a start may compile for a minute.
    type: int
    default: 120
  wait:
    description:
      - Seconds to keep trying until a completion comes. With V(0) there is one attempt.
      - Waiting ends early where it cannot help, such as a wrong API key, a model that is not served, or a failed O(unit).
    type: int
    default: 0
  unit:
    description:
      - systemd unit of the engine on the host where the module runs. Waiting ends at once when it has failed or is stopped.
    type: str
  container:
    description:
      - Container of the engine on the host where the module runs. Its log tells what the engine is doing, and why it failed.
      - Without O(unit), waiting ends at once when the container has ended.
    type: str
  label:
    description:
      - What the progress lines begin with. By default V(Waiting for URL).
    type: str
  validate_certs:
    description:
      - Whether to check the certificate of a URL with https.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Asks as always; nothing is changed by it.
  diff_mode:
    support: none
    description: Nothing is changed.
  platform:
    platforms: posix
    support: full
    description: O(unit) needs systemd, O(container) the docker command.
  facts:
    support: none
    description: Returns information, not facts.
  action:
    support: full
    description: Has an action plugin on the controller that waits and shows progress.
author:
  - The gb10.cluster engineers (@gb10)
notes:
  - No proxy is used, whatever the environment says.
  - Reading the container's log needs a user who may use Docker, reading the unit's journal one who may read the journal. Without, the
    module works and says less.
"""

EXAMPLES = r"""
- name: Wait for the first completion
  gb10.cluster.endpoint_info:
    url: http://192.168.1.10:8000/v1
    api_key: "{{ gb10_api_key | default(omit) }}"
    model: qwen3.5-122b
    wait: 1800
    timeout: 300
    unit: gb10-vllm.service
    container: gb10-vllm
    parameters: {chat_template_kwargs: {enable_thinking: false}}
  register: answer

- name: Say how fast it was
  ansible.builtin.debug:
    msg: "{{ answer.completion.tokens_per_second | default('too short to measure') }} tokens/s"

- name: List the models
  gb10.cluster.endpoint_info:
    url: http://192.168.1.10:8000/v1
    completion: false
"""

RETURN = r"""
url:
  description: The URL that was asked.
  returned: always
  type: str
models:
  description: Ids of the served models.
  returned: when the API listed them
  type: list
  elements: str
  sample: [qwen3.5-122b]
model:
  description: The model that was asked.
  returned: when a completion came
  type: str
completion:
  description: The answer and its measures.
  returned: when a completion came
  type: dict
  contains:
    text:
      description: What the model said.
      type: str
    reasoning:
      description: What the model thought, where the engine separates it.
      type: str
    finish_reason:
      description: Why it ended, V(stop) or V(length).
      type: str
    prompt_tokens:
      description: Tokens of the prompt, absent where the engine does not count them.
      type: int
    completion_tokens:
      description: Tokens of the answer with its reasoning; the number of streamed pieces where the engine does not count them.
      type: int
    seconds:
      description: Seconds from the request to the end of the answer.
      type: float
    time_to_first_token:
      description: Seconds from the request to the first token. Absent where no token was visible.
      type: float
    tokens_per_second:
      description: Tokens per second after the first one. Absent for answers that are too short to measure.
      type: float
waited:
  description: Seconds until the completion came, all attempts included.
  returned: success
  type: float
reason:
  description:
    - Kind of failure.
    - One of V(refused), V(unreachable), V(timeout), V(unauthorized), V(model_unknown), V(bad_request), V(server_error), V(not_api), V(tls),
      V(empty) and V(ended).
  returned: failure
  type: str
retry:
  description: Whether waiting longer may help.
  returned: failure
  type: bool
activity:
  description: What the engine is doing, by the last meaningful line of its log. Empty if that is not known.
  returned: failure
  type: str
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.module_utils._endpoint import (
    ARGUMENT_SPEC,
    LISTING_SECONDS,
    Endpoint,
    EndpointError,
    unknown_model,
)
from ansible_collections.gb10.cluster.plugins.module_utils._engine_log import activity, first_error, merged, tail
from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, TimedOut, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._job import parse_properties
from ansible_collections.gb10.cluster.plugins.module_utils._runner import LiveRunner
from ansible_collections.gb10.cluster.plugins.module_utils._words import redact, screen_lines

PAUSE = 2.0
COMMAND_SECONDS = 10.0
LOG_LINES = 400
SHOWN_LINES = 15


class Engine:
    """The process behind the endpoint, as far as this host lets us look at it."""

    def __init__(self, module: AnsibleModule) -> None:
        self._runner = LiveRunner(module)
        self._unit: str | None = module.params["unit"]
        self._container: str | None = module.params["container"]

    def _ask(self, *argv: str) -> tuple[bool, str, str]:
        """Whether a command succeeded, and what it printed. If it could not even run, that is said in place of its words."""
        try:
            answer = self._runner.command(argv, COMMAND_SECONDS)
        except (Unavailable, TimedOut, Failed) as error:
            return False, "", str(error)
        return answer.rc == 0, answer.stdout, answer.stderr

    def log(self) -> list[str]:
        """The newest lines of the container's log, or of the unit's journal."""
        read, lines = False, []
        if self._container:
            read, stdout, stderr = self._ask("docker", "logs", "--timestamps", "--tail", str(LOG_LINES), self._container)
            lines = merged(stdout, stderr)
        if self._unit and not (read and lines):
            # A container that cannot be read or never lived: its unit knows why.
            lines += screen_lines(self._ask("journalctl", "--no-pager", "-o", "cat", "-n", "50", "-u", self._unit)[1])
        return lines

    def ended(self) -> str:
        """Why nothing will come any more, empty while something may."""
        return self._unit_ended() if self._unit else self._container_ended()

    def _container_ended(self) -> str:
        """Without a unit there is nobody to start it again, unless Docker does (then it is restarting, not exited)."""
        if not self._container:
            return ""
        shown = "{{.State.Status}} {{.State.ExitCode}}"
        read, stdout, stderr = self._ask("docker", "inspect", "--type", "container", "--format", shown, self._container)
        status, _blank, code = stdout.strip().partition(" ")
        if status in ("exited", "dead"):
            return f"The container {self._container} has ended with exit code {code}."
        if not read and "no such container" in stderr.lower():
            return f"There is no container {self._container} on this node."
        return ""

    def _unit_ended(self) -> str:
        wanted = "LoadState,ActiveState,Result,ExecMainStatus,NRestarts"
        state = parse_properties(self._ask("systemctl", "show", f"--property={wanted}", str(self._unit))[1])
        if state.get("LoadState") == "not-found":
            return f"There is no unit {self._unit} on this node."
        if state.get("ActiveState") == "failed":
            return (
                f"{self._unit} has failed ({state.get('Result', 'unknown')}, exit code {state.get('ExecMainStatus', '?')}, "
                f"{state.get('NRestarts', '0')} restarts)."
            )
        if state.get("ActiveState") == "inactive":
            return f"{self._unit} is not running."
        return ""


def attempt(endpoint: Endpoint, params: dict[str, Any], known: dict[str, Any]) -> None:
    """One look at the endpoint; what it tells goes to `known`."""
    known["models"] = endpoint.models(min(LISTING_SECONDS, params["timeout"]))
    if not params["completion"]:
        return
    model = params["model"] or next(iter(known["models"]), "")
    if model not in known["models"]:
        raise unknown_model(endpoint.url, model, known["models"])
    answer = endpoint.complete(model, params["prompt"], params["max_tokens"], params["timeout"], params["parameters"])
    known.update(model=model, completion=answer.to_dict())


def fail(module: AnsibleModule, error: EndpointError, ended: str, lines: list[str], known: dict[str, Any]) -> None:
    secrets = [module.params["api_key"] or ""]
    message = [f"{ended} {error.found}".strip(), f"What to do: {error.remedy}"]
    cause = first_error(lines)
    if cause:
        message.append(f"The first error in its log: {cause}")
    if lines:
        source = module.params["container"] or module.params["unit"]
        message.append(f"The last lines of {source}:")
        message += [f"  {line[:200]}" for line in tail(lines, SHOWN_LINES)]
    module.fail_json(
        msg=redact("\n".join(message), secrets),
        reason="ended" if ended else error.reason,
        retry=error.retry and not ended,
        activity=redact(activity(lines), secrets),
        **known,
    )


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    params = module.params
    endpoint = Endpoint(params["url"], params["api_key"], params["validate_certs"])
    engine = Engine(module)
    started = time.monotonic()
    known: dict[str, Any] = {"url": endpoint.url}
    while True:
        try:
            attempt(endpoint, params, known)
        except EndpointError as error:
            ended = engine.ended()
            if ended or not error.retry or time.monotonic() - started + PAUSE > params["wait"]:
                fail(module, error, ended, engine.log(), known)
            time.sleep(PAUSE)
            continue
        module.exit_json(changed=False, waited=round(time.monotonic() - started, 1), **known)


if __name__ == "__main__":
    main()
