// SPDX-License-Identifier: Apache-2.0
// Matrix products C[m][n] = A[m][k] * B[n][k] on SoftPosit's quires, for benchmarks and long tests. Codes are
// right-aligned signed integers, as minun_pio stores them.
#include <stdint.h>

#include "platform.h"
#include "internals.h"
#include "softposit.h"

void quire_8_0(const int8_t* a, const int8_t* b, int8_t* c, int m, int n, int k) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      quire8_t sum = q8Clr();
      for (int t = 0; t < k; ++t) sum = q8_fdp_add(sum, castP8((uint8_t)a[i * k + t]), castP8((uint8_t)b[j * k + t]));
      c[i * n + j] = (int8_t)castUI(q8_to_p8(sum));
    }
  }
}

void quire_16_1(const int16_t* a, const int16_t* b, int16_t* c, int m, int n, int k) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      quire16_t sum = q16Clr();
      for (int t = 0; t < k; ++t) sum = q16_fdp_add(sum, castP16((uint16_t)a[i * k + t]), castP16((uint16_t)b[j * k + t]));
      c[i * n + j] = (int16_t)castUI(q16_to_p16(sum));
    }
  }
}

// es = 2, `bits` wide; codes in 32 bits.
void quire_2(const int32_t* a, const int32_t* b, int32_t* c, int m, int n, int k, int bits) {
  const int up = 32 - bits;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      quire_2_t sum = qX2Clr();
      for (int t = 0; t < k; ++t) {
        posit_2_t x, w;
        x.v = (uint32_t)a[i * k + t] << up;
        w.v = (uint32_t)b[j * k + t] << up;
        sum = qX2_fdp_add(sum, x, w);
      }
      c[i * n + j] = (int32_t)qX2_to_pX2(sum, bits).v >> up;
    }
  }
}
