# SPDX-License-Identifier: Apache-2.0
"""Makes the quickstart's lock files anew, after anything that changes what a build finds.

python scripts/renew_locks.py            # search again for every board, write model.lock.json
python scripts/renew_locks.py --check    # only say which lock files are not what a search finds now
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from minun_pio.board.target import KNOWN, Target
from minun_pio.build import compile_model
from minun_pio.config import read_model
from minun_pio.emit.program import to_json
from minun_pio.lock import lock_path, save

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits"
PORTENTA = Target("portenta_h7_m7", "m7", 523_624, 786_432)
TARGETS = {
    "protonn": (KNOWN["host"], KNOWN["uno"], KNOWN["stm32h747"], PORTENTA),
    "cnn": (KNOWN["host"], KNOWN["due"], KNOWN["stm32h747"], PORTENTA),
}


def renewed(name: str) -> bytes:
    """The lock file's bytes as a search makes them now, from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for part in (name, "data"):
            ignore = shutil.ignore_patterns("*.lock.json")
            shutil.copytree(DIGITS / part, Path(folder) / part, ignore=ignore)
        model = Path(folder) / name / "model.yaml"
        config = read_model(model)
        for target in TARGETS[name]:
            built = compile_model(config, target)
            save(model, target.key, config.inputs(), to_json(built.program), built.summary)
        return lock_path(model).read_bytes()


def found(lock: bytes) -> Any:
    """What a lock file holds, whatever compiler made it."""
    content = json.loads(lock or b"{}")
    for entry in content.get("targets", {}).values():
        entry.pop("compiler", None)
    return content


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    stale = []
    for name in TARGETS:
        path = lock_path(DIGITS / name / "model.yaml")
        content = renewed(name)
        old = path.read_bytes() if path.is_file() else b""
        if old == content or (arguments.check and found(old) == found(content)):
            continue
        stale.append(name)
        if not arguments.check:
            path.write_bytes(content)
    verb = "is not what a search finds now" if arguments.check else "renewed"
    for name in stale:
        print(f"examples/digits/{name}/model.lock.json {verb}")
    sys.exit(1 if stale and arguments.check else 0)


if __name__ == "__main__":
    main()
