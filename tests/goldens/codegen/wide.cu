// Grid: (401408) / 4096 blocks of 256 threads.
// Computes
//   in0 : i8[70000,40000]
//   in1 : i8[10,40000]
//   t0 = slice(in0) : i8[10,40000]
//   t1 = cat(t0, in1) : i8[20,40000]
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

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const signed char *__restrict__ in0,
    const signed char *__restrict__ in1,
    signed char *__restrict__ out0) {
  // One thread for each of 400000/16; it stores 2 times 16 elements.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= 25000u) return;
  const int a0 = thread;
  const auto w0 = kiln_load<16, 16>(in0 + 16LL * a0 + 2400000000LL);
  const auto w1 = kiln_load<16, 16>(in1 + 16 * a0);
  kiln_vector<signed char, 16, 16> s0;
  kiln_vector<signed char, 16, 16> s1;
  #pragma unroll
  for (int lane = 0; lane < 16; ++lane) {
    const signed char v2 = w0.at[lane];
    const signed char v3 = w1.at[lane];
    s0.at[lane] = v2;
    s1.at[lane] = v3;
  }
  kiln_store<16, 16>(out0 + 16 * a0, s0);
  kiln_store<16, 16>(out0 + 16 * a0 + 400000, s1);
}

