// Grid: (48) / 1 blocks of 256 threads.
// Computes
//   in0 : bf16[1,512]
//   in1 : bf16[384,512]
//   t0 = gemm_rcr(in0, in1) : bf16[1,384]
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

// The sum, as a tree; N is a power of two. Leaves nothing of the terms.
template <typename T, int N>
__device__ __forceinline__ T kiln_add_up(T (&terms)[N]) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) terms[i] += terms[i + half];
  }
  return terms[0];
}

__device__ __forceinline__ float kiln_multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double kiln_multiply_add(double a, double b, double c) { return fma(a, b, c); }
template <typename T>
__device__ __forceinline__ T kiln_multiply_add(T a, T b, T c) { return a * b + c; }

extern "C" __global__ void __launch_bounds__(256, 1) kiln_contraction(
    const unsigned short *__restrict__ in0,
    const unsigned short *__restrict__ in1,
    unsigned short *__restrict__ out0) {
  extern __shared__ __align__(16) unsigned char kiln_shared[];
  const int tile_m = blockIdx.x % 1u, tile_n = blockIdx.x / 1u % 48u, batch = blockIdx.x / 48u;
  float *const parts = reinterpret_cast<float *>(kiln_shared);
  float *const sums = reinterpret_cast<float *>(parts + 8);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // A warp takes a row, 8 elements a lane at a time.
  const int n = tile_n * 8 + warp / 1;
  float sum = 0;
  if (n < 384) {
    float total[8] = {};
    #pragma unroll 4
    for (int k_by_8 = warp % 1 * 32 + lane; k_by_8 < 512 / 8; k_by_8 += 32) {
      const auto w0 = kiln_load<8, 16>(in0 + 8 * k_by_8);
      const auto w1 = kiln_load<8, 16>(in1 + 512 * n + 8 * k_by_8);
      #pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        const unsigned short v2 = w0.at[lane];
        const float f2 = kiln_float_from_bf16(v2);
        const unsigned short v3 = w1.at[lane];
        const float f3 = kiln_float_from_bf16(v3);
        total[lane] = kiln_multiply_add((float)f2, (float)f3, total[lane]);
      }
    }
    sum = kiln_add_up(total);
  }
  #pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  // One thread for 8 neighbouring elements along n.
  for (int piece = threadIdx.x; piece < 1; piece += 256) {
    const int m = tile_m * 1 + piece / 1, n_by_8 = tile_n * 1 + piece % 1;
    if (m >= 1 || 8 * n_by_8 >= 384) continue;
    const auto w0 = kiln_load<8, 16>(sums + 8 * n_by_8 - 16 * tile_m - 8 * tile_n);
    kiln_vector<unsigned short, 8, 16> s0;
    #pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      const float v1 = w0.at[lane];
      const float v2 = v1 * 0.5f;
      const unsigned short v3 = kiln_bf16(v2);
      s0.at[lane] = v3;
    }
    kiln_store<8, 16>(out0 + 8 * n_by_8, s0);
  }
}

