// Grid: (4096) / 2048 blocks of 256 threads.
// Computes
//   in0 : bf16[16,128]
//   t0 = broadcast(in0) : bf16[16,128,1]
//   t1 = expand(t0) : bf16[16,128,2]
//   t2 = reshape(t1) : bf16[16,256]
//   out0 <- t2

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
    const unsigned short *__restrict__ in0,
    unsigned short *__restrict__ out0) {
  // One thread for each of 16 x 256/8; it stores 1 time 8 elements.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= 512u) return;
  const int a1 = thread % 32u;
  const int a0 = thread / 32u;
  const auto w0 = kiln_load<4, 8>(in0 + 128 * a0 + 4 * a1);
  kiln_vector<unsigned short, 8, 16> s0;
  #pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const int i1 = lane / 2;
    const unsigned short v2 = w0.at[i1];
    s0.at[lane] = v2;
  }
  kiln_store<8, 16>(out0 + 256 * a0 + 8 * a1, s0);
}

