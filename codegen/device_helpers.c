/* codegen/device_helpers.c: the functions that generated source may call, each with its text.
 *
 * Only what a kernel calls is written into its source. A helper stands after those that it calls itself. Half
 * precision goes through the conversion instructions of PTX, so that no header is needed; integers never
 * overflow as signed ones.
 */
#include "codegen/device_helpers.h"
#include "codegen/emit.h"

#include <string.h>

#define FUNCTION KILN_DEVICE_FUNCTION
#define REDUCER(name, expression)                                                                            \
  "struct " name " {\n"                                                                                      \
  "  template <typename T>\n"                                                                                \
  "  static __device__ __forceinline__ T of(T a, T b) {\n"                                                   \
  "    return " expression ";\n"                                                                             \
  "  }\n"                                                                                                    \
  "};\n"
#define BINARY(name, body) "template <typename T>\n" FUNCTION "T " name "(T a, T b) {\n" body "}\n"

/* total += a * b, where total is 16 x 8 and a 16 x k. */
#define MULTIPLY(type, k)                                                                                    \
  FUNCTION "void kiln_multiply_" type                                                                        \
           "(float (&total)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {\n"                       \
           "  asm volatile(\"mma.sync.aligned.m16n8k" k ".row.col.f32." type "." type ".f32 \"\n"            \
           "               \"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"            \
           "               : \"+f\"(total[0]), \"+f\"(total[1]), \"+f\"(total[2]), \"+f\"(total[3])\n"       \
           "               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b0), \"r\"(b1));\n"   \
           "}\n"

