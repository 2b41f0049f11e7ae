// Grid: (2048*S0) / 2048 blocks of 256 threads.
// Computes
//   in0 : bf16[32,S0,128]
//   in1 : bf16[S0,128]
//   in2 : bf16[S0,128]
//   t0 = cast(in0) : f32[32,S0,128]
//   t1 = cast(in1) : f32[S0,128]
//   t2 = mul(t0, t1) : f32[32,S0,128]
//   t3 = slice(in0) : bf16[32,S0,64]
//   t4 = cast(t3) : f32[32,S0,64]
//   t5 = neg(t4) : f32[32,S0,64]
//   t6 = cast(t5) : bf16[32,S0,64]
//   t7 = slice(in0) : bf16[32,S0,64]
//   t8 = cat(t6, t7) : bf16[32,S0,128]
//   t9 = cast(t8) : f32[32,S0,128]
//   t10 = cast(in2) : f32[S0,128]
//   t11 = mul(t9, t10) : f32[32,S0,128]
//   t12 = add(t2, t11) : f32[32,S0,128]
//   t13 = cast(t12) : bf16[32,S0,128]
//   out0 <- t13
// n0 = 2048*S0
// n1 = S0
// n2 = 128*S0

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

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const unsigned short *__restrict__ in0,
    const unsigned short *__restrict__ in1,
    const unsigned short *__restrict__ in2,
    unsigned short *__restrict__ out0,
    int n0,
    int n1,
    int n2) {
  // One thread for each of S0 x 32 x 64/8; it stores 2 times 8 elements.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= (((unsigned)n0 + 7) / 8)) return;
  const int a2 = thread % 8u;
  const unsigned rest1 = thread / 8u;
  const int a1 = rest1 % 32u;
  const int a0 = rest1 / 32u;
  const auto w0 = kiln_load<8, 16>(in0 + n2 * a1 + 128 * a0 + 8 * a2);
  const auto w1 = kiln_load<8, 16>(in1 + 128 * a0 + 8 * a2);
  const auto w2 = kiln_load<8, 16>(in0 + n2 * a1 + 128 * a0 + 8 * a2 + 64);
  const auto w3 = kiln_load<8, 16>(in2 + 128 * a0 + 8 * a2);
  const auto w4 = kiln_load<8, 16>(in1 + 128 * a0 + 8 * a2 + 64);
  const auto w5 = kiln_load<8, 16>(in2 + 128 * a0 + 8 * a2 + 64);
  kiln_vector<unsigned short, 8, 16> s0;
  kiln_vector<unsigned short, 8, 16> s1;
  #pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const unsigned short v6 = w0.at[lane];
    const float f6 = kiln_float_from_bf16(v6);
    const unsigned short v7 = w1.at[lane];
    const float f7 = kiln_float_from_bf16(v7);
    const float v8 = f6 * f7;
    const unsigned short v9 = w2.at[lane];
    const float f9 = kiln_float_from_bf16(v9);
    const float v10 = -f9;
    const unsigned short v11 = kiln_bf16(v10);
    const float f11 = kiln_float_from_bf16(v11);
    const unsigned short v12 = w3.at[lane];
    const float f12 = kiln_float_from_bf16(v12);
    const float v13 = f11 * f12;
    const float v14 = v8 + v13;
    const unsigned short v15 = kiln_bf16(v14);
    const unsigned short v16 = w4.at[lane];
    const float f16 = kiln_float_from_bf16(v16);
    const float v17 = f9 * f16;
    const unsigned short v18 = w5.at[lane];
    const float f18 = kiln_float_from_bf16(v18);
    const float v19 = f6 * f18;
    const float v20 = v17 + v19;
    const unsigned short v21 = kiln_bf16(v20);
    s0.at[lane] = v15;
    s1.at[lane] = v21;
  }
  kiln_store<8, 16>(out0 + n2 * a1 + 128 * a0 + 8 * a2, s0);
  kiln_store<8, 16>(out0 + n2 * a1 + 128 * a0 + 8 * a2 + 64, s1);
}

// Relies on: 4096*S0+72 < 2147483648
