// Grid: (1) / 1 blocks of 256 threads.
// Computes, for many members with sizes of their own,
//   in0 : f16[S0,S1]
//   in1 : f16[S1]
//   t0 = rmsnorm(in0, in1) : f16[S0,S1]
//   out0 <- t0
// n0 = S0
// n1 = S1
// n2 = S3
// n3 = S5
// n4 = S4

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

__device__ __forceinline__ float kiln_float_from_f16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ __forceinline__ unsigned short kiln_f16(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
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

struct kiln_member {
  const unsigned short *in0;
  const unsigned short *in1;
  unsigned short *out0;
  int n0;
  int n1;
  int n2;
  int n3;
  int n4;
  int width; // elements of an access
};

// first[i]: blocks of all members before i.
struct kiln_members {
  unsigned count, first[8 + 1];
  kiln_member rows[8];
};

extern "C" __global__ void __launch_bounds__(256, 1) kiln_rows(
    const __grid_constant__ kiln_members table) {
  unsigned low = 0, high = table.count;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (table.first[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle;
  }
  const unsigned block = blockIdx.x - table.first[low];
  const kiln_member &member_of_block = table.rows[low];
  const unsigned short *__restrict__ const in0 = member_of_block.in0;
  const unsigned short *__restrict__ const in1 = member_of_block.in1;
  unsigned short *__restrict__ const out0 = member_of_block.out0;
  const int n0 = member_of_block.n0;
  const int n1 = member_of_block.n1;
  const int n2 = member_of_block.n2;
  const int n3 = member_of_block.n3;
  const int n4 = member_of_block.n4;
  const int width = member_of_block.width;
  if (width == 8) {
    // 32 threads share a row, 8 rows a block.
    // A thread adds up 8 of every 256 columns; 2 x 8 of its elements are unrolled, and kept.
    const unsigned thread = block * 8u + threadIdx.x / 32u;
    if (thread >= (unsigned)n0) return;
    const int member = threadIdx.x % 32;
    const int a0 = thread;
    const long long v0 = (long long)n2;
    const int v1 = (int)v0;
    const float v2 = __int_as_float(v1);
    const long long v3 = (long long)n1;
    const double v4 = (double)v3;
    const float v5 = (float)v4;
    kiln_vector<unsigned short, 8, 16> x36[2];
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int step = k * 32 + member;
      if (step < (((unsigned)n1 + 7) / 8)) {
        const auto w6 = kiln_load<8, 16>(in0 + n3 * a0 + 8 * step);
        x36[k] = w6;
      }
    }
    kiln_partial<kiln_sum, float, 8> p40(0);
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int step = k * 32 + member;
      if (step < (((unsigned)n1 + 7) / 8)) {
        #pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const unsigned short v7 = x36[k].at[lane];
          const float f7 = kiln_float_from_f16(v7);
          const float v8 = f7 * f7;
          p40.add(lane, v8);
        }
      }
    }
    const float v9 = p40.total<8, 32, 40>();
    const float v10 = v9 / v5;
    const float v11 = v10 + v2;
    const float v12 = rsqrt(v11);
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int step = k * 32 + member;
      if (step < (((unsigned)n1 + 7) / 8)) {
        const auto w13 = kiln_load<8, 16>(in1 + 8 * step);
        kiln_vector<unsigned short, 8, 16> s0;
        #pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const unsigned short v14 = x36[k].at[lane];
          const float f14 = kiln_float_from_f16(v14);
          const unsigned short v15 = w13.at[lane];
          const float f15 = kiln_float_from_f16(v15);
          const float v16 = f14 * v12;
          const float v17 = v16 * f15;
          const unsigned short v18 = kiln_f16(v17);
          s0.at[lane] = v18;
        }
        kiln_store<8, 16>(out0 + n4 * a0 + 8 * step, s0);
      }
    }
    return;
  }
  // 32 threads share a row, 8 rows a block.
  // A thread adds up 8 of every 256 columns; 16 x 1 of its elements are unrolled, and kept.
  const unsigned thread = block * 8u + threadIdx.x / 32u;
  if (thread >= (unsigned)n0) return;
  const int member = threadIdx.x % 32;
  const int a0 = thread;
  const long long v0 = (long long)n2;
  const int v1 = (int)v0;
  const float v2 = __int_as_float(v1);
  const long long v3 = (long long)n1;
  const double v4 = (double)v3;
  const float v5 = (float)v4;
  unsigned short x8[16];
  #pragma unroll
  for (int k = 0; k < 16; k += 8) {
    #pragma unroll
    for (int g = 0; g < 8; ++g) {
      const int step = (k + g) * 32 + member;
      if (step < (unsigned)n1) {
        const unsigned short v6 = in0[n3 * a0 + step];
        const float f6 = kiln_float_from_f16(v6);
        x8[(k + g)] = v6;
      }
    }
  }
  kiln_partial<kiln_sum, float, 8> p16(0);
  #pragma unroll
  for (int k = 0; k < 16; k += 8) {
    #pragma unroll
    for (int g = 0; g < 8; ++g) {
      const int step = (k + g) * 32 + member;
      if (step < (unsigned)n1) {
        const unsigned short v7 = x8[(k + g)];
        const float f7 = kiln_float_from_f16(v7);
        const float v8 = f7 * f7;
        p16.add(g, v8);
      }
    }
  }
  const float v9 = p16.total<1, 32, 16>();
  const float v10 = v9 / v5;
  const float v11 = v10 + v2;
  const float v12 = rsqrt(v11);
  #pragma unroll
  for (int k = 0; k < 16; k += 8) {
    #pragma unroll
    for (int g = 0; g < 8; ++g) {
      const int step = (k + g) * 32 + member;
      if (step < (unsigned)n1) {
        const unsigned short v13 = x8[(k + g)];
        const float f13 = kiln_float_from_f16(v13);
        const unsigned short v14 = in1[step];
        const float f14 = kiln_float_from_f16(v14);
        const float v15 = f13 * v12;
        const float v16 = v15 * f14;
        const unsigned short v17 = kiln_f16(v16);
        out0[n4 * a0 + step] = v17;
      }
    }
  }
}

