#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Everything a fresh Debian 12 needs: compilers and emulators from apt, a .venv, PlatformIO's core of the repository's
# own. Asks for nothing that is there already; afterwards no build needs the network.
set -eu
cd "$(dirname "$0")/.."
MINUN_ROOT=$(pwd)
export MINUN_ROOT
. scripts/env.sh

packages="gcc g++ libc6-dev make python3-venv gcc-avr binutils-avr avr-libc arduino-core-avr gcc-arm-none-eabi \
binutils-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib qemu-system-arm libsimavr-dev libelf-dev \
clang clang-format cmake"
missing=""
for package in $packages; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
if [ -n "$missing" ]; then
  echo "Installing with apt:$missing"
  if [ "$(id -u)" = 0 ]; then as_root=""; elif command -v sudo >/dev/null; then as_root="sudo"; else
    echo "setup: these packages need root to install:$missing" >&2
    exit 1
  fi
  # Without a usable index the install says what is wrong; an old index is refreshed first.
  $as_root apt-get update -q || echo "setup: apt-get update failed, trying with the index there is" >&2
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -q --no-install-recommends $missing
fi

if ! [ -x .venv/bin/python ] || ! .venv/bin/python -c "import sys; sys.exit(sys.prefix == sys.base_prefix)"; then
  python3 -m venv .venv
fi
mkdir -p .stamps
stamp=".stamps/python-$(cat pyproject.toml scripts/setup.sh scripts/offline_core.py | cksum | tr ' ' '-')"
if ! [ -f "$stamp" ] || ! [ -f .platformio-core/packages/tool-scons/.piopm ] || ! [ -x .venv/bin/pio ]; then
  rm -f .stamps/python-*
  .venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]'
  .venv/bin/python scripts/offline_core.py
  touch "$stamp"
fi
