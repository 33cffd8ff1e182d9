// SPDX-License-Identifier: Apache-2.0
// The suite of `pio test`. It adds nothing: the firmware in src/ is built and uploaded as it is (test_build_src), and
// ../test_custom_runner.py checks the board over its serial port. PlatformIO wants one source file here.