static const kiln_device_helper_t helpers[] = {
    {"kiln_clamp_index", "// An index read from memory, kept inside [0, extent).\n" FUNCTION
                         "long long kiln_clamp_index(long long index, long long extent) {\n"
                         "  return index < 0 ? 0 : index < extent ? index : extent - 1;\n"
                         "}\n"},
    /* -- half precision */
    {"kiln_float_from_f16", FUNCTION "float kiln_float_from_f16(unsigned short bits) {\n"
                                     "  float value;\n"
                                     "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(value) : \"h\"(bits));\n"
                                     "  return value;\n"
                                     "}\n"},
    {"kiln_float_from_bf16", FUNCTION "float kiln_float_from_bf16(unsigned short bits) {\n"
                                      "  return __uint_as_float((unsigned)bits << 16);\n"
                                      "}\n"},
    {"kiln_f16", FUNCTION "unsigned short kiln_f16(float value) {\n"
                          "  unsigned short bits;\n"
                          "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(value));\n"
                          "  return bits;\n"
                          "}\n"},
    {"kiln_bf16", FUNCTION "unsigned short kiln_bf16(float value) {\n"
                           "  unsigned short bits;\n"
                           "  asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(value));\n"
                           "  return bits;\n"
                           "}\n"},
    /* -- casts */
    {"kiln_round_to_odd",
     "// To float, towards zero, with the last bit set when something was lost: a later rounding to fewer "
     "bits is\n"
     "// then the only one (Boldo and Melquiond, \"When double rounding is odd\").\n" FUNCTION
     "float kiln_round_to_odd(double value) {\n"
     "  const float cut = __double2float_rz(value);\n"
     "  return (double)cut == value || value != value ? cut : __int_as_float(__float_as_int(cut) | 1);\n"
     "}\n" FUNCTION "float kiln_round_to_odd(long long value) {\n"
     "  const float cut = __ll2float_rz(value);\n"
     "  return (long long)cut == value ? cut : __int_as_float(__float_as_int(cut) | 1);\n"
     "}\n" FUNCTION "float kiln_round_to_odd(int value) { return kiln_round_to_odd((long long)value); }\n"},
    {"kiln_saturate",
     "// To an integer, towards zero; what lies outside becomes the nearest end, NaN becomes 0.\n"
     "template <typename I, typename T>\n" FUNCTION "I kiln_saturate(T value) {\n"
     "  constexpr bool is_signed = (I)-1 < (I)0;\n"
     "  constexpr I highest = is_signed ? (I)((1ull << (8 * sizeof(I) - 1)) - 1) : (I)-1;\n"
     "  constexpr I lowest = is_signed ? (I)(-highest - 1) : (I)0;\n"
     "  if (value != value) return 0;\n"
     "  return value <= (T)lowest ? lowest : value >= (T)highest ? highest : (I)value;\n"
     "}\n"},
    /* -- integers */
    {"kiln_abs", "template <typename T>\n" FUNCTION "T kiln_abs(T a) {\n"
                 "  return a < 0 ? (T)(0 - (unsigned long long)a) : a;\n"
                 "}\n"},
    {"kiln_bitwise_not",
     FUNCTION "bool kiln_bitwise_not(bool a) { return !a; }\n"
              "template <typename T>\n" FUNCTION "T kiln_bitwise_not(T a) { return (T)~a; }\n"},
    {"kiln_shift_left",
     BINARY("kiln_shift_left", "  const bool inside = b >= 0 && b < (T)(8 * sizeof(T));\n"
                               "  return inside ? (T)((unsigned long long)a << (int)b) : (T)0;\n")},
    {"kiln_shift_right",
     BINARY("kiln_shift_right", "  const bool inside = b >= 0 && b < (T)(8 * sizeof(T));\n"
                                "  return (T)((long long)a >> (inside ? (int)b : 63));\n")},
    {"kiln_pow",
     "// Wraps; a negative power is 1 / a^-b, cut towards zero.\n" BINARY(
         "kiln_pow", "  if (b < 0) return a == 1 ? (T)1 : a == (T)-1 ? (b & 1 ? (T)-1 : (T)1) : (T)0;\n"
                     "  unsigned long long power = 1, square = (unsigned long long)a;\n"
                     "  for (T left = b; left > 0; left >>= 1) {\n"
                     "    if (left & 1) power *= square;\n"
                     "    square *= square;\n"
                     "  }\n"
                     "  return (T)power;\n")},
    /* -- division, rounded to minus infinity */
    {"kiln_floordiv",
     "// Integers: 0 for a zero divisor; the least integer by -1 gives itself.\n" BINARY(
         "kiln_floordiv", "  if (b == 0) return 0;\n"
                          "  if (b == (T)-1 && (T)-1 < (T)0) return (T)(0 - (unsigned long long)a);\n"
                          "  const T quotient = a / b;\n"
                          "  return quotient * b != a && (a < 0) != (b < 0) ? (T)(quotient - 1) : "
                          "quotient;\n") "// fmod is exact; what the division adds is rounded away (CPython, "
                                         "Objects/floatobject.c).\n"
                                         "template <typename T>\n" FUNCTION
                                         "T kiln_floordiv_real(T a, T b) {\n"
                                         "  if (b == 0) return a / b;\n"
                                         "  const T modulus = fmod(a, b);\n"
                                         "  T quotient = (a - modulus) / b;\n"
                                         "  if (modulus != 0 && (b < 0) != (modulus < 0)) quotient -= 1;\n"
                                         "  if (quotient == 0) return copysign((T)0, a / b);\n"
                                         "  const T floored = floor(quotient);\n"
                                         "  return quotient - floored > (T)0.5 ? floored + 1 : floored;\n"
                                         "}\n" FUNCTION "float kiln_floordiv(float a, float b) { return "
                                         "kiln_floordiv_real(a, b); }\n" FUNCTION
                                         "double kiln_floordiv(double a, double b) { return "
                                         "kiln_floordiv_real(a, b); }\n"},
    {"kiln_remainder",
     "// Integers: 0 for a zero divisor and for -1.\n" BINARY(
         "kiln_remainder", "  if (b == 0 || (b == (T)-1 && (T)-1 < (T)0)) return 0;\n"
                           "  const T rest = a % b;\n"
                           "  return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : "
                           "rest;\n") "template <typename T>\n" FUNCTION "T kiln_remainder_real(T a, T b) {\n"
                                      "  const T modulus = fmod(a, b);\n"
                                      "  return modulus != 0 && (b < 0) != (modulus < 0) ? "
                                      "modulus + b : modulus;\n"
                                      "}\n" FUNCTION "float kiln_remainder(float a, float b) { return "
                                      "kiln_remainder_real(a, b); }\n" FUNCTION
                                      "double kiln_remainder(double a, double b) { return "
                                      "kiln_remainder_real(a, b); }\n"},
    /* -- choice; a NaN wins */
    {"kiln_maximum", BINARY("kiln_maximum", "  return a > b || a != a ? a : b;\n")},
    {"kiln_minimum", BINARY("kiln_minimum", "  return a < b || a != a ? a : b;\n")},
    {"kiln_clamp",
     "template <typename T, typename L, typename H>\n" FUNCTION "T kiln_clamp(T a, L low, H high) {\n"
     "  const T raised = a < low || low != low ? (T)low : a;\n"
     "  return raised > high || high != high ? (T)high : raised;\n"
     "}\n"},
    /* -- reductions: what two partial results give, the same in either order */
    {"kiln_sum", "struct kiln_sum {\n"
                 "  static __device__ __forceinline__ float of(float a, float b) { return a + b; }\n"
                 "  static __device__ __forceinline__ double of(double a, double b) { return a + b; }\n"
                 "  template <typename T>\n"
                 "  static __device__ __forceinline__ T of(T a, T b) {\n"
                 "    return (T)((unsigned long long)a + (unsigned long long)b);\n"
                 "  }\n"
                 "};\n"},
    {"kiln_prod", "struct kiln_prod {\n"
                  "  static __device__ __forceinline__ float of(float a, float b) { return a * b; }\n"
                  "  static __device__ __forceinline__ double of(double a, double b) { return a * b; }\n"
                  "  template <typename T>\n"
                  "  static __device__ __forceinline__ T of(T a, T b) {\n"
                  "    return (T)((unsigned long long)a * (unsigned long long)b);\n"
                  "  }\n"
                  "};\n"},
    {"kiln_amax", REDUCER("kiln_amax", "kiln_maximum(a, b)")},
    {"kiln_amin", REDUCER("kiln_amin", "kiln_minimum(a, b)")},
    {"kiln_any", REDUCER("kiln_any", "a || b")},
    {"kiln_all", REDUCER("kiln_all", "a && b")},
    {"kiln_shuffle",
     "template <typename T>\n" FUNCTION "T kiln_shuffle(unsigned mask, T value, int distance) {\n"
     "  return (T)__shfl_xor_sync(mask, (int)value, distance);\n"
     "}\n" FUNCTION "float kiln_shuffle(unsigned mask, float value, int distance) {\n"
     "  return __shfl_xor_sync(mask, value, distance);\n"
     "}\n" FUNCTION "double kiln_shuffle(unsigned mask, double value, int distance) {\n"
     "  return __shfl_xor_sync(mask, value, distance);\n"
     "}\n" FUNCTION "long long kiln_shuffle(unsigned mask, long long value, int distance) {\n"
     "  return __shfl_xor_sync(mask, value, distance);\n"
     "}\n"},
    {"kiln_place",
     "// A value and where in the row it was found.\n"
     "template <typename T>\n"
     "struct kiln_place {\n"
     "  T value;\n"
     "  long long at;\n"
     "};\n"
     "template <typename T>\n" FUNCTION
     "kiln_place<T> kiln_shuffle(unsigned mask, kiln_place<T> place, int distance) {\n"
     "  return {kiln_shuffle(mask, place.value, distance), kiln_shuffle(mask, place.at, distance)};\n"
     "}\n"
     "// A NaN wins; of equals the first.\n"
     "template <typename T>\n" FUNCTION
     "kiln_place<T> kiln_choose(kiln_place<T> a, kiln_place<T> b, bool a_wins, bool b_wins) {\n"
     "  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;\n"
     "  if (a_is_nan != b_is_nan) return a_is_nan ? a : b;\n"
     "  if (a_wins || b_wins) return a_wins ? a : b;\n"
     "  return a.at < b.at ? a : b;\n"
     "}\n"},
    {"kiln_argmax", REDUCER("kiln_argmax", "kiln_choose(a, b, a.value > b.value, b.value > a.value)")},
    {"kiln_argmin", REDUCER("kiln_argmin", "kiln_choose(a, b, a.value < b.value, b.value < a.value)")},
    {"kiln_total",
     "// One value per thread combined over the THREADS that share a row, neighbours first; all get the "
     "result.\n"
     "template <typename OP, int THREADS, int CALL, typename T>\n" FUNCTION "T kiln_total(T value) {\n"
     "  constexpr int lanes = THREADS < 32 ? THREADS : 32, warps = THREADS / lanes;\n"
     "  const unsigned team = lanes == 32 ? ~0u : ((1u << lanes % 32) - 1) << (threadIdx.x & 31 & -lanes);\n"
     "#pragma unroll\n"
     "  for (int distance = 1; distance < lanes; distance *= 2)\n"
     "    value = OP::of(value, kiln_shuffle(team, value, distance));\n"
     "  if (warps == 1) return value;\n"
     "  __shared__ T of_warps[warps];\n"
     "  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;\n"
     "  __syncthreads();\n"
     "  value = of_warps[threadIdx.x % warps];\n"
     "#pragma unroll\n"
     "  for (int distance = 1; distance < warps; distance *= 2)\n"
     "    value = OP::of(value, kiln_shuffle(~0u, value, distance));\n"
     "  return value;\n"
     "}\n"},
    {"kiln_partial",
     "// What a thread has of COLUMNS columns of its row.\n"
     "template <typename OP, typename T, int COLUMNS>\n"
     "struct kiln_partial {\n"
     "  T nothing, of[COLUMNS];\n"
     "  __device__ __forceinline__ kiln_partial(T none) : nothing(none) {\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < COLUMNS; ++i) of[i] = none;\n"
     "  }\n"
     "  __device__ __forceinline__ kiln_partial none() const { return kiln_partial(nothing); }\n"
     "  __device__ __forceinline__ void add(int column, T value) {\n"
     "    of[column] = OP::of(of[column], value);\n"
     "  }\n"
     "  __device__ __forceinline__ void add(const kiln_partial &run) {\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < COLUMNS; ++i) add(i, run.of[i]);\n"
     "  }\n"
     "  // Columns of a vector, then threads, then a thread's vectors. CALL tells the calls of a kernel "
     "apart.\n"
     "  template <int LANES, int THREADS, int CALL>\n"
     "  __device__ __forceinline__ T total() {\n"
     "#pragma unroll\n"
     "    for (int step = 1; step < LANES; step *= 2)\n"
     "#pragma unroll\n"
     "      for (int i = 0; i < COLUMNS; i += 2 * step) add(i, of[i + step]);\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < COLUMNS; i += LANES) {\n"
     "      if (i && THREADS > 32) __syncthreads();\n"
     "      of[i] = kiln_total<OP, THREADS, CALL>(of[i]);\n"
     "    }\n"
     "#pragma unroll\n"
     "    for (int step = LANES; step < COLUMNS; step *= 2)\n"
     "#pragma unroll\n"
     "      for (int i = 0; i < COLUMNS; i += 2 * step) add(i, of[i + step]);\n"
     "    return of[0];\n"
     "  }\n"
     "  // The DEPTH threads that are WIDTH apart combine each column, neighbours first; all of them get it.\n"
     "  template <int WIDTH, int DEPTH>\n"
     "  __device__ __forceinline__ void share() {\n"
     "    constexpr int per_warp = WIDTH < 32 ? 32 / WIDTH : 1;\n"
     "    __shared__ T of_warps[DEPTH / per_warp][COLUMNS][WIDTH];\n"
     "    const int x = threadIdx.x % WIDTH, y = threadIdx.x / (WIDTH * per_warp);\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < COLUMNS; ++i)\n"
     "#pragma unroll\n"
     "      for (int distance = WIDTH; distance < 32; distance *= 2)\n"
     "        add(i, kiln_shuffle(~0u, of[i], distance));\n"
     "    for (int distance = 1; distance < DEPTH / per_warp; distance *= 2) {\n"
     "      __syncthreads();\n"
     "#pragma unroll\n"
     "      for (int i = 0; threadIdx.x % 32 < WIDTH && i < COLUMNS; ++i) of_warps[y][i][x] = of[i];\n"
     "      __syncthreads();\n"
     "#pragma unroll\n"
     "      for (int i = 0; i < COLUMNS; ++i) add(i, of_warps[y ^ distance][i][x]);\n"
     "    }\n"
     "  }\n"
     "};\n"},
    {"kiln_fold",
     "// COUNT partial results that lie STRIDE apart, as a tree, neighbours first.\n"
     "template <typename OP, int COUNT, int STRIDE, typename T>\n" FUNCTION "T kiln_fold(const T *from) {\n"
     "  if constexpr (COUNT == 1) return *from;\n"
     "  else return OP::of(kiln_fold<OP, COUNT / 2, STRIDE>(from),\n"
     "                     kiln_fold<OP, COUNT / 2, STRIDE>(from + COUNT / 2 * STRIDE));\n"
     "}\n"},
    /* -- blocks that share a result */
    {"kiln_is_last",
     "// Whether this is the last of PARTS blocks to come here; it sees what all others have stored. The "
     "counter is 0\n"
     "// again then.\n"
     "template <unsigned PARTS>\n" FUNCTION "bool kiln_is_last(unsigned *counter) {\n"
     "  __shared__ bool is_last;\n"
     "  __threadfence();\n"
     "  __syncthreads();\n"
     "  if (threadIdx.x == 0) is_last = atomicInc(counter, PARTS - 1) == PARTS - 1;\n"
     "  __syncthreads();\n"
     "  if (is_last) __threadfence();\n"
     "  return is_last;\n"
     "}\n"},
    /* -- contractions */
    {"kiln_slot", "// Where element `inner` of row `outer` of a tile lies. Rows have INNER elements in "
                  "chunks of 16 bytes, which\n"
                  "// change places from row to row, so that the same chunk of eight neighbouring rows is in "
                  "eight places: no\n"
                  "// two of them share a bank.\n"
                  "template <int INNER, int CHUNK>\n" FUNCTION "int kiln_slot(int outer, int inner) {\n"
                  "  constexpr int chunks = INNER / CHUNK, turn = chunks < 8 ? 8 / chunks : 1, places = "
                  "chunks < 8 ? chunks : "
                  "8;\n"
                  "  const int chunk = (inner / CHUNK) ^ (outer / turn % places);\n"
                  "  return outer * INNER + chunk * CHUNK + inner % CHUNK;\n"
                  "}\n"},
    {"kiln_clear", "template <int BYTES, typename T>\n" FUNCTION "void kiln_clear(T *to) {\n"
                   "#pragma unroll\n"
                   "  for (int i = 0; i < BYTES / (int)sizeof(T); ++i) to[i] = 0;\n"
                   "}\n"},
    {"kiln_copy_async_part",
     "// The first `bytes` of them; then zeros, for which nothing is read.\n"
     "template <int BYTES>\n" FUNCTION
     "void kiln_copy_async_part(void *to, const void *from, unsigned bytes) {\n"
     "  const unsigned place = (unsigned)__cvta_generic_to_shared(to);\n"
     "  if (BYTES == 16)\n"
     "    asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" ::\"r\"(place), \"l\"(from), "
     "\"r\"(bytes)\n"
     "                 : \"memory\");\n"
     "  else\n"
     "    asm volatile(\"cp.async.ca.shared.global [%0], [%1], %3, %2;\" ::\"r\"(place), \"l\"(from), "
     "\"r\"(bytes),\n"
     "                 \"n\"(BYTES)\n"
     "                 : \"memory\");\n"
     "}\n"},
    {"kiln_copy_async",
     "// To shared memory, in the background.\n"
     "template <int BYTES>\n" FUNCTION "void kiln_copy_async(void *to, const void *from) {\n"
     "  const unsigned place = (unsigned)__cvta_generic_to_shared(to);\n"
     "  if (BYTES == 16)\n"
     "    asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" ::\"r\"(place), \"l\"(from) : "
     "\"memory\");\n"
     "  else\n"
     "    asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2;\" ::\"r\"(place), \"l\"(from), "
     "\"n\"(BYTES)\n"
     "                 : \"memory\");\n"
     "}\n"},
    {"kiln_copy_commit", FUNCTION "void kiln_copy_commit() { asm volatile(\"cp.async.commit_group;\" ::: "
                                  "\"memory\"); }\n"},
    {"kiln_copy_wait", "// Until at most LEFT groups of copies are under way.\n"
                       "template <int LEFT>\n" FUNCTION "void kiln_copy_wait() {\n"
                       "  asm volatile(\"cp.async.wait_group %0;\" ::\"n\"(LEFT) : \"memory\");\n"
                       "}\n"},
    {"kiln_load_matrices",
     "// Four matrices of 8 rows of 16 bytes; lane l points at row l % 8 of matrix l / 8.\n"
     "template <int INNER, bool TRANSPOSED, typename T>\n" FUNCTION
     "void kiln_load_matrices(unsigned (&out)[4], const T *tile, int outer, int inner) {\n"
     "  const T *const row = tile + kiln_slot<INNER, 16 / sizeof(T)>(outer, inner);\n"
     "  const unsigned from = (unsigned)__cvta_generic_to_shared(row);\n"
     "  if (TRANSPOSED)\n"
     "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\"\n"
     "                 : \"=r\"(out[0]), \"=r\"(out[1]), \"=r\"(out[2]), \"=r\"(out[3]) : \"r\"(from) : "
     "\"memory\");\n"
     "  else\n"
     "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\"\n"
     "                 : \"=r\"(out[0]), \"=r\"(out[1]), \"=r\"(out[2]), \"=r\"(out[3]) : \"r\"(from) : "
     "\"memory\");\n"
     "}\n"},
    {"kiln_slot_of_pairs",
     "// The same where four rows are read at a time, eight neighbours of each: pairs of chunks change places.\n"
     "template <int INNER, int CHUNK>\n" FUNCTION "int kiln_slot_of_pairs(int outer, int inner) {\n"
     "  constexpr int pairs = INNER / CHUNK / 2, turn = pairs < 4 ? 4 / pairs : 1, places = pairs < 4 ? pairs : 4;\n"
     "  const int chunk = (inner / CHUNK) ^ (outer / turn % places * 2);\n"
     "  return outer * INNER + chunk * CHUNK + inner % CHUNK;\n"
     "}\n"},
    {"kiln_load_elements",
     "// What kiln_load_matrices gives of a tile along k, of one along rows: two rows at k, then at k + 4.\n"
     "template <int INNER>\n" FUNCTION
     "void kiln_load_elements(unsigned &x0, unsigned &x8, unsigned &y0, unsigned &y8, const float *tile, int k,\n"
     "                        int row) {\n"
     "  const int own_k = k + threadIdx.x % 4, own_row = row + threadIdx.x % 32 / 4;\n"
     "  x0 = __float_as_uint(tile[kiln_slot_of_pairs<INNER, 4>(own_k, own_row)]);\n"
     "  x8 = __float_as_uint(tile[kiln_slot_of_pairs<INNER, 4>(own_k, own_row + 8)]);\n"
     "  y0 = __float_as_uint(tile[kiln_slot_of_pairs<INNER, 4>(own_k + 4, own_row)]);\n"
     "  y8 = __float_as_uint(tile[kiln_slot_of_pairs<INNER, 4>(own_k + 4, own_row + 8)]);\n"
     "}\n"},
    {"kiln_round_to_tf32",
     "// To the nearest with 10 bits of fraction, ties away from zero.\n"
     "template <int N>\n" FUNCTION "void kiln_round_to_tf32(unsigned (&x)[N][4]) {\n"
     "#pragma unroll\n"
     "  for (int i = 0; i < 4 * N; ++i) {\n"
     "    unsigned &one = x[i / 4][i % 4];\n"
     "    asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(one) : \"f\"(__uint_as_float(one)));\n"
     "  }\n"
     "}\n"},
    {"kiln_multiply_f16", MULTIPLY("f16", "16")},
    {"kiln_multiply_bf16", MULTIPLY("bf16", "16")},
    {"kiln_multiply_tf32", MULTIPLY("tf32", "8")},
    {"kiln_store_pair", FUNCTION "void kiln_store_pair(float *to, float first, float second) {\n"
                                 "  *reinterpret_cast<float2 *>(to) = make_float2(first, second);\n"
                                 "}\n"},
    {"kiln_read_along_k",
     "// CHUNK elements along k of every 16th row.\n"
     "template <int INNER, typename T, typename S, int ROWS, int CHUNK>\n" FUNCTION
     "void kiln_read_along_k(S (&out)[ROWS][CHUNK], const T *tile, int thread, int k) {\n"
     "#pragma unroll\n"
     "  for (int row = 0; row < ROWS; ++row) {\n"
     "    const auto chunk = kiln_load<CHUNK, 16>(tile + kiln_slot<INNER, CHUNK>(16 * row + thread, k));\n"
     "#pragma unroll\n"
     "    for (int e = 0; e < CHUNK; ++e) out[row][e] = (S)chunk.at[e];\n"
     "  }\n"
     "}\n"},
    {"kiln_read_along_rows",
     "// The same of a tile that lies the other way: CHUNK neighbouring rows at a time.\n"
     "template <int INNER, typename T, typename S, int ROWS, int CHUNK>\n" FUNCTION
     "void kiln_read_along_rows(S (&out)[ROWS][CHUNK], const T *tile, int thread, int k) {\n"
     "#pragma unroll\n"
     "  for (int e = 0; e < CHUNK; ++e) {\n"
     "#pragma unroll\n"
     "    for (int row = 0; row < ROWS; row += CHUNK) {\n"
     "      const auto chunk =\n"
     "          kiln_load<CHUNK, 16>(tile + kiln_slot<INNER, CHUNK>(k + e, 16 * row + thread * CHUNK));\n"
     "#pragma unroll\n"
     "      for (int i = 0; i < CHUNK; ++i) out[row + i][e] = (S)chunk.at[i];\n"
     "    }\n"
     "  }\n"
     "}\n"},
    {"kiln_add_up", "// The sum, as a tree; N is a power of two. Leaves nothing of the terms.\n"
                    "template <typename T, int N>\n" FUNCTION "T kiln_add_up(T (&terms)[N]) {\n"
                    "#pragma unroll\n"
                    "  for (int half = N / 2; half > 0; half /= 2) {\n"
                    "#pragma unroll\n"
                    "    for (int i = 0; i < half; ++i) terms[i] += terms[i + half];\n"
                    "  }\n"
                    "  return terms[0];\n"
                    "}\n"},
    {"kiln_multiply_add", FUNCTION
     "float kiln_multiply_add(float a, float b, float c) { return fmaf(a, b, c); }\n" FUNCTION
     "double kiln_multiply_add(double a, double b, double c) { return fma(a, b, c); }\n"
     "template <typename T>\n" FUNCTION "T kiln_multiply_add(T a, T b, T c) { return a * b + c; }\n"},
    /* -- activations, without overflow or cancellation on either side */
    {"kiln_sigmoid", "template <typename T>\n" FUNCTION "T kiln_sigmoid(T x) {\n"
                     "  const T e = exp(-fabs(x));\n"
                     "  return (x < 0 ? e : (T)1) / ((T)1 + e);\n"
                     "}\n"},
    {"kiln_silu", "// For x < 0 the factor exp(x) is taken in two halves, which do not underflow before the "
                  "product does.\n"
                  "template <typename T>\n" FUNCTION "T kiln_silu(T x) {\n"
                  "  const T e = exp(-fabs(x) * (T)0.5);\n"
                  "  return x < 0 ? (x * e) * e / ((T)1 + e * e) : x / ((T)1 + e * e);\n"
                  "}\n"},
    {"kiln_gelu_none", "template <typename T>\n" FUNCTION "T kiln_gelu_none(T x) {\n"
                       "  return (T)0.5 * x * erfc(x * (T)-0.70710678118654752440);\n"
                       "}\n"},
    {"kiln_gelu_tanh", "// x/2 * (1 + tanh(u)) is x * sigmoid(2u).\n"
                       "template <typename T>\n" FUNCTION "T kiln_gelu_tanh(T x) {\n"
                       "  const T u = (T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x);\n"
                       "  const T e = exp(-fabs(u));\n"
                       "  return u < 0 ? (x * e) * e / ((T)1 + e * e) : x / ((T)1 + e * e);\n"
                       "}\n"},
};

