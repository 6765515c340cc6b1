"""The generated loop on this machine: who runs behind whom, and how often."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from atonc.delivery.application.c_text import loop_source
from atonc.delivery.application.read import read_application

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for this machine")

_HEADER = """#include <stdint.h>
#define APP_NETWORKS 4
typedef struct { const char *name; float per_second; int after; } app_network_t;
extern const app_network_t app_networks[APP_NETWORKS];
void app_network_run(int network);
"""
_MAIN = """#include <stdio.h>
#include "app_networks.h"
const app_network_t app_networks[APP_NETWORKS] = {
  {"a", 20.0F, -1}, {"b", 20.0F, 0}, {"c", 5.0F, 0}, {"d", 5.0F, 2},
};
static uint32_t now;
uint32_t app_milliseconds(void) { return now; }
void app_network_run(int network) { putchar(app_networks[network].name[0]); }
int app_fill_inputs(int network, uint32_t turn) { return turn < (network == 1 ? 2U : 1U); }
void app_use_outputs(int network, uint32_t turn) { (void)network; (void)turn; }
void app_loop(void);
int main(void)
{
  for (now = 0; now < 450U; now += 10U) {
    app_loop();
    if (now % 50U == 0U) putchar(' ');
  }
  return 0;
}
"""


def test_followers_run_by_their_own_rates(tmp_path: Path) -> None:
    """b twice behind every run of a, as its inputs are filled; c behind every fourth, and d behind every run of c."""
    files = {"app_networks.h": _HEADER, "main.c": _MAIN, "app_loop.c": loop_source()}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-DAPP_LOOP_BARE_METAL"]
    subprocess.run(["cc", *flags, "main.c", "app_loop.c", "-o", "app"], cwd=tmp_path, check=True)
    said = subprocess.run([str(tmp_path / "app")], check=True, capture_output=True, text=True).stdout.split()
    assert said == ["abbcd", "abb", "abb", "abb", "abbcd", "abb", "abb", "abb", "abbcd"]


def test_a_follower_has_the_rate_of_whom_it_follows(tmp_path: Path) -> None:
    says = {"c": 'after = "b"', "b": 'after = "a"', "a": "per_second = 25", "d": 'after = "a"\nper_second = 1'}
    tables = [f'[[network]]\nname = "{name}"\nmodel = "{name}.onnx"\n{more}' for name, more in says.items()]
    (tmp_path / "app.toml").write_text("\n".join(tables))
    for name in says:
        (tmp_path / f"{name}.onnx").touch()
    rates = {one.name: one.per_second for one in read_application(tmp_path / "app.toml").networks}
    assert rates == {"a": 25, "b": 25, "c": 25, "d": 1}
