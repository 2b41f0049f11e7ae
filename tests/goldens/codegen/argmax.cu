// Grid: (2) / 1 blocks of 512 threads.
// Computes
//   in0 : f16[2,40001]
//   t0 = argmax(in0) : i64[2]
//   out0 <- t0

// N elements that move BYTES at a time.
template <typename T, int N, int BYTES>
struct __align__(BYTES) kiln_vector {
  T at[N];
};

template <int N, int BYTES, typename T>
__device__ __forceinline__ kiln_vector<T, N, BYTES> kiln_load(const T *from) {
  return *reinterpret_cast<const kiln_vector<T, N, BYTES> *>(from);
}

// Bytes first .. end - 1 of 16, in pieces as large as may be, 0 for the others. Rare, and short to compile.
static __device__ __noinline__ uint4 kiln_load_ends(const char *from, int first, int end) {
  uint4 result = {};
#pragma unroll 1
  for (int at = first; at < end;) {
    int size = (at | 16) & -(at | 16);
    while (at + size > end) size /= 2;
    uint2 in = {};
    if (size == 8)
      in = *reinterpret_cast<const uint2 *>(from + at);
    else if (size == 4)
      in.x = *reinterpret_cast<const unsigned *>(from + at);
    else if (size == 2)
      in.x = *reinterpret_cast<const unsigned short *>(from + at) << at % 4 * 8;
    else
      in.x = *reinterpret_cast<const unsigned char *>(from + at) << at % 4 * 8;
    result.x |= at / 4 == 0 ? in.x : 0;
    result.y |= at / 4 == 0 ? in.y : at / 4 == 1 ? in.x : 0;
    result.z |= at / 4 == 2 ? in.x : 0;
    result.w |= at / 4 == 2 ? in.y : at / 4 == 3 ? in.x : 0;
    at += size;
  }
  return result;
}

// Elements first .. end - 1 of an aligned vector, 0 for the others.
template <int N, typename T>
__device__ __forceinline__ kiln_vector<T, N, N * sizeof(T)> kiln_load_within(const T *from, int first, int end) {
  if (first <= 0 && end >= N) return kiln_load<N, N * sizeof(T)>(from);
  kiln_vector<T, N, N * sizeof(T)> result = {};
  if (first >= end) return result;
  const uint4 part = kiln_load_ends(reinterpret_cast<const char *>(from), (first > 0 ? first : 0) * (int)sizeof(T),
                                    (end < N ? end : N) * (int)sizeof(T));
  memcpy(&result, &part, sizeof result);
  return result;
}

// Words moved down by so many bytes, below 8 * MOST.
template <int STEP, int N>
__device__ __forceinline__ void kiln_move_words(unsigned (&word)[N], bool moves) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i + STEP < N) word[i] = moves ? word[i + STEP] : word[i];
  }
}
template <int MOST, int N>
__device__ __forceinline__ void kiln_shift_words(unsigned (&word)[N], int bytes) {
  if (MOST >= 4) kiln_move_words<4>(word, bytes & 16);
  if (MOST >= 2) kiln_move_words<2>(word, bytes & 8);
  if (MOST >= 1) kiln_move_words<1>(word, bytes & 4);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i + 1 < N) word[i] = __funnelshift_r(word[i], word[i + 1], 8 * (bytes & 3));
  }
}

