# SPDX-License-Identifier: Apache-2.0
# Source this to use `pio` and `minun` as make does: under bash from anywhere, under another shell from the
# repository's root or with MINUN_ROOT set to it.
#   . scripts/env.sh
if [ -n "${BASH_SOURCE:-}" ]; then
  MINUN_ROOT="$(cd "$(dirname "$BASH_SOURCE")/.." && pwd)"
fi
if [ ! -f "${MINUN_ROOT:-.}/scripts/env.sh" ]; then
  echo "env.sh: source it from the repository's root, or set MINUN_ROOT to it" >&2
  unset MINUN_ROOT
else
  MINUN_ROOT="${MINUN_ROOT:-$(pwd)}"
  export PLATFORMIO_CORE_DIR="$MINUN_ROOT/.platformio-core"
  export PLATFORMIO_SETTING_ENABLE_TELEMETRY=no
  export PLATFORMIO_DISABLE_UPGRADE_CHECK=true
  case ":$PATH:" in
    *":$MINUN_ROOT/.venv/bin:"*) ;;
    *) export PATH="$MINUN_ROOT/.venv/bin:$PATH" ;;
  esac
fi
