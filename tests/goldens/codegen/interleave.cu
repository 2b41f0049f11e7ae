// Grid: (65536) / 2048 blocks of 256 threads.
// Computes
//   in0 : bf16[8,64,128]
//   t0 = broadcast(in0) : bf16[8,1,64,128]
//   t1 = expand(t0) : bf16[8,4,64,128]
//   t2 = reshape(t1) : bf16[32,64,128]
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
  // One thread for each of 8 x 8192/8; it stores 4 times 8 elements.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= 8192u) return;
  const int a1 = thread % 1024u;
  const int a0 = thread / 1024u;
  const auto w0 = kiln_load<8, 16>(in0 + 8192 * a0 + 8 * a1);
  kiln_vector<unsigned short, 8, 16> s0;
  kiln_vector<unsigned short, 8, 16> s1;
  kiln_vector<unsigned short, 8, 16> s2;
  kiln_vector<unsigned short, 8, 16> s3;
  #pragma unroll
  for (int lane = 0; lane < 8; ++lane) {
    const unsigned short v1 = w0.at[lane];
    s0.at[lane] = v1;
    s1.at[lane] = v1;
    s2.at[lane] = v1;
    s3.at[lane] = v1;
  }
  kiln_store<8, 16>(out0 + 32768 * a0 + 8 * a1, s0);
  kiln_store<8, 16>(out0 + 32768 * a0 + 8 * a1 + 8192, s1);
  kiln_store<8, 16>(out0 + 32768 * a0 + 8 * a1 + 16384, s2);
  kiln_store<8, 16>(out0 + 32768 * a0 + 8 * a1 + 24576, s3);
}

