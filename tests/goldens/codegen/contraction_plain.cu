// Grid: (S0) / 64 blocks of 256 threads.
// Computes
//   in0 : f32[4,S0,96]
//   in1 : f32[96,80]
//   t0 = matmul(in0, in1) : f32[4,S0,80]
//   out0 <- t0
// n0 = S0
// n1 = 96*S0
// n2 = 80*S0

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

// Where element `inner` of row `outer` of a tile lies. Rows have INNER elements in chunks of 16 bytes, which
// change places from row to row, so that the same chunk of eight neighbouring rows is in eight places: no
// two of them share a bank.
template <int INNER, int CHUNK>
__device__ __forceinline__ int kiln_slot(int outer, int inner) {
  constexpr int chunks = INNER / CHUNK, turn = chunks < 8 ? 8 / chunks : 1, places = chunks < 8 ? chunks : 8;
  const int chunk = (inner / CHUNK) ^ (outer / turn % places);
  return outer * INNER + chunk * CHUNK + inner % CHUNK;
}

// The first `bytes` of them; then zeros, for which nothing is read.
template <int BYTES>
__device__ __forceinline__ void kiln_copy_async_part(void *to, const void *from, unsigned bytes) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(place), "l"(from), "r"(bytes),
                 "n"(BYTES)
                 : "memory");
}

__device__ __forceinline__ void kiln_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most LEFT groups of copies are under way.
template <int LEFT>
__device__ __forceinline__ void kiln_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// CHUNK elements along k of every 16th row.
template <int INNER, typename T, typename S, int ROWS, int CHUNK>
__device__ __forceinline__ void kiln_read_along_k(S (&out)[ROWS][CHUNK], const T *tile, int thread, int k) {
#pragma unroll
  for (int row = 0; row < ROWS; ++row) {
    const auto chunk = kiln_load<CHUNK, 16>(tile + kiln_slot<INNER, CHUNK>(16 * row + thread, k));
#pragma unroll
    for (int e = 0; e < CHUNK; ++e) out[row][e] = (S)chunk.at[e];
  }
}

// The same of a tile that lies the other way: CHUNK neighbouring rows at a time.
template <int INNER, typename T, typename S, int ROWS, int CHUNK>
__device__ __forceinline__ void kiln_read_along_rows(S (&out)[ROWS][CHUNK], const T *tile, int thread, int k) {
#pragma unroll
  for (int e = 0; e < CHUNK; ++e) {
#pragma unroll
    for (int row = 0; row < ROWS; row += CHUNK) {
      const auto chunk =
          kiln_load<CHUNK, 16>(tile + kiln_slot<INNER, CHUNK>(k + e, 16 * row + thread * CHUNK));
#pragma unroll
      for (int i = 0; i < CHUNK; ++i) out[row + i][e] = (S)chunk.at[i];
    }
  }
}

__device__ __forceinline__ float kiln_multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double kiln_multiply_add(double a, double b, double c) { return fma(a, b, c); }
template <typename T>
__device__ __forceinline__ T kiln_multiply_add(T a, T b, T c) { return a * b + c; }

extern "C" __global__ void __launch_bounds__(256, 1) kiln_contraction(
    const float *__restrict__ in0,
    const float *__restrict__ in1,
    float *__restrict__ out0,
    int n0,
    int n1,
    int n2) {
  // A block makes 64 x 64 results, 16 of K at a time, 4 steps of it in shared memory.
  // 16 x 16 threads, each 4 x 4.
  extern __shared__ __align__(16) unsigned char kiln_shared[];
  const int tile_m = blockIdx.x, tile_n = blockIdx.y, batch = blockIdx.z;
  float *const stages = reinterpret_cast<float *>(kiln_shared);
  float *const sums = reinterpret_cast<float *>(kiln_shared); // in their place, after the loop
  const int steps = (int)((96 + 15) / 16);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int thread_m = warp / 2 * 4 + lane / 8, thread_n = warp % 2 * 8 + lane % 8;
  float total[4][4] = {};
  // Starts the copies of one step of K; every call is one group of copies, an empty one past the end.
  auto load = [&](int step) {
    if (step < steps) {
      float *const a_stage = stages + step % 4 * 2048, *const b_stage = a_stage + 1024;
      // a: copied, 4 elements along k at a time.
      #pragma unroll
      for (int i = 0; i < 1; ++i) {
        const int piece = i * 256 + threadIdx.x, row = piece / 4, column = piece % 4;
        const int m = tile_m * 64 + row, k_by_4 = step * 4 + column;
        float *const to = a_stage + kiln_slot<16, 4>(row, column * 4);
        kiln_copy_async_part<16>(to, in0 + (n1 * batch + 96 * m + 4 * k_by_4), m < n0 ? 16 : 0);
      }
      // b: copied, 4 elements along n at a time.
      #pragma unroll
      for (int i = 0; i < 1; ++i) {
        const int piece = i * 256 + threadIdx.x, row = piece / 16, column = piece % 16;
        const int k = step * 16 + row, n_by_4 = tile_n * 16 + column;
        float *const to = b_stage + kiln_slot<64, 4>(row, column * 4);
        kiln_copy_async_part<16>(to, in1 + (80 * k + 4 * n_by_4), 4 * n_by_4 < 80 ? 16 : 0);
      }
    }
    kiln_copy_commit();
  };
  #pragma unroll
  for (int step = 0; step < 3; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    kiln_copy_wait<2>();
    __syncthreads();
    load(step + 3);
    const float *const a_tile = stages + step % 4 * 2048, *const b_tile = a_tile + 1024;
    #pragma unroll
    for (int k = 0; k < 16; k += 4) {
      float a[4][4], b[4][4];
      kiln_read_along_k<16>(a, a_tile, thread_m, k);
      kiln_read_along_rows<64>(b, b_tile, thread_n, k);
      #pragma unroll
      for (int e = 0; e < 4; ++e)
      #pragma unroll
        for (int i = 0; i < 4; ++i)
      #pragma unroll
          for (int j = 0; j < 4; ++j) total[i][j] = kiln_multiply_add(a[i][e], b[j][e], total[i][j]);
    }
  }
  kiln_copy_wait<0>();
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 4; ++i)
  #pragma unroll
    for (int j = 0; j < 4; ++j)
      sums[(16 * i + thread_m) * 72 + 16 * (j / 4 * 4) + thread_n * 4 + j % 4] = total[i][j];
  __syncthreads();
  // One thread for 4 neighbouring elements along n.
  for (int piece = threadIdx.x; piece < 1024; piece += 256) {
    const int m = tile_m * 64 + piece / 16, n_by_4 = tile_n * 16 + piece % 16;
    if (m >= n0 || 4 * n_by_4 >= 80) continue;
    const auto w0 = kiln_load<4, 16>(sums + 72 * m + 4 * n_by_4 - 4608 * tile_m - 64 * tile_n);
    kiln_vector<float, 4, 16> s0;
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float v1 = w0.at[lane];
      s0.at[lane] = v1;
    }
    kiln_store<4, 16>(out0 + n2 * batch + 80 * m + 4 * n_by_4, s0);
  }
}

// Relies on: S0+256 < 2147483648
// Relies on: 384*S0+4 < 2147483648
