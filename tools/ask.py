#!/usr/bin/env python3
"""Asks an OpenAI-compatible endpoint one question through the openai client: ask.py URL QUESTION."""

from __future__ import annotations

import os
import sys

from openai import OpenAI


def main(url: str, question: str) -> None:
    """Prints the model's name, the answer and the count of tokens."""
    client = OpenAI(base_url=url, api_key=os.environ.get("GB10_API_KEY") or "none", timeout=120, max_retries=0)
    model = client.models.list().data[0].id
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": question}], max_tokens=48)
    print(f"{model}: {answer.choices[0].message.content!r}")
    print(f"({answer.usage.completion_tokens if answer.usage else '?'} tokens; the lab's model has two layers and knows one sentence)")


if __name__ == "__main__":
    main(*sys.argv[1:3])