// N elements of a row, which may begin anywhere: each thread reads units of BYTES as memory is aligned, and gets
// what lies behind them from the next thread of its TEAM. The row has `left` elements from here on, none below 1.
template <int N, int BYTES, int TEAM, typename T, typename L>
__device__ __forceinline__ kiln_vector<T, N, BYTES> kiln_load_row(const T *from, L left, bool is_first) {
  constexpr int unit = BYTES / sizeof(T), units = N / unit, words = BYTES / 4;
  const int lane = threadIdx.x % TEAM, off = (unsigned)(unsigned long long)from % BYTES / sizeof(T);
  const unsigned team = TEAM == 32 ? ~0u : ((1u << TEAM % 32) - 1) << threadIdx.x % 32 / TEAM * TEAM;
  const int end = left < 1 ? 0 : off + (left < 2 * N ? (int)left : 2 * N);
  unsigned word[(units + 1) * words];
#pragma unroll
  for (int u = 0; u < units; ++u) {
    const auto own = kiln_load_within<unit>(from - off + u * unit, (is_first ? off : 0) - u * unit, end - u * unit);
    memcpy(word + u * words, &own, BYTES);
  }
#pragma unroll
  for (int i = 0; i < words; ++i) word[units * words + i] = __shfl_down_sync(team, word[i], 1, TEAM);
  if (off && end > N && (lane == TEAM - 1 || left <= N)) {
    const auto next = kiln_load_within<unit>(from - off + N, 0, end - N);
    memcpy(word + units * words, &next, BYTES);
  }
  kiln_shift_words<words / 2>(word, off * sizeof(T));
  kiln_vector<T, N, BYTES> result;
  memcpy(&result, word, sizeof result);
  return result;
}

__device__ __forceinline__ float kiln_float_from_f16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

template <typename T>
__device__ __forceinline__ T kiln_shuffle(unsigned mask, T value, int distance) {
  return (T)__shfl_xor_sync(mask, (int)value, distance);
}
__device__ __forceinline__ float kiln_shuffle(unsigned mask, float value, int distance) {
  return __shfl_xor_sync(mask, value, distance);
}
__device__ __forceinline__ double kiln_shuffle(unsigned mask, double value, int distance) {
  return __shfl_xor_sync(mask, value, distance);
}
__device__ __forceinline__ long long kiln_shuffle(unsigned mask, long long value, int distance) {
  return __shfl_xor_sync(mask, value, distance);
}

// A value and where in the row it was found.
template <typename T>
struct kiln_place {
  T value;
  long long at;
};
template <typename T>
__device__ __forceinline__ kiln_place<T> kiln_shuffle(unsigned mask, kiln_place<T> place, int distance) {
  return {kiln_shuffle(mask, place.value, distance), kiln_shuffle(mask, place.at, distance)};
}
// A NaN wins; of equals the first.
template <typename T>
__device__ __forceinline__ kiln_place<T> kiln_choose(kiln_place<T> a, kiln_place<T> b, bool a_wins, bool b_wins) {
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
  if (a_wins || b_wins) return a_wins ? a : b;
  return a.at < b.at ? a : b;
}

struct kiln_argmax {
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return kiln_choose(a, b, a.value > b.value, b.value > a.value);
  }
};

// One value per thread combined over the THREADS that share a row, neighbours first; all get the result.
template <typename OP, int THREADS, int CALL, typename T>
__device__ __forceinline__ T kiln_total(T value) {
  constexpr int lanes = THREADS < 32 ? THREADS : 32, warps = THREADS / lanes;
  const unsigned team = lanes == 32 ? ~0u : ((1u << lanes % 32) - 1) << (threadIdx.x & 31 & -lanes);
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2)
    value = OP::of(value, kiln_shuffle(team, value, distance));
  if (warps == 1) return value;
  __shared__ T of_warps[warps];
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warps[threadIdx.x % warps];
#pragma unroll
  for (int distance = 1; distance < warps; distance *= 2)
    value = OP::of(value, kiln_shuffle(~0u, value, distance));
  return value;
}

