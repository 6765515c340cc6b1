"""Writes atonc/machine/hw/safety/data/*.json from the study of public networks: `python tools/gen_proven.py SPEC_DIR`.

SPEC_DIR holds `proven/{networks,links,chains,modes}.json`. Kept: what was seen, how often, in how many programs, how
many of them ST ships as working demos, per release, and one example each. Same input, same bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parent.parent / "atonc" / "machine" / "hw" / "safety" / "data"
RELEASES = ["2.0.0", "2.1.0", "2.2.0", "3.0.0", "4.0.0", "4.0.1", "unknown"]

# numbers whose observed range is kept per mode: sizes and shifts, not coefficients
RANGES = {
    "CONVACC": ["B", "H", "NR", "W", "W_B", "frame_elems", "kernel_buffer_NR_B_KW_KH", "shift_a", "shift_o"],
    "ARITH": ["Ax_shift", "By_shift", "C_shift", "batch", "channels", "coefficients", "pixels", "shift_o"],
    "ACTIV": ["bwidth", "shift_b", "shift_c", "shift_o"],
    "POOL": ["B", "X_B", "inputX", "inputY", "shift_o"],
    "STRENG": ["batch_depth", "fheight", "frame_elems", "frames", "fwidth"],
}

Row = list[Any]


class Compactor:
    """Rows with their evidence; networks are named by their number."""

    def __init__(self, networks: list[dict[str, Any]]) -> None:
        self.number = {network["network"]: index for index, network in enumerate(networks)}

    def evidence(self, row: dict[str, Any], count: str) -> Row:
        """[count, networks, of these shipped by ST, count per release, [example network, epoch]]"""
        unknown = set(row["releases"]) - set(RELEASES)
        if unknown:
            raise SystemExit(f"releases that this script does not know: {sorted(unknown)}")
        releases = [row["releases"].get(release, 0) for release in RELEASES]
        example = [self.number[row["example"]["network"]], row["example"]["epoch"]]
        return [row[count], row["networks"], row["networks_shipped_by_ST"], releases, example]

    def pair(self, row: dict[str, Any]) -> Row:
        ends = [row["source"], row["destination"], row["destination_port"]]
        instances = [row["instance_pairs_seen"], row["instance_pairs_possible"]]
        return [*ends, self.evidence(row, "links"), row["epochs"], instances, row["contexts"]]

    def multicast(self, row: dict[str, Any]) -> Row:
        return [row["source"], row["destinations"], self.evidence(row, "epochs")]

    def context(self, row: dict[str, Any]) -> Row:
        whole = {**row, "total": sum(row["links"].values())}
        return [row["pattern"], row["links"], row["range"], self.evidence(whole, "total")]

    def mode(self, kind: str, row: dict[str, Any]) -> Row:
        ranges = [row["range"].get(name) for name in RANGES[kind]]
        return [list(row["mode"].values()), self.evidence(row, "count"), ranges]


def write(name: str, sections: dict[str, list[Any]]) -> None:
    """One row a line, so that a change can be read."""
    parts = []
    for section, rows in sections.items():
        plain = all(isinstance(row, str) for row in rows)
        body = (", " if plain else ",\n").join(json.dumps(row, separators=(",", ":")) for row in rows)
        parts.append(f"{json.dumps(section)}: [{body}]" if plain else f"{json.dumps(section)}: [\n{body}\n]")
    (OUT / name).write_text("{\n" + ",\n".join(parts) + "\n}\n")


def write_modes(modes: dict[str, list[dict[str, Any]]], compact: Compactor) -> None:
    sections: dict[str, list[Any]] = {}
    for kind, rows in modes.items():
        sections[f"{kind} fields"] = list(rows[0]["mode"])
        sections[f"{kind} ranges"] = RANGES[kind]
        sections[kind] = [compact.mode(kind, row) for row in rows]
    write("modes.json", sections)


def write_chains(study: dict[str, Any], compact: Compactor) -> None:
    pipelines = study["pipelines"]
    number = {row["pipeline"]: index for index, row in enumerate(pipelines)}
    write(
        "chains.json",
        {
            "chains": [[row["pipeline"], compact.evidence(row, "count")] for row in pipelines],
            "topologies": [
                [[number[text] for text in row["topology"].split(" || ")], compact.evidence(row, "epochs")]
                for row in study["epoch_topologies"]
            ],
        },
    )


def main() -> None:
    folder = Path(sys.argv[1]) / "proven"
    networks, links, chains, modes = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("networks", "links", "chains", "modes")
    )
    compact = Compactor(networks)
    OUT.mkdir(parents=True, exist_ok=True)
    columns = ("network", "release", "mode", "hardware_epochs", "shipped_by_ST")
    write("networks.json", {"releases": RELEASES, "networks": [[row[name] for name in columns] for row in networks]})
    write(
        "links.json",
        {
            "pairs": [compact.pair(row) for row in links["pairs"]],
            "never_seen": links["never_seen_pairs"],
            "multicast": [compact.multicast(row) for row in links["multicast"]],
            "contexts": [compact.context(row) for row in links["context_patterns"]],
        },
    )
    write_chains(chains, compact)
    write_modes(modes["modes"], compact)


if __name__ == "__main__":
    main()
