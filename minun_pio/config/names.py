# SPDX-License-Identifier: Apache-2.0
"""Names that a model cannot have: it becomes a C++ namespace and `<name>.h` on the include path."""

from __future__ import annotations

import re

_CPP_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl
    const const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
_HEADERS = """
    alloca arduino assert availability binary chip client complex conio cpio crtdefs ctype direct dirent
    eeprom endian errno fcntl features fenv float ftw getopt glob ieeefp intrin io iconv inttypes ipaddress
    iso646 itoa libgen limits locale malloc math memory minun_models monetary netdb new newlib pgmspace
    pinout poll print printable process pthread pwd reent regex sched search server servo setjmp share
    signal spi stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stream string strings syslog tar
    termios tgmath threads time uchar udp unistd utime vadefs values variant wchar wctype windows wire
    wiring_private wordexp wstring xlocale
"""
# Of C libraries, systems, Arduino cores and minun_pio itself: `<name>.h` would be found in their place, on a
# file system that takes availability.h for Availability.h too.
_DEVICES = "aux con nul prn " + " ".join(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))
_GLOBALS = """
    abs acos asin atan atan2 atof atoi bit boolean byte calloc cbrt ceil clock close constrain cos cosh
    degrees delay div erf exit exp fabs floor fma fmod free frexp gamma getc hypot index init interrupts
    isnan j0 j1 jn kill ldexp ldiv lgamma linux link log log10 log2 loop lround main map max micros millis
    min minun modf noise open pow printf putc puts radians raise rand random read realloc remove rename
    rindex rint round select serial setup shift sin sinh sleep sq sqrt srand std system tan tanh tgamma tone
    trunc unix wait word write y0 y1 yield yn
"""  # functions, types and macros that a firmware has, which a namespace cannot share its name with
_TAKEN = {
    **dict.fromkeys(_DEVICES.split(), "Windows can have no file of that name"),
    **dict.fromkeys(_GLOBALS.split(), "C, C++ or Arduino have it already"),
    **dict.fromkeys(_HEADERS.split(), "a header of that name is there already"),
    **dict.fromkeys(_CPP_KEYWORDS.split(), "it is a keyword of C++"),
}
_EXPECTED = "expected up to 40 lower-case letters, digits and single underscores, a letter first"


def why_not(name: str) -> str | None:
    """What keeps `name` from being a model's name, and what to do; None when nothing does."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) or "__" in name:
        return f"{_EXPECTED} (it is a C++ namespace)"
    if name in _TAKEN:
        return f"{_TAKEN[name]}; add a word, like '{name}_net'"
    return None
