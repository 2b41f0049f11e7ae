// Grid: (2048) / 2048 blocks of 256 threads.
// Computes
//   in0 : bf16[1001]
//   in1 : bf16[1001]
//   t0 = add(in0, in1) : bf16[1001]
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

// The first `count` elements, 0 for the others.
template <int N, int BYTES, typename T>
__device__ __forceinline__ kiln_vector<T, N, BYTES> kiln_load_part(const T *from, int count) {
  if (count == N) return kiln_load<N, BYTES>(from);
  kiln_vector<T, N, BYTES> result = {};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < count) result.at[i] = from[i];
  }
  return result;
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

// The first `count` elements.
template <int N, int BYTES, typename T>
__device__ __forceinline__ void kiln_store_part(T *to, const kiln_vector<T, N, BYTES> &value, int count) {
  if (count == N) return kiln_store<N, BYTES>(to, value);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < count) to[i] = value.at[i];
  }
}

__device__ __forceinline__ float kiln_float_from_bf16(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}

__device__ __forceinline__ unsigned short kiln_bf16(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const unsigned short *__restrict__ in0,
    const unsigned short *__restrict__ in1,
    unsigned short *__restrict__ out0) {
  // One thread for each of 1001/8; it stores 1 time 8 elements. The last vector may be partial.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= 126u) return;
  const int a0 = thread;
  const int left = 1001 - 8 * a0;
  const int count = left < 8 ? left : 8;
  const auto w0 = kiln_load_part<8, 16>(in0 + 8 * a0, count);
  const auto w1 = kiln_load_part<8, 16>(in1 + 8 * a0, count);
  kiln_vector<unsigned short, 8, 16> s0;
  #pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const unsigned short v2 = w0.at[lane];
    const float f2 = kiln_float_from_bf16(v2);
    const unsigned short v3 = w1.at[lane];
    const float f3 = kiln_float_from_bf16(v3);
    const unsigned short v4 = kiln_bf16(f2 + f3);
    s0.at[lane] = v4;
  }
  kiln_store_part<8, 16>(out0 + 8 * a0, s0, count);
}