enum { HELPER_COUNT = sizeof helpers / sizeof *helpers };

/* All of them, in the order in which they may call each other. */
static const kiln_device_helper_t *helper_at(size_t number) {
  return number < kiln_memory_helper_count ? &kiln_memory_helpers[number]
                                           : &helpers[number - kiln_memory_helper_count];
}

/* Is `name` called in the text: followed by "(", "<" for a template, "," for a type among its arguments? */
static bool calls(const char *text, const char *name) {
  size_t length = strlen(name);
  for (const char *at = strstr(text, name); at; at = strstr(at + length, name)) {
    if (at[length] == '(' || at[length] == '<' || at[length] == ',') return true;
  }
  return false;
}

void kiln_emit_helpers(kiln_arena_t *arena, kiln_buffer_t *out, const char *body) {
  size_t count = kiln_memory_helper_count + HELPER_COUNT;
  bool *used = KILN_NEW_ARRAY(arena, bool, count);
  for (size_t i = count; i-- > 0;) {
    used[i] = calls(body, helper_at(i)->name);
    for (size_t k = i + 1; k < count; k++)
      used[i] |= used[k] && calls(helper_at(k)->text, helper_at(i)->name);
  }
  for (size_t i = 0; i < count; i++) {
    if (used[i]) kiln_buffer_printf(out, "%s\n", helper_at(i)->text);
  }
}
