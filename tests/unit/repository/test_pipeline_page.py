"""docs/pipeline.md: the manifest is YAML, and its flags and variables are those that the command knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from headwater.cli.main import load_command
from headwater.settings import ENV_PREFIX, Settings
from headwater.streaming.spark.session import parse_conf

PAGE = (Path(__file__).parent.parent.parent.parent / "docs" / "pipeline.md").read_text()


def manifest() -> dict[str, Any]:
    """By kind."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def test_the_manifest_gives_the_stream_its_settings() -> None:
    pod = manifest()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    name, *words = container["args"]
    command = load_command(name)
    command.make_context(name, list(words), resilient_parsing=True)
    given = {one["name"]: one for one in container["env"]}
    assert {variable.removeprefix(ENV_PREFIX).lower() for variable in given} <= set(Settings.__struct_fields__)
    assert "value" not in given["HEADWATER_STORE"], "the password is a secret"
    conf = parse_conf(given["HEADWATER_SPARK_CONF"]["value"])
    ports = {str(one["port"]) for one in manifest()["Service"]["spec"]["ports"]}
    assert {conf["spark.driver.port"], conf["spark.blockManager.port"], words[words.index("--port") + 1]} == ports
    assert conf["spark.kubernetes.container.image"] == container["image"]
    assert pod["serviceAccountName"] == conf["spark.kubernetes.authenticate.serviceAccountName"]


def test_the_command_for_yarn_names_settings_that_there_are() -> None:
    (block,) = [text for text in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) if "--master yarn" in text]
    names = set(re.findall(r"--set '?(\w+)=", block))
    assert names and names <= set(Settings.__struct_fields__)
    (conf,) = re.findall(r"--set 'spark_conf=(.*?)'", block, re.DOTALL)
    assert parse_conf(conf)["spark.yarn.queue"] == "maintenance"
