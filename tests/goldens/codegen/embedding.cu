// Grid: (6144) / 2048 blocks of 256 threads.
// Computes
//   in0 : i64[7,3]
//   in1 : f16[1000,256]
//   t0 = embedding(in1, in0) : f16[7,3,256]
//   t1 = silu(t0) : f16[7,3,256]
//   out0 <- t1

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

// An index read from memory, kept inside [0, extent).
__device__ __forceinline__ long long kiln_clamp_index(long long index, long long extent) {
  return index < 0 ? 0 : index < extent ? index : extent - 1;
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

// For x < 0 the factor exp(x) is taken in two halves, which do not underflow before the product does.
template <typename T>
__device__ __forceinline__ T kiln_silu(T x) {
  const T e = exp(-fabs(x) * (T)0.5);
  return x < 0 ? (x * e) * e / ((T)1 + e * e) : x / ((T)1 + e * e);
}

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const long long *__restrict__ in0,
    const unsigned short *__restrict__ in1,
    unsigned short *__restrict__ out0) {
  // One thread for each of 21 x 256/8; it stores 1 time 8 elements.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= 672u) return;
  const int a1 = thread % 32u;
  const int a0 = thread / 32u;
  const long long v0 = in0[a0];
  const int i1 = kiln_clamp_index(v0, 1000);
  const auto w2 = kiln_load<8, 16>(in1 + 256 * i1 + 8 * a1);
  kiln_vector<unsigned short, 8, 16> s0;
  #pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const unsigned short v3 = w2.at[lane];
    const float f3 = kiln_float_from_f16(v3);
    const unsigned short v4 = kiln_f16(kiln_silu(f3));
    s0.at[lane] = v4;
  }
  kiln_store<8, 16>(out0 + 256 * a0 + 8 * a1, s0);
}

