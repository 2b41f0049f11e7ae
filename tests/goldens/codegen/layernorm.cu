// Grid: (12) / 8 blocks of 256 threads.
// Computes
//   in0 : bf16[12,256]
//   in1 : bf16[256]
//   in2 : bf16[256]
//   t0 = layernorm(in0, in1, in2) : bf16[12,256]
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

// The instructions are spelled out, because the compiler splits some vectors into their elements.
template <int N, int BYTES, typename T>
__device__ __forceinline__ void kiln_store(T *to, const kiln_vector<T, N, BYTES> &value) {
  unsigned word[(sizeof value + 3) / 4];
  memcpy(word, &value, sizeof value);
#pragma unroll
  for (int i = 0; BYTES >= 8 && i < sizeof value / BYTES; ++i) {
    T *const part = to + i * (BYTES / sizeof(T));
    const unsigned *const w = word + i * (BYTES / 4);
    if (BYTES == 16)
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(part), "r"(w[0]), "r"(w[1]),
                   "r"(w[2]), "r"(w[3]));
    else
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(part), "r"(w[0]), "r"(w[1]));
  }
  if (BYTES < 8) *reinterpret_cast<kiln_vector<T, N, BYTES> *>(to) = value;
}

__device__ __forceinline__ float kiln_float_from_bf16(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}

__device__ __forceinline__ unsigned short kiln_bf16(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

struct kiln_sum {
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
  static __device__ __forceinline__ double of(double a, double b) { return a + b; }
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return (T)((unsigned long long)a + (unsigned long long)b);
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

extern "C" __global__ void __launch_bounds__(256, 1) kiln_rows(
    const unsigned short *__restrict__ in0,
    const unsigned short *__restrict__ in1,
    const unsigned short *__restrict__ in2,
    unsigned short *__restrict__ out0) {
  // 32 threads share a row, 8 rows a block.
  // A thread adds up 8 of every 256 columns; 1 x 8 of its elements are unrolled, and kept.
  const unsigned thread = blockIdx.x * 8u + threadIdx.x / 32u;
  if (thread >= 12u) return;
  const int member = threadIdx.x % 32;
  const int a0 = thread;
  kiln_vector<unsigned short, 8, 16> x34[1];
  #pragma unroll
  for (int k = 0; k < 1; ++k) {
    const int step = k * 32 + member;
    const auto w0 = kiln_load<8, 16>(in0 + 256 * a0 + 8 * step);
    x34[k] = w0;
  }
  kiln_partial<kiln_sum, float, 8> p38(0);
  #pragma unroll
  for (int k = 0; k < 1; ++k) {
    const int step = k * 32 + member;
    #pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const unsigned short v1 = x34[k].at[lane];
      const float f1 = kiln_float_from_bf16(v1);
      p38.add(lane, f1);
    }
  }
  const float v2 = p38.total<8, 32, 38>();
  const float v3 = v2 / 256.0f;
  kiln_partial<kiln_sum, float, 8> p42(0);
  #pragma unroll
  for (int k = 0; k < 1; ++k) {
    const int step = k * 32 + member;
    #pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const unsigned short v4 = x34[k].at[lane];
      const float f4 = kiln_float_from_bf16(v4);
      const float v5 = f4 - v3;
      const float v6 = v5 * v5;
      p42.add(lane, v6);
    }
  }
  const float v7 = p42.total<8, 32, 42>();
  const float v8 = v7 / 256.0f;
  const float v9 = v8 + 9.99999975e-06f;
  const float v10 = rsqrt(v9);
  #pragma unroll
  for (int k = 0; k < 1; ++k) {
    const int step = k * 32 + member;
    const auto w11 = kiln_load<8, 16>(in1 + 8 * step);
    const auto w12 = kiln_load<8, 16>(in2 + 8 * step);
    kiln_vector<unsigned short, 8, 16> s0;
    #pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const unsigned short v13 = x34[k].at[lane];
      const float f13 = kiln_float_from_bf16(v13);
      const unsigned short v14 = w11.at[lane];
      const float f14 = kiln_float_from_bf16(v14);
      const unsigned short v15 = w12.at[lane];
      const float f15 = kiln_float_from_bf16(v15);
      const float v16 = f13 - v3;
      const float v17 = v16 * v10;
      const float v18 = v17 * f14;
      const float v19 = v18 + f15;
      const unsigned short v20 = kiln_bf16(v19);
      s0.at[lane] = v20;
    }
    kiln_store<8, 16>(out0 + 256 * a0 + 8 * step, s0);
  }
}

