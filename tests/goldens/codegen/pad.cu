// Grid: (4096) / 2048 blocks of 256 threads.
// Computes
//   in0 : f16[30,64]
//   t0 = pad(in0) : f16[32,96]
//   t1 = relu(t0) : f16[32,96]
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

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const unsigned short *__restrict__ in0,
    unsigned short *__restrict__ out0) {
  // One thread for each of 32 x 96/8; it stores 1 time 8 elements.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= 384u) return;
  const int a1 = thread % 12u;
  const int a0 = thread / 12u;
  const bool c0 = a0 >= 1 && a0 <= 30 && a1 >= 1 && a1 <= 8;
  kiln_vector<unsigned short, 8, 16> w1 = {};
  if (c0) w1 = kiln_load<8, 16>(in0 + 64 * a0 + 8 * a1 - 72);
  kiln_vector<unsigned short, 8, 16> s0;
  #pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const unsigned short v2 = w1.at[lane];
    const unsigned short v3 = c0 ? v2 : (unsigned short)0xbc00;
    const float f3 = kiln_float_from_f16(v3);
    const unsigned short v4 = kiln_f16(f3 < 0 ? (float)0 : f3);
    s0.at[lane] = v4;
  }
  kiln_store<8, 16>(out0 + 96 * a0 + 8 * a1, s0);
}

