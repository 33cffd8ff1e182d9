// SPDX-License-Identifier: Apache-2.0
// Host half of bare.h: output on stdout, input on stdin, marks as lines in marks.txt of the working folder.
#include "bare.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

namespace {
timespec started;
}

namespace bare {

__attribute__((noinline)) void begin(uint8_t id) {
  (void)id;
  clock_gettime(CLOCK_MONOTONIC, &started);
}

__attribute__((noinline)) void end(uint8_t id) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long long elapsed =
      (static_cast<long long>(now.tv_sec) - started.tv_sec) * 1000000000LL + (now.tv_nsec - started.tv_nsec);
  FILE* marks = fopen("marks.txt", "a");
  if (marks == NULL) _exit(125);
  fprintf(marks, "%u %lld 0\n", static_cast<unsigned>(id), elapsed);
  fclose(marks);
}

void write(const void* data, size_t size) {
  if (fwrite(data, 1, size, stdout) != size) _exit(125);
}

bool read(void* data, size_t size) { return fread(data, 1, size, stdin) == size; }

}  // namespace bare
