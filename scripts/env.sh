# SPDX-License-Identifier: Apache-2.0
# Source this from the repository's root (or set MINUN_ROOT) to use `pio` and `minun` as make does:
#   . scripts/env.sh
MINUN_ROOT="${MINUN_ROOT:-$(pwd)}"
if [ ! -f "$MINUN_ROOT/scripts/env.sh" ]; then
  echo "env.sh: source it from the repository's root" >&2
else
  export PLATFORMIO_CORE_DIR="$MINUN_ROOT/.platformio-core"
  export PLATFORMIO_SETTING_ENABLE_TELEMETRY=no
  export PLATFORMIO_DISABLE_UPGRADE_CHECK=true
  case ":$PATH:" in
    *":$MINUN_ROOT/.venv/bin:"*) ;;
    *) export PATH="$MINUN_ROOT/.venv/bin:$PATH" ;;
  esac
fi
