"""CMSIS: a pack with the network and the runtime as components, and a csolution project that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from atonc.compiler.emit.c.names import word
from atonc.delivery.layouts import layout as ways
from atonc.delivery.layouts.layout import LICENCE, TOOL, FolderLayout, LayoutNetwork, LayoutRefusal
from atonc.delivery.layouts.runtime import runtime_files
from atonc.delivery.layouts.sample_main import sample_main
from atonc.machine.base.words import listed

VENDOR, VERSION = "atonc", "1.0.0"
SCHEMA = "1.7.28"  # of the pack description: what CMSIS-Toolbox 2.x and the IDEs of its time read
DEVICE = "STMicroelectronics::STM32N657X0HxQ"
_CLASS = "Machine Learning"

_PACK = """<?xml version="1.0" encoding="UTF-8"?>
<!-- {licence}
     Written by {tool}. Do not edit. -->
<package schemaVersion="{schema}" xmlns:xs="http://www.w3.org/2001/XMLSchema-instance"
         xs:noNamespaceSchemaLocation="PACK.xsd">
  <vendor>{vendor}</vendor>
  <name>{pack}</name>
  <description>{description}</description>
  <url></url>
  <releases>
    <release version="{version}">Written by {tool}.</release>
  </releases>
  <conditions>
    <condition id="STM32N6">
      <description>The NPU is in the STM32N6, beside a Cortex-M55.</description>
      <require Dcore="Cortex-M55"/>
    </condition>
    <condition id="Network">
      <description>A network runs on the runtime.</description>
      <require condition="STM32N6"/>
      <require Cclass="{component}" Cgroup="NPU Runtime"/>
    </condition>
  </conditions>
  <components>
    <component Cclass="{component}" Cgroup="NPU Runtime" Cversion="{version}" condition="STM32N6">
      <description>The LL_ATON interface for bare metal.</description>
      <files>
{runtime}      </files>
    </component>
    <component Cclass="{component}" Cgroup="NPU Network" Csub="{name}" Cversion="{version}" condition="Network">
      <description>{description}</description>
      <files>
{network}      </files>
    </component>
  </components>
</package>
"""

_LAYER = """# {licence}
# Written by {tool}. Do not edit.
layer:
  type: NPU
  description: The network {name} on the NPU of the STM32N6
  packs:
    - pack: {vendor}::{pack}
      path: .
  define:
{defines}  components:
    - component: {component}:NPU Runtime
    - component: {component}:NPU Network:{name}
"""

_PROJECT = """# {licence}
# Written by {tool}. Do not edit.
project:
  components:
    - component: ARM::CMSIS:CORE
    - component: Device:Startup
  groups:
    - group: Sample
      files:
        - file: main.c
  layers:
    - layer: ../{name}.clayer.yml
      type: NPU
  output:
    type:
      - elf
      - hex
"""

_SOLUTION = """# {licence}
# Written by {tool}. Do not edit.
solution:
  created-for: CMSIS-Toolbox@2.6.0
  compiler: GCC
  packs:
    - pack: ARM::CMSIS
    - pack: STMicroelectronics::STM32N6xx_DFP
    - pack: {vendor}::{pack}
      path: .
  target-types:
    - type: STM32N6
      device: {device}
  build-types:
    - type: Debug
      optimize: debug
      debug: "on"
    - type: Release
      optimize: balanced
  projects:
    - project: sample/{name}_sample.cproject.yml
"""

_README = """# {name} as a CMSIS pack

Written by {tool}; `docs/cmsis-pack.md` of atonc says more. `{vendor}.{pack}.pdsc` describes the pack,
`{name}.clayer.yml` is a layer for a csolution of your own, `{name}_sample.csolution.yml` a whole one:

    cpackget add {vendor}.{pack}.pdsc
    cbuild {name}_sample.csolution.yml --packs

Weights go into flash: {weights}.
{encryption}"""


def _files(given: LayoutNetwork) -> Mapping[str, bytes]:
    name = word(given.name)
    words = {
        **{"name": name, "pack": f"{name}_npu", "vendor": VENDOR, "version": VERSION, "schema": SCHEMA},
        **{"device": DEVICE, "component": _CLASS, "tool": TOOL, "licence": LICENCE},
        "description": escape(f"The network {given.name} for the NPU of the STM32N6"),
    }
    note = ways.encryption_note(given)
    runtime = runtime_files("runtime")
    sources = {f"network/{file}": data for file, data in given.sources.items()}
    weights = {f"weights/{word(file.rpartition('.')[0])}.bin": data for file, data in given.memory_images.items()}
    places = [f"`{path}` at {given.base_of(file):#x}" for path, file in zip(weights, given.memory_images, strict=True)]
    defines = ["LL_ATON_RT_MODE: LL_ATON_RT_ASYNC"] + (["ATONC_EC_ONLY"] if given.network.epoch_controller else [])
    texts = {
        f"{VENDOR}.{name}_npu.pdsc": _PACK.format(
            **words,
            runtime="".join(_file_lines("runtime/include/", runtime)),
            network="".join(_file_lines("network/", (*sources, *weights))),
        ),
        f"{name}.clayer.yml": _LAYER.format(**words, defines="".join(f"    - {one}\n" for one in defines)),
        f"{name}_sample.csolution.yml": _SOLUTION.format(**words),
        f"sample/{name}_sample.cproject.yml": _PROJECT.format(**words),
        "sample/main.c": sample_main(given, "#include <stdio.h>\n", "printf"),
        "README.md": _README.format(**words, weights=listed(places) or "there are none", encryption=note),
    }
    return {**{path: text.encode() for path, text in texts.items()}, **sources, **runtime, **weights}


_CATEGORIES = {".c": "source", ".h": "header"}


def _file_lines(include: str, paths: Iterable[str]) -> Iterator[str]:
    yield f'        <file category="include" name={quoteattr(include)}/>\n'
    for path in paths:
        category = _CATEGORIES.get(path[path.rfind(".") :], "other")
        yield f'        <file category="{category}" name={quoteattr(path)}/>\n'


def _refuses(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    yield from ways.refuse_ram_constants(given, "the sample copies no constants to RAM")
    yield from ways.refuse_open_places(given, "the project is linked with every address known")


LAYOUT = FolderLayout(
    name="cmsis",
    title="a CMSIS pack and a csolution project",
    page="cmsis-pack.md",
    files=_files,
    refuses=_refuses,
)
