# SPDX-License-Identifier: Apache-2.0
"""How often real layers take the exact sums at run time: the share of decisions, by model, format and layer.

    python benchmarks/slow_path.py [--data DIR] [--json]

Models and data are those of benchmarks/classic_models.py; the first 256 samples of each. The guards are the
board's conditions, evaluated on the host's codes; test/python/test_slow_path.py counts both.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).resolve().parent)]
from classic_models import MODELS, network  # noqa: E402

from minun_pio.numerics.parse import parse_format  # noqa: E402
from minun_pio.schedule.layout import lay_out  # noqa: E402
from minun_pio.simulate.assign import uniform  # noqa: E402
from minun_pio.simulate.legalise import legalise  # noqa: E402
from minun_pio.simulate.run import encode_inputs  # noqa: E402
from minun_pio.slow_path import SAMPLES, slow_paths  # noqa: E402

FORMATS = ("posit<8,0>", "posit<8,2>", "posit<16,1>", "posit<16,2>")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", default="", help="models whose name holds this")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for model in MODELS:
        if arguments.only not in model.name or not (arguments.data / model.weights).exists():
            continue
        graph = network(model, arguments.data)
        x = model.samples(arguments.data)[0][:SAMPLES]
        for name in FORMATS:
            legal = legalise(graph, uniform(graph, parse_format(name)))
            inputs = encode_inputs(graph, legal.formats, x)
            for core in ("m3", "avr"):
                for found in slow_paths(lay_out(legal, core), legal, inputs):
                    rows.append({"model": model.name, "format": name, "core": core, **found.to_json()})
    if arguments.json:
        print(json.dumps({"samples": SAMPLES, "rows": rows}, indent=1))
        return
    print("| model | format | core | layer | kernel | decisions | slow % |\n|---|---|---|---|---|---|---|")
    for row in rows:
        share = "always" if row["always"] else f"{100 * row['rate']:.2f}"
        cells = [row[key] for key in ("model", "format", "core", "layer", "variant", "decisions")]
        print(f"| {' | '.join(map(str, cells))} | {share} |")


if __name__ == "__main__":
    main()
