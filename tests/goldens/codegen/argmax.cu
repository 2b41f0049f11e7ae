// Grid: (2) / 1 blocks of 1024 threads.
// Computes
//   in0 : f16[2,40001]
//   t0 = argmax(in0) : i64[2]
//   out0 <- t0

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

extern "C" __global__ void __launch_bounds__(1024) kiln_rows(
    const unsigned short *__restrict__ in0,
    long long *__restrict__ out0,
    unsigned char *__restrict__ workspace,
    unsigned *__restrict__ counters) {
  // A row has 2 parts, each of which is a block's. A block has 1024 threads.
  // A thread adds up 4 of every 4096 columns.
  const unsigned thread = blockIdx.x;
  const int member = threadIdx.x;
  const int a0 = thread;
  kiln_place<float> *const w10 = reinterpret_cast<kiln_place<float> *>(workspace + thread * 32ull + 0);
  const int part = blockIdx.y;
  kiln_partial<kiln_argmax, kiln_place<float>, 4> p10({-__int_as_float(0x7f800000), 0x7fffffffffffffffLL});
  for (int first = part * 4096 + member; first < 40001u; first += 40960) {
    auto q10 = p10.none();
    #pragma unroll 4
    for (int k = 0; k < 5; ++k) {
      #pragma unroll
      for (int g = 0; g < 4; ++g) {
        const int step = first + k * 8192 + g * 1024;
        if (step < 40001u) {
          const unsigned short v0 = in0[40001 * a0 + step];
          const float f0 = kiln_float_from_f16(v0);
          q10.add(g, {f0, step});
        }
      }
    }
    p10.add(q10);
  }
  const kiln_place<float> t10 = p10.total<1, 1024, 10>();
  if (member == 0) w10[part] = t10;
  if (!kiln_is_last<2>(counters + thread)) return;
  kiln_place<float> u10 = {-__int_as_float(0x7f800000), 0x7fffffffffffffffLL};
  if (member < 2) u10 = w10[member];
  const long long v1 = kiln_total<kiln_argmax, 1024, 10>(u10).at;
  if (member == 0) {
    out0[a0] = v1;
  }
}

