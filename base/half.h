/* base/half.h: f16 and bf16 on the host, by integer arithmetic, round to nearest even.
 *
 * A NaN keeps its sign and the top bits of its payload and becomes quiet; f16 overflows to infinity,
 * denormals are exact. Source: IEEE 754-2019 binary16; bfloat16 is the upper half of binary32.
 */
#ifndef KILN_BASE_HALF_H
#define KILN_BASE_HALF_H

#include <stdint.h>

uint16_t kiln_f16_from_f32(float value);
uint16_t kiln_f16_from_f64(double value); /* one rounding */
float kiln_f16_to_f32(uint16_t bits);
uint16_t kiln_bf16_from_f32(float value);
uint16_t kiln_bf16_from_f64(double value); /* one rounding */
float kiln_bf16_to_f32(uint16_t bits);

#endif