// What a thread has of COLUMNS columns of its row.
template <typename OP, typename T, int COLUMNS>
struct kiln_partial {
  T nothing, of[COLUMNS];
  __device__ __forceinline__ kiln_partial(T none) : nothing(none) {
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) of[i] = none;
  }
  __device__ __forceinline__ kiln_partial none() const { return kiln_partial(nothing); }
  __device__ __forceinline__ void add(int column, T value) {
    of[column] = OP::of(of[column], value);
  }
  __device__ __forceinline__ void add(const kiln_partial &run) {
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) add(i, run.of[i]);
  }
  // Columns of a vector, then threads, then a thread's vectors. CALL tells the calls of a kernel apart.
  template <int LANES, int THREADS, int CALL>
  __device__ __forceinline__ T total() {
#pragma unroll
    for (int step = 1; step < LANES; step *= 2)
#pragma unroll
      for (int i = 0; i < COLUMNS; i += 2 * step) add(i, of[i + step]);
#pragma unroll
    for (int i = 0; i < COLUMNS; i += LANES) {
      if (i && THREADS > 32) __syncthreads();
      of[i] = kiln_total<OP, THREADS, CALL>(of[i]);
    }
#pragma unroll
    for (int step = LANES; step < COLUMNS; step *= 2)
#pragma unroll
      for (int i = 0; i < COLUMNS; i += 2 * step) add(i, of[i + step]);
    return of[0];
  }
  // The DEPTH threads that are WIDTH apart combine each column, neighbours first; all of them get it.
  template <int WIDTH, int DEPTH>
  __device__ __forceinline__ void share() {
    constexpr int per_warp = WIDTH < 32 ? 32 / WIDTH : 1;
    __shared__ T of_warps[DEPTH / per_warp][COLUMNS][WIDTH];
    const int x = threadIdx.x % WIDTH, y = threadIdx.x / (WIDTH * per_warp);
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i)
#pragma unroll
      for (int distance = WIDTH; distance < 32; distance *= 2)
        add(i, kiln_shuffle(~0u, of[i], distance));
    for (int distance = 1; distance < DEPTH / per_warp; distance *= 2) {
      __syncthreads();
#pragma unroll
      for (int i = 0; threadIdx.x % 32 < WIDTH && i < COLUMNS; ++i) of_warps[y][i][x] = of[i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < COLUMNS; ++i) add(i, of_warps[y ^ distance][i][x]);
    }
  }
};

// Whether this is the last of PARTS blocks to come here; it sees what all others have stored. The counter is 0
// again then.
template <unsigned PARTS>
__device__ __forceinline__ bool kiln_is_last(unsigned *counter) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicInc(counter, PARTS - 1) == PARTS - 1;
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

extern "C" __global__ void __launch_bounds__(512, 1) kiln_rows(
    const unsigned short *__restrict__ in0,
    long long *__restrict__ out0,
    unsigned char *__restrict__ workspace,
    unsigned *__restrict__ counters) {
  // A row has 2 parts, each of which is a block's. A block has 512 threads.
  // A thread adds up 8 of every 4096 columns.
  const unsigned thread = blockIdx.x;
  const int member = threadIdx.x;
  const int a0 = thread;
  kiln_place<float> *const w19 = reinterpret_cast<kiln_place<float> *>(workspace + thread * 32ull + 0);
  const int part = blockIdx.y;
  kiln_partial<kiln_argmax, kiln_place<float>, 8> p19({-__int_as_float(0x7f800000), 0x7fffffffffffffffLL});
  for (int first = part * 512 + member; first - member < 5001u; first += 5120) {
    auto q19 = p19.none();
    #pragma unroll 1
    for (int k = 0; k < 5; ++k) {
      const int step = first + k * 1024;
      if (step - member < 5001u) {
        const int left = 40001 - 8 * step;
        const int count = left < 8 ? left : 8;
        const auto w0 = kiln_load_row<8, 16, 32>(in0 + 40001 * a0 + 8 * step, left, step == 0);
        #pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const unsigned short v1 = w0.at[lane];
          const float f1 = kiln_float_from_f16(v1);
          if (lane >= count) break;
          q19.add(lane, {f1, 8LL * step + lane});
        }
      }
    }
    p19.add(q19);
  }
  const kiln_place<float> t19 = p19.total<8, 512, 19>();
  if (member == 0) w19[part] = t19;
  if (!kiln_is_last<2>(counters + thread)) return;
  kiln_place<float> u19 = {-__int_as_float(0x7f800000), 0x7fffffffffffffffLL};
  if (member < 2) u19 = w19[member];
  const long long v2 = kiln_total<kiln_argmax, 512, 19>(u19).at;
  if (member == 0) {
    out0[a0] = v2;
  }
}

