# SPDX-License-Identifier: Apache-2.0
# make setup    compilers, emulators, a .venv and a PlatformIO core of the repository's own (Debian 12)
# make demo     the quickstart on three virtual boards, with a table and build/demo/report.html
# make test     everything that has to hold (.ci/run)
# make lint     ruff, mypy, clang-format; make format repairs what ruff and clang-format can
# make stop     ends every virtual board of this user
# Needs the network only in setup.
SHELL := /bin/sh
SOURCES = include/minun/*.h src/*.cpp virtual/*/*.cpp virtual/*/*.h virtual/*/*.c examples/*/src/*.cpp
ENV = . ./scripts/env.sh;

.PHONY: setup demo test lint format stop clean

setup:
	@sh scripts/setup.sh

demo: setup
	@$(ENV) python scripts/demo.py

test:
	@sh .ci/run

lint: setup
	@$(ENV) ruff check . && ruff format --check . && mypy && clang-format --dry-run -Werror $(SOURCES)

format: setup
	@$(ENV) ruff check --fix . && ruff format . && clang-format -i $(SOURCES)

stop:
	@$(ENV) minun boards stop --everywhere

clean: stop
	rm -rf build .pio examples/*/.pio include/minun_models examples/*/include/minun_models
