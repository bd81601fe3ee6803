# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes: found, read, checked, and a clear word where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.cluster.plugins.plugin_utils._plan.sources import plan_image
from ansible_collections.gb10.cluster.plugins.plugin_utils._recipes import (
    RecipeError,
    check_recipe,
    known_recipes,
    load_recipe,
    merge,
    shipped_directory,
)

ROOT = Path(__file__).resolve().parents[4]
LAB = ROOT / "inventories" / "lab" / "recipes"
MINIMAL: dict[str, Any] = {
    "name": "mine",
    "description": "A recipe.",
    "model": {"repo": "org/model", "revision": "a" * 40, "served_name": "model", "size": 1},
    "image": {"reference": "registry.example:5000/engine:1", "ray": "included"},
    "nodes": 1,
    "tensor_parallel": 1,
    "memory": {"per_rank": 1},
    "acceptance": {"prompt": "Hello"},
}


@pytest.mark.parametrize("path", [*Path(shipped_directory()).glob("*.yml"), *LAB.glob("*.yml")], ids=lambda path: path.stem)
def test_every_recipe_is_one(path: Path) -> None:
    recipe = load_recipe(str(path), [])
    assert recipe["name"] == path.stem
    assert recipe["tensor_parallel"] * recipe["pipeline_parallel"] == recipe["nodes"]
    assert all(entry["source"].startswith("https://") for entry in recipe["measured"])


def test_the_reference_needs_what_its_utilization_says() -> None:
    recipe = load_recipe("qwen3.5-122b-a10b-fp8", [])
    arguments = recipe["engine_arguments"]
    utilization = float(arguments[arguments.index("--gpu-memory-utilization") + 1])
    larger_class = 127535084 * 1024
    assert recipe["memory"]["per_rank"] >= utilization * larger_class
    assert recipe["memory"]["per_rank"] > recipe["model"]["size"] / recipe["tensor_parallel"]
    assert recipe["image"]["digest"] and recipe["image"]["ray"] == "derive"
    assert recipe["model"]["revision"] == "a099dee70ccfcd8d5dda56aaa0b60cb8ecadabc9"


def test_the_labs_recipe_does_not_fit_the_occupied_head_and_fits_the_freed_one() -> None:
    needed = load_recipe("lab-tiny-qwen3", [str(LAB)])["memory"]["per_rank"]
    total, occupied, largest = 119 * 2**30, 104 * 2**30, 98 * 2**30
    assert total - occupied < needed < total - occupied + largest


def test_defaults() -> None:
    recipe = check_recipe(MINIMAL, "x")
    assert (recipe["backend"], recipe["pipeline_parallel"], recipe["health_timeout"]) == ("ray", 1, 1800)
    assert recipe["container"] == {"shm_size": "16g", "ulimits": ["memlock:-1:-1"]}
    assert recipe["acceptance"] == {"prompt": "Hello", "max_tokens": 32, "request": {}}
    assert recipe["image"]["digest"] is None


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"modle": {}}, r"unknown key modle \(did you mean model\?\)"),
        ({"model": {"revison": "x"}}, r"unknown key model.revison \(did you mean model.revision\?\)"),
        ({"zzz": 1}, r"unknown key zzz"),
        ({"nodes": "two"}, "unable to convert to int"),
        ({"nodes": 0}, "nodes is 0, it has to be positive"),
        ({"memory": {"per_rank": -1}}, "memory.per_rank is -1"),
        ({"model": {"revision": "main"}}, "not a full commit hash"),
        ({"image": {"digest": "sha256:1"}}, "not 'sha256:' and 64 hex digits"),
        ({"image": {"ray": "derive"}}, "ray_version"),
        ({"image": {"ray": "maybe"}}, "value of ray must be one of"),
        ({"name": "My Recipe"}, "lower-case letters"),
        ({"engine_arguments": ["--port=1"]}, "--port=1, which is set from the plan"),
        ({"engine_arguments": ["-tp", "2"]}, "-tp, which is set"),
        ({"model": None}, "model"),
    ],
)
def test_faults_are_named(overrides: dict[str, Any], text: str) -> None:
    with pytest.raises(RecipeError, match=text) as caught:
        check_recipe(merge(MINIMAL, overrides), "mine.yml")
    assert str(caught.value).startswith("mine.yml is not a recipe: ")
    assert "\n" not in str(caught.value)


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(RecipeError) as caught:
        check_recipe({"name": "x", "foo": 1}, "mine.yml")
    assert "unknown key foo" in str(caught.value)
    assert "missing required arguments" in str(caught.value)


