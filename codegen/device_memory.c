/* codegen/device_memory.c: device functions that load, store and turn vectors of elements.
 *
 * Vectors move up to 16 bytes at a time. Rows that begin anywhere are read and written as memory is aligned,
 * and put together by shuffles (kiln_load_row, kiln_store_row): the 32 threads of a warp then ask for one
 * sector more than theirs, and the ends of a row are pieces. Tiles of a transpose lie swizzled in shared
 * memory. Text only; see device_helpers.h.
 */
#include "codegen/device_helpers.h"

#define FUNCTION KILN_DEVICE_FUNCTION

const kiln_device_helper_t kiln_memory_helpers[] = {
    {"kiln_vector", "// N elements that move BYTES at a time.\n"
                    "template <typename T, int N, int BYTES>\n"
                    "struct __align__(BYTES) kiln_vector {\n"
                    "  T at[N];\n"
                    "};\n"},
    {"kiln_load", "template <int N, int BYTES, typename T>\n" FUNCTION
                  "kiln_vector<T, N, BYTES> kiln_load(const T *from) {\n"
                  "  return *reinterpret_cast<const kiln_vector<T, N, BYTES> *>(from);\n"
                  "}\n"},
    {"kiln_load_part", "// The first `count` elements, 0 for the others.\n"
                       "template <int N, int BYTES, typename T>\n" FUNCTION
                       "kiln_vector<T, N, BYTES> kiln_load_part(const T *from, int count) {\n"
                       "  if (count == N) return kiln_load<N, BYTES>(from);\n"
                       "  kiln_vector<T, N, BYTES> result = {};\n"
                       "#pragma unroll\n"
                       "  for (int i = 0; i < N; ++i) {\n"
                       "    if (i < count) result.at[i] = from[i];\n"
                       "  }\n"
                       "  return result;\n"
                       "}\n"},
    {"kiln_store",
     "// The instructions are spelled out, because the compiler splits some vectors into their elements.\n"
     "template <int N, int BYTES, typename T>\n" FUNCTION
     "void kiln_store(T *to, const kiln_vector<T, N, BYTES> &value) {\n"
     "  unsigned word[(sizeof value + 3) / 4];\n"
     "  memcpy(word, &value, sizeof value);\n"
     "#pragma unroll\n"
     "  for (int i = 0; BYTES >= 8 && i < sizeof value / BYTES; ++i) {\n"
     "    T *const part = to + i * (BYTES / sizeof(T));\n"
     "    const unsigned *const w = word + i * (BYTES / 4);\n"
     "    if (BYTES == 16)\n"
     "      asm volatile(\"st.global.v4.b32 [%0], {%1, %2, %3, %4};\" ::\"l\"(part), \"r\"(w[0]), "
     "\"r\"(w[1]),\n"
     "                   \"r\"(w[2]), \"r\"(w[3]));\n"
     "    else\n"
     "      asm volatile(\"st.global.v2.b32 [%0], {%1, %2};\" ::\"l\"(part), \"r\"(w[0]), \"r\"(w[1]));\n"
     "  }\n"
     "  if (BYTES < 8) *reinterpret_cast<kiln_vector<T, N, BYTES> *>(to) = value;\n"
     "}\n"},
    {"kiln_put", "// The same to shared memory.\n"
                 "template <int N, int BYTES, typename T>\n" FUNCTION
                 "void kiln_put(T *to, const kiln_vector<T, N, BYTES> &value) {\n"
                 "  *reinterpret_cast<kiln_vector<T, N, BYTES> *>(to) = value;\n"
                 "}\n"},
    {"kiln_store_part", "// The first `count` elements.\n"
                        "template <int N, int BYTES, typename T>\n" FUNCTION
                        "void kiln_store_part(T *to, const kiln_vector<T, N, BYTES> &value, int count) {\n"
                        "  if (count == N) return kiln_store<N, BYTES>(to, value);\n"
                        "#pragma unroll\n"
                        "  for (int i = 0; i < N; ++i) {\n"
                        "    if (i < count) to[i] = value.at[i];\n"
                        "  }\n"
                        "}\n"},
    /* -- tiles in shared memory */
    {"kiln_load_ends",
     "// Bytes first .. end - 1 of 16, in pieces as large as may be, 0 for the others. Rare, and short to compile.\n"
     "static __device__ __noinline__ uint4 kiln_load_ends(const char *from, int first, int end) {\n"
     "  uint4 result = {};\n"
     "#pragma unroll 1\n"
     "  for (int at = first; at < end;) {\n"
     "    int size = (at | 16) & -(at | 16);\n"
     "    while (at + size > end) size /= 2;\n"
     "    uint2 in = {};\n"
     "    if (size == 8)\n"
     "      in = *reinterpret_cast<const uint2 *>(from + at);\n"
     "    else if (size == 4)\n"
     "      in.x = *reinterpret_cast<const unsigned *>(from + at);\n"
     "    else if (size == 2)\n"
     "      in.x = *reinterpret_cast<const unsigned short *>(from + at) << at % 4 * 8;\n"
     "    else\n"
     "      in.x = *reinterpret_cast<const unsigned char *>(from + at) << at % 4 * 8;\n"
     "    result.x |= at / 4 == 0 ? in.x : 0;\n"
     "    result.y |= at / 4 == 0 ? in.y : at / 4 == 1 ? in.x : 0;\n"
     "    result.z |= at / 4 == 2 ? in.x : 0;\n"
     "    result.w |= at / 4 == 2 ? in.y : at / 4 == 3 ? in.x : 0;\n"
     "    at += size;\n"
     "  }\n"
     "  return result;\n"
     "}\n"},
    {"kiln_store_ends",
     "// Stores them.\n"
     "static __device__ __noinline__ void kiln_store_ends(char *to, uint4 value, int first, int end) {\n"
     "#pragma unroll 1\n"
     "  for (int at = first; at < end;) {\n"
     "    int size = (at | 16) & -(at | 16);\n"
     "    while (at + size > end) size /= 2;\n"
     "    const uint2 half = at & 8 ? make_uint2(value.z, value.w) : make_uint2(value.x, value.y);\n"
     "    const unsigned word = (at & 4 ? half.y : half.x) >> at % 4 * 8;\n"
     "    if (size == 8)\n"
     "      *reinterpret_cast<uint2 *>(to + at) = half;\n"
     "    else if (size == 4)\n"
     "      *reinterpret_cast<unsigned *>(to + at) = word;\n"
     "    else if (size == 2)\n"
     "      *reinterpret_cast<unsigned short *>(to + at) = (unsigned short)word;\n"
     "    else\n"
     "      *reinterpret_cast<unsigned char *>(to + at) = (unsigned char)word;\n"
     "    at += size;\n"
     "  }\n"
     "}\n"},
    {"kiln_load_within",
     "// Elements first .. end - 1 of an aligned vector, 0 for the others.\n"
     "template <int N, typename T>\n" FUNCTION
     "kiln_vector<T, N, N * sizeof(T)> kiln_load_within(const T *from, int first, int end) {\n"
     "  if (first <= 0 && end >= N) return kiln_load<N, N * sizeof(T)>(from);\n"
     "  kiln_vector<T, N, N * sizeof(T)> result = {};\n"
     "  if (first >= end) return result;\n"
     "  const uint4 part = kiln_load_ends(reinterpret_cast<const char *>(from), (first > 0 ? first : 0) * (int)sizeof(T),\n"
     "                                    (end < N ? end : N) * (int)sizeof(T));\n"
     "  memcpy(&result, &part, sizeof result);\n"
     "  return result;\n"
     "}\n"},
    {"kiln_store_within",
     "template <int N, typename T>\n" FUNCTION
     "void kiln_store_within(T *to, const kiln_vector<T, N, N * sizeof(T)> &value, int first, int end) {\n"
     "  if (first <= 0 && end >= N) return kiln_store<N, N * sizeof(T)>(to, value);\n"
     "  if (first >= end) return;\n"
     "  uint4 words = {};\n"
     "  memcpy(&words, &value, sizeof value);\n"
     "  kiln_store_ends(reinterpret_cast<char *>(to), words, (first > 0 ? first : 0) * (int)sizeof(T),\n"
     "                  (end < N ? end : N) * (int)sizeof(T));\n"
     "}\n"},
    {"kiln_shift_words",
     "// Words moved down by so many bytes, below 8 * MOST.\n"
     "template <int STEP, int N>\n" FUNCTION "void kiln_move_words(unsigned (&word)[N], bool moves) {\n"
     "#pragma unroll\n"
     "  for (int i = 0; i < N; ++i) {\n"
     "    if (i + STEP < N) word[i] = moves ? word[i + STEP] : word[i];\n"
     "  }\n"
     "}\n"
     "template <int MOST, int N>\n" FUNCTION "void kiln_shift_words(unsigned (&word)[N], int bytes) {\n"
     "  if (MOST >= 4) kiln_move_words<4>(word, bytes & 16);\n"
     "  if (MOST >= 2) kiln_move_words<2>(word, bytes & 8);\n"
     "  if (MOST >= 1) kiln_move_words<1>(word, bytes & 4);\n"
     "#pragma unroll\n"
     "  for (int i = 0; i < N; ++i) {\n"
     "    if (i + 1 < N) word[i] = __funnelshift_r(word[i], word[i + 1], 8 * (bytes & 3));\n"
     "  }\n"
     "}\n"},
    {"kiln_load_row",
     "// N elements of a row, which may begin anywhere: each thread reads units of BYTES as memory is aligned, and gets\n"
     "// what lies behind them from the next thread of its TEAM. The row has `left` elements from here on, none below 1.\n"
     "template <int N, int BYTES, int TEAM, typename T, typename L>\n" FUNCTION
     "kiln_vector<T, N, BYTES> kiln_load_row(const T *from, L left, bool is_first) {\n"
     "  constexpr int unit = BYTES / sizeof(T), units = N / unit, words = BYTES / 4;\n"
     "  const int lane = threadIdx.x % TEAM, off = (unsigned)(unsigned long long)from % BYTES / sizeof(T);\n"
     "  const unsigned team = TEAM == 32 ? ~0u : ((1u << TEAM % 32) - 1) << threadIdx.x % 32 / TEAM * TEAM;\n"
     "  const int end = left < 1 ? 0 : off + (left < 2 * N ? (int)left : 2 * N);\n"
     "  unsigned word[(units + 1) * words];\n"
     "#pragma unroll\n"
     "  for (int u = 0; u < units; ++u) {\n"
     "    const auto own = kiln_load_within<unit>(from - off + u * unit, (is_first ? off : 0) - u * unit, end - u * unit);\n"
     "    memcpy(word + u * words, &own, BYTES);\n"
     "  }\n"
     "#pragma unroll\n"
     "  for (int i = 0; i < words; ++i) word[units * words + i] = __shfl_down_sync(team, word[i], 1, TEAM);\n"
     "  if (off && end > N && (lane == TEAM - 1 || left <= N)) {\n"
     "    const auto next = kiln_load_within<unit>(from - off + N, 0, end - N);\n"
     "    memcpy(word + units * words, &next, BYTES);\n"
     "  }\n"
     "  kiln_shift_words<words / 2>(word, off * sizeof(T));\n"
     "  kiln_vector<T, N, BYTES> result;\n"
     "  memcpy(&result, word, sizeof result);\n"
     "  return result;\n"
     "}\n"},
    {"kiln_store_row",
     "// The other way: each thread stores units of BYTES as memory is aligned, with what the thread before it has of\n"
     "// the first.\n"
     "template <int N, int BYTES, int TEAM, typename T, typename L>\n" FUNCTION
     "void kiln_store_row(T *to, const kiln_vector<T, N, BYTES> &value, L left, bool is_first) {\n"
     "  constexpr int unit = BYTES / sizeof(T), units = N / unit, words = BYTES / 4;\n"
     "  const int lane = threadIdx.x % TEAM, off = (unsigned)(unsigned long long)to % BYTES / sizeof(T);\n"
     "  const unsigned team = TEAM == 32 ? ~0u : ((1u << TEAM % 32) - 1) << threadIdx.x % 32 / TEAM * TEAM;\n"
     "  const int end = left < 1 ? 0 : off + (left < 2 * N ? (int)left : 2 * N);\n"
     "  unsigned word[(units + 2) * words] = {};\n"
     "  memcpy(word + words, &value, sizeof value);\n"
     "#pragma unroll\n"
     "  for (int i = 0; i < words; ++i) word[i] = __shfl_up_sync(team, word[units * words + i], 1, TEAM);\n"
     "  kiln_shift_words<words>(word, BYTES - off * sizeof(T));\n"
     "#pragma unroll\n"
     "  for (int u = 0; u <= units; ++u) {\n"
     "    const bool is_next = u == units;\n"
     "    kiln_vector<T, unit, BYTES> part;\n"
     "    memcpy(&part, word + u * words, BYTES);\n"
     "    if (!is_next)\n"
     "      kiln_store_within<unit>(to - off + u * unit, part, (is_first || lane == 0 ? off : 0) - u * unit, end - u * unit);\n"
     "    else if (off && end > N && (lane == TEAM - 1 || left <= N))\n"
     "      kiln_store_within<unit>(to - off + N, part, 0, end - N < off ? end - N : off);\n"
     "  }\n"
     "}\n"},
    {"kiln_store_each", "// The first `count` elements, one by one.\n"
                        "template <typename T, int N, int BYTES>\n" FUNCTION
                        "void kiln_store_each(T *to, const kiln_vector<T, N, BYTES> &value, int count) {\n"
                        "#pragma unroll\n"
                        "  for (int i = 0; i < N; ++i) {\n"
                        "    if (i < count) to[i] = value.at[i];\n"
                        "  }\n"
                        "}\n"},
    {"kiln_tile_at",
     "// Where a tile that is contiguous along its rows keeps an element. Each 16 bytes of a column lie at a "
     "place\n"
     "// that depends on the column, so that neither the threads that write 8 columns nor those that read 8 "
     "places\n"
     "// of one meet in a bank.\n"
     "template <int SIZE, int WIDTH, typename T>\n" FUNCTION "int kiln_tile_at(int column, int row) {\n"
     "  constexpr int chunk = 16 / sizeof(T);\n"
     "  const int place = row / chunk;\n"
     "  const int swizzled = place ^ (place >> 3 & 7) ^ (column / WIDTH & 7);\n"
     "  return column * SIZE + swizzled * chunk + row % chunk;\n"
     "}\n"},
    {"kiln_stage",
     "// Copies up to SIZE x SIZE elements to a tile. In memory they are "
     "contiguous along\n"
     "// the columns and are read WIDTH at a time; a thread turns 16 bytes' worth of rows in its registers.\n"
     "template <int SIZE, int WIDTH, typename T, typename S, typename R, typename C>\n" FUNCTION
     "void kiln_stage(T *tile, const T *from, S stride, R rows, C columns) {\n"
     "  constexpr int chunk = 16 / sizeof(T), across = SIZE / WIDTH;\n"
     "  for (int item = threadIdx.x; item < SIZE / chunk * across; item += blockDim.x) {\n"
     "    const int column = item % across * WIDTH, row = item / across * chunk;\n"
     "    if (row >= rows || column >= columns) continue;\n"
     "    kiln_vector<T, WIDTH, WIDTH * sizeof(T)> in[chunk] = {};\n"
     "#pragma unroll\n"
     "    for (int i = 0; i < chunk; ++i) {\n"
     "      if (row + i < rows) in[i] = kiln_load<WIDTH, WIDTH * sizeof(T)>(from + ((row + i) * stride + "
     "column));\n"
     "    }\n"
     "#pragma unroll\n"
     "    for (int k = 0; k < WIDTH; ++k) {\n"
     "      kiln_vector<T, chunk, 16> out;\n"
     "#pragma unroll\n"
     "      for (int i = 0; i < chunk; ++i) out.at[i] = in[i].at[k];\n"
     "      unsigned word[4];\n"
     "      memcpy(word, &out, 16);\n"
     "      T *const to = tile + kiln_tile_at<SIZE, WIDTH, T>(column + k, row);\n"
     "      asm volatile(\"st.shared.v4.b32 [%0], {%1, %2, %3, %4};\" ::\"r\"(\n"
     "                       (unsigned)__cvta_generic_to_shared(to)),\n"
     "                   \"r\"(word[0]), \"r\"(word[1]), \"r\"(word[2]), \"r\"(word[3])\n"
     "                   : \"memory\");\n"
     "    }\n"
     "  }\n"
     "}\n"},
    {"kiln_unstage",
     "// COUNT elements of a tile from one on, along the rows.\n"
     "template <int SIZE, int WIDTH, int COUNT, typename T>\n" FUNCTION
     "kiln_vector<T, COUNT, sizeof(T)> kiln_unstage(const T *tile, int column, int row) {\n"
     "  constexpr int chunk = 16 / sizeof(T), part = COUNT < chunk ? COUNT : chunk;\n"
     "  kiln_vector<T, COUNT, sizeof(T)> result;\n"
     "#pragma unroll\n"
     "  for (int i = 0; i < COUNT; i += part) {\n"
     "    const auto in = kiln_load<part, part * sizeof(T)>(tile + kiln_tile_at<SIZE, WIDTH, T>(column, "
     "row + i));\n"
     "#pragma unroll\n"
     "    for (int k = 0; k < part; ++k) result.at[i + k] = in.at[k];\n"
     "  }\n"
     "  return result;\n"
     "}\n"},
};

const size_t kiln_memory_helper_count = sizeof kiln_memory_helpers / sizeof *kiln_memory_helpers;
