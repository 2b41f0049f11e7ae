// Grid: (S0) / 1 blocks of 512 threads.
// Computes
//   in0 : f32[S0,S1]
//   t0 = sum(in0) : f32[S0]
//   t1 = amax(in0) : f32[S0]
//   t2 = sub(t0, t1) : f32[S0]
//   out0 <- t1
//   out1 <- t2
// n0 = S0
// n1 = S1

template <typename T>
__device__ __forceinline__ T kiln_maximum(T a, T b) {
  return a > b || a != a ? a : b;
}

struct kiln_sum {
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
  static __device__ __forceinline__ double of(double a, double b) { return a + b; }
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return (T)((unsigned long long)a + (unsigned long long)b);
  }
};

struct kiln_amax {
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return kiln_maximum(a, b);
  }
};

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

extern "C" __global__ void __launch_bounds__(512) kiln_rows(
    const float *__restrict__ in0,
    float *__restrict__ out0,
    float *__restrict__ out1,
    int n0,
    int n1) {
  // A block of 512 threads has a row.
  // A thread adds up 1 of every 512 columns; 2 x 1 of its elements are unrolled.
  const unsigned thread = blockIdx.x;
  const int member = threadIdx.x;
  const int a0 = thread;
  kiln_partial<kiln_amax, float, 1> p9(-__int_as_float(0x7f800000));
  kiln_partial<kiln_sum, float, 1> p10(0);
  #pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int step = k * 512 + member;
    if (step < (unsigned)n1) {
      const float v0 = in0[n1 * a0 + step];
      p9.add(0, v0);
      p10.add(0, v0);
    }
  }
  for (int first = 1024 + member; first < (unsigned)n1; first += 8192) {
    auto q9 = p9.none();
    auto q10 = p10.none();
    #pragma unroll 4
    for (int k = 0; k < 16; ++k) {
      const int step = first + k * 512;
      if (step < (unsigned)n1) {
        const float v1 = in0[n1 * a0 + step];
        q9.add(0, v1);
        q10.add(0, v1);
      }
    }
    p9.add(q9);
    p10.add(q10);
  }
  const float v2 = p9.total<1, 512, 9>();
  const float v3 = p10.total<1, 512, 10>();
  const float v4 = v3 - v2;
  if (member == 0) {
    out0[a0] = v2;
    out1[a0] = v4;
  }
}

// Relies on: S0+1 < 2147483648
// Relies on: S1+8192 < 2147483648
// Relies on: S0*S1+1 < 2147483648