def test_overrides_are_merged_deep_and_lists_are_replaced() -> None:
    recipe = load_recipe("qwen3.5-122b-a10b-fp8", [], {"model": {"served_name": "m"}, "engine_arguments": ["--max-model-len", 65536]})
    assert recipe["model"]["served_name"] == "m"
    assert recipe["model"]["repo"] == "Qwen/Qwen3.5-122B-A10B-FP8"
    assert recipe["engine_arguments"] == ["--max-model-len", "65536"]


def test_an_unknown_name_is_one_error_with_the_known_ones() -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("qwen3.5-122b", [str(LAB)])
    message = str(caught.value)
    assert "There is no recipe 'qwen3.5-122b'. Did you mean qwen3.5-122b-a10b-fp8?" in message
    assert "Known: lab-tiny-qwen3, qwen3.5-122b-a10b-fp8." in message


def test_the_users_directory_comes_first(tmp_path: Path) -> None:
    own = {**MINIMAL, "name": "qwen3.5-122b-a10b-fp8"}
    (tmp_path / "qwen3.5-122b-a10b-fp8.yaml").write_text(yaml.safe_dump(own))
    assert load_recipe("qwen3.5-122b-a10b-fp8", [str(tmp_path)])["description"] == "A recipe."
    assert list(known_recipes([str(tmp_path / "absent")])) == []


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(MINIMAL))
    for name in ("mine.yml", "./mine.yml", str(tmp_path / "mine.yml")):
        assert load_recipe(name, [], base=str(tmp_path))["name"] == "mine"
    with pytest.raises(RecipeError, match="there is no such file"):
        load_recipe("other.yml", [], base=str(tmp_path))


@pytest.mark.parametrize(
    ("content", "text"), [(b"- a\n", "is list, not a mapping"), (b"a: [\n", "cannot be read"), (b"\xff\xfe\x00", "cannot be read")]
)
def test_what_is_not_a_recipe(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "mine.yml").write_bytes(content)
    with pytest.raises(RecipeError, match=text):
        load_recipe("mine.yml", [], base=str(tmp_path))


@pytest.mark.parametrize(
    ("image", "backend", "pull", "run"),
    [
        ({"reference": "a.example:5000/org/engine:1"}, "ray", "a.example:5000/org/engine:1", "a.example:5000/org/engine:1"),
        ({"reference": "a.example:5000/engine", "digest": f"sha256:{'1' * 64}"}, "ray", f"a.example:5000/engine@sha256:{'1' * 64}", "gb10/mine:"),
        (
            {"reference": "engine:1", "digest": f"sha256:{'1' * 64}", "ray": "derive", "ray_version": "2.58.0"},
            "ray",
            "engine@sha256:",
            "gb10/mine-ray:",
        ),
        ({"reference": "engine:1", "ray": "derive", "ray_version": "2.58.0"}, "mp", "engine:1", "engine:1"),
    ],
)
def test_the_image(image: dict[str, Any], backend: str, pull: str, run: str) -> None:
    planned = plan_image(check_recipe(merge(MINIMAL, {"image": image}), "x"), backend)
    assert planned["pull"].startswith(pull)
    assert planned["run"].startswith(run)
    assert planned["derive"] is run.startswith("gb10/mine-ray")
    assert (planned["dockerfile"] is not None) is planned["derive"]


def test_the_derived_images_name_says_what_is_in_it() -> None:
    base = {"reference": "engine:1", "ray": "derive", "ray_version": "2.58.0"}
    names = {
        plan_image(check_recipe(merge(MINIMAL, {"image": {**base, **change}}), "x"), "ray")["run"]
        for change in ({}, {"ray_version": "2.58.1"}, {"reference": "engine:2"})
    }
    assert len(names) == 3
    dockerfile = plan_image(check_recipe(merge(MINIMAL, {"image": base}), "x"), "ray")["dockerfile"]
    assert dockerfile.startswith("FROM engine:1\n")
    assert "ray==2.58.0" in dockerfile
