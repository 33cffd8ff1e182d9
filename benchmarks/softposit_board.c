// SPDX-License-Identifier: Apache-2.0
// SoftPosit as a firmware would use it: a dense layer by rounded multiplications and additions, and by its quire.
#include <stdint.h>
#include "platform.h"
#include "internals.h"
#include "softposit.h"

#if FORMAT == 80
typedef uint8_t Code;
void muladd(const Code* w, const Code* x, Code* y, int inputs, int outputs) {
  for (int n = 0; n < outputs; ++n, w += inputs) {
    posit8_t sum = castP8(0);
    for (int k = 0; k < inputs; ++k) sum = p8_add(sum, p8_mul(castP8(w[k]), castP8(x[k])));
    y[n] = castUI(sum);
  }
}
void quire(const Code* w, const Code* x, Code* y, int inputs, int outputs) {
  for (int n = 0; n < outputs; ++n, w += inputs) {
    quire8_t sum = q8Clr();
    for (int k = 0; k < inputs; ++k) sum = q8_fdp_add(sum, castP8(w[k]), castP8(x[k]));
    y[n] = castUI(q8_to_p8(sum));
  }
}
#elif FORMAT == 161
typedef uint16_t Code;
void muladd(const Code* w, const Code* x, Code* y, int inputs, int outputs) {
  for (int n = 0; n < outputs; ++n, w += inputs) {
    posit16_t sum = castP16(0);
    for (int k = 0; k < inputs; ++k) sum = p16_add(sum, p16_mul(castP16(w[k]), castP16(x[k])));
    y[n] = castUI(sum);
  }
}
void quire(const Code* w, const Code* x, Code* y, int inputs, int outputs) {
  for (int n = 0; n < outputs; ++n, w += inputs) {
    quire16_t sum = q16Clr();
    for (int k = 0; k < inputs; ++k) sum = q16_fdp_add(sum, castP16(w[k]), castP16(x[k]));
    y[n] = castUI(q16_to_p16(sum));
  }
}
#else  // es 2, BITS wide
#if BITS <= 8
typedef uint8_t Code;
#else
typedef uint16_t Code;
#endif
static posit_2_t wide(Code code) {
  posit_2_t value;
  value.v = (uint32_t)code << (32 - BITS);
  return value;
}
void muladd(const Code* w, const Code* x, Code* y, int inputs, int outputs) {
  for (int n = 0; n < outputs; ++n, w += inputs) {
    posit_2_t sum;
    sum.v = 0;
    for (int k = 0; k < inputs; ++k) sum = pX2_add(sum, pX2_mul(wide(w[k]), wide(x[k]), BITS), BITS);
    y[n] = (Code)(sum.v >> (32 - BITS));
  }
}
void quire(const Code* w, const Code* x, Code* y, int inputs, int outputs) {
  for (int n = 0; n < outputs; ++n, w += inputs) {
    quire_2_t sum = qX2Clr();
    for (int k = 0; k < inputs; ++k) sum = qX2_fdp_add(sum, wide(w[k]), wide(x[k]));
    y[n] = (Code)(qX2_to_pX2(sum, BITS).v >> (32 - BITS));
  }
}
#endif
