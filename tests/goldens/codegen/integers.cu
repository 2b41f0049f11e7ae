// Grid: (4096) / 4096 blocks of 256 threads.
// Computes
//   in0 : i8[8,32]
//   in1 : i8[8,32]
//   t0 = constant() : i8[8,1]
//   t1 = add(in0, t0) : i8[8,32]
//   t2 = floordiv(t1, in1) : i8[8,32]
//   t3 = iota() : i8[8,32]
//   t4 = shift_left(t2, t3) : i8[8,32]
//   t5 = gt(t4, in0) : bool[8,32]
//   out0 <- t4
//   out1 <- t5

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

template <typename T>
__device__ __forceinline__ T kiln_shift_left(T a, T b) {
  const bool inside = b >= 0 && b < (T)(8 * sizeof(T));
  return inside ? (T)((unsigned long long)a << (int)b) : (T)0;
}

// Integers: 0 for a zero divisor; the least integer by -1 gives itself.
template <typename T>
__device__ __forceinline__ T kiln_floordiv(T a, T b) {
  if (b == 0) return 0;
  if (b == (T)-1 && (T)-1 < (T)0) return (T)(0 - (unsigned long long)a);
  const T quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? (T)(quotient - 1) : quotient;
}
// fmod is exact; what the division adds is rounded away (CPython, Objects/floatobject.c).
template <typename T>
__device__ __forceinline__ T kiln_floordiv_real(T a, T b) {
  if (b == 0) return a / b;
  const T modulus = fmod(a, b);
  T quotient = (a - modulus) / b;
  if (modulus != 0 && (b < 0) != (modulus < 0)) quotient -= 1;
  if (quotient == 0) return copysign((T)0, a / b);
  const T floored = floor(quotient);
  return quotient - floored > (T)0.5 ? floored + 1 : floored;
}
__device__ __forceinline__ float kiln_floordiv(float a, float b) { return kiln_floordiv_real(a, b); }
__device__ __forceinline__ double kiln_floordiv(double a, double b) { return kiln_floordiv_real(a, b); }

static __device__ const __align__(16) signed char table0[16] = {(signed char)1, (signed char)2, (signed char)3, (signed char)4, (signed char)5, (signed char)6, (signed char)7, (signed char)-8};

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const signed char *__restrict__ in0,
    const signed char *__restrict__ in1,
    signed char *__restrict__ out0,
    unsigned char *__restrict__ out1) {
  // One thread for each of 8 x 32/16; it stores 2 times 16 elements.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= 16u) return;
  const int a1 = thread % 2u;
  const int a0 = thread / 2u;
  const signed char v0 = table0[a0];
  const auto w1 = kiln_load<16, 16>(in0 + 32 * a0 + 16 * a1);
  const auto w2 = kiln_load<16, 16>(in1 + 32 * a0 + 16 * a1);
  kiln_vector<signed char, 16, 16> s0;
  kiln_vector<unsigned char, 16, 16> s1;
  #pragma unroll
  for (int lane = 0; lane < 16; ++lane) {
    const signed char v3 = w1.at[lane];
    const signed char v4 = (signed char)((unsigned char)v3 + (unsigned char)v0);
    const signed char v5 = w2.at[lane];
    const signed char v6 = kiln_floordiv(v4, v5);
    const long long v7 = (long long)lane + 16LL * a1;
    const signed char v8 = (signed char)v7;
    const signed char v9 = kiln_shift_left(v6, v8);
    const unsigned char v10 = v9 > v3;
    s0.at[lane] = v9;
    s1.at[lane] = v10;
  }
  kiln_store<16, 16>(out0 + 32 * a0 + 16 * a1, s0);
  kiln_store<16, 16>(out1 + 32 * a0 + 16 * a1, s1);
}

