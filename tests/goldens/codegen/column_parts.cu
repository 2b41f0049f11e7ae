// Grid: (8) / 8 blocks of 512 threads.
// Computes
//   in0 : f32[20000,8]
//   t0 = sum(in0) : f32[8]
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

// COUNT partial results that lie STRIDE apart, as a tree, neighbours first.
template <typename OP, int COUNT, int STRIDE, typename T>
__device__ __forceinline__ T kiln_fold(const T *from) {
  if constexpr (COUNT == 1) return *from;
  else return OP::of(kiln_fold<OP, COUNT / 2, STRIDE>(from),
                     kiln_fold<OP, COUNT / 2, STRIDE>(from + COUNT / 2 * STRIDE));
}

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

extern "C" __global__ void __launch_bounds__(512, 1) kiln_columns(
    const float *__restrict__ in0,
    float *__restrict__ out0,
    unsigned char *__restrict__ workspace,
    unsigned *__restrict__ counters) {
  // 256 threads share 4 results, and 2 vectors of them a block.
  // There are 4 parts, each of which is a block's.
  const unsigned place = blockIdx.x * 2u + threadIdx.x % 2;
  const bool inside = place < 2u;
  const unsigned thread = inside ? place : 0;
  const int member = threadIdx.x / 2;
  const int a0 = thread;
  float *const w17 = reinterpret_cast<float *>(workspace + blockIdx.x * 128ull + 0);
  const int part = blockIdx.y;
  kiln_partial<kiln_sum, float, 4> p17(0);
  for (int first = part * 256 + member; first < 20000; first += 16384) {
    auto q17 = p17.none();
    #pragma unroll 4
    for (int k = 0; k < 16; ++k) {
      const int step = first + k * 1024;
      if (step < 20000) {
        const auto w0 = kiln_load<4, 16>(in0 + 8 * step + 4 * a0);
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          const float v1 = w0.at[lane];
          q17.add(lane, v1);
        }
      }
    }
    p17.add(q17);
  }
  p17.share<2, 256>();
  for (int i = 0; member == 0 && i < 4; ++i)
    w17[(part * 4 + i) * 2 + threadIdx.x] = p17.of[i];
  if (!kiln_is_last<4>(counters + blockIdx.x)) return;
  kiln_partial<kiln_sum, float, 4> r17(0);
  for (int i = 0; member < 4 && i < 4; ++i)
    r17.of[i] = kiln_fold<kiln_sum, 1, 8>(w17 + (member * 4 + i) * 2 + threadIdx.x % 2);
  r17.share<2, 256>();
  if (member == 0 && inside) {
    kiln_vector<float, 4, 16> s0;
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      s0.at[lane] = r17.of[lane];
    }
    kiln_store<4, 16>(out0 + 4 * a0, s0);
  }
}

